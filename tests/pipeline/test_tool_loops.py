"""Async tools on a loop of their own (P1, P6): whatever one does to that loop, its call ends at its time, and the others
go on.
"""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import Done, Limits, Output, PartialOutput, Progress, RawCall, Runtime, Session, ToolContext, tool
from ferrule.core.elicitation import Elicited, current_elicitor, set_elicitor
from ferrule.pipeline.tool_loops import tool_loops
from tests.process.shell.shell_room import becomes

word: ContextVar[str] = ContextVar("word", default="")


class Gate:
    """Holds up whoever comes, until the test lets them through."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.opened = threading.Event()

    def hold(self) -> None:
        self.begun.set()
        self.opened.wait(120)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


def blocker(gate: Gate, name: str = "block", **options: Any) -> Any:
    async def block() -> str:
        gate.hold()
        return "let through"

    return tool(block, name=name, kind="readonly", **options)


@tool(kind="readonly")
async def where() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


@tool(kind="readonly", may_block=False)
async def where_i_was_called() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


@tool(kind="readonly")
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


@tool(kind="readonly")
def sync_tool() -> str:
    return "done"


def apart(*tools: Any, **options: Any) -> Runtime:
    return Runtime(tools, own_loop=True, **options)


# Where they run


async def test_tools_share_a_loop_apart_and_those_that_never_block_stay_here() -> None:
    runtime = apart(where, where_i_was_called)
    names = {(await runtime.run("where")).data for _ in range(3)}
    assert len(names) == 1
    assert names.pop().startswith("ferrule-tools-")
    assert (await runtime.run("where_i_was_called")).data == threading.current_thread().name
    assert (await Runtime([where]).run("where")).data == threading.current_thread().name


async def test_a_lock_that_tools_share_works() -> None:
    """An asyncio lock that is waited for belongs to one loop."""
    lock = asyncio.Lock()
    inside, most = 0, 0

    @tool(kind="readonly")
    async def take_turns() -> None:
        nonlocal inside, most
        async with lock:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1

    results = await apart(take_turns).batch([RawCall("take_turns") for _ in range(10)])
    assert [result.error for result in results] == [None] * 10
    assert most == 1


async def test_sessions_of_a_runtime_share_the_loop() -> None:
    runtime = apart(where)
    other = runtime.for_session(Session())
    assert (await runtime.run("where")).data == (await other.run("where")).data


async def test_context_variables_and_the_current_task_are_the_tools_own() -> None:
    @tool(kind="readonly")
    async def read_word() -> str:
        said = word.get()
        word.set("changed inside")
        async with asyncio.timeout(30):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        return f"{said}, {task is not None and not task.cancelling()}"

    word.set("from outside")
    assert (await apart(read_word).run("read_word")).data == "from outside, True"
    assert word.get() == "from outside"


async def test_what_a_tool_yields_and_reports_arrives_in_order() -> None:
    """P9."""

    @tool(kind="readonly")
    async def count_up(context: ToolContext) -> AsyncIterator[Any]:
        for number in range(300):
            context.progress(number, 300)
            yield f"{number} "
        yield Output("all of them")

    runtime = apart(count_up)
    events = [event async for event in runtime.stream(RawCall("count_up"))]
    assert [event.done for event in events if isinstance(event, Progress)] == list(range(300))
    assert [event.content for event in events if isinstance(event, PartialOutput)] == [f"{n} " for n in range(300)]
    assert isinstance(events[-1], Done)
    assert events[-1].result.data == "all of them"


async def test_a_tool_there_calls_tools_and_its_cancelling_reaches_them() -> None:
    begun, ended = threading.Event(), threading.Event()

    @tool(kind="readonly")
    async def inner() -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "never"

    @tool(kind="readonly")
    async def outer(name: str, context: ToolContext) -> str:
        return (await context.call(name)).llm_content

    runtime = apart(inner, outer, where, where_i_was_called)
    assert (await runtime.run("outer", {"name": "where"})).data.startswith("ferrule-tools-")
    assert (await runtime.run("outer", {"name": "where_i_was_called"})).data == threading.current_thread().name
    call = RawCall("outer", {"name": "inner"})
    task = asyncio.ensure_future(runtime.run(call))
    assert await asyncio.to_thread(begun.wait, 30)
    runtime.cancel(call.id)
    result = await asyncio.wait_for(task, 30)
    assert result.error is not None
    assert result.error.kind == "cancelled_error"
    assert ended.is_set()
    assert runtime.abandoned == 0


async def test_the_person_and_the_model_are_asked_on_the_programs_loop() -> None:
    """T8."""
    here = asyncio.get_running_loop()
    asked_on: list[asyncio.AbstractEventLoop] = []

    class Model:
        async def complete(self, prompt: str) -> str:
            asked_on.append(asyncio.get_running_loop())
            return prompt.upper()

    class Person:
        async def elicit(self, message: str, schema: Any, *, server: str = "", url: str = "") -> Elicited:
            asked_on.append(asyncio.get_running_loop())
            await asyncio.sleep(0.5)
            return Elicited("accept", {"answer": message})

    @tool(kind="readonly", timeout=0.3)
    async def ask_everybody(context: ToolContext) -> str:
        elicitor = current_elicitor()
        assert elicitor is not None
        with context.asking_person():
            said = await elicitor.elicit("who?", {})
        return f"{said.content['answer']} {await context.model_adapter.complete('me')}"

    runtime = apart(ask_everybody, session=Session(model_adapter=Model()))
    set_elicitor(Person())
    assert (await runtime.run("ask_everybody")).llm_content == "who? ME"
    assert asked_on == [here, here]


async def test_a_plain_function_around_an_async_one_runs_there_too() -> None:
    async def inner() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    @tool(kind="readonly")
    def wrapped() -> Any:
        return inner()

    assert (await apart(wrapped).run("wrapped")).data.startswith("ferrule-tools-")


# Blocking


async def test_a_tool_that_blocks_its_loop_is_given_up_at_its_time(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = apart(blocker(gate), limits=Limits(grace=60))
    with caplog.at_level(logging.WARNING, "ferrule.calls"):
        result = await asyncio.wait_for(runtime.run("block", timeout=1), 30)  # its grace is not waited for
    assert result.llm_content == snapshot("""\
