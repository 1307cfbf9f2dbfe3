"""The sessions of one conversation."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.process.shell.shell_room import Kept, Room, alive, gone, new_mark

from ferrule.core.context import Session
from ferrule.core.errors import ToolError
from ferrule.process.shell.shells import Shells


def test_each_name_is_a_session_of_its_own(room: Room) -> None:
    async def main() -> None:
        shells = Shells(str(room.workspace))

        async def run(name: str, command: str) -> str:
            return (await Kept(shells.get(name), room.opener).run(command)).stdout

        try:
            await asyncio.gather(run("main", "x=main"), run("other", "x=other"))
            assert await run("main", "echo $x") == "main\n"
            assert await run("other", "echo $x") == "other\n"
            assert shells.names == ["main", "other"]
            await shells.end("other")
            assert await run("other", "echo ${x-none}") == "none\n"
        finally:
            await shells.close()

    asyncio.run(main())


def test_a_conversation_has_one_set_and_ends_it(room: Room) -> None:
    mark = new_mark()

    async def main() -> None:
        session = Session(workspace=room.workspace)
        shells = Shells.of(session, lambda: Shells(str(room.workspace)))
        assert Shells.of(session, lambda: Shells(str(room.workspace))) is shells
        await shells.get().background.start(f"sleep {mark}", room.opener)
        await shells.get("b").background.start(f"sleep {mark}", room.opener)
        assert [one.id for one in shells.background()] == ["main_1", "b_1"]
        assert shells.find_background("b_1")[0] is shells.get("b")
        with pytest.raises(ToolError) as caught:
            shells.find_background("c_1")
        assert caught.value.suggestion == "Those there are: `main_1`, `b_1`."
        await Shells.close_of(session)
        await Shells.close_of(session)
        assert alive(mark) == []

    asyncio.run(main())


def test_there_is_a_bound(plain: Room) -> None:
    shells = Shells(str(plain.workspace))
    for number in range(32):
        shells.get(str(number))
    with pytest.raises(ToolError, match="32 shell sessions already"):
        shells.get("one more")


PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.process.shell.shell_room import opener_in
from ferrule.process.shell.shells import Shells

shells, opener = Shells(sys.argv[1]), opener_in(Path(sys.argv[1]), sys.argv[2])
command = f"setsid sleep {sys.argv[3]} & (setsid sleep {sys.argv[3]} &); sleep {sys.argv[3]}"
asyncio.run(shells.get().background.start(command, opener))
"""


def test_the_end_of_the_program_ends_them(room: Room) -> None:
    mark = new_mark()
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root), *sys.path])}
    command = [sys.executable, "-c", PROGRAM, str(room.workspace), room.kind, mark]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert gone(mark, 0.5)
