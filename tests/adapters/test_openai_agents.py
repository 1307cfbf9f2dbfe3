"""openai-agents' real runner on a scripted model: Ferrule's tools in it (X6)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, RunContextWrapper, Runner, RunState, Usage
from inline_snapshot import snapshot
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from ferrule import Caller, RulePolicy, Runtime, Session
from ferrule.adapters import openai_agents_tools
from tests.adapters.notes import ADMIN, NESTED_REFUSED, Notes, strange_name

pytestmark = pytest.mark.slow
QUIET = RunConfig(tracing_disabled=True)


class Scripted(Model):
    """Makes the calls at once, and then says what came back."""

    def __init__(self, *calls: ResponseFunctionToolCall) -> None:
        self.calls = calls
        self.shown: list[dict[str, Any]] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **named: Any) -> ModelResponse:
        _settings, tools, *_ = [*args, *named.values()]
        self.shown = [{"name": one.name, "schema": one.params_json_schema} for one in tools]
        returned = [
            one["output"] for one in input if isinstance(one, dict) and one.get("type") == "function_call_output"
        ]
        if not returned:
            return ModelResponse(output=list(self.calls), usage=Usage(), response_id=None)
        text = " | ".join(one if isinstance(one, str) else json.dumps(one) for one in returned)
        said = ResponseOutputText(text=text, type="output_text", annotations=[])
        message = ResponseOutputMessage(id="m", content=[said], role="assistant", status="completed", type="message")
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def call(tool: str, /, **arguments: Any) -> ResponseFunctionToolCall:
    call_id = "_".join(("call", tool, *arguments))
    return ResponseFunctionToolCall(name=tool, arguments=json.dumps(arguments), call_id=call_id, type="function_call")


def agent_on(runtime: Runtime, *calls: ResponseFunctionToolCall, **options: Any) -> Agent[Any]:
    return Agent(name="notes", model=Scripted(*calls), tools=[*openai_agents_tools(runtime, **options)])


async def said(runtime: Runtime, *calls: ResponseFunctionToolCall, **options: Any) -> str:
    return (await Runner.run(agent_on(runtime, *calls, **options), "go", run_config=QUIET)).final_output


async def test_an_agent_calls_tools_and_reads_errors_as_ferrule_says_them() -> None:
    notes = Notes()
    assert await said(notes.runtime(), call("read_note", name="a"), call("read_note", nme="b")) == snapshot("""\
milk | Error (validation_error): The arguments of `read_note` have 2 problems:
- `name`: required, but missing (expected string)
- `nme`: unknown field. Did you mean `name`?

