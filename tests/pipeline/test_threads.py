"""The threads that sync tools run in (P6): quick, replaced when stuck, never in the way."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from ferrule.core.loops import LoopInbox
from ferrule.pipeline import threads
from ferrule.pipeline.threads import Abandoned, Job, Outcome, TooManyStuck, WorkerPool, seen_through

if TYPE_CHECKING:
    from collections.abc import Callable


def submit(pool: WorkerPool, function: Callable[[], Any]) -> tuple[Job, asyncio.Future[Outcome]]:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Outcome] = loop.create_future()
    job = Job(function, LoopInbox(loop), done.set_result)
    pool.submit(job)
    return job, done


def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def test_a_job_gives_its_value_or_what_it_raised() -> None:
    async def main() -> list[Outcome]:
        pool = WorkerPool(2, 8)
        return [await submit(pool, lambda: 42)[1], await submit(pool, lambda: 1 // 0)[1]]

    (good, value), (bad, error) = asyncio.run(main())
    assert (good, value) == (True, 42)
    assert not bad
    assert isinstance(error, ZeroDivisionError)


def test_one_thread_serves_jobs_that_come_one_after_the_other() -> None:
    async def main() -> set[int]:
        pool = WorkerPool(8, 8)
        return {(await submit(pool, threading.get_ident)[1])[1] for _ in range(50)}

    assert len(asyncio.run(main())) == 1


def test_a_thread_that_waits_keeps_nothing_of_its_last_job() -> None:
    class Held:
        def use(self) -> None: ...

    async def main() -> weakref.ref[Held]:
        held = Held()
        await submit(WorkerPool(1, 8), held.use)[1]
        return weakref.ref(held)

    kept = asyncio.run(main())
    assert eventually(lambda: gc.collect() >= 0 and kept() is None)


def test_no_more_threads_than_the_pool_is_large_and_every_job_runs() -> None:
    running = 0
    most = 0
    lock = threading.Lock()

    def work() -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1
        return 1

    async def main() -> int:
        pool = WorkerPool(3, 8)
        outcomes = await asyncio.gather(*(submit(pool, work)[1] for _ in range(40)))
        return sum(value for _, value in outcomes)

    assert asyncio.run(main()) == 40
    assert most == 3


def test_quick_jobs_that_come_at_once_run_in_order_and_most_of_them_in_one_thread() -> None:
    """To wake a thread for each would cost more than the jobs do."""
    ran: list[int] = []

    def one(number: int) -> int:
        ran.append(number)
        return threading.get_ident()

    async def main() -> list[Outcome]:
        pool = WorkerPool(50, 8)
        return await asyncio.gather(*(submit(pool, lambda number=number: one(number))[1] for number in range(50)))

    outcomes = asyncio.run(main())
    assert sorted(ran) == list(range(50))
    assert len({thread for _, thread in outcomes}) < 25


def test_one_thread_is_woken_for_all_jobs_of_a_turn_of_the_loop() -> None:
    async def main() -> None:
        pool = WorkerPool(50, 8)
        await submit(pool, lambda: None)[1]
        assert await asyncio.to_thread(eventually, lambda: pool._idle == 1)
        inbox, done = LoopInbox(asyncio.get_running_loop()), list[Outcome]()
        for _ in range(20):
            pool.submit(Job(threading.get_ident, inbox, done.append), at_once=False)
        assert (pool._coming, len(pool._jobs)) == (False, 20)
        while len(done) < 20:
            await asyncio.sleep(0.001)
        assert len(set(done)) < 10
        assert not pool._ringing

    asyncio.run(main())


def test_jobs_behind_slow_ones_get_a_thread_each() -> None:
    go_on = threading.Event()

    async def main() -> None:
        pool = WorkerPool(8, 8)
        work = [go_on.wait, lambda: 1, go_on.wait, lambda: 2, go_on.wait]
        done = [submit(pool, one)[1] for one in work]
        assert [await asyncio.wait_for(done[at], 30) for at in (1, 3)] == [(True, 1), (True, 2)]
        assert not done[4].done()
        go_on.set()
        await asyncio.gather(*done)
        assert await asyncio.to_thread(eventually, lambda: pool._idle == pool.threads)

    asyncio.run(main())


def test_a_loop_hears_of_an_outcome_while_the_next_job_blocks() -> None:
    """The loop is woken once for quick jobs, and not only when the last has ended."""
    go_on = threading.Event()

    async def main() -> None:
        pool = WorkerPool(2, 8)
        for _ in range(50):
            go_on.clear()
            done = [submit(pool, one)[1] for one in (lambda: 1, go_on.wait, lambda: 2, go_on.wait)]
            assert await asyncio.wait_for(done[0], 30) == (True, 1)
            assert await asyncio.wait_for(done[2], 30) == (True, 2)
            go_on.set()
            await asyncio.gather(*done)

    asyncio.run(main())


def test_a_stuck_thread_is_replaced_for_jobs_that_wait_already() -> None:
    """P6: a job in the queue must not have to wait for the next submit to be taken up."""

    async def main() -> Outcome:
        pool = WorkerPool(1, 8)
        let_go = threading.Event()
        stuck, _ = submit(pool, lambda: let_go.wait(20))
        _, waiting = submit(pool, lambda: "ran")
        await asyncio.sleep(0.02)
        assert pool.abandon(stuck)
        try:
            return await asyncio.wait_for(waiting, 5)
        finally:
            let_go.set()

    assert asyncio.run(main()) == (True, "ran")


def test_threads_that_found_work_in_the_queue_do_not_count_as_idle() -> None:
    """A thread counted as idle while it works would leave a later job without a thread."""

    async def main() -> Outcome:
        pool = WorkerPool(2, 8)
        let_go = threading.Event()
        first = [submit(pool, lambda: time.sleep(0.02)) for _ in range(2)]
        hanging = [submit(pool, lambda: let_go.wait(20)) for _ in range(2)]
        await asyncio.gather(*(done for _, done in first))
        await asyncio.sleep(0.02)  # both threads now hang in the jobs that had to queue
        pool.abandon(hanging[0][0])
        try:
            return await asyncio.wait_for(submit(pool, lambda: "ran")[1], 5)
        finally:
            let_go.set()

    assert asyncio.run(main()) == (True, "ran")


def test_a_job_abandoned_before_it_started_never_runs() -> None:
    ran: list[str] = []

    async def main() -> None:
        pool = WorkerPool(1, 8)
        go_on = threading.Event()
        _, first = submit(pool, lambda: go_on.wait(5))
        second, _ = submit(pool, lambda: ran.append("second"))
        assert not pool.abandon(second)
        assert pool.stuck == 0
        go_on.set()
        await first
        assert (await submit(pool, lambda: "third")[1]) == (True, "third")

    asyncio.run(main())
    assert ran == []


def test_abandoning_what_is_done_changes_nothing() -> None:
    async def main() -> None:
        pool = WorkerPool(1, 8)
        job, done = submit(pool, lambda: 1)
        await done
        assert pool.abandon(job) is False
        assert pool.stuck == 0

    asyncio.run(main())


def test_python_code_that_spins_is_stopped() -> None:
    """P6: cancelling really stops the work."""
    turns = 0

    def spin() -> None:
        nonlocal turns
        while True:
            turns += 1

    async def main() -> WorkerPool:
        pool = WorkerPool(1, 8)
        job, _ = submit(pool, spin)
        await asyncio.sleep(0.05)
        pool.abandon(job)
        return pool

    pool = asyncio.run(main())
    assert eventually(lambda: pool.stuck == 0)
    seen = turns
    time.sleep(0.02)
    assert turns == seen


def test_too_many_stuck_calls_refuse_further_ones_until_some_end() -> None:
    async def main() -> None:
        pool = WorkerPool(2, 2)
        let_go = threading.Event()
        for _ in range(2):
            job, _ = submit(pool, lambda: let_go.wait(20))
            await asyncio.sleep(0.02)
            pool.abandon(job)
        with pytest.raises(TooManyStuck, match="2 abandoned calls of sync tools still hang"):
            submit(pool, lambda: None)
        let_go.set()
        assert await asyncio.to_thread(eventually, lambda: pool.stuck == 0)
        assert (await submit(pool, lambda: "again")[1]) == (True, "again")

    asyncio.run(main())


def test_jobs_that_end_just_as_they_are_abandoned_leave_the_pool_whole() -> None:
    """The race between a job's end and its abandonment, many times over."""

    async def main() -> WorkerPool:
        pool = WorkerPool(4, 1000)
        for turn in range(300):
            job, _ = submit(pool, lambda turn=turn: time.sleep((turn % 7) * 0.0002))
            await asyncio.sleep((turn % 5) * 0.0003)
            pool.abandon(job)
        outcomes = await asyncio.wait_for(asyncio.gather(*(submit(pool, lambda: 1)[1] for _ in range(20))), 10)
        assert [value for _, value in outcomes] == [1] * 20
        return pool

    pool = asyncio.run(main())
    assert eventually(lambda: pool.stuck == 0)
    assert 0 < pool.threads <= 4
    assert eventually(lambda: pool._idle == pool.threads)
    assert not pool._jobs


