"""The loops of OpenAI's and Anthropic's own SDKs against a scripted server: Ferrule's tools in them (X6)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from inline_snapshot import snapshot
from openai import AsyncOpenAI, OpenAI
from openai.lib.responses_tool_runner import AsyncResponsesToolRunner, ResponsesToolRunner

from ferrule import RulePolicy, Runtime
from ferrule.adapters import anthropic_tools, openai_functions
from tests.adapters.notes import ADMIN, Notes, strange_name
from tests.models.endpoints.server import Server
from tests.models.endpoints.wire import Call, Says, reply

pytestmark = pytest.mark.slow
LOOPS = ["openai", "openai-sync", "anthropic", "anthropic-sync"]
every_loop = pytest.mark.parametrize("loop", LOOPS)


def call(tool: str, /, **arguments: Any) -> Call:
    return Call("_".join(("call", tool, *arguments)), tool, [json.dumps(arguments)])


def wire_of(loop: str) -> str:
    return "responses" if loop.startswith("openai") else "anthropic"


def said(loop: str, request: dict[str, Any]) -> list[str]:
    """What the model reads of the calls."""
    if loop.startswith("openai"):
        return [one["output"] for one in request["input"] if one.get("type") == "function_call_output"]
    return [
        f"{'error' if one.get('is_error') else 'success'}: {one['content']}"
        for one in request["messages"][-1]["content"]
    ]


async def asked(loop: str, url: str, runtime: Runtime, cancelled: Callable[[], bool] | None = None) -> None:
    """The loop of one SDK, as its documentation has it."""
    key: Any = {"api_key": "secret", "max_retries": 0}
    words: Any = {"model": "m", "input": [{"role": "user", "content": "go"}]}
    to_claude: Any = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "go"}]}
    if loop == "openai":
        async with AsyncOpenAI(base_url=f"{url}/v1", **key) as client:
            runner = AsyncResponsesToolRunner(functions=openai_functions(runtime))
            await runner.run(client, words, cancelled=cancelled)
    elif loop == "openai-sync":

        def run() -> None:
            with OpenAI(base_url=f"{url}/v1", **key) as client:
                runner = ResponsesToolRunner(functions=openai_functions(runtime, sync=True))
                runner.run(client, words, cancelled=cancelled)

        await asyncio.to_thread(run)
    elif loop == "anthropic":
        async with AsyncAnthropic(base_url=url, **key) as client:
            await client.beta.messages.tool_runner(tools=anthropic_tools(runtime), **to_claude).until_done()
    else:

        def run() -> None:
            with Anthropic(base_url=url, **key) as client:
                client.beta.messages.tool_runner(tools=anthropic_tools(runtime, sync=True), **to_claude).until_done()

        await asyncio.to_thread(run)


async def answered(loop: str, runtime: Runtime, *calls: Call) -> list[str]:
    form = wire_of(loop)
    replies = [
        reply(form, Says(calls=list(calls), stop="calls"), stream=False),
        reply(form, Says(["Done."]), stream=False),
    ]
    async with Server(*replies) as server:
        await asked(loop, server.url, runtime)
        return said(loop, server.requests[-1].json)


@every_loop
async def test_a_model_calls_tools_and_reads_errors_as_ferrule_says_them(loop: str) -> None:
    notes = Notes()
    results = await answered(loop, notes.runtime(), call("read_note", name="a"), call("read_note", nme="b"))
    prefixes = ["", ""] if loop.startswith("openai") else ["success: ", "error: "]
    assert results[0] == f"{prefixes[0]}milk"
    assert results[1].removeprefix(prefixes[1]) == snapshot("""\
Error (validation_error): The arguments of `read_note` have 2 problems:
- `name`: required, but missing (expected string)
- `nme`: unknown field. Did you mean `name`?

