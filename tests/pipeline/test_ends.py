"""However a call ends, its result and its record are true, and nothing that watches it can spoil them (P1, P9, P10)."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest

from ferrule import (
    Attachment,
    CallRecord,
    Decision,
    Limits,
    Output,
    RawCall,
    RulePolicy,
    Runtime,
    Session,
    ToolContext,
    ToolError,
    ToolResult,
    Verdict,
    tool,
)
from ferrule.core.call import Approval, CallInfo, Effects, FileEffect
from ferrule.core.events import CallEvent, Question
from ferrule.core.tool import Invocation
from ferrule.pipeline.hooks import Hook

from .test_run import Keeper

SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123"


@tool
async def put(path: str = "x") -> str:
    """Put something somewhere."""
    return f"put {path}"


async def cancelled(runtime: Runtime, name: str, begun: asyncio.Event) -> None:
    task = asyncio.ensure_future(runtime.run(name))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# Cancelled at a bad moment


async def test_a_call_cancelled_while_the_user_is_asked_ended_there() -> None:
    begun, keeper = asyncio.Event(), Keeper()

    async def ask(question: Question) -> str:
        begun.set()
        return await asyncio.Event().wait() and "no"

    await cancelled(Runtime([put], policy=RulePolicy(), ask=ask, recorders=[keeper]), "put", begun)
    assert [(one.stage, one.outcome) for one in keeper.records] == [("confirm", "cancelled_error")]


async def test_a_call_cancelled_after_its_tool_has_run_says_that_it_ran() -> None:
    """S1: a model that read "did not finish" would do the work again."""
    begun, keeper = asyncio.Event(), Keeper()

    async def after(call: Invocation, result: ToolResult, session: Session) -> None:
        begun.set()
        await asyncio.Event().wait()

    await cancelled(Runtime([put], hooks=[Hook("h", after=after)], recorders=[keeper]), "put", begun)
    record = keeper.records[0]
    assert (record.stage, record.outcome) == ("format", "cancelled_error")
    assert record.error == "`put` ran, but the call was cancelled before its result was returned."


async def test_a_tool_that_outlives_its_cancelled_caller_is_abandoned_on_the_record() -> None:
    begun, keeper, may_end = asyncio.Event(), Keeper(), threading.Event()
    loop = asyncio.get_running_loop()

    @tool(kind="readonly")
    def stubborn() -> None:
        loop.call_soon_threadsafe(begun.set)
        while not may_end.is_set():
            try:
                may_end.wait(0.02)
            except BaseException:
                continue

    runtime = Runtime([stubborn], recorders=[keeper], limits=Limits(grace=0.05))
    await cancelled(runtime, "stubborn", begun)
    assert (keeper.records[0].abandoned, runtime.abandoned) == (True, 1)
    may_end.set()


async def test_abandoned_calls_that_have_ended_are_forgotten() -> None:
    """P1: a server that nobody asks for `abandoned` must not keep what they were given."""

    @tool(kind="readonly", timeout=0.01)
    def late() -> None:
        time.sleep(0.03)

    runtime = Runtime([late], limits=Limits(grace=0))
    for _ in range(10):
        await runtime.run("late")
    left: set[Any] = runtime._executor._left  # pyright: ignore[reportPrivateUsage]
    assert len(left) <= 1


@pytest.mark.parametrize("own_loop", [False, True])
async def test_an_abandoned_call_lets_go_of_its_session_when_it_ends(own_loop: bool) -> None:
    """P1: what a session keeps open, such as the history of its files, would otherwise wait for the next such call."""

    @tool(kind="readonly", timeout=0.01)
    async def stubborn() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    runtime = Runtime([stubborn], limits=Limits(grace=0.02), own_loop=own_loop)
    history = Keeper()
    kept = weakref.ref(history)
    assert not (await runtime.run("stubborn", session=Session(state={"history": history}))).success
    del history
    for _ in range(200):
        await asyncio.sleep(0.01)
        gc.collect()
        if kept() is None:
            break
    assert kept() is None


# Time limits


@pytest.mark.parametrize("wants_context", [False, True])
async def test_a_sync_generator_is_stopped_at_its_next_piece(wants_context: bool) -> None:
    closed = threading.Event()

    def pieces() -> Iterator[str]:
        try:
            while True:
                time.sleep(0.02)
                yield "."
        finally:
            closed.set()

    @tool(timeout=0.1, name="pieces")
    def plain() -> Iterator[str]:
        yield from pieces()

    @tool(timeout=0.1, name="pieces")
    def told(context: ToolContext) -> Iterator[str]:
        yield from pieces()

    keeper = Keeper()
    runtime = Runtime([told if wants_context else plain], recorders=[keeper])
    result = await runtime.run("pieces")
    assert result.error is not None
    assert result.error.message == "`pieces` ran longer than its time limit of 0.1 s and was stopped."
    assert closed.is_set()  # in its own thread, before the call ended
    assert (keeper.records[0].abandoned, runtime.abandoned) == (False, 0)


async def test_a_function_that_hands_on_a_coroutine_has_one_time_limit_for_both() -> None:
    @tool(kind="readonly", timeout=0.3)
    def hands_on():
        time.sleep(0.2)
        return asyncio.sleep(0.2, "done")

    result = await Runtime([hands_on]).run("hands_on")
    assert result.error is not None
    assert result.error.kind == "timeout_error"


@pytest.mark.parametrize("wants_context", [False, True])
async def test_what_a_tool_waits_for_in_run_sync_ends_with_it(wants_context: bool) -> None:
    ends: list[str] = []

    @tool(kind="readonly")
    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ends.append("slow")

    inner = Runtime([slow])

    @tool(kind="readonly", timeout=0.1, name="waits")
    def plain() -> str:
        return inner.run_sync("slow").llm_content

    @tool(kind="readonly", timeout=0.1, name="waits")
    def told(context: ToolContext) -> str:
        return inner.run_sync("slow").llm_content

    runtime = Runtime([told if wants_context else plain])
    result = await runtime.run("waits")
    assert result.error is not None
    assert result.error.kind == "timeout_error"
    for _ in range(500):
        if ends and not runtime.abandoned:
            break
        await asyncio.sleep(0.01)
    assert (ends, runtime.abandoned) == (["slow"], 0)


# Sessions, turns, caches


async def test_a_call_with_a_parent_runs_in_the_session_of_its_parent() -> None:
    """S3: and not in that of the runtime, which may be another user's."""

    @tool(kind="readonly")
    async def inner(context: ToolContext) -> str:
        return context.session.id

    @tool(kind="readonly")
    async def outer(context: ToolContext) -> list[str]:
        call, built = RawCall("inner", {}), runtime.build(RawCall("inner", {}))
        return [
            (await runtime.run(call, parent=context)).data,
            (await runtime.execute(built, parent=context)).data,
            (await runtime.batch([RawCall("inner", {})], parent=context))[0].data,
        ]

    keeper = Keeper()
    runtime = Runtime([inner, outer], recorders=[keeper])
    assert (await runtime.run("outer", session=Session(id="mine"))).data == ["mine"] * 3
    assert {record.session_id for record in keeper.records} == {"mine"}


