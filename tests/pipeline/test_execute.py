"""Stage five (P1, P6): a tool runs within its time, and no tool harms another or the caller."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from ferrule import Limits, RawCall, RulePolicy, Runtime, Tool, ToolContext, ToolResult, tool
from ferrule.core.loops import LoopInbox
from ferrule.pipeline import execute
from tests.process.shell.shell_room import becomes

if TYPE_CHECKING:
    from collections.abc import Callable

FAST = Limits(grace=0.05)


def run(one: Tool[Any], **options: Any) -> ToolResult:
    async def main() -> ToolResult:
        return await asyncio.wait_for(Runtime([one], limits=FAST).run(one.name, **options), 10)

    return asyncio.run(main())


def error_kind(result: ToolResult) -> str | None:
    return result.error.kind.value if result.error else None


# Time limits


@tool(kind="readonly", timeout=0.03)
async def sleeps() -> None:
    await asyncio.sleep(10)


@tool(kind="readonly", timeout=0.03)
def waits_politely(context: ToolContext) -> None:
    context.cancellation.wait(10)
    context.cancellation.raise_if_requested()


@tool(kind="readonly", timeout=0.03)
def sleeps_in_c() -> None:
    time.sleep(0.5)


def test_an_async_tool_is_stopped_at_its_time_limit() -> None:
    assert run(sleeps).llm_content == snapshot(
        """\
Error (timeout_error): `sleeps` ran longer than its time limit of 0.03 s and was stopped.

Suggestion: Ask for less at once, or for a longer time limit.\
"""
    )


@tool(kind="readonly", timeout=0.03)
async def waits_for_somebody(context: ToolContext) -> None:
    try:
        await asyncio.sleep(10)
    finally:
        context.stopped_words = "Nobody was at home."


def test_a_tool_that_is_stopped_can_say_what_it_waited_for() -> None:
    """R6."""
    result = run(waits_for_somebody)
    assert result.error is not None
    assert result.error.message.endswith("time limit of 0.03 s and was stopped. Nobody was at home.")


@tool(kind="readonly", timeout=0.1)
async def asks_at_once(context: ToolContext) -> str:
    with context.asking_person(), context.asking_person():
        await asyncio.sleep(0.3)
    return "answered"


@tool(kind="readonly", timeout=0.1)
async def asks_and_then_sleeps(context: ToolContext) -> None:
    await asyncio.sleep(0)
    with context.asking_person():
        await asyncio.sleep(0.3)
    await asyncio.sleep(10)


def test_the_time_that_a_person_takes_does_not_count() -> None:
    assert run(asks_at_once).data == "answered"
    assert error_kind(run(asks_and_then_sleeps)) == "timeout_error"


def begun(file: str | Path) -> Path:
    return Path(f"{file}.begun")


@tool(kind="execute", grace=20.0)
async def tidies_up(done: str, context: ToolContext) -> None:
    begun(done).touch()
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(0.3)
        Path(done).touch()


@tool(kind="execute", grace=20.0)
def tidies_up_in_a_thread(done: str, context: ToolContext) -> None:
    begun(done).touch()
    context.cancellation.wait(60)
    time.sleep(0.3)
    Path(done).touch()


@tool(kind="execute")
async def lets_others_work(name: str, done: str, context: ToolContext) -> None:
    await context.call(name, {"done": done})


@tool(kind="execute")
async def lets_others_let_others_work(name: str, done: str, context: ToolContext) -> None:
    await context.call("lets_others_work", {"name": name, "done": done})


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("inner", ["tidies_up", "tidies_up_in_a_thread"])
@pytest.mark.parametrize("outer", [None, "lets_others_work", "lets_others_let_others_work"])
async def test_a_tool_that_takes_its_time_to_stop_is_given_it_and_so_is_whoever_called_it(
    tmp_path: Path, inner: str, outer: str | None, by_id: bool
) -> None:
    """P6: the call ends when its work has ended, not before; also where a tool was called by a tool."""
    done = tmp_path / "done"
    tools = [tidies_up, tidies_up_in_a_thread, lets_others_work, lets_others_let_others_work]
    runtime = Runtime(tools, policy=RulePolicy(mode="bypass"), limits=FAST)
    call = RawCall(outer or inner, {"done": str(done), **({"name": inner} if outer else {})})
    task = asyncio.create_task(runtime.run(call))
    assert await asyncio.to_thread(becomes, begun(done).exists)
    if by_id:
        assert runtime.cancel(call.id)
        error = (await task).error
        assert error is not None
        assert (error.kind, error.details) == ("cancelled_error", None)
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert done.exists()
    assert runtime.abandoned == 0


@tool(kind="execute", grace=0)
async def lets_others_work_in_a_hurry(done: str, context: ToolContext) -> None:
    await context.call("tidies_up", {"done": done})


async def test_one_without_time_to_stop_leaves_none_of_its_calls_running(tmp_path: Path) -> None:
    """P6: given up before they had heard of it, they went on to their end with nobody to stop them."""
    done = tmp_path / "done"
    runtime = Runtime([tidies_up, lets_others_work_in_a_hurry], policy=RulePolicy(mode="bypass"))
    call = RawCall("lets_others_work_in_a_hurry", {"done": str(done)})
    task = asyncio.create_task(runtime.run(call))
    assert await asyncio.to_thread(becomes, begun(done).exists)
    assert runtime.cancel(call.id)
    assert error_kind(await task) == "cancelled_error"
    assert done.exists()
    assert runtime.abandoned == 0


@tool(kind="write")
def writes_slowly(file: str, context: ToolContext) -> str:
    begun(file).touch()
    context.cancellation.wait(60)  # so slowly that it is cut short meanwhile, however busy the machine is
    Path(file).touch()
    return "written"


@tool(kind="write")
async def writes_slowly_and_sees_it_through(file: str, context: ToolContext) -> str:
    writing = asyncio.ensure_future(asyncio.to_thread(writes_slowly, file, context))
    while not writing.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(writing)
    return "written"


@pytest.mark.parametrize("name", ["writes_slowly", "writes_slowly_and_sees_it_through"])
async def test_whoever_cuts_short_what_has_done_its_work_is_told_so(tmp_path: Path, name: str) -> None:
    """P6: a model that reads «it was stopped» does it again."""
    tools = [writes_slowly, writes_slowly_and_sees_it_through]
    runtime = Runtime(tools, policy=RulePolicy(mode="bypass"), limits=Limits(grace=20))
    call = RawCall(name, {"file": str(tmp_path / "a")})
    task = asyncio.create_task(runtime.run(call))
    assert await asyncio.to_thread(becomes, begun(tmp_path / "a").exists)
    assert runtime.cancel(call.id)
    assert (await task).llm_content.replace(name, "write") == snapshot("""\
