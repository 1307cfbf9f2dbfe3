"""The runtime (P1): seven stages, one way, and exactly one result and one record for every call."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel

from ferrule import (
    Caller,
    CallRecord,
    InvalidParamsError,
    Limits,
    RawCall,
    Registry,
    RulePolicy,
    Runtime,
    Session,
    StoppedError,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from ferrule.core.errors import ErrorKind, Stage
from ferrule.core.events import CallEvent, Done, Pending
from ferrule.pipeline.confirm import Answer, Choice
from ferrule.pipeline.hooks import Hook

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from ferrule.core.events import Question


class Keeper:
    """Keeps records."""

    def __init__(self) -> None:
        self.records: list[CallRecord] = []

    def record(self, record: CallRecord) -> None:
        self.records.append(record)


@tool(kind="readonly")
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


class Nested(BaseModel):
    items: list[dict[str, int | str | None]]
    inner: Nested | None = None


@tool(kind="readonly")
def deep(nested: Nested, choice: float | bool | None = None) -> str:
    return repr(nested.items)


def test_a_call_gives_its_result() -> None:
    result = asyncio.run(Runtime([add]).run("add", '{"a": 2}'))
    assert (result.success, result.data, result.llm_content, result.tool) == (True, 3, "3", "add")


@pytest.mark.parametrize("arguments", ['{"a": 2}', b'{"a": 2}', {"a": 2}])
def test_arguments_come_as_text_bytes_or_values(arguments: Any) -> None:
    assert asyncio.run(Runtime([add]).run(RawCall("add", arguments, id="c"))).call_id == "c"


# Whatever comes in

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
hostile_text = st.one_of(
    st.text(),
    st.text(st.sampled_from('{}[]":,\\ua0123456789.eE+-ntrf \ud800"')),
    st.binary(),
    json_values.map(repr),
    st.sampled_from(["{" * 5000, "[" * 100_000, '{"a":' * 3000, "9" * 10_000, '{"a": 1e400}', '{"a": -0}', "\ufeff{}"]),
)
hostile = st.one_of(
    hostile_text,
    json_values,
    st.dictionaries(st.sampled_from(["a", "b", "nested", "choice", "items"]), json_values, max_size=3),
    st.sampled_from([object(), {1: 2}, {"a": {1, 2}}, {"a": b"\xff"}, {None: None}, range(3), print, {"a": "\ud800"}]),
)
names = st.one_of(st.sampled_from(["add", "deep", "Add", "ad"]), st.text(max_size=10), json_values)


@settings(max_examples=400)
@given(name=names, arguments=hostile, version=st.sampled_from([None, "1.0.0", "9"]))
def test_whatever_is_asked_there_is_exactly_one_result_and_one_record(name: Any, arguments: Any, version: Any) -> None:
    """P1, P2: nothing a model sends makes `run` raise, nor a batch."""

    async def main() -> None:
        keeper = Keeper()
        runtime = Runtime([add, deep], recorders=[keeper])
        result = await runtime.run(RawCall(name, arguments, id="c", version=version))
        assert isinstance(result, ToolResult)
        assert result.call_id == "c"
        assert result.success is (result.error is None)
        result.llm_content.encode()
        result.to_dict()
        assert [record.call_id for record in keeper.records] == ["c"]
        assert result.error is None or result.error.kind in ("validation_error", "not_found_error")
        (again,) = await runtime.batch([RawCall(name, arguments, id="d", version=version)])
        assert (again.success, again.llm_content) == (result.success, result.llm_content)

    asyncio.run(main())


# The parts around a call


class Failing:
    """A recorder with every way of failing."""

    def __init__(self, how: str) -> None:
        self.how = how

    def record(self, record: CallRecord) -> Any:
        if self.how == "raises":
            raise RuntimeError("disk full")
        if self.how == "later":
            return self._later()
        return None

    async def _later(self) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("disk full later")

    def looked_up(self, call: RawCall, session: Session, *, found: bool) -> None:
        if self.how == "watching":
            raise RuntimeError("watcher bug")

    def started(self, invocation: Any, session: Any) -> None:
        if self.how == "watching":
            raise RuntimeError("watcher bug")


@pytest.mark.parametrize("how", ["raises", "later", "watching"])
def test_a_recorder_that_fails_is_reported_and_nobody_suffers(how: str, caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper()
    with caplog.at_level(logging.ERROR, "ferrule.calls"):
        result = asyncio.run(Runtime([add], recorders=[Failing(how), keeper]).run("add", {"a": 1}))
    assert result.data == 2
    assert len(keeper.records) == 1
    assert caplog.records


def test_a_recorder_that_takes_time_is_waited_for() -> None:
    done: list[str] = []

    class Slow:
        async def record(self, record: CallRecord) -> None:
            await asyncio.sleep(0.01)
            done.append(record.call_id)

    async def main() -> None:
        result = await Runtime([add], recorders=[Slow(), Slow()]).run("add", {"a": 1})
        assert done == [result.call_id] * 2

    asyncio.run(main())


def test_a_cancelled_call_is_recorded_also_by_a_recorder_that_takes_time() -> None:
    done: list[str] = []

    class Slow:
        async def record(self, record: CallRecord) -> None:
            await asyncio.sleep(0.01)
            done.append(record.outcome)

    @tool(kind="readonly")
    async def slow() -> None:
        await asyncio.sleep(10)

    async def main() -> None:
        task = asyncio.create_task(Runtime([slow], recorders=[Slow()]).run("slow"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == ["cancelled_error"]

    asyncio.run(main())


def test_a_recorder_that_hangs_does_not_keep_a_cancelled_caller_for_long() -> None:
    class Hanging:
        async def record(self, record: CallRecord) -> None:
            await asyncio.sleep(60)

    async def main(after: float) -> None:
        task = asyncio.create_task(
            Runtime([add], recorders=[Hanging()], limits=Limits(grace=0.05)).run("add", {"a": 1})
        )
        await asyncio.sleep(after)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = time.monotonic()
    asyncio.run(main(0.02))
    assert time.monotonic() - began < 30


def test_a_recorder_may_also_watch() -> None:
    seen: list[str] = []

    class Watching(Keeper):
        def looked_up(self, call: RawCall, session: Session, *, found: bool) -> None:
            seen.append(f"{call.name} {found}")

        def started(self, invocation: Any, session: Any) -> None:
            seen.append(f"start {invocation.tool.name}")

    async def main() -> None:
        runtime = Runtime([add], recorders=[Watching()])
        await runtime.run("add", {"a": 1})
        await runtime.run("sub", {"a": 1})
        await runtime.run("add", {"a": []})
        await runtime.batch([RawCall("add", {"a": 1}), RawCall("sub")])

    asyncio.run(main())
    assert seen == [
        "add True", "start add", "sub False", "add True", "add True", "sub False", "start add",
    ] or seen == ["add True", "start add", "sub False", "add True", "add True", "start add", "sub False"]  # fmt: skip


def test_a_span_is_around_the_tools_run() -> None:
    seen: list[str] = []

    class Tracer:
        @contextmanager
        def span(self, invocation: Any, session: Any) -> Generator[Any]:
            seen.append("in")
            try:
                yield self
            finally:
                seen.append("out")

    @tool(kind="readonly")
    async def fail() -> None:
        seen.append("run")
        raise ToolError("no")

    result = asyncio.run(Runtime([fail], tracer=Tracer()).run("fail"))
    assert seen == ["in", "run", "out"]
    assert result.llm_content == "Error (execution_error): no"


# Records


def one_record(one: Tool[Any], arguments: Any = None, **options: Any) -> CallRecord:
    keeper = Keeper()
    asyncio.run(Runtime([one], recorders=[keeper], **options).run(one.name, arguments))
    (record,) = keeper.records
    return record


def test_a_record_says_what_happened() -> None:
    session = Session(id="s", caller=Caller("t", "u", "r"))
    record = one_record(add, '{"a": "1"}', session=session)
    assert (record.tool, record.version, record.kind, record.arguments) == ("add", "1.0.0", "readonly", '{"a": "1"}')
    assert (record.session_id, record.caller, record.parent_id) == ("s", Caller("t", "u", "r"), None)
    assert (record.verdict, record.stage, record.outcome, record.error) == ("allow", "record", "success", None)
    assert (record.result_length, record.repairs, record.cached) == (1, ('`a`: "1" read as 1',), False)
    assert record.started > 1e9
    assert 0 < record.duration < 5


def test_refusals_are_recorded_with_the_stage_they_ended_in() -> None:
    @tool(kind="write")
    async def save() -> None: ...

    @tool(kind="readonly")
    async def fails() -> None:
        raise ToolError("no")

    @tool(kind="readonly", render=lambda value: str(1 // 0))
    async def mute() -> str:
        return "x"

    def ended(one: Tool[Any], arguments: Any = None, **options: Any) -> tuple[str, str]:
        record = one_record(one, arguments, **options)
        return str(record.stage), str(record.outcome)

    assert ended(add, {"a": []}) == ("validate", "validation_error")
    assert ended(save) == ("confirm", "permission_error")
    assert ended(save, policy=RulePolicy(deny=["save"])) == ("authorise", "permission_error")
    assert ended(fails) == ("execute", "execution_error")
    assert ended(mute) == ("format", "execution_error")
    keeper = Keeper()
    asyncio.run(Runtime(recorders=[keeper]).run("gone"))
    assert (keeper.records[0].stage, keeper.records[0].outcome) == ("lookup", "not_found_error")


def test_a_failure_that_a_tool_passes_on_is_recorded_as_one() -> None:
    @tool(kind="readonly")
    async def inner() -> None:
        raise ToolError("no")

    @tool(kind="readonly")
    async def outer(context: ToolContext) -> ToolResult:
        return await context.call("inner")

    keeper = Keeper()
    asyncio.run(Runtime([inner, outer], recorders=[keeper]).run("outer"))
    assert [(record.tool, str(record.outcome)) for record in keeper.records] == [
        ("inner", "execution_error"),
        ("outer", "execution_error"),
    ]


def test_an_abandoned_call_is_recorded_as_one() -> None:
    @tool(kind="readonly", timeout=0.02)
    def hangs() -> None:
        time.sleep(0.3)

    assert one_record(hangs, limits=Limits(grace=0)).abandoned


# Tools that call tools


def test_a_tool_may_call_another_under_the_same_rules() -> None:
    """P8."""

    @tool(kind="write")
    async def save() -> str:
        return "saved"

    @tool(kind="readonly")
    async def sly(context: ToolContext) -> str:
        return (await context.call("save")).llm_content

    assert "approval isn't available here" in asyncio.run(Runtime([save, sly]).run("sly")).llm_content


def test_tools_that_call_themselves_without_end_are_stopped() -> None:
    @tool(kind="readonly")
    async def again(depth: int, context: ToolContext) -> Any:
        result = await context.call("again", {"depth": depth + 1})
        return result.data if result.success else f"{depth}: {result.llm_content}"

    result = asyncio.run(Runtime([again], limits=Limits(nesting=4)).run("again", {"depth": 1}))
    assert result.data == snapshot(
        """\
