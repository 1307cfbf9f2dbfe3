"""`run_sync`, `batch_sync` and `context.call_sync`: calls from code without `await`."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from ferrule import Limits, RawCall, Runtime, Session, ToolContext, tool
from tests.process.shell.shell_room import becomes

if TYPE_CHECKING:
    from pathlib import Path

word: ContextVar[str] = ContextVar("word", default="")


@tool(kind="readonly")
async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


@tool(kind="readonly")
def double_in_a_thread(number: int) -> int:
    return 2 * number


@tool(kind="readonly")
def double_through(name: str, number: int, context: ToolContext) -> Any:
    return context.call_sync(name, {"number": number}).data


TOOLS = [double, double_in_a_thread, double_through]


# From a script, from threads, from a notebook


@pytest.mark.parametrize("name", ["double", "double_in_a_thread"])
def test_a_script_runs_one_call_and_many(name: str) -> None:
    runtime = Runtime(TOOLS)
    assert runtime.run_sync(name, {"number": 4}).data == 8
    calls = [RawCall(name, {"number": number}) for number in range(20)]
    assert [result.data for result in runtime.batch_sync(calls)] == [2 * number for number in range(20)]


def test_results_of_one_call_are_arguments_of_the_next() -> None:
    """P8."""
    runtime = Runtime(TOOLS)
    calls = [
        RawCall("double", {"number": 4}, id="first"),
        RawCall("double", {"number": {"$ref": "first"}}, id="second"),
        RawCall("double", {"number": {"$ref": "given"}}),
    ]
    assert [result.data for result in runtime.batch_sync(calls, given={"given": 7})] == [8, 16, 14]


def test_arguments_are_checked_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="more than 0 seconds"):
        Runtime(TOOLS).run_sync("double", {"number": 1}, timeout=0)
    assert Runtime(TOOLS).run_sync("nothing").error is not None


def test_many_threads_at_once() -> None:
    runtime = Runtime(TOOLS)
    with ThreadPoolExecutor(16) as pool:
        results = pool.map(
            lambda number: runtime.run_sync("double_through", {"name": "double", "number": number}), range(100)
        )
        assert [result.data for result in results] == [2 * number for number in range(100)]


async def test_in_a_notebook_whose_loop_runs_in_this_thread() -> None:
    """A cell is a task of that loop."""
    runtime = Runtime(TOOLS)
    assert runtime.run_sync("double", {"number": 4}).data == 8
    assert (await runtime.run("double", {"number": 5})).data == 10
    assert runtime.run_sync("double", {"number": 6}).data == 12
    with ThreadPoolExecutor(4) as pool:  # whose threads this loop waits for
        assert [one.data for one in pool.map(lambda n: runtime.run_sync("double", {"number": n}), range(4))] == [
            0,
            2,
            4,
            6,
        ]


async def test_a_runtime_in_use_on_a_loop_is_called_from_threads_meanwhile() -> None:
    runtime = Runtime(TOOLS)
    threads = [asyncio.to_thread(runtime.run_sync, "double", {"number": number}) for number in range(20)]
    own = [runtime.run("double", {"number": number}) for number in range(20)]
    assert [one.data for one in await asyncio.gather(*own, *threads)] == 2 * [2 * number for number in range(20)]


def test_context_variables_and_the_session_carry_over() -> None:
    @tool(kind="readonly")
    async def read_word(context: ToolContext) -> str:
        return f"{word.get()} {context.session_id}"

    @tool(kind="readonly")
    def read_through(context: ToolContext) -> str:
        word.set("from the tool")
        return context.call_sync("read_word").llm_content

    runtime = Runtime([read_word, read_through])
    word.set("from the thread")
    assert runtime.run_sync("read_word", session=Session(id="s")).data == "from the thread s"
    assert runtime.run_sync("read_through", session=Session(id="s")).data == "from the tool s"


def test_the_time_limit_holds_for_a_tool_that_blocks() -> None:
    """P6."""
    gate = threading.Event()

    @tool(kind="readonly")
    async def block() -> None:
        gate.wait(60)

    try:
        result = Runtime([block], limits=Limits(grace=60)).run_sync("block", timeout=1)
    finally:
        gate.set()
    assert result.error is not None
    assert "It blocked its event loop" in result.error.message


# Calls within calls


async def test_a_sync_tool_calls_others_as_their_parent() -> None:
    records: list[Any] = []

    class Keep:
        def record(self, record: Any) -> None:
            records.append(record)

    runtime = Runtime(TOOLS, recorders=[Keep()])
    for name in ("double", "double_in_a_thread"):
        assert (await runtime.run("double_through", {"name": name, "number": 4})).data == 8
    inner, outer = records[:2]
    assert (inner.tool, outer.tool) == ("double", "double_through")
    assert inner.parent_id == outer.call_id


async def test_a_pool_full_of_tools_that_wait_for_tools_has_room_for_those() -> None:
    runtime = Runtime(TOOLS, limits=Limits(threads=2))
    calls = [RawCall("double_through", {"name": "double_in_a_thread", "number": number}) for number in range(10)]
    results = await asyncio.wait_for(runtime.batch(calls), 60)
    assert [result.data for result in results] == [2 * number for number in range(10)]


async def test_stopping_a_sync_tool_stops_the_call_that_it_waits_for() -> None:
    begun, ended = threading.Event(), threading.Event()

    @tool(kind="readonly")
    async def wait_long() -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    @tool(kind="readonly")
    def wait_through(context: ToolContext) -> str:
        return context.call_sync("wait_long").llm_content

    runtime = Runtime([wait_long, wait_through])
    call = RawCall("wait_through")
    task = asyncio.ensure_future(runtime.run(call))
    assert await asyncio.to_thread(begun.wait, 30)
    runtime.cancel(call.id)
    result = await asyncio.wait_for(task, 60)
    assert result.error is not None
    assert result.error.kind == "cancelled_error"
    assert await asyncio.to_thread(ended.wait, 60)
    assert await asyncio.to_thread(becomes, lambda: runtime.abandoned == 0)


# What would wait for itself


def failure(runtime: Runtime, name: str) -> str:
    result = runtime.run_sync(name)
    assert result.error is not None
    return result.error.message


def test_an_async_tool_is_told_to_await() -> None:
    runtime: Runtime

    @tool(kind="readonly")
    async def call_run_sync() -> Any:
        return runtime.run_sync("double", {"number": 1})

    @tool(kind="readonly", may_block=False)
    async def call_batch_sync() -> Any:
        return runtime.batch_sync([RawCall("double", {"number": 1})])

    @tool(kind="readonly")
    async def call_call_sync(context: ToolContext) -> Any:
        return context.call_sync("double", {"number": 1})

    runtime = Runtime([*TOOLS, call_run_sync, call_batch_sync, call_call_sync])
    told = [failure(runtime, name) for name in ("call_run_sync", "call_batch_sync", "call_call_sync")]
    assert told == snapshot(
        [
            "`call_run_sync` failed. RuntimeError: `run_sync` would block the event loop of the async tool `call_run_sync`. Write `await context.call(...)` instead.",
            "`call_batch_sync` failed. RuntimeError: `batch_sync` would block the event loop of the async tool `call_batch_sync`. Write `await context.call(...)` instead.",
            "`call_call_sync` failed. RuntimeError: `call_sync` would block the event loop of the async tool `call_call_sync`. Write `await context.call(...)` instead.",
        ]
    )

    async def embedded() -> str:
        error = (await runtime.run("call_run_sync")).error
        return error.message if error is not None else ""

    assert asyncio.run(embedded()) == told[0]


def test_whoever_listens_on_our_own_loop_is_told_to_await() -> None:
    failures: list[str] = []

    async def ask(question: Any) -> str:
        try:
            runtime.run_sync("double", {"number": 1})
        except RuntimeError as error:
            failures.append(str(error))
        return "no"

    @tool(kind="write")
    def change() -> None: ...

    runtime = Runtime([*TOOLS, change], ask=ask)
    runtime.run_sync("change")
    assert failures == ["`run_sync` would block Ferrule's own event loop. Write `await runtime.run(...)` instead."]


@pytest.mark.parametrize("through", [False, True])
def test_a_tool_that_runs_one_call_at_a_time_cannot_wait_for_itself(through: bool) -> None:
    runtime: Runtime

    @tool(kind="readonly", concurrency_safe=False)
    def go_round(again: bool, context: ToolContext) -> str:
        if not again:
            return "once"
        inner = runtime.run_sync("hand_on" if through else "go_round", {"again": False})
        return inner.llm_content

    @tool(kind="readonly")
    async def hand_on(again: bool, context: ToolContext) -> str:
        return (await context.call("go_round", {"again": again})).llm_content

    runtime = Runtime([go_round, hand_on])
    assert runtime.run_sync("go_round", {"again": True}).llm_content == snapshot("""\