Error (cancelled_error): `write` was cancelled. It returned before it could be stopped, so it may have done its work.

Suggestion: Check whether it is done before you do it again.\
""")
    late = await runtime.run(name, {"file": str(tmp_path / "b")}, timeout=0.05)
    assert late.llm_content.replace(name, "write") == snapshot("""\
Error (timeout_error): `write` ran longer than its time limit of 0.05 s. It returned before it could be stopped, so it may have done its work.

Suggestion: Check whether it is done before you do it again.\
""")
    assert {one.name for one in tmp_path.iterdir() if one.suffix != ".begun"} == {"a", "b"}
    assert error_kind(late) == "timeout_error"


def test_a_sync_tool_that_listens_is_stopped_politely() -> None:
    result = run(waits_politely)
    assert error_kind(result) == "timeout_error"
    assert result.error is not None
    assert result.error.details is None


def test_a_sync_tool_that_hangs_is_abandoned_and_says_so() -> None:
    result = run(sleeps_in_c)
    assert result.error is not None
    assert result.error.details == {"abandoned": True}
    assert result.error.message == snapshot(
        "`sleeps_in_c` ran longer than its time limit of 0.03 s and was stopped. It did not stop when told to and was abandoned."
    )


def test_the_callers_time_limit_comes_before_the_tools_and_the_tools_before_the_default() -> None:
    @tool(kind="readonly", timeout=10)
    async def slow() -> None:
        await asyncio.sleep(10)

    assert "time limit of 0.02 s" in run(slow, timeout=0.02).llm_content

    @tool(kind="readonly")
    async def plain() -> None:
        await asyncio.sleep(10)

    async def main() -> ToolResult:
        return await Runtime([plain], limits=Limits(timeout=0.04)).run("plain")

    assert "time limit of 0.04 s" in asyncio.run(main()).llm_content


def test_a_tool_that_ends_as_it_is_told_to_stop_is_still_late() -> None:
    @tool(kind="readonly", timeout=0.02)
    async def swallows() -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(10)
        return "late"

    result = run(swallows)
    assert error_kind(result) == "timeout_error"


# Stubborn tools


def test_an_async_tool_that_swallows_cancelling_is_ended_from_outside() -> None:
    """P6: abandoned, and `asyncio.run` ends promptly all the same."""

    @tool(kind="readonly", timeout=0.02)
    async def stubborn() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(10)

    async def main() -> tuple[ToolResult, int]:
        runtime = Runtime([stubborn], limits=FAST)
        result = await runtime.run("stubborn")
        await asyncio.sleep(0.01)
        return result, runtime.abandoned

    began = time.monotonic()
    result, abandoned = asyncio.run(main())
    assert time.monotonic() - began < 60
    assert result.error is not None
    assert result.error.details == {"abandoned": True}
    assert abandoned == 0


def test_one_that_swallows_even_its_closing_does_not_keep_the_program_alive() -> None:
    program = """