Suggestion: Call `read_note` again with {"name": string, "upper": boolean (optional, default false)}.\
""")
    assert notes.calls() == [("read_note", "success", None), ("read_note", "validation_error", None)]


@every_loop
async def test_a_call_that_asks_is_asked_by_the_runtimes_asker(loop: str) -> None:
    """Must show 4 (P4): these SDKs have no approvals of their own."""
    notes = Notes()
    assert (await answered(loop, notes.runtime(ask=lambda _: "once"), call("delete_note", name="a")))[0].endswith(
        "deleted milk"
    )
    (refused,) = await answered(loop, notes.runtime(), call("delete_note", name="b"))
    assert "approval isn't available here" in refused
    assert notes.calls() == [("delete_note", "success", "once"), ("delete_note", "permission_error", None)]


@pytest.mark.parametrize("loop", ["openai", "anthropic"])
async def test_cancelling_the_task_stops_the_work(loop: str) -> None:
    """Must show 4 (P6)."""
    notes = Notes()
    running = asyncio.create_task(answered(loop, notes.runtime(), call("wait_long")))
    await asyncio.wait_for(notes.started.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert notes.stopped.is_set()
    assert notes.calls() == [("wait_long", "cancelled_error", None)]


@pytest.mark.parametrize("loop", ["openai", "openai-sync"])
async def test_a_runners_cancelled_stops_a_call_in_the_middle(loop: str) -> None:
    notes, stop = Notes(), threading.Event()
    form = wire_of(loop)
    async with Server(reply(form, Says(calls=[call("wait_long")], stop="calls"), stream=False)) as server:
        running = asyncio.create_task(asked(loop, server.url, notes.runtime(), stop.is_set))
        while not notes.started.is_set():  # it may be set on another loop, which wakes nobody here
            await asyncio.sleep(0.01)
        stop.set()
        with pytest.raises(BaseException, match=r"(?i)stopped|cancelled"):
            await running
    assert notes.stopped.is_set()
    assert notes.calls() == [("wait_long", "cancelled_error", None)]


@pytest.mark.parametrize("loop", ["openai", "anthropic"])
async def test_a_model_is_shown_what_it_may_use(loop: str) -> None:
    notes = Notes()
    runtime = notes.runtime(policy=RulePolicy(deny=["delete_note"]), session=ADMIN)
    form = wire_of(loop)
    async with Server(reply(form, Says(["Done."]), stream=False)) as server:
        await asked(loop, server.url, runtime)
        tools = server.requests[0].json["tools"]
    assert [one["name"] for one in tools] == ["read_note", "wait_long", "show_picture", "count_users", "clear_all"]
    assert tools[0] == (
        snapshot(
            {
                "type": "function",
                "name": "read_note",
                "description": "Read a note.",
                "parameters": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"name": {"type": "string"}, "upper": {"default": False, "type": "boolean"}},
                    "required": ["name"],
                },
                "strict": False,
            }
        )
        if loop == "openai"
        else snapshot(
            {
                "name": "read_note",
                "description": "Read a note.",
                "input_schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"name": {"type": "string"}, "upper": {"default": False, "type": "boolean"}},
                    "required": ["name"],
                },
            }
        )
    )


@every_loop
async def test_a_picture_reaches_the_model_and_any_name_is_called_by_its_own(loop: str) -> None:
    notes = Notes()
    (picture,) = await answered(loop, notes.runtime(), call("show_picture"))
    assert "image" in str(picture)
    (distance,) = await answered(loop, Runtime([strange_name()]), call("ChaXun_distance", of="km"))
    assert distance.endswith("1 km")


@every_loop
async def test_a_session_is_that_of_all_calls_of_its_tools(loop: str) -> None:
    notes = Notes()
    runtime = notes.runtime()
    if loop.startswith("openai"):
        shown = [one.tool["name"] for one in openai_functions(runtime, session=ADMIN)]
        (function,) = [one for one in openai_functions(runtime, session=ADMIN) if one.tool["name"] == "count_users"]
        assert await function.execute({}) == "3, as ann sees it"
    else:
        shown = [one.name for one in anthropic_tools(runtime, session=ADMIN)]
        (tool,) = [one for one in anthropic_tools(runtime, session=ADMIN) if one.name == "count_users"]
        assert await tool.call({}) == "3, as ann sees it"
    assert "count_users" in shown
    assert "count_users" not in [one.tool["name"] for one in openai_functions(runtime)]
