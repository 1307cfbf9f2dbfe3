"""The same tools in an agent of pydantic-ai and in a node for graphs of LangGraph, one of them a tool of LangChain."""

from langchain_core.tools import tool as langchain_tool
from langgraph.prebuilt import ToolNode
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.models import Model

from ferrule import Runtime, ToolError, tool
from ferrule.adapters import from_langchain, langchain_tools, pydantic_ai_toolset

notes = {"milk": "two bottles", "bread": "a loaf"}


@tool(kind="readonly")
async def read_note(name: str) -> str:
    """Read a note."""
    if name not in notes:
        raise ToolError(f"There is no note {name!r}.")
    return notes[name]


@tool(kind="write")
async def delete_note(name: str) -> str:
    """Delete a note."""
    return f"Deleted {notes.pop(name)!r}."


@langchain_tool
def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


runtime = Runtime([read_note, delete_note, from_langchain(multiply, kind="readonly")])


def pydantic_ai_agent(model: Model) -> Agent[None, str | DeferredToolRequests]:
    return Agent(model, toolsets=[pydantic_ai_toolset(runtime)], output_type=[str, DeferredToolRequests])


def langgraph_node() -> ToolNode:
    return ToolNode(langchain_tools(runtime))