Error (timeout_error): `block` ran longer than its time limit of 1 s. It blocked its event loop, so it could not be stopped, and was abandoned.

Suggestion: Ask for less at once, or for a longer time limit.\
""")
    assert result.error is not None
    assert result.error.details == {"abandoned": True}
    assert result.metadata["blocked_loop_seconds"] > 0
    assert "Tool block has blocked the event loop" in caplog.text
    assert runtime.abandoned == 1
    gate.opened.set()
    assert await asyncio.to_thread(becomes, lambda: runtime.abandoned == 0)


async def test_others_go_on_while_it_blocks(gate: Gate) -> None:
    """Those that began on its loop when it moves again, uncharged; those that come now on another one; sync ones at once."""
    runtime = apart(blocker(gate), nap, sync_tool, where)
    home = (await runtime.run("where")).data
    napping = asyncio.ensure_future(runtime.run("nap", {"seconds": 0.5}, timeout=1))
    await asyncio.sleep(0.1)
    blocking = asyncio.ensure_future(runtime.run("block", timeout=60))
    assert await asyncio.to_thread(gate.begun.wait, 30)
    assert (await runtime.run("sync_tool")).data == "done"
    elsewhere = (await asyncio.wait_for(runtime.run("where"), 60)).data
    assert elsewhere != home
    assert not blocking.done()
    assert not napping.done()
    gate.opened.set()
    assert (await napping).data == "rested"
    assert (await blocking).data == "let through"
    assert (await blocking).metadata["blocked_loop_seconds"] >= 1
    assert (await runtime.run("where")).data == home  # where all that tools have opened is


async def test_a_call_that_waits_behind_it_begins_elsewhere(gate: Gate) -> None:
    """Both were handed over before the loop stood still."""
    runtime = apart(blocker(gate), where)
    blocking = asyncio.ensure_future(runtime.run("block", timeout=60))
    behind = asyncio.ensure_future(runtime.run("where", timeout=1))
    assert (await asyncio.wait_for(behind, 60)).error is None
    assert not blocking.done()
    gate.opened.set()
    await blocking


async def test_a_python_loop_without_an_end_is_really_ended() -> None:
    ended = threading.Event()

    @tool(kind="readonly")
    async def spin() -> None:
        try:
            while True:
                pass
        finally:
            ended.set()

    runtime = apart(spin, where)
    home = (await runtime.run("where")).data
    result = await asyncio.wait_for(runtime.run("spin", timeout=1), 60)
    assert result.error is not None
    assert result.error.kind == "timeout_error"
    assert await asyncio.to_thread(ended.wait, 60)
    assert await asyncio.to_thread(becomes, lambda: runtime.abandoned == 0)
    assert (await runtime.run("where")).data == home


async def test_a_task_that_the_tool_started_counts_as_the_tool(gate: Gate) -> None:
    @tool(kind="readonly")
    async def let_a_task_block() -> None:
        async def inner() -> None:
            gate.hold()

        await asyncio.gather(asyncio.sleep(30), inner())

    runtime = apart(let_a_task_block)
    result = await asyncio.wait_for(runtime.run("let_a_task_block", timeout=1), 60)
    assert result.error is not None
    assert "It blocked its event loop" in result.error.message


async def test_cancelling_does_not_wait_for_it_either(gate: Gate) -> None:
    runtime = apart(blocker(gate), limits=Limits(grace=60))
    task = asyncio.ensure_future(runtime.run("block"))
    assert await asyncio.to_thread(gate.begun.wait, 30)
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 30)


async def test_a_call_that_another_holds_up_for_ever_says_who_does(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not charged, and not left waiting for ever."""
    from ferrule.pipeline import execute

    monkeypatch.setattr(execute, "_LONGEST_HELD_UP", 2.0)
    runtime = apart(blocker(gate), nap)
    napping = asyncio.ensure_future(runtime.run("nap", {"seconds": 0.5}, timeout=1))
    await asyncio.sleep(0.1)
    blocking = asyncio.ensure_future(runtime.run("block", timeout=60))
    result = await asyncio.wait_for(napping, 60)
    assert result.error is not None
    assert result.error.kind == "execution_error"
    assert result.error.message.startswith(
        "`nap` could not go on: `block` has blocked the event loop of the tools for "
    )
    assert result.error.suggestion == "Try again."
    gate.opened.set()
    await blocking
    assert await asyncio.to_thread(becomes, lambda: runtime.abandoned == 0)