4: Error (execution_error): `again` was not run: tools called tools 4 deep.

Suggestion: A tool probably calls itself without end.\
"""
    )


def test_an_unsafe_tool_runs_alone_however_it_is_called() -> None:
    """T2."""
    inside = 0
    most = 0

    @tool(kind="readonly", concurrency_safe=False)
    async def shell() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.002)
        inside -= 1

    async def main() -> None:
        runtime = Runtime([shell])
        await asyncio.gather(*(runtime.run("shell") for _ in range(10)))

    asyncio.run(main())
    asyncio.run(main())
    assert most == 1


def test_one_runtimes_unsafe_tool_works_in_one_loop_after_the_other() -> None:
    @tool(kind="readonly", concurrency_safe=False)
    async def shell() -> str:
        await asyncio.sleep(0.001)
        return "ok"

    runtime = Runtime([shell])

    async def main() -> list[bool]:
        return [result.success for result in await asyncio.gather(*(runtime.run("shell") for _ in range(3)))]

    for _ in range(3):
        assert asyncio.run(main()) == [True, True, True]


def test_an_unsafe_tool_that_calls_itself_does_not_wait_for_itself() -> None:
    @tool(kind="readonly", concurrency_safe=False)
    async def shell(context: ToolContext, depth: int = 0) -> int:
        if depth == 2:
            return depth
        return (await context.call("middle", {"depth": depth + 1})).data

    @tool(kind="readonly")
    async def middle(context: ToolContext, depth: int) -> int:
        return (await context.call("shell", {"depth": depth})).data

    async def main() -> ToolResult:
        return await asyncio.wait_for(Runtime([shell, middle]).run("shell"), 5)

    assert asyncio.run(main()).data == 2


def test_a_tools_calls_end_with_it() -> None:
    ended: list[str] = []

    @tool(kind="readonly")
    async def inner() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("inner")

    @tool(kind="readonly", timeout=0.02)
    async def outer(context: ToolContext) -> None:
        await context.call("inner")

    keeper = Keeper()
    asyncio.run(Runtime([inner, outer], recorders=[keeper]).run("outer"))
    assert ended == ["inner"]
    assert [(record.tool, str(record.outcome)) for record in keeper.records] == [
        ("inner", "cancelled_error"),
        ("outer", "timeout_error"),
    ]


# Build and execute apart (T5)


def test_build_validates_and_execute_runs() -> None:
    async def main() -> None:
        keeper = Keeper()
        runtime = Runtime([add], recorders=[keeper])
        invocation = runtime.build(RawCall("add", {"a": 2}, id="c"))
        assert keeper.records == []
        result = await runtime.execute(invocation)
        assert (result.call_id, result.data) == ("c", 3)
        assert len(keeper.records) == 1
        with pytest.raises(StoppedError):
            runtime.build(RawCall("add", {}))
        with pytest.raises(StoppedError):
            runtime.build(RawCall("gone", {}))

    asyncio.run(main())


def test_a_tool_builds_its_own_invocation() -> None:
    invocation = add.build({"a": 2}, call_id="c")
    assert (invocation.tool, invocation.call_id, invocation.params.a, invocation.params.b) == (add, "c", 2, 1)
    with pytest.raises(InvalidParamsError, match="a: expected integer"):
        add.build('{"a": []}')


def test_executing_what_was_built_still_asks_for_permission() -> None:
    @tool(kind="write")
    async def save() -> str:
        return "saved"

    async def main() -> ToolResult:
        runtime = Runtime([save])
        return await runtime.execute(runtime.build(RawCall("save")))

    assert asyncio.run(main()).metadata == {"stage": "confirm"}


def test_errors_leave_without_paths_of_this_machine(tmp_path: Path) -> None:
    """P10."""

    @tool(kind="readonly")
    async def broken() -> None:
        raise FileNotFoundError(2, "No such file or directory", str(tmp_path / "sub" / "a.txt"))

    result = asyncio.run(Runtime([broken], session=Session(workspace=tmp_path)).run("broken"))
    assert result.llm_content == snapshot(
        "Error (execution_error): `broken` failed. FileNotFoundError: [Errno 2] No such file or directory: 'sub/a.txt'"
    )


def test_sessions_of_their_own_share_tools_policy_records_and_hooks_and_wait_for_nobody() -> None:
    keeper = Keeper()
    hooked: list[str] = []
    release = asyncio.Event()

    @tool(kind="write", concurrency_safe=False)
    async def save(wait: bool) -> str:
        """Save."""
        if wait:
            await release.wait()
        return "saved"

    async def yes(question: Question) -> Answer:
        return Answer(Choice.ONCE)

    async def main() -> None:
        hook = Hook("note", before=lambda invocation, session: hooked.append(session.id))
        shared = Runtime([save], recorders=[keeper], hooks=[hook])
        one, two = (shared.for_session(Session(id=name), ask=yes) for name in ("one", "two"))
        assert not (await shared.run("save", {"wait": False})).success  # approval isn't available here
        waiting = asyncio.create_task(one.run("save", {"wait": True}))
        assert (await two.run("save", {"wait": False})).success
        release.set()
        assert (await waiting).success

    asyncio.run(main())
    assert [record.session_id for record in keeper.records][1:] == ["two", "one"]
    assert set(hooked) >= {"one", "two"}


def test_a_runtime_takes_a_registry_a_view_or_simply_tools() -> None:
    for tools in (Registry([add]), Registry([add]).read_only(), [add], (one for one in [add])):
        assert asyncio.run(Runtime(tools).run("add", {"a": 1})).data == 2


async def test_a_runtime_that_sees_fewer_tools_runs_no_others_but_those_that_its_tools_call() -> None:
    @tool(kind="readonly")
    def inner() -> str:
        """Say something."""
        return "from inside"

    @tool(kind="readonly")
    async def outer(context: ToolContext) -> str:
        """Let another tool say it."""
        return (await context.call("inner")).llm_content

    runtime = Runtime([inner, outer])
    narrow = runtime.with_tools(runtime.tools.only(["outer"]))
    assert (await narrow.run("inner")).llm_content.startswith("Error (not_found_error)")
    assert (await narrow.run("outer")).llm_content == "from inside"
    assert (await runtime.run("inner")).llm_content == "from inside", "the whole one is as it was"


def test_a_call_that_came_to_its_end_keeps_its_result_when_it_is_cancelled_while_it_is_recorded() -> None:
    """P9: whoever watches hears how it ended, or would believe that what was done was not."""

    async def main() -> list[CallEvent]:
        recorded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asked = asyncio.Event()

        class Slow:
            def record(self, record: CallRecord) -> asyncio.Future[None]:
                asked.set()
                return recorded

        @tool(kind="readonly")
        async def change() -> str:
            return "changed"

        heard: list[CallEvent] = []
        runtime = Runtime([change], recorders=[Slow()])
        runtime.subscribe(heard.append)
        running = asyncio.create_task(runtime.run("change"))
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        recorded.set_result(None)
        return heard

    pending, done = asyncio.run(main())
    assert isinstance(pending, Pending)
    assert isinstance(done, Done)
    assert done.result.data == "changed"


# Made or called in another way than meant


def test_a_tool_may_be_given_in_place_of_its_name() -> None:
    runtime = Runtime([add])
    assert runtime.run_sync(add, {"a": 1, "b": 2}).data == 3
    assert asyncio.run(runtime.run(add, {"a": 1, "b": 2})).data == 3


MISTAKES: dict[str, tuple[Any, str]] = {
    "policy": (
        lambda: Runtime([add], policy=cast("Any", "plan")),
        snapshot("A policy is an object such as RulePolicy(mode=\"plan\"), not 'plan'."),
    ),
    "ask": (
        lambda: Runtime([add], ask=cast("Any", "yes")),
        snapshot("`ask` is a function that gets a question and gives an answer, not 'yes'."),
    ),
    "servers": (
        lambda: Runtime([add], mcp_servers=cast("Any", ["x"])),
        snapshot('mcp_servers are written by name, {"clock": {"command": …}}, not [\'x\'].'),
    ),
    "no tools": (lambda: Runtime(cast("Any", None)), snapshot("Tools come in a list, not as None.")),
    "a timeout": (
        lambda: Runtime([add]).run_sync("add", timeout=cast("Any", "5")),
        snapshot("A time limit is more than 0 seconds, not '5'."),
    ),
    "no timeout": (
        lambda: Runtime([add]).run_sync("add", timeout=0),
        snapshot("A time limit is more than 0 seconds, not 0."),
    ),
    "one call": (
        lambda: Runtime([add]).batch_sync(cast("Any", RawCall("add"))),
        snapshot("Calls come in a list, even a single one: write [RawCall(…)]."),
    ),
    "a name": (
        lambda: Runtime([add]).batch_sync(cast("Any", "add")),
        snapshot("Calls come in a list, even a single one: write [RawCall(…)]."),
    ),
    "a stream": (
        lambda: Runtime([add]).stream(cast("Any", "add")),
        snapshot("A stream takes calls, not 'a'. Write RawCall(name, arguments)."),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_the_program_is_told_where_it_is_made(mistake: str) -> None:
    make, said = MISTAKES[mistake]
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert str(caught.value) == said


def test_servers_that_nobody_started_are_named_where_their_tool_is_missed() -> None:
    runtime = Runtime([add], mcp_servers={"clock": {"command": "clock"}})
    result = runtime.run_sync("mcp__clock__tell_time")
    assert result.error is not None
    assert result.error.suggestion == snapshot(
        "The plugins and MCP servers of this Runtime run inside `async with` only; enter it first."
    )


async def test_a_call_that_is_refused_leaves_its_record_and_runs_nothing() -> None:
    """P1: an early exit that is known before the call runs is a result like any other."""
    ran: list[int] = []

    @tool(kind="readonly")
    def note(number: int) -> None:
        ran.append(number)

    keeper = Keeper()
    why = StoppedError(Stage.LOOKUP, ErrorKind.CANCELLED, "There was no time for it.", "Ask again.")
    result = await Runtime([note], recorders=[keeper]).refuse(RawCall("note", {"number": 1}, id="c1"), why)
    assert (result.call_id, result.success) == ("c1", False)
    assert result.llm_content == snapshot("""\
