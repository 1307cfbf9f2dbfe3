"""Five programs of people who build agents, written with Ferrule and with pydantic-ai, do the same (T1, P4, M1, X6).

They are in `benchmarks/builders/`; `python benchmarks/builders/compare.py` counts their lines and concepts.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph  # pyright: ignore[reportMissingTypeStubs]
from langgraph.types import Command
from mcp import Client, StdioServerParameters, stdio_client
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from ferrule.models import ModelRequest, TextDelta, Usage
from ferrule.testing import ScriptedModel, call, say

pytestmark = pytest.mark.slow

BUILDERS = Path(__file__).parents[2] / "benchmarks" / "builders"
both = pytest.mark.parametrize("framework", ["ferrule", "pydantic_ai"])

Reply = str | tuple[str, dict[str, Any]] | None
"""Words, a call, or words that never end."""
FINAL = "final"
"""The tool that takes the output; each framework has a name of its own for it."""


def program(name: str, framework: str) -> Any:
    """A new module of the program: some of them keep what they work on in it."""
    return loaded(f"{name}_{framework}", BUILDERS / name / f"with_{framework}.py")


def loaded(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Script:
    """A model of either framework that gives the same replies."""

    framework: str
    replies: Sequence[Reply]
    read: list[str] = field(default_factory=list[str])
    """What the model read in each request, as one text."""
    is_streaming: bool = False

    @property
    def model(self) -> Any:
        if self.framework == "ferrule":
            return ScriptedModel([self.next_of_ferrule] * len(self.replies))
        return FunctionModel(self.next_of_pydantic_ai, stream_function=self.stream_of_pydantic_ai)

    def _next(self, read: object) -> Reply:
        self.read.append(str(read))
        return self.replies[len(self.read) - 1]

    def next_of_ferrule(self, request: ModelRequest) -> Any:
        reply = self._next(request.messages[-1])
        if reply is None:
            return self._endless(TextDelta)
        if isinstance(reply, str):
            return reply
        return call("final_answer" if reply[0] == FINAL else reply[0], reply[1])

    async def _endless(self, piece: Callable[[str], Any]) -> AsyncIterator[Any]:
        self.is_streaming = True
        try:
            while True:
                yield piece("and so on ")
                await asyncio.sleep(0.01)
        finally:
            self.is_streaming = False

    def next_of_pydantic_ai(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        reply = self._next(messages[-1])
        assert reply is not None
        if isinstance(reply, str):
            return ModelResponse([TextPart(reply)])
        name = info.output_tools[0].name if reply[0] == FINAL else reply[0]
        return ModelResponse([ToolCallPart(name, reply[1], tool_call_id=f"call_{len(self.read)}")])

    async def stream_of_pydantic_ai(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        reply = self._next(messages[-1])
        if reply is None:
            async for piece in self._endless(str):
                yield piece
        elif isinstance(reply, str):
            for word in reply.split(" "):
                yield word + " "
        else:
            yield {0: DeltaToolCall(reply[0], json.dumps(reply[1]), tool_call_id=f"call_{len(self.read)}")}


# 1. A support agent: typed dependencies, typed output, tools, an approval


@both
async def test_support_refunds_once_it_is_approved(framework: str) -> None:
    support = program("support_agent", framework)
    replies: list[Reply] = [
        ("find_order", {"order": "Z9"}),
        ("find_order", {"order": "A1"}),
        ("refund_order", {"order": "A1", "cents": 1999}),
        (FINAL, {"text": "You got 5 back.", "refunded_cents": 500}),
        (FINAL, {"text": "You got 19.99 back.", "refunded_cents": 1999}),
    ]
    script, asked = Script(framework, replies), list[str]()

    async def approve(summary: str) -> bool:
        asked.append(summary)
        return True

    shop = support.Shop("Ann", {"A1": 1999})
    reply = await support.help_customer(script.model, shop, "A1 arrived broken.", approve)
    assert reply == support.Reply(text="You got 19.99 back.", refunded_cents=1999)
    assert asked == ["Refund 1999 cents of order A1"]
    assert shop.refunds == {"A1": 1999}
    assert "Ann has no order Z9." in script.read[1], "errors reach the model"
    assert "1999 cents were refunded." in script.read[4], "and so does what the validator says"


@both
async def test_support_does_not_refund_what_is_denied(framework: str) -> None:
    support = program("support_agent", framework)
    replies: list[Reply] = [
        ("refund_order", {"order": "A1", "cents": 1999}),
        (FINAL, {"text": "Sorry, not possible.", "refunded_cents": 0}),
    ]
    script = Script(framework, replies)

    async def approve(summary: str) -> bool:
        return False

    shop = support.Shop("Ann", {"A1": 1999})
    reply = await support.help_customer(script.model, shop, "A1 arrived broken.", approve)
    assert reply.refunded_cents == 0
    assert shop.refunds == {}
    assert "denied" in script.read[1]


@both
async def test_support_gives_up_when_the_output_never_fits(framework: str) -> None:
    support = program("support_agent", framework)
    script = Script(framework, [(FINAL, {"text": "x", "refunded_cents": -1})] * 5)

    async def approve(summary: str) -> bool:
        raise AssertionError("There is nothing to approve.")

    with pytest.raises(Exception, match=r"(?i)output"):
        await support.help_customer(script.model, support.Shop("Ann", {}), "Hello?", approve)


# 2. A web app: streamed events, approval over HTTP, and a client that leaves


@asynccontextmanager
async def serving(app: Any) -> AsyncGenerator[httpx2.AsyncClient, None]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none", lifespan="off"))
    server.config.load()
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield client
    server.should_exit = True
    await task


async def events(response: httpx2.Response) -> AsyncIterator[dict[str, str]]:
    async for line in response.aiter_lines():
        if line:
            yield json.loads(line.removeprefix("data: "))


async def no_carrier(order: str) -> str:
    raise AssertionError("No parcel is tracked.")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.01)


@both
@pytest.mark.parametrize("approve", [True, False])
async def test_a_web_page_shows_what_happens_and_approves(framework: str, approve: bool) -> None:
    replies: list[Reply] = [("refund_order", {"order": "A1"}), "All done now.", "You asked for a refund."]
    script = Script(framework, replies)
    app = program("web_app", framework).create_app(script.model, no_carrier)
    seen: list[tuple[str, str]] = []
    question = ""
    async with serving(app) as client:
        async with client.stream("POST", "/chats/1/turns", json={"text": "Refund A1."}) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            async for event in events(response):
                seen.append((event["type"], event["text"]))
                if event["type"] == "question":
                    question = f"/chats/1/questions/{event['key']}"
                    busy = await client.post("/chats/1/turns", json={"text": "Hurry!"})
                    assert busy.status_code == 409
                    assert (await client.post("/chats/1/questions/x", json={"approve": True})).status_code == 404
                    assert (await client.post(question, json={"approve": approve})).status_code == 204
        assert (await client.post(question, json={"approve": True})).status_code == 404, "it was answered"
        async with client.stream("POST", "/chats/1/turns", json={"text": "What did I ask?"}) as response:
            again = "".join([event["text"] async for event in events(response)])
    kinds = [kind for kind, _ in seen if kind != "text"]
    assert sorted(kinds[:2]) == ["call", "question"]
    assert kinds[2:] == ["result", "end"]
    result = next(text for kind, text in seen if kind == "result")
    assert (result == "A1 was refunded") is approve, result
    assert ("denied" in result) is not approve, result
    assert "".join(text for kind, text in seen if kind == "text").strip() == "All done now."
    assert again.strip() == "You asked for a refund."
    assert len(script.read) == 3


@both
async def test_a_client_that_leaves_stops_the_model(framework: str) -> None:
    script = Script(framework, [None, "Here again."])
    app = program("web_app", framework).create_app(script.model, no_carrier)
    async with serving(app) as client:
        async with client.stream("POST", "/chats/1/turns", json={"text": "Tell me a story."}) as response:
            async for event in events(response):
                assert event["type"] == "text"
                break
        await until(lambda: not script.is_streaming)
        await asyncio.sleep(0.05)
        async with client.stream("POST", "/chats/1/turns", json={"text": "Hello?"}) as response:
            assert "".join([event["text"] async for event in events(response)]).strip() == "Here again."


@both
async def test_a_client_that_leaves_stops_the_tool(framework: str) -> None:
    stopped = asyncio.Event()

    async def slow_carrier(order: str) -> str:
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.set()
        return "never"

    script = Script(framework, [("track_parcel", {"order": "A1"})])
    app = program("web_app", framework).create_app(script.model, slow_carrier)
    async with serving(app) as client:
        async with client.stream("POST", "/chats/1/turns", json={"text": "Where is A1?"}) as response:
            async for event in events(response):
                assert event == {"type": "call", "text": "track_parcel"}
                break
        await asyncio.wait_for(stopped.wait(), 30)


@both
async def test_a_client_that_leaves_takes_its_question_along(framework: str) -> None:
    script = Script(framework, [("refund_order", {"order": "A1"})])
    app = program("web_app", framework).create_app(script.model, no_carrier)
    question = ""
    async with serving(app) as client:
        async with client.stream("POST", "/chats/1/turns", json={"text": "Refund A1."}) as response:
            async for event in events(response):
                if event["type"] == "question":
                    question = f"/chats/1/questions/{event['key']}"
                    break
        async with asyncio.timeout(30):
            while (await client.post(question, json={"approve": False})).status_code != 404:
                await asyncio.sleep(0.01)
    assert len(script.read) == 1


# 3. An MCP proxy: the tools of another server and one more, a policy, instructions of its own

NOTES = '''
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("notes")
notes = {"milk": "two bottles"}

@server.tool()
def read_note(name: str) -> str:
    """Read a note."""
    if name not in notes:
        raise ToolError(f"There is no note {name}.")
    return notes[name]

@server.tool()
def delete_note(name: str) -> str:
    """Delete a note."""
    return notes.pop(name)

server.run("stdio")
'''


@both
async def test_a_proxy_serves_another_servers_tools_under_its_own_rules(framework: str, tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(NOTES)
    path = str(BUILDERS / "mcp_proxy" / f"with_{framework}.py")
    parameters = StdioServerParameters(
        command=sys.executable,
        args=[path, sys.executable, str(tmp_path / "notes.py")],
        env={"PYTHONPATH": str(BUILDERS.parents[1] / "src"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    prefix = "mcp__notes__" if framework == "ferrule" else ""
    async with Client(stdio_client(parameters), mode="legacy") as client:
        assert client.instructions == "The user's notes. Read one before you answer."
        listed = {one.name: one for one in (await client.list_tools()).tools}
        assert listed.keys() == {"count_words", f"{prefix}read_note"}
        assert listed[f"{prefix}read_note"].input_schema["required"] == ["name"]

        async def answer(tool: str, /, **arguments: Any) -> tuple[bool, str]:
            result = await client.call_tool(tool, arguments)
            text = " ".join(one.text for one in result.content if one.type == "text")
            return bool(result.is_error), text

        assert await answer("count_words", text="one two three") == (False, "3")
        assert await answer(f"{prefix}read_note", name="milk") == (False, "two bottles")
        failed, said = await answer("count_words", words="one")
        assert failed
        assert "text" in said
        failed, said = await answer(f"{prefix}read_note", name="bread")
        assert failed
        assert "no note bread" in said
        failed, said = await answer(f"{prefix}delete_note", name="milk")
        assert failed
        assert await answer(f"{prefix}read_note", name="milk") == (False, "two bottles"), "it was not deleted"


# 4. The same tools in pydantic-ai and LangGraph, and one of LangChain


@both
@pytest.mark.parametrize("approve", [True, False])
async def test_pydantic_ai_calls_the_tools(framework: str, approve: bool) -> None:
    adapters = program("adapters", framework)
    replies: list[Reply] = [
        ("multiply", {"a": 6, "b": 7}),
        ("read_note", {"name": "tea"}),
        ("delete_note", {"name": "milk"}),
        "Done.",
    ]
    script = Script("pydantic_ai", replies)
    agent = adapters.pydantic_ai_agent(script.model)
    first = await agent.run("Delete the note about milk.")
    assert "milk" in adapters.notes
    (asked,) = first.output.approvals
    assert (asked.tool_name, asked.args) == ("delete_note", {"name": "milk"})
    answers = first.output.build_results(approvals={asked.tool_call_id: approve}, metadata=first.output.metadata)
    last = await agent.run(message_history=first.all_messages(), deferred_tool_results=answers)
    assert last.output == "Done."
    assert ("milk" in adapters.notes) is not approve
    assert "42" in script.read[1]
    assert "There is no note 'tea'." in script.read[2]
    assert ("Deleted 'two bottles'." if approve else "denied") in script.read[3]


@both
@pytest.mark.parametrize("answer", ["once", "no"])
async def test_langgraph_calls_the_tools(framework: str, answer: str) -> None:
    adapters = program("adapters", framework)
    calls: list[Any] = [
        {"name": "multiply", "args": {"a": 6, "b": 7}, "id": "call_1", "type": "tool_call"},
        {"name": "read_note", "args": {"name": "tea"}, "id": "call_2", "type": "tool_call"},
        {"name": "delete_note", "args": {"name": "bread"}, "id": "call_3", "type": "tool_call"},
    ]
    graph: Any = StateGraph(MessagesState)
    graph.add_node("tools", adapters.langgraph_node())
    graph.add_edge(START, "tools")
    compiled = graph.compile(checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    state = await compiled.ainvoke({"messages": [AIMessage("", tool_calls=calls)]}, thread)
    question = state["__interrupt__"][0].value
    assert question["tool"] == "delete_note"
    assert "bread" in adapters.notes
    state = await compiled.ainvoke(Command(resume={**question, "answer": answer, "why": "We need it."}), thread)
    product, missing, deleted = (one for one in state["messages"] if isinstance(one, ToolMessage))
    assert product.text == "42"
    assert missing.status == "error"
    assert "There is no note 'tea'." in missing.text
    assert deleted.status == ("success" if answer == "once" else "error")
    assert ("Deleted 'a loaf'." if answer == "once" else "We need it.") in deleted.text
    assert ("bread" in adapters.notes) is (answer == "no")


# 5. Two hundred prompts: a few at once, a budget, errors by prompt, and a second run that does the rest


class Sorter:
    """A model of either framework that answers each prompt by its number: every tenth fails, every fifth is urgent."""

    def __init__(self, framework: str) -> None:
        self.prompts: list[str] = []
        self.running = self.most = 0
        self.framework = framework
        self.is_down = True

    @property
    def model(self) -> Any:
        if self.framework == "ferrule":
            return ScriptedModel([self.ferrule] * 1000)
        return FunctionModel(self.pydantic_ai)

    async def _answer(self, prompt: str) -> dict[str, Any] | None:
        self.prompts.append(prompt)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.002)
        self.running -= 1
        number = int(prompt.split()[-1])
        if self.is_down and number % 10 == 0:
            return None
        return {"topic": "delivery", "urgent": number % 5 == 0}

    async def ferrule(self, request: ModelRequest) -> Any:
        from ferrule.models import ModelError, ModelFault

        answer = await self._answer(request.messages[0].text)  # type: ignore[union-attr]
        if answer is None:
            return ModelError(ModelFault.BUSY, "The model is busy.")
        return say("", call("final_answer", answer), usage=Usage(90, 10))

    async def pydantic_ai(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        from pydantic_ai import ModelAPIError

        prompt: Any = messages[0].parts[-1]
        answer = await self._answer(prompt.content)
        if answer is None:
            raise ModelAPIError("function", "The model is busy.")
        usage = RequestUsage(input_tokens=90, output_tokens=10)
        return ModelResponse([ToolCallPart(info.output_tools[0].name, answer)], usage=usage)


PROMPTS = [f"Where is parcel {number}" for number in range(200)]


@both
async def test_two_hundred_prompts_are_sorted_and_the_failed_ones_again(framework: str, tmp_path: Path) -> None:
    sorting, sorter = program("many_prompts", framework), Sorter(framework)
    done = await sorting.sort_all(sorter.model, PROMPTS, tmp_path / "done.jsonl", tokens=500_000)
    assert sorted(done) == sorted(PROMPTS)
    assert 5 < sorter.most <= 10
    for number, one in enumerate(done[prompt] for prompt in PROMPTS):
        if number % 10 == 0:
            assert "The model is busy." in one
        else:
            assert one == sorting.Ticket(topic="delivery", urgent=number % 5 == 0)
    sorter.is_down, sorter.prompts = False, []
    done = await sorting.sort_all(sorter.model, PROMPTS, tmp_path / "done.jsonl", tokens=500_000)
    assert sorted(sorter.prompts) == sorted(PROMPTS[::10]), "only the failed ones are asked again"
    assert set(done) == set(PROMPTS)
    assert all(isinstance(one, sorting.Ticket) for one in done.values())


@both
async def test_the_budget_is_of_all_prompts_together(framework: str, tmp_path: Path) -> None:
    sorting, sorter = program("many_prompts", framework), Sorter(framework)
    sorter.is_down = False
    done = await sorting.sort_all(sorter.model, PROMPTS, tmp_path / "done.jsonl", tokens=5_000)
    tickets = [one for one in done.values() if isinstance(one, sorting.Ticket)]
    assert 40 <= len(tickets) <= 60, "a hundred tokens each, and ten run at once"
    assert len(sorter.prompts) <= 60
    assert all("tokens" in one for one in done.values() if isinstance(one, str))
    assert len((tmp_path / "done.jsonl").read_text().splitlines()) == len(tickets)


# What they take


def test_the_page_has_the_table_and_no_program_is_longer_than_with_pydantic_ai() -> None:
    """Must show 1: five programs, compared by lines and concepts."""
    rows = loaded("compare", BUILDERS / "compare.py").table()
    page = (BUILDERS.parents[1] / "docs/reference/benchmarks.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]
    assert [name for name, ours, theirs, *_ in cells if int(ours) > int(theirs)] == []


def test_lines_of_code_leave_out_blank_lines_comments_and_docstrings() -> None:
    compare = loaded("compare", BUILDERS / "compare.py")
    text = '"""Words\nof a module."""\n\n# why\ndef f():\n    """Words."""\n    text = """two\n    lines"""  # here\n'
    assert compare.lines_of_code(text) == 3
