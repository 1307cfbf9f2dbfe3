"""pydantic-ai's real agent on a scripted model: Ferrule's tools in it, and its tools in Ferrule (X6)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    DeferredToolRequests,
    FunctionToolset,
    ModelRetry,
    RunContext,
    ToolDenied,
    ToolReturn,
)
from pydantic_ai import Tool as PydanticTool
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ferrule import Caller, CallRecord, Choice, RulePolicy, Runtime, Session, ToolContext
from ferrule.adapters import from_pydantic_ai, pydantic_ai_toolset
from tests.adapters.notes import ADMIN, NESTED_REFUSED, PNG, Notes, strange_name, tried

pytestmark = pytest.mark.slow


def model_calling(*calls: ToolCallPart, seen: list[str] | None = None) -> FunctionModel:
    """A model that makes the calls at once, and then says what came back."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if seen is not None:
            seen[:] = sorted(one.name for one in info.function_tools)
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if returned:
            said = " | ".join(f"{part.outcome}: {part.content}" for part in returned)
            return ModelResponse(parts=[TextPart(said)])
        return ModelResponse(parts=list(calls))

    return FunctionModel(answer)


def call(tool: str, /, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(tool, arguments, tool_call_id="_".join(("call", tool, *arguments)))


async def said(runtime: Runtime, *calls: ToolCallPart, **options: Any) -> str:
    agent = Agent(model_calling(*calls), toolsets=[pydantic_ai_toolset(runtime, **options)])
    return (await agent.run("go")).output


async def test_an_agent_calls_tools_and_reads_errors_as_ferrule_says_them() -> None:
    notes = Notes()
    assert await said(notes.runtime(), call("read_note", name="a"), call("read_note", nme="b")) == snapshot("""\
success: milk | failed: Error (validation_error): The arguments of `read_note` have 2 problems:
- `name`: required, but missing (expected string)
- `nme`: unknown field. Did you mean `name`?

Suggestion: Call `read_note` again with {"name": string, "upper": boolean (optional, default false)}.\
""")
    assert sorted(notes.calls()) == [("read_note", "success", None), ("read_note", "validation_error", None)]


async def test_a_call_that_asks_is_deferred_and_runs_once_it_is_approved() -> None:
    """Must show 4: with the question as its metadata, and only then (P4)."""
    notes = Notes()
    agent = Agent(
        model_calling(call("delete_note", name="a")),
        toolsets=[pydantic_ai_toolset(notes.runtime())],
        output_type=[str, DeferredToolRequests],
    )
    first = await agent.run("go")
    requests = first.output
    assert isinstance(requests, DeferredToolRequests)
    assert requests.metadata == snapshot(
        {
            "call_delete_note_name": {
                "call_id": "call_delete_note_name",
                "tool": "delete_note",
                "summary": 'delete_note {"name":"a"}',
                "reason": "a tool that writes asks first",
                "warning": "",
                "preview": "",
                "always": "delete_note",
            }
        }
    )
    assert "a" in notes.kept
    history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(first.all_messages()))
    answers = requests.build_results(approve_all=True, metadata=requests.metadata)
    assert (await agent.run(message_history=history, deferred_tool_results=answers)).output == "success: deleted milk"
    assert "a" not in notes.kept
    assert notes.calls() == [("delete_note", "permission_error", None), ("delete_note", "success", "once")]


async def test_a_call_that_the_user_denies_is_never_run() -> None:
    notes = Notes()
    agent = Agent(
        model_calling(call("delete_note", name="a")),
        toolsets=[pydantic_ai_toolset(notes.runtime())],
        output_type=[str, DeferredToolRequests],
    )
    first = await agent.run("go")
    assert isinstance(first.output, DeferredToolRequests)
    no = first.output.build_results(approvals={"call_delete_note_name": ToolDenied("Leave it.")})
    answer = await agent.run(message_history=first.all_messages(), deferred_tool_results=no)
    assert answer.output == "denied: Leave it."
    assert "a" in notes.kept


async def test_an_approval_of_another_call_approves_nothing() -> None:
    """What was approved is what runs: a changed question is asked again."""
    notes = Notes()
    agent = Agent(
        model_calling(call("delete_note", name="a")),
        toolsets=[pydantic_ai_toolset(notes.runtime())],
        output_type=[str, DeferredToolRequests],
    )
    first = await agent.run("go")
    assert isinstance(first.output, DeferredToolRequests)
    other = {"call_delete_note_name": {**first.output.metadata["call_delete_note_name"], "summary": "delete_note(b)"}}
    answers = first.output.build_results(approve_all=True, metadata=other)
    again = await agent.run(message_history=first.all_messages(), deferred_tool_results=answers)
    assert isinstance(again.output, DeferredToolRequests)
    assert "a" in notes.kept