import asyncio
from ferrule import Limits, Runtime, tool

@tool(kind="readonly", timeout=0.02)
async def immortal() -> None:
    while True:
        try:
            await asyncio.sleep(0.01)
        except BaseException:
            pass

async def main():
    runtime = Runtime([immortal], limits=Limits(grace=0.05))
    result = await runtime.run("immortal")
    print(result.error.kind, result.error.details, runtime.abandoned)

asyncio.run(main())
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)
    assert done.stdout.splitlines() == ["timeout_error {'abandoned': True} 1", "ended"]
    assert done.returncode == 0


def test_a_stubborn_tool_cannot_pass_its_closing_off_as_the_callers_cancelling() -> None:
    @tool(kind="readonly", timeout=0.02)
    async def sly() -> None:
        while True:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                continue
            except GeneratorExit:
                raise asyncio.CancelledError from None

    assert error_kind(run(sly)) == "timeout_error"


# Cancelling


def test_cancelling_the_caller_stops_an_async_tool_and_goes_on_up() -> None:
    ended: list[str] = []

    @tool(kind="readonly")
    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ended.append("stopped")

    async def main() -> None:
        task = asyncio.create_task(Runtime([work]).run("work"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["stopped"]

    asyncio.run(main())


def test_cancelling_the_caller_stops_a_sync_tool() -> None:
    ended = threading.Event()

    @tool(kind="readonly")
    def work(context: ToolContext) -> None:
        context.cancellation.wait(10)
        ended.set()

    async def main() -> None:
        task = asyncio.create_task(Runtime([work]).run("work"))
        await asyncio.sleep(0.03)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended.is_set()


def test_a_caller_cancelled_twice_still_leaves_nothing_running() -> None:
    @tool(kind="readonly")
    async def stubborn() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(10)

    @tool(kind="readonly")
    def hangs(context: ToolContext) -> None:
        time.sleep(0.3)

    async def main() -> None:
        runtime = Runtime([stubborn, hangs], limits=Limits(grace=0.1))
        for name in ("stubborn", "hangs"):
            task = asyncio.create_task(runtime.run(name))
            for _ in range(2):
                await asyncio.sleep(0.03)
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert runtime.abandoned <= 1  # the thread, which sleeps in C
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_a_caller_cancelled_after_the_time_was_up_gives_a_hanging_tool_up_once() -> None:
    """P6: counted twice it would count as stuck for ever, and some of those keep every sync tool from being run."""
    go_on = threading.Event()

    async def main() -> Runtime:
        loop = asyncio.get_running_loop()

        @tool(kind="readonly", timeout=0.01)
        def hangs(context: ToolContext) -> None:
            context.cancellation.wait(300)
            loop.call_soon_threadsafe(task.cancel)
            go_on.wait()

        runtime = Runtime([hangs], limits=Limits(grace=1))
        task = asyncio.create_task(runtime.run("hangs"))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert runtime.abandoned == 1
        return runtime

    runtime = asyncio.run(main())
    go_on.set()
    assert becomes(lambda: runtime.abandoned == 0)


@pytest.mark.parametrize("style", ["async", "sync"])
def test_cancelling_again_and_again_never_cuts_off_what_cleans_up(style: str) -> None:
    """P6: as the scopes of anyio do it, which cancel at every turn of the loop until the task has left them."""
    cleaned: list[str] = []
    done = threading.Event()

    @tool(kind="readonly", name="work")
    async def work() -> None:
        try:
            await asyncio.sleep(300)
        finally:
            await asyncio.to_thread(done.wait)
            cleaned.append(style)

    @tool(kind="readonly", name="work")
    def work_in_thread(context: ToolContext) -> None:
        context.cancellation.wait(300)
        done.wait()
        cleaned.append(style)

    async def main() -> None:
        runtime = Runtime([work if style == "async" else work_in_thread], limits=Limits(grace=300))
        task = asyncio.create_task(runtime.run("work"))
        for turn in range(200):
            await asyncio.sleep(0)
            if turn > 20:
                task.cancel()
        waited_for = not task.done()
        done.set()
        assert waited_for
        with pytest.raises(asyncio.CancelledError):
            await task
        assert runtime.abandoned == 0

    asyncio.run(main())
    assert cleaned == [style]


@pytest.mark.parametrize("style", ["async", "sync"])
def test_a_running_call_can_be_cancelled_by_its_id(style: str) -> None:
    @tool(kind="readonly", name="work")
    async def work() -> None:
        await asyncio.sleep(10)

    @tool(kind="readonly", name="work")
    def work_in_thread(context: ToolContext) -> None:
        context.cancellation.wait(10)

    async def main() -> ToolResult:
        runtime = Runtime([work if style == "async" else work_in_thread])
        task = asyncio.create_task(runtime.run(RawCall("work", id="c1")))
        await asyncio.sleep(0.03)
        assert runtime.cancel("c1")
        result = await task
        assert not runtime.cancel("c1")
        return result

    assert asyncio.run(main()).llm_content == "Error (cancelled_error): `work` did not finish. It was cancelled."


def test_cancelling_by_id_works_from_another_thread() -> None:
    @tool(kind="readonly")
    async def work() -> None:
        await asyncio.sleep(10)

    async def main() -> ToolResult:
        runtime = Runtime([work])
        task = asyncio.create_task(runtime.run(RawCall("work", id="c1")))
        await asyncio.sleep(0.01)
        assert await asyncio.to_thread(runtime.cancel, "c1")
        return await task

    assert error_kind(asyncio.run(main())) == "cancelled_error"


def test_a_call_that_is_not_running_cannot_be_cancelled() -> None:
    assert Runtime().cancel("nobody") is False


def test_a_tool_that_cancels_itself_is_a_result_and_not_the_callers_cancelling() -> None:
    @tool(kind="readonly")
    async def at_once() -> None:
        raise asyncio.CancelledError

    @tool(kind="readonly")
    async def later() -> None:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    @tool(kind="readonly")
    def in_thread() -> None:
        raise asyncio.CancelledError

    for one in (at_once, later, in_thread):
        assert run(one).llm_content == (
            f"Error (cancelled_error): `{one.name}` did not finish. It was cancelled from inside."
        )


# Whatever a tool raises


class Own(BaseException):
    """As a crash in an extension written in Rust arrives."""


class Sulky(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _recurse() -> None:
    _recurse()


def _raise(error: BaseException) -> Callable[[], None]:
    def go() -> None:
        raise error

    return go


RAISED: list[tuple[Callable[[], None], str, str]] = [
    (_raise(ValueError("bad")), "execution_error", "`t` failed. ValueError: bad"),
    (_raise(SystemExit(3)), "unknown_error", "`t` failed. SystemExit: 3"),
    (_raise(MemoryError()), "execution_error", "`t` failed. MemoryError"),
    (_recurse, "execution_error", "`t` failed. RecursionError: maximum recursion depth exceeded"),
    (_raise(Sulky()), "execution_error", "`t` failed. Sulky"),
    (_raise(Own("panic")), "unknown_error", "`t` failed. Own: panic"),
    (_raise(GeneratorExit()), "unknown_error", "`t` failed. GeneratorExit"),
    (
        _raise(BaseExceptionGroup("two", [Own("a"), ValueError("b")])),
        "unknown_error",
        "`t` failed. BaseExceptionGroup: two (2 sub-exceptions): Own: a; ValueError: b",
    ),
]


@pytest.mark.parametrize(("go", "kind", "message"), RAISED)
@pytest.mark.parametrize("how", ["async at once", "async later", "sync", "async stream", "sync stream"])
def test_whatever_a_tool_raises_is_a_result(go: Callable[[], None], kind: str, message: str, how: str) -> None:
    """P1: each early exit is a structured result, never a raised surprise."""

    async def at_once() -> None:
        go()

    async def later() -> None:
        await asyncio.sleep(0)
        go()

    def sync() -> None:
        go()

    async def stream() -> Any:
        yield "a"
        go()

    def sync_stream() -> Any:
        yield "a"
        go()

    bodies = {
        "async at once": at_once,
        "async later": later,
        "sync": sync,
        "async stream": stream,
        "sync stream": sync_stream,
    }
    result = run(tool(bodies[how], name="t", kind="readonly"))
    assert result.error is not None
    assert result.error.kind == kind
    assert result.error.message.startswith(message)


def test_a_stop_iteration_is_a_result_too() -> None:
    @tool(kind="readonly")
    async def stops() -> None:
        raise StopIteration(1)

    @tool(kind="readonly")
    def stops_in_thread() -> None:
        raise StopIteration(1)

    assert run(stops).llm_content == snapshot(
        "Error (execution_error): `stops` failed. RuntimeError: coroutine raised StopIteration"
    )
    assert run(stops_in_thread).llm_content == snapshot(
        "Error (execution_error): `stops_in_thread` failed. StopIteration: 1"
    )


def test_the_persons_ctrl_c_goes_through_an_async_tool() -> None:
    @tool(kind="readonly")
    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupted)


def test_a_failing_tool_does_not_harm_the_calls_beside_it() -> None:
    @tool(kind="readonly")
    async def work(fail: bool) -> str:
        await asyncio.sleep(0.01)
        if fail:
            raise SystemExit
        return "fine"

    async def main() -> list[bool]:
        runtime = Runtime([work])
        results = await asyncio.gather(*(runtime.run("work", {"fail": n % 3 == 0}) for n in range(30)))
        return [result.success for result in results]

    assert asyncio.run(main()) == [n % 3 != 0 for n in range(30)]


# Where tools run


def test_a_sync_tool_does_not_hold_up_the_loop() -> None:
    @tool(kind="readonly")
    def blocks() -> int:
        time.sleep(0.1)
        return threading.get_ident()

    async def main() -> int:
        turns = 0
        task = asyncio.create_task(Runtime([blocks]).run("blocks"))
        while not task.done():
            await asyncio.sleep(0.005)
            turns += 1
        assert task.result().data != threading.get_ident()
        return turns

    assert asyncio.run(main()) >= 5


def test_what_a_sync_tool_hands_to_the_loop_comes_before_its_result() -> None:
    """However quick it is: its reports must not come behind its end."""
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        @tool(kind="readonly")
        def quick() -> None:
            loop.call_soon_threadsafe(seen.append, "handed over")

        runtime = Runtime([quick])
        for _ in range(50):
            await runtime.run("quick")
            seen.append("result")

    asyncio.run(main())
    assert seen == ["handed over", "result"] * 50


def test_a_sync_tool_that_cancels_its_own_call_is_cancelled_however_quick_it_is() -> None:
    async def main() -> list[str | None]:
        @tool(kind="readonly")
        def quick(context: ToolContext) -> bool:
            return runtime.cancel(context.call_id)

        runtime = Runtime([quick])
        kinds = [error_kind(await runtime.run(RawCall("quick", id="again"))) for _ in range(20)]
        assert not runtime.cancel("again")
        return kinds

    assert asyncio.run(main()) == ["cancelled_error"] * 20


def test_quick_sync_tools_one_after_the_other_leave_the_loop_its_turns() -> None:
    """A timer is due only when the loop looks; calls that never wait must let it look."""

    @tool(kind="readonly")
    def quick() -> None: ...

    async def main() -> int:
        runtime = Runtime([quick])
        fired = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, fired.set)
        calls = 0
        while not fired.is_set() and calls < 200_000:
            await runtime.run("quick")
            calls += 1
        return calls

    assert asyncio.run(main()) < 200_000


def test_the_loop_waits_a_moment_only_for_a_tool_that_was_quick_the_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    wait = LoopInbox.wait

    def counted(inbox: LoopInbox, seconds: float) -> None:
        waited.append(turn)
        wait(inbox, seconds)

    monkeypatch.setattr(execute, "_A_MOMENT", 0.2)
    monkeypatch.setattr(LoopInbox, "wait", counted)

    @tool(kind="readonly")
    def work(seconds: float) -> None:
        time.sleep(seconds)

    async def main() -> None:
        nonlocal turn
        runtime = Runtime([work])
        for turn, seconds in (("unknown", 0.4), ("was slow", 0.4), ("was slow still", 0), ("was quick", 0)):  # noqa: B007
            assert (await runtime.run("work", {"seconds": seconds})).success

    turn = ""
    asyncio.run(main())
    assert waited == ["unknown", "was quick"]


def test_a_sync_function_that_gives_a_coroutine_is_run_to_its_end() -> None:
    async def real(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    @tool(kind="readonly")
    def wrapped(number: int) -> Any:
        return real(number)

    assert run(wrapped, arguments={"number": 1}).data == 2


def test_a_coroutine_from_a_sync_function_has_its_time_limit_too() -> None:
    @tool(kind="readonly", timeout=0.05)
    def wrapped() -> Any:
        return asyncio.sleep(10)

    assert error_kind(run(wrapped)) == "timeout_error"


def test_too_many_hanging_sync_calls_are_answered_and_not_queued() -> None:
    let_go = threading.Event()

    @tool(kind="readonly", timeout=0.02)
    def hangs() -> None:
        let_go.wait(20)

    async def main() -> list[ToolResult]:
        runtime = Runtime([hangs], limits=Limits(grace=0, threads=1, stuck_threads=2))
        try:
            return [await runtime.run("hangs") for _ in range(3)]
        finally:
            let_go.set()

    last = asyncio.run(main())[-1]
    assert last.llm_content == snapshot(
        """\
Error (execution_error): `hangs` was not run: 2 abandoned calls of sync tools still hang.

Suggestion: Try again later.\
"""
    )


def test_a_sync_call_that_no_thread_was_free_for_was_not_run() -> None:
    go_on, ran = threading.Event(), list[int]()

    @tool(kind="write")
    def holds(n: int) -> int:
        ran.append(n)
        go_on.wait(10)
        return n

    async def main() -> list[ToolResult]:
        runtime = Runtime([holds], limits=Limits(threads=1), policy=RulePolicy(mode="bypass"))
        first = asyncio.create_task(runtime.run("holds", {"n": 1}))
        while not ran:
            await asyncio.sleep(0.001)
        second = await runtime.run("holds", {"n": 2}, timeout=0.05)
        go_on.set()
        return [await first, second]

    first, second = asyncio.run(main())
    assert (first.success, ran) == (True, [1])
    assert second.llm_content == snapshot("""\
Error (timeout_error): `holds` was not run: no thread was free within its time limit of 0.05 s.

Suggestion: Try again later.\
""")


def test_a_hanging_sync_tool_does_not_starve_the_one_that_waits_behind_it() -> None:
    let_go = threading.Event()

    @tool(kind="readonly", timeout=0.05)
    def hangs() -> None:
        let_go.wait(20)

    @tool(kind="readonly", timeout=5)
    def works() -> str:
        return "done"

    async def main() -> ToolResult:
        runtime = Runtime([hangs, works], limits=Limits(grace=0, threads=1))
        _, result = await asyncio.gather(runtime.run("hangs"), runtime.run("works"))
        let_go.set()
        return result

    assert asyncio.run(main()).data == "done"


def test_tool_code_sees_the_callers_context_variables_in_a_thread() -> None:
    from contextvars import ContextVar

    colour: ContextVar[str] = ContextVar("colour", default="none")

    @tool(kind="readonly")
    def look() -> str:
        seen = colour.get()
        colour.set("changed")
        return seen

    async def main() -> tuple[Any, str]:
        colour.set("blue")
        result = await Runtime([look]).run("look")
        return result.data, colour.get()

    assert asyncio.run(main()) == ("blue", "blue")


def test_no_task_is_left_over_when_calls_are_done() -> None:
    @tool(kind="readonly", timeout=0.02)
    async def work(seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def main() -> int:
        runtime = Runtime([work])
        await asyncio.gather(*(runtime.run("work", {"seconds": n % 2}) for n in range(20)))
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
