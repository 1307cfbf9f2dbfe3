"""What other programs may know of background commands."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from time import time

import pytest
from tests.process.shell.shell_room import Room, gone, new_mark

from ferrule.core.files import unfinished_name
from ferrule.process.shell.background import Notice, noted_commands, started
from ferrule.process.shell.session import ShellSession


def test_a_command_is_noted_from_its_start_to_the_end_of_its_shell(room: Room, tmp_path: Path) -> None:
    mark = new_mark()

    async def main() -> None:
        shell = ShellSession(folder=str(room.workspace), notice=Notice(tmp_path / "notes", room.workspace))
        try:
            assert noted_commands(tmp_path / "notes") == []
            kept = await shell.background.start(f"sleep {mark} & sleep {mark}", room.opener)
            (noted,) = noted_commands(tmp_path / "notes")
            assert (noted.command, noted.status, noted.workspace) == (kept.command, "running", str(room.workspace))
            assert noted.program.pid == os.getpid()
            assert [path.stat().st_mode & 0o777 for path in (tmp_path / "notes").iterdir()] == [0o600]
            assert await noted.stop()
            await kept.over.wait()
            (noted,) = noted_commands(tmp_path / "notes")
            assert noted.status == "ended"
        finally:
            await shell.close()
        assert list((tmp_path / "notes").iterdir()) == []

    asyncio.run(main())
    assert gone(mark)


def note(folder: Path, **changed: object) -> Path:
    from ferrule.process.shell import background as notice

    document = {
        "system": notice._system(),
        "program": [os.getpid(), started(os.getpid())],
        "workspace": "/w",
        "commands": [
            {"id": "a.bash_1", "command": "x", "status": "running", "exit_code": None, "began": 1.0, "output": None,
             "box": None},
        ],
        **changed,
    }  # fmt: skip
    path = folder / "a.json"
    path.write_text(json.dumps(document))
    return path


def test_a_process_that_took_the_number_of_a_dead_one_is_not_taken_for_it(tmp_path: Path) -> None:
    note(tmp_path)
    assert [one.id for one in noted_commands(tmp_path)] == ["a.bash_1"]
    path = note(tmp_path, program=[os.getpid(), (started(os.getpid()) or 0) - 1])
    assert noted_commands(tmp_path) == []
    assert not path.exists()


def test_files_of_another_machine_are_left_alone(tmp_path: Path) -> None:
    path = note(tmp_path, system="another", program=[1 << 30, 1])
    assert noted_commands(tmp_path) == []
    assert path.exists()


def test_what_a_kill_left_is_gone_after_the_next_start(tmp_path: Path) -> None:
    dead = note(tmp_path, program=[1 << 30, 1])
    half, fresh, elsewhere = tmp_path / unfinished_name(), tmp_path / unfinished_name(), tmp_path / "d.json"
    for path in (half, fresh):
        path.write_text("{")
    elsewhere.write_text(json.dumps({"system": "before the restart"}))
    for path, age in ((half, 3600), (elsewhere, 8 * 24 * 3600)):
        os.utime(path, (time() - age, time() - age))
    Notice(tmp_path, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [fresh.name]
    assert not dead.exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"system": 1}', "\x00"])
def test_a_file_that_is_none_is_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "b.json").write_text(content)
    note(tmp_path)
    assert len(noted_commands(tmp_path)) == 1
