"""One shell below a guard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.process.shell.shell_room import Room

from ferrule.process.shell.bash_lines import SAVE_AND_END
from ferrule.process.shell.kept_guard import KeptGuard
from ferrule.process.shell.placed_shell import PlacedShell, State


def with_shell(room: Room, body: Callable[[PlacedShell, str], Awaitable[None]], state: State | None = None) -> None:
    async def main() -> None:
        guard = await KeptGuard.start(room.prepare)
        try:
            shell = PlacedShell(guard, guard.free_places.pop(0))
            where = await shell.start(state or State())
            await asyncio.wait_for(body(shell, where), 30)
        finally:
            await guard.close()

    asyncio.run(main())


def test_it_begins_with_a_state_and_saves_it_when_told_to_end(room: Room) -> None:
    async def body(shell: PlacedShell, where: str) -> None:
        assert where == "/usr"
        assert shell.heeds(SAVE_AND_END)
        assert shell.saved(State()) is None
        shell.signal(SAVE_AND_END)
        shell.send(b"\n")
        assert await shell.has_died(20)
        assert shell.exit_code == 124
        saved = shell.saved(State())
        assert saved is not None
        assert b'\ndeclare -- x="1 2"\n' in saved.lines
        assert (saved.folder, saved.traps) == ("/usr", "")

    with_shell(room, body, State(b"x='1 2'\n", "/usr"))


def test_half_a_state_is_none(plain: Room) -> None:
    async def body(shell: PlacedShell, _: str) -> None:
        shell.guard.descriptors.write(shell.lines.place.saved, b"trap\0state without its folder")
        assert shell.saved(State()) is None
        shell.guard.descriptors.write(shell.lines.place.saved, b"\0state\0/folder\n\0")
        saved = shell.saved(State())
        assert saved is not None
        assert (saved.lines, saved.folder) == (b"state", "/folder")
        assert "EXIT" in saved.traps, "nobody's trap is there, so ours is set again"

    with_shell(plain, body)


def test_it_is_killed_and_told(room: Room) -> None:
    async def body(shell: PlacedShell, _: str) -> None:
        assert await shell.kill(20)
        assert shell.exit_code == 137
        again = await shell.start(State())
        assert again == str(room.workspace)

    with_shell(room, body)


def test_a_retired_one_gives_its_place_back(plain: Room) -> None:
    async def body(shell: PlacedShell, _: str) -> None:
        assert shell.place not in shell.guard.free_places
        shell.retire()
        shell.retire()
        assert await shell.has_died(20)
        await asyncio.sleep(0)
        assert shell.guard.free_places.count(shell.place) == 1

    with_shell(plain, body)


def test_lines_that_nobody_read_are_taken_back(plain: Room) -> None:
    async def body(shell: PlacedShell, _: str) -> None:
        assert await shell.kill(20)
        shell.send(b"echo never\n")
        assert shell.unread_lines == 11
        shell.drop_unread()
        assert shell.unread_lines == 0

    with_shell(plain, body)