async def test_calls_that_a_tool_makes_of_itself_take_turns_too() -> None:
    at_once = most = 0

    @tool(kind="readonly", concurrency_safe=False)
    async def alone(context: ToolContext, depth: int = 1) -> list[bool]:
        nonlocal at_once, most
        if depth:
            results = await asyncio.gather(*(context.call("alone", {"depth": 0}) for _ in range(3)))
            return [one.success for one in results]
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1
        return []

    assert (await Runtime([alone]).run("alone")).data == [True] * 3
    assert most == 1


async def test_no_two_callers_share_what_a_cache_or_a_tool_holds() -> None:
    constant = Output(1, "one", attachments=[Attachment("text/plain", b"a")], metadata={"deep": {"list": [1]}})

    @tool(kind="readonly", cache=True)
    def cached() -> Output[int]:
        return constant

    @tool(kind="readonly")
    def plain() -> Output[int]:
        return constant

    runtime = Runtime([cached, plain])
    await runtime.run("cached")
    first = await runtime.run("cached")
    first.metadata["deep"]["list"].append(2)
    assert (await runtime.run("cached")).metadata == {"deep": {"list": [1]}, "cached": True}
    (await runtime.run("plain")).attachments.clear()
    assert len((await runtime.run("plain")).attachments) == 1


# Those who watch