async def test_a_tool_that_ignores_being_cancelled_is_put_down_there() -> None:
    @tool(kind="readonly")
    async def ignore() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue

    runtime = apart(ignore, where, limits=Limits(grace=0.05))
    result = await asyncio.wait_for(runtime.run("ignore", timeout=0.05), 30)
    assert result.error is not None
    assert result.error.message.endswith("It did not stop when told to and was abandoned.")
    assert await asyncio.to_thread(becomes, lambda: runtime.abandoned == 0)
    assert (await runtime.run("where")).error is None


async def test_what_a_tool_raises_or_does_to_itself_is_its_outcome() -> None:
    @tool(kind="readonly")
    async def fail() -> None:
        raise SystemExit(3)

    @tool(kind="readonly")
    async def interrupt() -> None:
        raise KeyboardInterrupt

    @tool(kind="readonly")
    async def cancel_itself() -> None:
        raise asyncio.CancelledError

    runtime = apart(fail, interrupt, cancel_itself, where)
    assert [(await runtime.run(name)).llm_content for name in ("fail", "interrupt", "cancel_itself")] == snapshot(
        [
            "Error (unknown_error): `fail` failed. SystemExit: 3",
            "Error (unknown_error): `interrupt` failed. KeyboardInterrupt",
            "Error (cancelled_error): `cancel_itself` did not finish. It was cancelled from inside.",
        ]
    )
    assert (await runtime.run("where")).error is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_task_that_would_end_a_program_ends_nobody_elses_call() -> None:
    """asyncio lets these two out of the loop, and with the loop's thread all tools would end."""

    @tool(kind="readonly")
    async def start_bad_tasks() -> str:
        async def leave(error: BaseException) -> None:
            raise error

        kept = [asyncio.ensure_future(leave(error)) for error in (SystemExit(3), KeyboardInterrupt())]
        await asyncio.sleep(0.05)
        return f"{[type(one.exception()).__name__ for one in kept]}"

    runtime = apart(start_bad_tasks, nap)
    napping = asyncio.ensure_future(runtime.run("nap", {"seconds": 0.3}))
    assert (await runtime.run("start_bad_tasks")).data == "['SystemExit', 'KeyboardInterrupt']"
    assert (await napping).data == "rested"