Suggestion: Call `read_note` again with {"name": string, "upper": boolean (optional, default false)}.\
""")
    assert sorted(notes.calls()) == [("read_note", "success", None), ("read_note", "validation_error", None)]
    assert {one.call_id for one in notes.records} == {"call_read_note_name", "call_read_note_nme"}


async def test_a_call_that_asks_interrupts_the_run_until_it_is_approved() -> None:
    """Must show 4 (P4): also where the run goes on in another process."""
    notes = Notes()
    agent = agent_on(notes.runtime(), call("delete_note", name="a"), call("read_note", name="b"))
    first = await Runner.run(agent, "go", run_config=QUIET)
    assert [one.name for one in first.interruptions] == ["delete_note"]
    assert "a" in notes.kept
    state = await RunState.from_string(agent, first.to_state().to_string())
    state.approve(state.get_interruptions()[0])
    last = await Runner.run(agent, state, run_config=QUIET)
    assert sorted(last.final_output.split(" | ")) == ["bread", "deleted milk"]
    assert sorted(notes.calls()) == [("delete_note", "success", "once"), ("read_note", "success", None)]


async def test_a_call_that_the_user_denies_is_never_run() -> None:
    notes = Notes()
    agent = agent_on(notes.runtime(), call("delete_note", name="a"))
    state = (await Runner.run(agent, "go", run_config=QUIET)).to_state()
    state.reject(state.get_interruptions()[0])
    assert (await Runner.run(agent, state, run_config=QUIET)).final_output == snapshot(
        "Tool execution was not approved."
    )
    assert (notes.kept["a"], notes.calls()) == ("milk", [])


async def test_an_approval_never_overrules_a_denial() -> None:
    notes, policy = Notes(), RulePolicy()
    agent = agent_on(notes.runtime(policy=policy), call("delete_note", name="a"))
    state = (await Runner.run(agent, "go", run_config=QUIET)).to_state()
    state.approve(state.get_interruptions()[0])
    policy.restrict(deny=["delete_note"])
    with pytest.raises(Exception, match="delete_note"):  # openai-agents no longer finds the tool
        await Runner.run(agent, state, run_config=QUIET)
    assert "a" in notes.kept


async def test_the_runtimes_own_asker_is_asked_where_there_is_one() -> None:
    notes = Notes()
    assert await said(notes.runtime(ask=lambda _: "once"), call("delete_note", name="a")) == "deleted milk"
    assert notes.calls() == [("delete_note", "success", "once")]


async def test_calls_that_a_tool_makes_are_not_approved_with_it() -> None:
    notes = Notes()
    runtime = notes.runtime(policy=RulePolicy(ask=["clear_all"]))
    agent = agent_on(runtime, call("clear_all"))
    state = (await Runner.run(agent, "go", run_config=QUIET)).to_state()
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(agent, state, run_config=QUIET)).final_output == f"{NESTED_REFUSED}; {NESTED_REFUSED}"
    assert len(notes.kept) == 2


async def test_cancelling_a_run_stops_the_work() -> None:
    """Must show 4 (P6)."""
    notes = Notes()
    running = asyncio.create_task(said(notes.runtime(), call("wait_long")))
    await asyncio.wait_for(notes.started.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(notes.recorded.wait(), 60)  # openai-agents does not wait for what it cancels
    assert notes.stopped.is_set()
    assert notes.calls() == [("wait_long", "cancelled_error", None)]


async def test_a_runs_context_chooses_its_session_and_so_its_tools() -> None:
    notes = Notes()

    def session(context: RunContextWrapper[Caller]) -> Session:
        return Session(caller=context.context)

    agent = agent_on(notes.runtime(), call("count_users"), session=session)
    ann = await Runner.run(agent, "go", context=Caller(user="ann", role="admin"), run_config=QUIET)
    assert ann.final_output == "3, as ann sees it"
    assert isinstance(agent.model, Scripted)
    assert "count_users" in [one["name"] for one in agent.model.shown]
    with pytest.raises(Exception, match="count_users"):
        await Runner.run(agent, "go", context=Caller(user="bob"), run_config=QUIET)
    assert "count_users" not in [one["name"] for one in agent.model.shown]


async def test_what_is_always_denied_is_not_shown() -> None:
    notes = Notes()
    runtime = notes.runtime(policy=RulePolicy(deny=["delete_note"]), session=ADMIN)
    assert [one.name for one in openai_agents_tools(runtime)] == [
        "read_note", "wait_long", "show_picture", "count_users", "clear_all"
    ]  # fmt: skip


async def test_pictures_reach_the_model() -> None:
    notes = Notes()
    parts = json.loads(await said(notes.runtime(), call("show_picture")))
    assert [part["type"] for part in parts] == ["input_text", "input_image"]


async def test_a_tool_of_any_name_is_called_by_its_own() -> None:
    agent = agent_on(Runtime([strange_name()]), call("ChaXun_distance", of="km"))
    assert (await Runner.run(agent, "go", run_config=QUIET)).final_output == "1 km"
    assert isinstance(agent.model, Scripted)
    assert agent.model.shown == snapshot(
        [
            {
                "name": "ChaXun_distance",
                "schema": {"type": "object", "properties": {"of": {"enum": ["km", "mi"]}}, "required": ["of"]},
            }
        ]
    )
