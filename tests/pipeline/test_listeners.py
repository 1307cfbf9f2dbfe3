"""P9: progress and partial output reach whoever watches, in order, and watching harms nobody."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ferrule import (
    Done,
    Limits,
    PartialOutput,
    Pending,
    Progress,
    RawCall,
    Runtime,
    Session,
    ToolContext,
    ToolError,
    tool,
)
from ferrule.pipeline.record import EventQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ferrule.core.events import CallEvent


@tool(kind="readonly")
async def work(context: ToolContext) -> str:
    context.progress(1, 2, "half")
    await asyncio.sleep(0)
    context.partial("piece")
    return "done"


@tool(kind="readonly")
def work_in_thread(context: ToolContext) -> str:
    context.progress(1, 2, "half")
    context.partial("piece")
    return "done"


@pytest.mark.parametrize("name", ["work", "work_in_thread"])
def test_a_call_is_pending_then_reports_then_done(name: str) -> None:
    async def main() -> list[CallEvent]:
        return [event async for event in Runtime([work, work_in_thread]).stream(RawCall(name, id="c"))]

    pending, progress, partial, done = asyncio.run(main())
    assert pending == Pending("c", name)
    assert progress == Progress("c", name, 1, 2, "half")
    assert partial == PartialOutput("c", name, "piece")
    assert isinstance(done, Done)
    assert done.result.data == "done"


def test_a_stream_of_many_calls_ends_when_all_are_done() -> None:
    async def main() -> list[CallEvent]:
        calls = [RawCall("work", id=f"c{n}") for n in range(5)]
        return [event async for event in Runtime([work]).stream(calls)]

    events = asyncio.run(main())
    for number in range(5):
        own = [event for event in events if event.call_id == f"c{number}"]
        assert [type(event) for event in own] == [Pending, Progress, PartialOutput, Done]


def test_a_stream_shows_only_its_own_calls() -> None:
    async def main() -> set[str]:
        runtime = Runtime([work])
        other = asyncio.create_task(runtime.run(RawCall("work", id="other")))
        seen = {event.call_id async for event in runtime.stream(RawCall("work", id="mine"))}
        await other
        return seen

    assert asyncio.run(main()) == {"mine"}


def test_refused_calls_are_streamed_too() -> None:
    async def main() -> list[CallEvent]:
        return [event async for event in Runtime().stream(RawCall("nothing", id="c"))]

    pending, done = asyncio.run(main())
    assert isinstance(pending, Pending)
    assert isinstance(done, Done)
    assert done.result.error is not None


def test_a_listener_that_fails_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def fails(event: CallEvent) -> None:
        raise RuntimeError("listener bug")

    async def main() -> str:
        runtime = Runtime([work])
        runtime.subscribe(fails)
        runtime.subscribe(lambda event: heard.append(type(event).__name__))
        return (await runtime.run("work")).llm_content

    with caplog.at_level(logging.ERROR, "ferrule.calls"):
        assert asyncio.run(main()) == "done"
    assert heard == ["Pending", "Progress", "PartialOutput", "Done"]
    assert "A listener failed on Pending" in caplog.text


async def test_a_listener_hears_the_calls_of_every_session_and_view() -> None:
    """P9: of runtimes made before it subscribed and after, each event once, until it unsubscribes."""
    runtime = Runtime([work])
    own: list[str] = []
    heard: list[str] = []

    async def call_all(*runtimes: Runtime) -> list[str]:
        heard.clear()
        for one in runtimes:
            await one.run("work")
        return heard

    before = runtime.for_session(Session())
    unsubscribe = runtime.subscribe(lambda event: heard.append(type(event).__name__))
    after = runtime.for_session(Session())
    view = after.with_tools(after.tools, listener=lambda event: own.append(type(event).__name__))
    events = ["Pending", "Progress", "PartialOutput", "Done"]
    assert await call_all(runtime, before, after, view) == events * 4
    assert own == events

    after.subscribe(lambda event: own.append(event.tool))
    assert await call_all(runtime, before) == events * 2
    assert own == events  # a session's own listener hears no other session

    unsubscribe()
    assert await call_all(runtime, before, after, view) == []
    assert own == [*events, *["work"] * 4, *(part for name in events for part in (name, "work"))]


def test_who_unsubscribes_hears_no_more() -> None:
    heard: list[CallEvent] = []

    async def main() -> None:
        runtime = Runtime([work])
        unsubscribe = runtime.subscribe(heard.append)
        unsubscribe()
        await runtime.run("work")

    asyncio.run(main())
    assert heard == []


def test_leaving_a_stream_early_stops_its_calls() -> None:
    stopped: list[str] = []

    @tool(kind="readonly")
    async def endless() -> AsyncIterator[str]:
        try:
            while True:
                yield "x"
                await asyncio.sleep(0)
        finally:
            stopped.append("stopped")

    async def main() -> None:
        stream: Any = Runtime([endless]).stream(RawCall("endless"))
        async for event in stream:
            if isinstance(event, PartialOutput):
                break
        await stream.aclose()
        assert stopped == ["stopped"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_a_slow_reader_keeps_memory_flat_and_learns_how_much_it_missed() -> None:
    @tool(kind="readonly")
    async def flood(pieces: int) -> AsyncIterator[int]:
        for number in range(pieces):
            yield number
        finished.append(True)

    finished: list[bool] = []

    async def main() -> tuple[list[CallEvent], int]:
        stream = Runtime([flood]).stream(RawCall("flood", {"pieces": 5000}))
        seen: list[CallEvent] = []
        async for event in stream:
            while not finished:
                await asyncio.sleep(0)  # meanwhile the tool runs to its end
            seen.append(event)
        return seen, len(seen)

    seen, count = asyncio.run(main())
    partials = [event for event in seen if isinstance(event, PartialOutput)]
    assert count <= 1010
    assert isinstance(seen[0], Pending)
    assert isinstance(seen[-1], Done)
    assert len(partials) + sum(event.dropped for event in partials) == 5000
    assert partials[-1].content == 4999


def test_a_thread_that_floods_waits_for_the_loop_and_loses_nothing_while_it_is_heard() -> None:
    @tool(kind="readonly")
    def flood() -> Iterator[int]:
        yield from range(5000)

    heard: list[Any] = []

    async def main() -> None:
        runtime = Runtime([flood])
        runtime.subscribe(lambda event: heard.append(event.content) if isinstance(event, PartialOutput) else None)
        await runtime.run("flood")

    asyncio.run(main())
    assert heard == list(range(5000))


@pytest.mark.parametrize("name", ["stubborn", "stubborn_thread"])
def test_done_is_the_last_event_even_of_a_tool_that_goes_on(name: str) -> None:
    go_on = threading.Event()

    @tool(kind="readonly", timeout=0.03)
    def stubborn_thread(context: ToolContext) -> None:
        while not go_on.is_set():
            try:
                context.partial("still here")
                time.sleep(0.001)
            except BaseException:
                continue

    @tool(kind="readonly", timeout=0.03)
    async def stubborn(context: ToolContext) -> None:
        async def chatter() -> None:
            for _ in range(50):
                context.partial("still here")
                await asyncio.sleep(0.001)

        tasks.append(asyncio.create_task(chatter()))
        await asyncio.sleep(10)

    tasks: list[asyncio.Task[None]] = []
    heard: list[str] = []

    async def main() -> None:
        runtime = Runtime([stubborn, stubborn_thread], limits=Limits(grace=0.01))
        runtime.subscribe(lambda event: heard.append(type(event).__name__))
        await runtime.run(name)
        await asyncio.sleep(0.03)
        go_on.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert heard.count("PartialOutput") > 1
    assert heard[-1] == "Done"


def test_a_call_whose_caller_was_cancelled_is_done_too() -> None:
    """`Done` is always the last event: a screen must not show a call that nobody runs any more as running."""

    @tool(kind="readonly")
    async def slow() -> None:
        await asyncio.sleep(10)

    heard: list[CallEvent] = []

    async def main() -> None:
        runtime = Runtime([slow])
        runtime.subscribe(heard.append)
        task = asyncio.create_task(runtime.run("slow"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert isinstance(heard[-1], Done)
    assert heard[-1].result.error is not None
    assert heard[-1].result.error.kind == "cancelled_error"


def test_a_queue_never_drops_a_beginning_or_an_end() -> None:
    async def main() -> list[CallEvent]:
        queue = EventQueue[Any]({"a", "b"})
        queue.put(Pending("a", "t"))
        for number in range(3000):
            queue.put(Progress("a", "t", number))
        queue.put(Pending("b", "t"))
        queue.put(Pending("other", "t"))
        queue.close()
        seen: list[CallEvent] = []
        while (event := await queue.next()) is not None:
            seen.append(event)
        return seen

    seen = asyncio.run(main())
    assert len(seen) == 1001
    assert [event.call_id for event in seen if isinstance(event, Pending)] == ["a", "b"]


def test_a_nested_tools_failure_is_no_event_of_the_outer_call() -> None:
    @tool(kind="readonly")
    async def inner() -> None:
        raise ToolError("no")

    @tool(kind="readonly")
    async def outer(context: ToolContext) -> bool:
        return (await context.call("inner")).success

    async def main() -> list[CallEvent]:
        return [event async for event in Runtime([inner, outer]).stream(RawCall("outer", id="c"))]

    assert [type(event) for event in asyncio.run(main())] == [Pending, Done]


def test_a_call_that_a_call_made_names_it() -> None:
    @tool(kind="readonly")
    async def outer(context: ToolContext) -> str:
        """Call another tool."""
        return (await context.call("work")).llm_content

    events: list[CallEvent] = []
    runtime = Runtime([work, outer])
    runtime.subscribe(events.append)
    asyncio.run(runtime.run(RawCall("outer", id="c")))
    assert [(one.tool, one.parent_id) for one in events if isinstance(one, Pending)] == [("outer", None), ("work", "c")]