Error (cancelled_error): There was no time for it.

Suggestion: Ask again.\
""")
    [record] = keeper.records
    assert (record.tool, record.kind, record.stage, record.outcome) == ("note", "readonly", "lookup", "cancelled_error")
    assert ran == []


async def test_a_callers_own_asker_and_listener_hold_for_its_calls_and_for_what_they_call() -> None:
    """Others' questions do not wait for this caller's, and hear nothing of its calls."""

    @tool(kind="write")
    def write_down(text: str) -> str:
        """Write something down."""
        return text

    @tool(kind="readonly")
    async def pass_on(context: ToolContext) -> str:
        """Have something written down."""
        return (await context.call("write_down", {"text": "inner"})).llm_content

    @tool(kind="readonly")
    async def have_passed_on(context: ToolContext) -> str:
        """Have somebody have something written down."""
        return (await context.call("pass_on")).llm_content

    runtime = Runtime([write_down, pass_on, have_passed_on])
    heard: list[str] = []
    asked: list[str] = []

    def ask(question: Question) -> str:
        asked.append(question.invocation.tool.name)
        return "once"

    narrow = runtime.with_tools(
        runtime.tools.only(["pass_on", "have_passed_on"]),
        ask=ask,
        listener=lambda event: heard.append(f"{type(event).__name__} {event.tool}"),
    )
    assert (await narrow.run("pass_on")).llm_content == "inner"
    assert asked == ["write_down"]
    assert heard == ["Pending pass_on", "Pending write_down", "Question write_down", "Done write_down", "Done pass_on"]
    assert not (await runtime.run("write_down", {"text": "x"})).success
    assert len(heard) == 5
    assert (await narrow.run("have_passed_on")).llm_content == "inner"  # however deep
    assert asked == ["write_down"] * 2
    assert len(heard) == 12
