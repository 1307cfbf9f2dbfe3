"""The same tools in an agent of pydantic-ai and in a node for graphs of LangGraph, one of them a tool of LangChain."""

from langchain_core.tools import StructuredTool, ToolException
from langchain_core.tools import tool as langchain_tool
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, Tool
from pydantic_ai.ext.langchain import tool_from_langchain
from pydantic_ai.models import Model

notes = {"milk": "two bottles", "bread": "a loaf"}


async def read_note(name: str) -> str:
    """Read a note."""
    if name not in notes:
        raise ModelRetry(f"There is no note {name!r}.")
    return notes[name]


async def delete_note(name: str) -> str:
    """Delete a note."""
    return f"Deleted {notes.pop(name)!r}."


@langchain_tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


async def read_in_langchain(name: str) -> str:
    try:
        return await read_note(name)
    except ModelRetry as error:
        raise ToolException(error.message) from error


async def delete_in_langchain(name: str) -> str:
    answer = interrupt({"tool": "delete_note", "summary": f"delete_note {name}"})
    if answer["answer"] != "once":
        raise ToolException(f"The user denied it: {answer.get('why', '')}")
    return await delete_note(name)


def pydantic_ai_agent(model: Model) -> Agent[None, str | DeferredToolRequests]:
    tools = [Tool(read_note), Tool(delete_note, requires_approval=True), tool_from_langchain(multiply)]
    return Agent(model, tools=tools, output_type=[str, DeferredToolRequests])


def langgraph_node() -> ToolNode:
    tools = [
        StructuredTool.from_function(
            coroutine=read_in_langchain, name="read_note", description="Read a note.", handle_tool_error=True
        ),
        StructuredTool.from_function(
            coroutine=delete_in_langchain, name="delete_note", description="Delete a note.", handle_tool_error=True
        ),
        multiply,
    ]
    return ToolNode(tools)
