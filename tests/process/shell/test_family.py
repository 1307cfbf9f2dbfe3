"""The processes of a session, seen from outside."""

from __future__ import annotations

import asyncio
import os

from tests.process.shell.shell_room import Room, alive, becomes, new_mark

from ferrule.process.shell.family import Running, started
from ferrule.process.shell.shell_session import ShellSession


def test_a_process_is_told_from_a_later_one_of_its_number() -> None:
    when = started(os.getpid())
    assert when is not None
    assert Running(os.getpid(), when).alive
    assert not Running(os.getpid(), when - 1).alive
    assert started(1 << 22) is None


def test_frame_and_commands_are_told_apart(room: Room) -> None:
    mark = new_mark()

    async def body(session: ShellSession) -> None:
        await session.run("true")
        guard = session._shell.guard
        assert guard is not None
        family = guard.family
        assert family.left_behind() == []
        assert family.running() == []
        await session.run(f"sleep {mark} &")
        (left,) = family.left_behind()
        assert [one.pid for one in family.running()] == [left]
        assert family.running()[0].command == f"sleep {mark}"
        (root,) = family.roots()
        await family.end(frozenset({root}), 0.1)
        assert alive(mark), "it was spared"
        await family.end_these(frozenset({root}), 0.1)
        assert alive(mark) == []

    room.use(body)


def test_what_can_write_to_a_pipe_is_found(room: Room) -> None:
    async def body(session: ShellSession) -> None:
        kept = await session.background.start("sleep 60")
        family, pipes = kept.guard.family, kept.reader.pipes()
        assert await asyncio.to_thread(becomes, lambda: family.holds_output(pipes))
        await session.background.stop(kept.id)
        assert not family.holds_output(pipes)

    room.use(body)


def test_ending_asks_before_it_kills(room: Room) -> None:
    async def body(session: ShellSession) -> None:
        started = asyncio.create_task(
            session.run(
                "trap 'echo asked >told; exit' TERM; (trap 'echo asked >told; exit' TERM; echo >up; sleep 60 & wait)",
                timeout=2,
            )
        )
        assert await asyncio.to_thread(becomes, (room.workspace / "up").exists)
        await started

    room.use(body)
    assert (room.workspace / "told").read_text() == "asked\n"