async def test_a_recorder_may_give_back_anything() -> None:
    class Counting:
        def record(self, record: CallRecord) -> int:
            return 5

    recorder: Any = Counting()
    assert (await Runtime([put], recorders=[recorder]).run("put")).success


async def test_a_listener_that_raises_a_cancellation_harms_nobody() -> None:
    def listener(event: CallEvent) -> None:
        raise asyncio.CancelledError

    keeper = Keeper()
    runtime = Runtime([put], recorders=[keeper])
    runtime.subscribe(listener)
    assert (await runtime.run("put")).success
    assert len(keeper.records) == 1


class UnshowableError(BaseException):
    """No `Exception`, and its text cannot be had."""

    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError, UnshowableError])
@pytest.mark.parametrize(
    ("place", "ran"),
    [("tool", True), ("touches", False), ("policy", False), ("asker", False), ("before", False), ("after", True),
     ("recorder", True), ("later", True), ("listener", True)],
)  # fmt: skip
async def test_what_is_no_exception_ends_one_call_and_no_more(
    place: str, ran: bool, error: type[BaseException]
) -> None:
    """P1: one result and one record, also when the code of a call raises what ends programs."""
    runs: list[str] = []

    def fail(*_: Any) -> Any:
        raise error

    async def fail_later(*_: Any) -> Any:
        raise error

    class Code:
        """A policy or a recorder."""

        decide, record = staticmethod(fail), staticmethod(fail_later if place == "later" else fail)

    @tool(kind="write" if place == "asker" else "readonly", touches=cast("Any", fail if place == "touches" else None))
    async def work() -> str:
        """Work."""
        runs.append("work")
        return "done" if place != "tool" else fail()

    keeper, code = Keeper(), cast("Any", Code())
    hooks = {"before": [Hook("h", before=fail)], "after": [Hook("h", after=fail_later)]}
    runtime = Runtime(
        [work],
        policy=code if place == "policy" else None,
        ask=cast("Any", fail if place == "asker" else None),
        hooks=hooks.get(place, ()),
        recorders=[code, keeper] if place in ("recorder", "later") else [keeper],
    )
    if place == "listener":
        runtime.subscribe(fail)
    results = await runtime.batch([RawCall("work"), RawCall("nothing")])
    assert [(one.tool, one.success) for one in results] == [
        ("work", place in ("recorder", "later", "listener")),
        ("nothing", False),
    ]
    assert len(keeper.records) == 2
    assert bool(runs) == ran
    assert ("unrecorded" in results[0].metadata) == (place in ("recorder", "later"))


async def test_a_listener_that_subscribed_twice_is_left_once() -> None:
    heard: list[CallEvent] = []
    runtime, listener = Runtime([put]), heard.append
    end = runtime.subscribe(listener)
    runtime.subscribe(listener)
    end()
    end()
    await runtime.run("put")
    assert [type(one).__name__ for one in heard] == ["Pending", "Done"]


@pytest.mark.parametrize(("fails_in", "ran"), [("span", False), ("result", True), ("exit", True)])
async def test_a_call_whose_tracer_fails_says_whether_it_ran(fails_in: str, ran: bool) -> None:
    class Broken:
        def result(self, value: Any) -> None:
            if fails_in == "result":
                raise RuntimeError("no trace")

        def waited(self, user: float, turn: float) -> None: ...

        @contextmanager
        def span(self, invocation: Invocation, session: Session) -> Generator[Broken]:
            if fails_in == "span":
                raise RuntimeError("no trace")
            yield self
            if fails_in == "exit":
                raise RuntimeError("no trace")

    keeper = Keeper()
    result = await Runtime([put], tracer=Broken(), recorders=[keeper]).run("put")
    assert ("`put` ran, but the program around it failed." in result.llm_content) is ran
    assert keeper.records[0].stage == ("format" if ran else "execute")


async def test_calls_may_come_from_an_iterator() -> None:
    calls = (RawCall("put", {"path": path}) for path in "ab")
    assert [one.data for one in await Runtime([put]).batch(calls)] == ["put a", "put b"]  # pyright: ignore[reportArgumentType]


# Texts


