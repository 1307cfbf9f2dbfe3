"""Eager tasks: a tool runs in a task of its own from its first step on, and everything asyncio promises holds."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from typing import TYPE_CHECKING, Any

import pytest

from ferrule import Runtime, tool
from ferrule.core.loops import disown, start_task

if TYPE_CHECKING:
    from collections.abc import Coroutine

colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


def started(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return start_task(coroutine, asyncio.get_running_loop())


def test_a_coroutine_that_never_waits_is_done_at_once() -> None:
    async def quick() -> int:
        return 5

    async def main() -> None:
        task = started(quick())
        assert task.done()
        assert task.result() == 5
        assert task not in asyncio.all_tasks()

    asyncio.run(main())


def test_a_coroutine_that_waits_goes_on_later() -> None:
    async def slow() -> int:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        return 5

    async def main() -> None:
        task = started(slow())
        assert not task.done()
        assert task in asyncio.all_tasks()
        assert await task == 5

    asyncio.run(main())


def test_whoever_asked_to_be_told_of_its_end_is_told() -> None:
    told: list[object] = []

    async def quick() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda task: told.append(task.result()))
        return 5

    async def main() -> None:
        assert started(quick()).result() == 5
        await asyncio.sleep(0)
        assert told == [5]

    asyncio.run(main())


def test_a_coroutine_that_asks_for_its_own_cancelling_gets_it() -> None:
    async def asks(wait: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if wait:
            await asyncio.sleep(0)

    async def main() -> None:
        for wait in (False, True):
            task = started(asks(wait))
            await asyncio.wait({task})
            assert task.cancelled()

    asyncio.run(main())


def test_what_it_raises_at_once_is_kept_in_the_task() -> None:
    async def fails() -> None:
        raise ValueError("early")

    async def main() -> None:
        task = started(fails())
        assert task.done()
        assert isinstance(task.exception(), ValueError)

    asyncio.run(main())


def test_the_current_task_inside_is_its_own_and_outside_is_unchanged() -> None:
    async def who(wait: bool) -> asyncio.Task[Any] | None:
        before = asyncio.current_task()
        if wait:
            await asyncio.sleep(0)
            assert asyncio.current_task() is before
        return before

    async def main() -> None:
        outer = asyncio.current_task()
        for wait in (False, True):
            task = started(who(wait))
            assert asyncio.current_task() is outer
            assert await task is task

    asyncio.run(main())


def test_started_tasks_nest() -> None:
    async def inner() -> asyncio.Task[Any] | None:
        return asyncio.current_task()

    async def middle() -> tuple[bool, bool]:
        own = asyncio.current_task()
        task = started(inner())
        return task.result() is task, asyncio.current_task() is own

    async def main() -> tuple[bool, bool]:
        return started(middle()).result()

    assert asyncio.run(main()) == (True, True)


def test_it_can_be_started_where_no_task_runs() -> None:
    async def inner() -> str:
        await asyncio.sleep(0)
        return "done"

    async def main() -> str:
        loop = asyncio.get_running_loop()
        made: asyncio.Future[asyncio.Task[Any]] = loop.create_future()
        loop.call_soon(lambda: made.set_result(start_task(inner(), loop)))
        return await (await made)

    assert asyncio.run(main()) == "done"


def test_a_deadline_inside_a_tool_works() -> None:
    @tool(kind="readonly")
    async def patient() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(10)
        except TimeoutError:
            return "timed out inside"
        return "never"

    assert asyncio.run(Runtime([patient]).run("patient")).llm_content == "timed out inside"


def test_a_task_group_inside_a_tool_works() -> None:
    @tool(kind="readonly")
    async def grouped() -> list[int]:
        async def one(number: int) -> int:
            await asyncio.sleep(0.001 * number)
            return number

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number)) for number in range(3)]
        return [task.result() for task in tasks]

    assert asyncio.run(Runtime([grouped]).run("grouped")).data == [0, 1, 2]


def test_a_task_group_that_fails_cancels_its_own_tool_alone() -> None:
    @tool(kind="readonly")
    async def grouped() -> None:
        async def fail() -> None:
            raise ValueError("one of them")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await asyncio.sleep(10)

    async def main() -> str:
        result = await Runtime([grouped]).run("grouped")
        await asyncio.sleep(0)  # were the caller's task cancelled by mistake, this would raise
        return result.llm_content

    assert asyncio.run(main()) == "Error (execution_error): `grouped` failed. ValueError: one of them"


def test_context_variables_go_in_and_do_not_leak_out() -> None:
    async def change(wait: bool) -> str:
        seen = colour.get()
        colour.set("red")
        if wait:
            await asyncio.sleep(0)
        assert colour.get() == "red"
        return seen

    async def main() -> None:
        colour.set("blue")
        for wait in (False, True):
            assert await started(change(wait)) == "blue"
            assert colour.get() == "blue"

    asyncio.run(main())


def test_cancelling_reaches_the_place_where_it_waits() -> None:
    async def waits() -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    seen: list[str] = []

    async def main() -> None:
        task = started(waits())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen == ["cancelled"]


def test_a_coroutine_that_cancels_itself_at_once_is_cancelled() -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    async def main() -> bool:
        return started(gives_up()).cancelled()

    assert asyncio.run(main())


def test_the_persons_ctrl_c_goes_through() -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        outer = asyncio.current_task()
        with pytest.raises(KeyboardInterrupt):
            started(interrupted())
        assert asyncio.current_task() is outer

    asyncio.run(main())
    gc.collect()  # asyncio complains of such a task when it is freed; Python 3.11 cannot have that while it parses


def test_a_disowned_task_is_not_waited_for() -> None:
    async def waits(event: asyncio.Event) -> None:
        await event.wait()

    async def main() -> None:
        event = asyncio.Event()
        task = started(waits(event))
        disown(task)
        assert task not in asyncio.all_tasks()
        event.set()
        await task

    asyncio.run(main())