def test_idle_threads_go_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_IDLE_SECONDS", 0.02)

    async def main() -> WorkerPool:
        pool = WorkerPool(4, 8)
        await asyncio.gather(*(submit(pool, lambda: time.sleep(0.01))[1] for _ in range(4)))
        return pool

    pool = asyncio.run(main())
    assert eventually(lambda: pool.threads == 0)
    assert asyncio.run(_one_more(pool)) == (True, "back")


async def _one_more(pool: WorkerPool) -> Outcome:
    return await submit(pool, lambda: "back")[1]


def test_a_job_that_the_system_gives_no_thread_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        pool = WorkerPool(2, 8)
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="cannot start another thread"):
                submit(pool, lambda: ran.append("refused"))
        assert await asyncio.wait_for(submit(pool, lambda: "ran")[1], 20) == (True, "ran")

    asyncio.run(main())
    assert ran == []


def test_a_thread_stuck_in_c_does_not_hold_up_the_interpreters_exit() -> None:
    program = """
import asyncio, time
from ferrule import Limits, Runtime, tool

@tool(kind="readonly", timeout=0.05)
def sleep_long() -> None:
    time.sleep(600)

result = asyncio.run(Runtime([sleep_long], limits=Limits(grace=0.05)).run("sleep_long"))
print(result.error.kind, result.error.details)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "timeout_error {'abandoned': True}"
    assert (done.returncode, done.stderr) == (0, "")


def test_what_must_not_be_torn_is_interrupted_only_once_it_is_over() -> None:
    begun, go_on = threading.Event(), threading.Event()
    steps: list[str] = []

    def work() -> None:
        try:
            with seen_through(), seen_through():  # whoever calls it may be inside already
                begun.set()
                go_on.wait()
                for step in range(1000):
                    steps.append(str(step))  # noqa: PERF401 - instructions to be interrupted at
            steps.append("after")
        except Abandoned:
            steps.append("interrupted")
            raise

    async def main() -> WorkerPool:
        pool = WorkerPool(1, 8)
        job, _ = submit(pool, work)
        await asyncio.to_thread(begun.wait)
        assert pool.abandon(job)
        assert pool.stuck == 1
        go_on.set()
        assert (await submit(pool, lambda: "next")[1]) == (True, "next")
        return pool

    pool = asyncio.run(main())
    assert eventually(lambda: pool.stuck == 0)
    assert steps == [*map(str, range(1000)), "interrupted"]


def test_what_was_given_up_begins_nothing_more_that_must_not_be_torn() -> None:
    steps: list[str] = []

    def work() -> None:
        while not job.abandoned:
            time.sleep(0.001)
        with seen_through():
            steps.append("inside")

    async def main() -> WorkerPool:
        nonlocal job
        pool = WorkerPool(1, 8)
        job, _ = submit(pool, work)
        while job.thread is None:
            await asyncio.sleep(0.001)
        pool.abandon(job)
        return pool

    job: Job
    pool = asyncio.run(main())
    assert eventually(lambda: pool.stuck == 0)
    assert steps == []


def test_outside_of_a_tools_thread_it_changes_nothing() -> None:
    with seen_through():
        pass