async def test_an_approval_never_overrules_a_denial() -> None:
    """A rule that came after the question counts."""
    notes, policy = Notes(), RulePolicy()
    agent = Agent(
        model_calling(call("delete_note", name="a")),
        toolsets=[pydantic_ai_toolset(notes.runtime(policy=policy))],
        output_type=[str, DeferredToolRequests],
    )
    first = await agent.run("go")
    assert isinstance(first.output, DeferredToolRequests)
    approved = first.output.build_results(approve_all=True)
    policy.restrict(deny=["delete_*"])
    await agent.run(message_history=first.all_messages(), deferred_tool_results=approved)
    assert "a" in notes.kept


async def test_the_runtimes_own_asker_is_asked_where_there_is_one() -> None:
    notes = Notes()
    asked: list[str] = []

    def ask(question: Any) -> Choice:
        asked.append(question.summary)
        return Choice.ONCE

    assert await said(notes.runtime(ask=ask), call("delete_note", name="a")) == "success: deleted milk"
    assert asked == ['delete_note {"name":"a"}']


async def test_a_call_that_is_tried_asks_about_what_it_would_change_and_again_if_that_changes() -> None:
    """X2: the question has the effects, and approves these and no others."""
    records = list[CallRecord]()
    agent = Agent(
        model_calling(call("run_command")),
        toolsets=[pydantic_ai_toolset(tried(records, ["a", "b", "b"]))],
        output_type=[str, DeferredToolRequests],
    )
    run = await agent.run("go")
    for name in ("a", "b"):
        assert isinstance(run.output, DeferredToolRequests)
        assert run.output.metadata["call_run_command"]["preview"] == f"+++ {name}\n"
        answers = run.output.build_results(approve_all=True, metadata=run.output.metadata)
        run = await agent.run(message_history=run.all_messages(), deferred_tool_results=answers)
    assert run.output == "success: created b"
    assert [(one.outcome, one.answer, one.error) for one in records] == [
        ("permission_error", None, "It was not kept: it waits for approval."),
        ("permission_error", None, "It was not kept: it waits for approval."),
        ("success", "once", None),
    ]


async def test_calls_that_a_tool_makes_are_not_approved_with_it() -> None:
    notes = Notes()
    assert await said(notes.runtime(), call("clear_all")) == f"success: {NESTED_REFUSED}; {NESTED_REFUSED}"
    assert notes.kept


async def test_cancelling_a_run_stops_the_work() -> None:
    """Must show 4 (P6)."""
    notes = Notes()
    running = asyncio.create_task(said(notes.runtime(), call("wait_long")))
    await asyncio.wait_for(notes.started.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert notes.stopped.is_set()
    assert notes.calls() == [("wait_long", "cancelled_error", None)]


async def test_a_runs_deps_choose_its_session_and_so_its_tools() -> None:
    """The caller is known to the tool, the policy and the record (T8, R4)."""
    notes, seen = Notes(), list[str]()

    def session(context: RunContext[Caller]) -> Session:
        return Session(caller=context.deps)

    agent = Agent(
        model_calling(call("count_users"), seen=seen),
        deps_type=Caller,
        toolsets=[pydantic_ai_toolset(notes.runtime(), session=session)],
    )
    assert (await agent.run("go", deps=Caller(user="ann", role="admin"))).output == "success: 3, as ann sees it"
    assert "count_users" in seen
    assert notes.records[0].caller == Caller(user="ann", role="admin")
    await agent.run("go", deps=Caller(user="bob"))
    assert seen == ["clear_all", "delete_note", "read_note", "show_picture", "wait_long"]


async def test_what_is_always_denied_is_not_shown() -> None:
    notes, seen = Notes(), list[str]()
    runtime = notes.runtime(policy=RulePolicy(deny=["delete_note"]), session=ADMIN)
    agent = Agent(model_calling(call("read_note", name="a"), seen=seen), toolsets=[pydantic_ai_toolset(runtime)])
    await agent.run("go")
    assert seen == ["clear_all", "count_users", "read_note", "show_picture", "wait_long"]


async def test_progress_and_pictures_reach_the_agent() -> None:
    """P9."""
    notes = Notes()
    agent = Agent(model_calling(call("show_picture")), toolsets=[pydantic_ai_toolset(notes.runtime())])
    events: list[Any] = []
    async with agent.iter("go") as run:
        async for node in run:
            if Agent.is_call_tools_node(node):
                async with node.stream(run.ctx) as stream:
                    events += [event async for event in stream]
    shown = [(one.tool_call_id, one.done, one.message) for one in events if getattr(one, "name", "") == "tool_progress"]
    assert shown == [("call_show_picture", 1, "half of it")]
    assert run.result is not None
    (returned,) = [
        part for message in run.result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)
    ]
    content: Any = returned.content
    assert (content[0], content[1].data, content[1].media_type) == ("A picture:", PNG, "image/png")


