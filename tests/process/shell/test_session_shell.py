"""The shell behind a session is renewed when it must be."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.process.shell.shell_room import Room

from ferrule.core.errors import ToolError
from ferrule.process.shell.session_shell import encoded, finished
from ferrule.process.shell.shell_session import ShellSession


def test_another_event_loop_gets_a_new_shell_in_the_same_state(plain: Room) -> None:
    session = plain.session()
    asyncio.run(session.run("x=1; cd /"))

    async def again() -> str:
        try:
            return (await session.run("echo $x; pwd")).stdout
        finally:
            await session.close()

    assert asyncio.run(again()) == "1\n/\n"


def test_an_event_loop_that_ends_before_the_state_is_saved_loses_nothing(plain: Room) -> None:
    session = plain.session()
    asyncio.run(session.run("x=1"))
    ended = asyncio.new_event_loop()
    session._shell.saving = ended.create_future()  # as when nobody heard that it is saved
    ended.close()

    async def again() -> str:
        try:
            return (await session.run("echo $x")).stdout
        finally:
            await session.close()

    assert asyncio.run(again()) == "1\n"


def test_a_state_that_no_shell_can_be_started_with_is_given_up(room: Room) -> None:
    """The session goes on in its folder, and says what is gone."""
    _, ended, after = room.run("x=1; cd /usr; declare() { exit 3; }; exit 5", "echo [$x]; pwd", "true")
    assert ended.stdout == "[]\n/usr\n"
    assert ended.notes == snapshot(
        ("No shell could be started with the variables, functions and options there were; they are gone.",)
    )
    assert after.notes == ()


def test_a_command_cancelled_while_its_pipes_are_fetched_leaves_the_next_ones_output_alone(room: Room) -> None:
    """P6: the answer that nobody took was taken for the one to the next command, whose output then went nowhere."""

    async def body(session: ShellSession) -> None:
        await session.run("sleep 600 &")  # which keeps the pipes, so that the next command needs others
        guard = session._shell.guard
        assert guard is not None
        assert guard._keeper is not None
        free, opened = [*guard.free_pairs], len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(3):
            guard._keeper.send_signal(signal.SIGSTOP)
            task = asyncio.create_task(session.run("echo cancelled"))
            while not guard._packets:
                await asyncio.sleep(0)
            task.cancel()
            asyncio.get_running_loop().call_soon(guard._keeper.send_signal, signal.SIGCONT)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert sorted(guard.free_pairs) == free
            assert len(list(Path("/proc/self/fd").iterdir())) <= opened  # less where others' garbage is freed
        assert (await session.run("echo next")).stdout == "next\n"
        assert session._shell.guard is guard

    room.use(body)


def test_a_keeper_that_does_not_answer_is_given_up_and_said(plain: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(session: ShellSession) -> None:
        await session.run("sleep 600 & x=1")
        guard = session._shell.guard
        assert guard is not None
        assert guard._keeper is not None
        monkeypatch.setattr("ferrule.process.shell.kept_guard._SECONDS_TO_START", 0.1)
        guard._keeper.send_signal(signal.SIGSTOP)
        with pytest.raises(ToolError, match="could not run the command: its keeper does not answer"):
            await session.run("echo lost")
        monkeypatch.undo()
        guard._keeper.send_signal(signal.SIGCONT)
        assert (await session.run("echo next")).stdout == "next\n"
        assert session._shell.guard is not guard

    plain.use(body)


def test_a_stale_sandbox_is_renewed(room: Room) -> None:
    async def body(session: ShellSession) -> None:
        await session.run("x=1")
        guard = session._shell.guard
        assert guard is not None
        await session.background.start("sleep 600")
        guard.prepared.outdated = lambda: True
        ended = await session.run("echo $x")
        assert ended.stdout == "1\n"
        assert "".join(ended.notes) == snapshot(
            "The sandbox was renewed, because what may not be read has changed. "
            "What ran in the background was ended: `main_1`."
        )
        assert (await session.run("echo $x")).notes == ()

    room.use(body)


def test_work_is_seen_through_before_a_cancellation_goes_on() -> None:
    async def main() -> list[str]:
        done: list[str] = []

        async def work() -> None:
            await asyncio.sleep(0.05)
            done.append("work")

        task = asyncio.create_task(finished(work()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return done

    assert asyncio.run(main()) == ["work"]


def test_what_fails_fails() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(finished(work()))


def test_any_bytes_can_be_a_command() -> None:
    assert encoded("é\udcff") == "é".encode() + b"\xff"
