"""Stage seven: what a record and those who keep it are."""

from __future__ import annotations

import asyncio
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from ferrule import Caller, CallRecord, RawCall, Runtime, Tool, ToolContext, ToolError, tool
from ferrule.core import context as context_module
from ferrule.pipeline import confirm as confirm_module
from ferrule.pipeline import run as run_module
from ferrule.pipeline.record import Watcher

from .test_run import Keeper

if TYPE_CHECKING:
    from ferrule.core.events import Question


def test_a_record_starts_as_a_success_that_went_all_the_way() -> None:
    record = CallRecord("c", None, "s", Caller(), "t", "1", "readonly", None, 0.0)
    assert (record.stage, record.outcome, record.verdict, record.answer, record.error) == (
        "record", "success", "", None, None,
    )  # fmt: skip


def test_a_recorder_watches_when_it_has_both_methods() -> None:
    class Both:
        def looked_up(self, call: object, session: object, *, found: bool) -> None: ...

        def started(self, invocation: object, session: object) -> None: ...

    class One:
        def looked_up(self, call: object, session: object, *, found: bool) -> None: ...

    assert isinstance(Both(), Watcher)
    assert not isinstance(One(), Watcher)


async def test_a_failed_record_is_logged_with_the_frames_of_the_recorder_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Full:
        def record(self, record: CallRecord) -> asyncio.Future[None]:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.set_exception(OSError("the disk is full"))
            return future

    class Broken:
        async def record(self, record: CallRecord) -> None:
            raise ValueError("a bug in a recorder")

    @tool(kind="readonly")
    def ping() -> str:
        """Answer."""
        return "pong"

    for recorder, frames in ((Full(), []), (Broken(), ["record"])):
        caplog.clear()
        assert (await Runtime([ping], recorders=[recorder]).run("ping")).metadata["unrecorded"]
        (logged,) = (one.exc_info for one in caplog.records if one.exc_info)
        assert [frame.name for frame in traceback.extract_tb(logged[2])] == frames


# What a call took, and what it waited for. A clock that the test moves itself: no machine is too slow for it.

WORK, THOUGHT = 1.0, 60.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (run_module, confirm_module, context_module):
        monkeypatch.setattr(module, "perf_counter", clock)
    return clock


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds


def records_of(tools: list[Tool[Any]], *calls: RawCall, **options: Any) -> dict[str, CallRecord]:
    keeper = Keeper()
    asyncio.run(Runtime(tools, recorders=[keeper], **options).batch(calls))
    return {record.tool: record for record in keeper.records}


def times(record: CallRecord) -> tuple[float, float, float]:
    return record.duration, record.waited, record.queued


def working(clock: Clock, name: str = "work", **options: Any) -> Tool[Any]:
    async def work() -> str:
        clock.move(WORK)
        return "done"

    return tool(work, name=name, kind="write", **options)


@pytest.mark.parametrize("answer", ["once", "no"])
def test_what_a_user_thinks_is_not_the_calls_time(clock: Clock, answer: str) -> None:
    """O1: a confirmation."""

    async def ask(question: Question) -> str:
        clock.move(THOUGHT)
        return answer

    record = records_of([working(clock)], RawCall("work"), ask=ask)["work"]
    assert times(record) == (WORK if answer == "once" else 0.0, THOUGHT, 0.0)


def test_where_nobody_can_be_asked_nobody_was_waited_for(clock: Clock) -> None:
    assert times(records_of([working(clock)], RawCall("work"))["work"]) == (0.0, 0.0, 0.0)


def test_a_tools_own_question_is_not_its_time_either(clock: Clock) -> None:
    """O1: two questions at once are waited for once."""

    @tool(kind="readonly")
    async def book(context: ToolContext) -> str:
        clock.move(WORK)
        with context.asking_person():
            clock.move(THOUGHT / 2)
            with context.asking_person():
                clock.move(THOUGHT / 2)
        clock.move(WORK)
        return "booked"

    assert times(records_of([book], RawCall("book"))["book"]) == (2 * WORK, THOUGHT, 0.0)


def test_a_question_that_is_never_answered_is_not_the_calls_time(clock: Clock) -> None:
    @tool(kind="readonly")
    async def book(context: ToolContext) -> str:
        clock.move(WORK)
        with context.asking_person():
            clock.move(THOUGHT)
            raise ToolError("Nobody answered.")

    assert times(records_of([book], RawCall("book"))["book"]) == (WORK, THOUGHT, 0.0)


def test_the_tool_that_makes_a_call_does_not_count_what_the_user_took_for_it(clock: Clock) -> None:
    @tool(kind="readonly", timeout=30)
    async def plan(context: ToolContext) -> str:
        clock.move(WORK)
        return (await context.call("work")).llm_content

    async def ask(question: Question) -> str:
        clock.move(THOUGHT)
        return "once"

    records = records_of([plan, working(clock)], RawCall("plan"), ask=ask)
    assert times(records["work"]) == (WORK, THOUGHT, 0.0)
    assert times(records["plan"]) == (2 * WORK, THOUGHT, 0.0)


def test_nor_is_its_time_limit_for_their_thinking() -> None:
    """P6: the user thinks for longer than the tool that makes the call may take."""

    @tool(kind="readonly", timeout=0.1)
    async def plan(context: ToolContext) -> str:
        return (await context.call("work")).llm_content

    async def ask(question: Question) -> str:
        await asyncio.sleep(0.4)
        return "once"

    result = asyncio.run(Runtime([plan, working(Clock())], ask=ask).run("plan"))
    assert result.llm_content == "done"


def test_waiting_for_a_turn_is_a_number_of_its_own(clock: Clock) -> None:
    """O1: two calls of a tool that runs one at a time; the second waits for as long as the first one works."""

    @tool(kind="readonly", concurrency_safe=False)
    async def work() -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        clock.move(WORK)
        return "done"

    async def both() -> list[CallRecord]:
        keeper = Keeper()
        runtime = Runtime([work], recorders=[keeper])
        await asyncio.gather(runtime.run("work"), runtime.run("work"))
        return keeper.records

    assert [times(record) for record in asyncio.run(both())] == [(WORK, 0.0, 0.0), (WORK, 0.0, WORK)]


def test_a_call_that_is_cancelled_while_the_user_thinks_took_no_time(clock: Clock) -> None:
    async def ask(question: Question) -> str:
        clock.move(THOUGHT)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "once"

    keeper = Keeper()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Runtime([working(clock)], recorders=[keeper], ask=ask).run("work"))
    assert times(keeper.records[0]) == (0.0, THOUGHT, 0.0)