async def test_a_tool_of_any_name_is_called_by_its_own() -> None:
    seen: list[str] = []
    runtime = Runtime([strange_name()])
    agent = Agent(model_calling(call("ChaXun_distance", of="km"), seen=seen), toolsets=[pydantic_ai_toolset(runtime)])
    assert (await agent.run("go")).output == "success: 1 km"
    assert seen == ["ChaXun_distance"]


# Its tools in Ferrule


async def lookup(ctx: RunContext[dict[str, str]], word: str) -> str:
    """Look a word up.

    Args:
        word: What to look up.
    """
    if word not in ctx.deps:
        raise ModelRetry(f"There is no {word!r}. Try another word.")
    return ctx.deps[word]


def test_a_tool_of_theirs_has_its_schema_its_deps_and_its_errors() -> None:
    runtime = Runtime([from_pydantic_ai(lookup, deps=lambda context: {"hi": str(context.session.caller.user)})])
    assert runtime.tools.tools()[0].input_schema == snapshot(
        {
            "additionalProperties": False,
            "properties": {"word": {"description": "What to look up.", "type": "string"}},
            "required": ["word"],
            "type": "object",
        }
    )
    assert runtime.run_sync("lookup", {"word": "hi"}, session=ADMIN).data == "ann"
    assert runtime.run_sync("lookup", {"word": "ho"}).llm_content == snapshot(
        "Error (execution_error): There is no 'ho'. Try another word."
    )
    assert runtime.run_sync("lookup", {"wrd": "ho"}).llm_content == snapshot("""\
Error (validation_error): The arguments of `lookup` have 2 problems:
- `word`: required, but missing (expected string: What to look up.)
- `wrd`: unknown field. Did you mean `word`?

Suggestion: Call `lookup` again with {"word": string}.\
""")


def test_theirs_that_requires_approval_asks() -> None:
    def wipe(name: str) -> str:
        """Wipe a disk."""
        return f"wiped {name}"

    toolset = FunctionToolset[Any]([PydanticTool(wipe, requires_approval=True)])
    tools = [from_pydantic_ai(one) for one in toolset.tools.values()]
    assert Runtime(tools).run_sync("wipe", {"name": "a"}).error.kind == "permission_error"  # pyright: ignore[reportOptionalMemberAccess]
    assert Runtime(tools, ask=lambda question: "once").run_sync("wipe", {"name": "a"}).data == "wiped a"


def test_theirs_that_asks_in_the_middle_needs_to_be_asked_about_before() -> None:
    def wipe(ctx: RunContext[None], name: str) -> str:
        """Wipe a disk."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return f"wiped {name}"

    assert Runtime([from_pydantic_ai(wipe)]).run_sync("wipe", {"name": "a"}).llm_content == snapshot(
        "Error (permission_error): `wipe` was not run: approval in the middle of a call isn't available here."
    )
    asking = Runtime([from_pydantic_ai(wipe, requires_permission=True)], ask=lambda question: "once")
    assert asking.run_sync("wipe", {"name": "a"}).data == "wiped a"


async def test_theirs_is_stopped_like_any_tool() -> None:
    stopped = asyncio.Event()

    async def hang() -> str:
        """Hang."""
        try:
            await asyncio.sleep(600)
        finally:
            stopped.set()
        return "never"

    result = await Runtime([from_pydantic_ai(hang)]).run("hang", {}, timeout=0.05)
    assert result.error is not None
    assert (result.error.kind, stopped.is_set()) == ("timeout_error", True)


async def test_theirs_that_is_sync_runs_in_a_thread_that_a_time_limit_ends() -> None:
    import threading

    names: list[str] = []

    def sleep_on(ctx: RunContext[ToolContext]) -> str:
        """Sleep until the call is stopped."""
        names.append(threading.current_thread().name)
        return "stopped" if ctx.deps.cancellation.wait(60) else "never"

    runtime = Runtime([from_pydantic_ai(sleep_on, deps=lambda context: context)])
    result = await runtime.run("sleep_on", {}, timeout=0.05)
    assert result.error is not None
    assert result.error.kind == "timeout_error"
    assert runtime.abandoned == 0
    assert names != [threading.current_thread().name]


async def test_files_of_theirs_become_attachments() -> None:
    def draw() -> ToolReturn:
        """Draw."""
        return ToolReturn("a drawing", content=["It is blue.", BinaryContent(PNG, media_type="image/png")])

    result = await Runtime([from_pydantic_ai(draw)]).run("draw", {})
    assert (result.data, result.llm_content) == ("a drawing", "a drawing\n\nIt is blue.")
    assert [(one.media_type, one.data) for one in result.attachments] == [("image/png", PNG)]
