"""Work on another event loop, handed over and waited for until it has ended."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

import pytest

from ferrule.core.loops import LateTimers, LoopInbox, Posted, elsewhere, wait_for

word: ContextVar[str] = ContextVar("word", default="")


@pytest.fixture
def other() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()


async def where() -> tuple[asyncio.AbstractEventLoop, str]:
    await asyncio.sleep(0)
    return asyncio.get_running_loop(), word.get()


async def test_a_coroutine_runs_there_with_the_context_from_here(other: asyncio.AbstractEventLoop) -> None:
    word.set("carried")
    assert await elsewhere(where(), other) == (other, "carried")


def test_a_thread_waits_for_it_too(other: asyncio.AbstractEventLoop) -> None:
    word.set("carried")
    assert wait_for(Posted(where(), other)) == (other, "carried")


async def fails() -> None:
    raise LookupError("nothing there")


async def test_what_it_raises_is_raised_here(other: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(LookupError, match="nothing there"):
        await elsewhere(fails(), other)
    with pytest.raises(LookupError, match="nothing there"):
        await asyncio.to_thread(wait_for, Posted(fails(), other))


async def test_whoever_is_cancelled_waits_until_it_has_tidied_up(other: asyncio.AbstractEventLoop) -> None:
    begun, tidied = threading.Event(), threading.Event()

    async def tidies_up() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.1)
            tidied.set()

    task = asyncio.ensure_future(elsewhere(tidies_up(), other))
    assert await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # as impatient callers do
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tidied.is_set()


async def test_whoever_does_not_trust_that_loop_to_move_does_not_wait(other: asyncio.AbstractEventLoop) -> None:
    gate = threading.Event()

    async def blocks() -> None:
        gate.wait(60)

    try:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(elsewhere(blocks(), other, wait_when_cancelled=False), 0.05)
        assert not gate.is_set()
    finally:
        gate.set()


def test_a_loop_that_is_closed_is_refused_and_leaves_no_coroutine_behind() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        Posted(where(), loop)


async def test_a_late_timer_fires_at_its_time_or_a_moment_later_and_never_once_it_is_cancelled() -> None:
    timers, fired = LateTimers(), list[str]()
    loop = asyncio.get_running_loop()
    began, over = loop.time(), asyncio.Event()
    soon, later = timers.start(0.01, lambda: fired.append("soon")), timers.start(0.2, lambda: fired.append("later"))
    timers.start(0.3, over.set)
    timers.start(0.0, lambda: fired.append("never")).cancel()
    while not fired:
        await asyncio.sleep(0.01)
    assert loop.time() - began >= 0.01
    later.cancel()
    soon.cancel()  # it has fired already
    await asyncio.wait_for(over.wait(), 60)
    assert loop.time() - began >= 0.3
    assert fired == ["soon"]


async def test_a_timer_with_long_to_go_is_on_time_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LateTimers, "_SOON", 0.1)
    timers, fired = LateTimers(), dict[float, float]()
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    began = loop.time()
    for seconds in (0.19, 0.21, 0.25, 0.4):
        timers.start(seconds, lambda seconds=seconds: fired.setdefault(seconds, loop.time() - began))
    timers.start(0.3, lambda: fired.setdefault(0.3, 0.0)).cancel()
    timers.start(0.5, over.set)
    await asyncio.wait_for(over.wait(), 60)
    assert list(fired) == [0.19, 0.21, 0.25, 0.4]
    assert all(at >= seconds - 0.001 for seconds, at in fired.items())


async def test_what_other_threads_post_is_called_in_order_and_wakes_the_loop_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, called, woken = asyncio.get_running_loop(), list[int](), list[object]()
    wake = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *given: woken.append(given) or wake(*given))
    inbox = LoopInbox(loop)
    thread = threading.Thread(target=lambda: [inbox.post(called.append, number) for number in range(100)])
    thread.start()
    thread.join()  # the loop has no turn meanwhile
    assert called == []
    await asyncio.sleep(0)
    assert called == list(range(100))
    assert len(woken) == 1
    inbox.post(called.append, 100)
    await asyncio.sleep(0)
    assert called[-1] == 100


def test_what_is_posted_to_a_closed_loop_is_dropped() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    LoopInbox(loop).post(print, "nobody hears this")


async def test_the_loops_thread_may_wait_for_what_is_posted() -> None:
    inbox, called = LoopInbox(asyncio.get_running_loop()), list[str]()
    thread = threading.Thread(target=inbox.post, args=(called.append, "here"))
    thread.start()
    while not called:
        inbox.wait(20)
    assert called == ["here"]
    inbox.wait(0.001)  # nothing comes
    inbox.post(called.append, "later")
    await asyncio.sleep(0)
    assert called == ["here", "later"]


async def test_what_is_posted_just_as_the_wait_ends_is_called_exactly_once() -> None:
    """The race between a post and the end of the wait for it, many times over."""
    inbox, called = LoopInbox(asyncio.get_running_loop()), list[int]()
    go_on = threading.Semaphore(0)

    def post() -> None:
        for turn in range(400):
            go_on.acquire()
            time.sleep((turn % 5) * 0.0001)
            inbox.post(called.append, turn)

    thread = threading.Thread(target=post)
    thread.start()
    for turn in range(400):
        go_on.release()
        inbox.wait((turn % 7) * 0.0001)
        async with asyncio.timeout(20):
            while len(called) <= turn:
                await asyncio.sleep(0.0001)
    thread.join()
    assert called == list(range(400))


SIGNALLED = """
import asyncio, signal, time
from ferrule.core.loops import LoopInbox

loop = asyncio.new_event_loop()
inbox = LoopInbox(loop)
signal.signal(signal.SIGALRM, lambda *_: time.sleep(0.02))
for _ in range(20):
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    inbox.wait(0.01)
loop.close()
print("ended")
"""


def test_a_wait_ends_although_a_signal_is_handled_beyond_its_time() -> None:
    """P11: or a Ctrl-C in the first moment of a sync tool would never be heard."""
    done = subprocess.run([sys.executable, "-c", SIGNALLED], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ended\n", done.stderr