async def test_programs_can_be_started_there() -> None:
    @tool(kind="readonly")
    async def start_program() -> str:
        program = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
        out, _ = await program.communicate()
        return f"{out.decode().strip()} {program.returncode}"

    assert (await apart(start_program).run("start_program")).data == "hello 0"


async def test_a_long_grace_is_not_waited_for_where_nothing_can_be_heard(gate: Gate) -> None:
    """Its time is over before anybody can know that its loop stands still."""
    runtime = apart(blocker(gate, grace=600))
    result = await asyncio.wait_for(runtime.run("block", timeout=0.05), 60)
    assert result.error is not None
    assert "It blocked its event loop" in result.error.message


async def test_so_many_loops_may_be_blocked_and_no_more(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    from ferrule.pipeline import tool_loops as module

    runtime = apart(blocker(gate), where)
    await runtime.run("where")
    monkeypatch.setattr(module, "_MOST_LOOPS", len(tool_loops.places()))
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    blocking = [asyncio.ensure_future(runtime.run("block", timeout=60)) for _ in tool_loops.places()]
    assert await asyncio.to_thread(becomes, lambda: all(one.watch.silent > 0.3 for one in tool_loops.places()))
    result = await runtime.run("where")
    assert result.error is not None
    assert "event loops are blocked by other calls" in result.error.message
    gate.opened.set()
    await asyncio.gather(*blocking)


# The program around it


BLOCKED_AT_EXIT = """
import asyncio, time
from ferrule import Runtime, tool

@tool(kind="readonly")
async def block() -> None:
    time.sleep(600)

@tool(kind="readonly")
async def hang_in_a_thread() -> None:
    await asyncio.to_thread(time.sleep, 600)

async def main():
    runtime = Runtime([block, hang_in_a_thread], own_loop=True)
    calls = [runtime.run("hang_in_a_thread", timeout=0.2), runtime.run("block", timeout=0.5)]
    print([result.error.kind.value for result in await asyncio.gather(*calls)])

asyncio.run(main())
"""


def test_nothing_keeps_the_program_from_ending() -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED_AT_EXIT], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "['timeout_error', 'timeout_error']\n", done.stderr
    assert done.returncode == 0
    assert time.monotonic() - began < 100


def test_a_tool_that_stops_its_loop_stops_nobody() -> None:
    @tool(kind="readonly")
    async def stop_loop() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        return "on it went"

    @tool(kind="readonly")
    async def neighbour() -> str:
        await asyncio.sleep(0.05)
        return "as if nothing were"

    runtime = Runtime([stop_loop, neighbour])
    results = runtime.batch_sync([RawCall("neighbour"), RawCall("stop_loop"), RawCall("neighbour")])
    assert [one.data for one in results] == ["as if nothing were", "on it went", "as if nothing were"]