Error (execution_error): `go_round` was not run: it runs one call at a time, and the call that waits for this one is inside it.

Suggestion: Make the call with `context.call_sync(...)`, which may run inside.\
""")


def test_within_a_call_it_can() -> None:
    @tool(kind="readonly", concurrency_safe=False)
    def go_round(times: int, context: ToolContext) -> int:
        return 1 + context.call_sync("go_round", {"times": times - 1}).data if times else 0

    assert Runtime([go_round]).run_sync("go_round", {"times": 3}).data == 3


async def test_a_call_on_the_loop_that_is_blocked_is_not_waited_for() -> None:
    """In a notebook: the tool runs already, as a task of the loop that `run_sync` holds up."""
    begun = asyncio.Event()

    @tool(kind="readonly", concurrency_safe=False)
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(0.5)

    runtime = Runtime([slow])
    task = asyncio.ensure_future(runtime.run("slow"))
    await begun.wait()
    result = runtime.run_sync("slow")
    assert result.error is not None
    assert "it runs on the event loop that `run_sync` blocks" in result.error.message
    assert (await task).success


def test_one_call_at_a_time_holds_across_loops() -> None:
    inside = most = 0

    @tool(kind="readonly", concurrency_safe=False)
    def alone() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.005)
        inside -= 1

    runtime = Runtime([alone])

    def on_a_loop_of_its_own() -> None:
        async def main() -> None:
            for _ in range(5):
                await runtime.run("alone")

        asyncio.run(main())

    threads = [threading.Thread(target=on_a_loop_of_its_own) for _ in range(2)]
    threads += [threading.Thread(target=lambda: [runtime.run_sync("alone") for _ in range(5)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == 1


# The program around it

SCRIPT = """
import asyncio, sys, time
from pathlib import Path
from ferrule import Runtime, ToolContext, tool