async def test_what_a_preview_says_is_cleaned() -> None:
    """P10: neither a secret nor a path outside the workspace."""

    async def preview(params: Any, session: Session) -> str:
        raise ToolError(f"No file /root/deep/inside/x, token={SECRET}")

    @tool(kind="write", preview=preview)
    def change() -> None: ...

    result = await Runtime([change], policy=RulePolicy(), ask=lambda question: "once").run("change")
    assert result.error is not None
    assert result.error.message == "No file …/x, token=[redacted]"


async def test_what_a_description_raises_is_cleaned() -> None:
    """P10: the details go to clients."""

    def describe(params: Any, session: Session) -> CallInfo:
        raise OSError(f"/root/deep/inside/x {SECRET}")

    @tool(kind="write", describe=describe)
    def change() -> None: ...

    result = await Runtime([change], policy=RulePolicy()).run("change")
    assert result.error is not None
    assert result.error.details == {"reason": "`change`: `describe` raised OSError: …/x [redacted]"}


async def test_details_of_any_type_do_not_hide_what_a_tool_says() -> None:
    @tool(kind="readonly")
    def fails() -> None:
        raise ToolError("No such city.", details=["Lyon", SECRET])  # pyright: ignore[reportArgumentType]

    result = await Runtime([fails]).run("fails")
    assert result.error is not None
    assert (result.error.message, result.error.details) == ("No such city.", {"details": ["Lyon", "[redacted]"]})


async def test_a_result_that_failed_without_an_error_is_a_failure_on_the_record() -> None:
    @tool(kind="readonly")
    def passes_on() -> ToolResult:
        return ToolResult("c", "other", success=False, llm_content="It failed.", display_content="")

    keeper = Keeper()
    result = await Runtime([passes_on], recorders=[keeper]).run("passes_on")
    assert result.error is not None
    assert (result.error.message, keeper.records[0].outcome) == ("It failed.", "execution_error")


async def test_an_iterator_in_an_output_is_still_there_when_somebody_looks() -> None:
    @tool(kind="readonly")
    def lazily() -> Output[Any]:
        return Output(letter for letter in "ab")

    result = await Runtime([lazily]).run("lazily")
    assert (result.llm_content, result.data) == ('["a","b"]', ["a", "b"])


# A decision that changes while a call waits to be asked about


class Changing:
    """Asks, until it was told "always"; from then on its verdict is another one."""

    def __init__(self, then: Verdict) -> None:
        self.now, self.then = Verdict.ASK, then

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        return Decision(self.now, "as things are")

    def decide_effects(self, invocation: Invocation, effects: Effects, session: Session) -> Decision:
        return Decision(self.now, "as things are")

    def remember(self, invocation: Invocation, session: Session) -> None:
        self.now = self.then


async def test_a_call_denied_while_it_waited_to_be_asked_about_is_denied_on_the_record() -> None:
    async def ask(question: Question) -> str:
        await asyncio.sleep(0.01)
        return "always"

    keeper = Keeper()
    runtime = Runtime([put], policy=Changing(Verdict.DENY), ask=ask, recorders=[keeper])
    first, second = await asyncio.gather(runtime.run("put"), runtime.run("put"))
    assert (first.success, second.success) == (True, False)
    assert [record.verdict for record in keeper.records if record.outcome != "success"] == ["deny"]


async def test_an_always_counts_for_effects_that_waited_to_be_asked_about() -> None:
    """A user who said "always" is not asked again about a call that was already tried."""
    asked: list[Question] = []
    both_wait = asyncio.Barrier(2)

    async def ask(question: Question) -> str:
        asked.append(question)
        await asyncio.sleep(0.01)
        return "always"

    def describe(params: Any, session: Session) -> CallInfo:
        return CallInfo(tentative=True)

    @tool(kind="write", describe=describe, name="tries")
    async def tries(context: ToolContext) -> bool:
        await both_wait.wait()
        approval: Approval = await context.approve(Effects((FileEffect("create", "/a", "a"),)))
        return approval.approved

    policy = Changing(Verdict.ALLOW)
    policy.decide = lambda invocation, session: Decision(Verdict.ALLOW, "tried", tentative=True)  # type: ignore[method-assign]
    runtime = Runtime([tries], policy=policy, ask=ask)
    results = await asyncio.gather(runtime.run("tries"), runtime.run("tries"))
    assert ([one.data for one in results], len(asked)) == ([True, True], 1)