@tool(kind="readonly")
async def wait_long(mark: str) -> None:
    Path(mark).touch()
    try:
        await asyncio.sleep(600)
    finally:
        Path(mark).unlink()

@tool(kind="readonly")
def wait_in_a_thread(mark: str, context: ToolContext) -> None:
    Path(mark).touch()
    context.cancellation.wait(600)
    Path(mark).unlink()

@tool(kind="readonly")
async def block(mark: str) -> None:
    Path(mark).touch()
    time.sleep(600)

class Keep:
    def record(self, record):
        print(record.outcome, flush=True)

try:
    Runtime([wait_long, wait_in_a_thread, block], recorders=[Keep()]).run_sync(sys.argv[1], {"mark": sys.argv[2]})
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""


@pytest.mark.parametrize("name", ["wait_long", "wait_in_a_thread", "block"])
def test_ctrl_c_stops_the_tool_and_is_raised(name: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    program = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, name, str(mark)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert becomes(mark.exists, 60)
        time.sleep(1)
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
    finally:
        program.kill()
    assert out == "cancelled_error\nKeyboardInterrupt\n", err
    assert program.returncode == 0
    assert mark.exists() == (name == "block")
    assert "Traceback" not in err


LEFT_BEHIND = """
import asyncio, threading
from ferrule import Runtime, tool

begun = threading.Event()

@tool(kind="readonly")
async def wait_long() -> None:
    begun.set()
    await asyncio.sleep(600)

threading.Thread(target=Runtime([wait_long]).run_sync, args=("wait_long",), daemon=True).start()
begun.wait(60)
"""


def test_the_end_of_the_program_is_prompt_and_quiet_while_a_thread_waits() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_BEHIND], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


AFTER_THE_MAIN_THREAD = """
import atexit, threading, time
from ferrule import Runtime, tool

@tool(kind="readonly")
def double(number: int) -> int:
    return 2 * number

runtime = Runtime([double])

def outlives():
    threading.main_thread().join()
    print(runtime.run_sync("double", {"number": 4}).data, flush=True)

threading.Thread(target=outlives).start()
"""


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="Python 3.12 starts no thread once the main one has ended")
def test_a_thread_that_outlives_the_main_thread_can_begin_to_call() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFTER_THE_MAIN_THREAD], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "8\n", "")


FORKS = """
import os, sys, warnings
from ferrule import Runtime, tool
warnings.simplefilter("ignore")

@tool(kind="readonly")
async def double(number: int) -> int:
    return 2 * number

@tool(kind="readonly")
def double_in_a_thread(number: int) -> int:
    return 2 * number

runtime = Runtime([double, double_in_a_thread])

def both():
    return [runtime.run_sync(name, {"number": 4}, timeout=30).data for name in ("double", "double_in_a_thread")]

assert both() == [8, 8]
child = os.fork()
if not child:
    print(both(), flush=True)
    sys.exit(0)
_, status = os.waitpid(child, 0)
print(both(), os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_threads_and_loops_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[8, 8]\n[8, 8] 0\n", done.stderr
    assert done.returncode == 0
