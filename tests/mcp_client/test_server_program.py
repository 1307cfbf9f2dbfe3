"""A kept program: spoken to over its streams, and nothing of it left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ferrule.mcp_client.stdio_transport import CannotStart, end_program, find_executable, start_program
from ferrule.process.box import Box

PLAIN = {"PATH": os.environ["PATH"]}


class Program:
    """A running program, and our ends of its streams."""

    def __init__(self, box: Box, streams: tuple[int, int, int]) -> None:
        self.box = box
        self.stdin, self.stdout, self.stderr = streams

    async def end(self, patience: float = 1.0, to_notice: float | None = None) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            os.close(stream)
        await end_program(self.box, patience, to_notice=to_notice)


async def start(script: str, folder: Path) -> Program:
    return Program(*await start_program(["sh", "-c", script], folder=folder, environment=PLAIN))


async def read_line(descriptor: int) -> str:
    return await asyncio.to_thread(lambda: os.read(descriptor, 4096).decode().strip())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def test_it_is_spoken_to_over_its_streams(tmp_path: Path) -> None:
    program = await start('read line; echo "$line in $(pwd)"; echo trouble >&2; exit 3', tmp_path)
    os.write(program.stdin, b"hello\n")
    assert await read_line(program.stdout) == f"hello in {tmp_path.resolve()}"
    assert await read_line(program.stderr) == "trouble"
    assert await program.box.ended == 3
    await program.end()


async def test_it_gets_the_given_environment_and_nothing_else(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    program = Program(*await start_program(arguments, folder=tmp_path, environment={"ONE": "1"}))
    names = await read_line(program.stdout)
    assert "ONE" in names
    assert "HOME" not in names
    await program.end()


async def test_what_it_started_ends_with_it_also_in_a_session_of_its_own(tmp_path: Path) -> None:
    program = await start("setsid sleep 1000 & echo $!; cat", tmp_path)
    child = int(await read_line(program.stdout))
    assert alive(child)
    await program.end()
    assert not alive(child)
    assert not alive(program.box.pid)


async def test_one_that_ignores_being_asked_is_killed(tmp_path: Path) -> None:
    program = await start("trap '' TERM; exec <&-; echo on; while :; do sleep 0.05; done", tmp_path)
    assert await read_line(program.stdout) == "on"
    await program.end(patience=0.05)
    assert not alive(program.box.pid)


async def test_one_that_heeds_the_end_of_its_input_ends_by_itself(tmp_path: Path) -> None:
    program = await start("cat; exit 7", tmp_path)
    await program.end(patience=30)
    assert program.box.ended.result() == 7


async def test_one_that_does_not_notice_the_end_of_its_input_is_asked_soon(tmp_path: Path) -> None:
    program = await start("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done", tmp_path)
    assert await read_line(program.stdout) == "ready"
    await program.end(patience=600, to_notice=0.01)
    assert await program.box.ended == 5


async def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="there is no program `no-such-program`"):
        await start_program(["no-such-program"], folder=tmp_path, environment=PLAIN)
    with pytest.raises(CannotStart, match="there is no folder"):
        await start_program(["sh"], folder=tmp_path / "gone", environment=PLAIN)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("./folder", "`./folder` is a folder, not a program"),
        ("./notes.txt", "`./notes.txt` is not executable; if it is a program: chmod +x"),
        ("py -m x", "there is no program `py -m x`; give its arguments separately, not as part of its name"),
        ("./none", "there is no program `./none`"),
    ],
)  # fmt: skip
async def test_what_is_the_matter_with_a_command_is_said(tmp_path: Path, command: str, said: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(CannotStart) as raised:
        await start_program([command], folder=tmp_path, environment={"PATH": "/usr/bin"})
    assert str(raised.value) == said


async def test_a_file_that_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "broken"
    file.write_bytes(b"\x00\x01")
    file.chmod(0o755)
    with pytest.raises(CannotStart, match="Exec format error"):
        await start_program([str(file)], folder=tmp_path, environment=PLAIN)


async def test_all_of_it_ends_when_ferrule_is_killed(tmp_path: Path) -> None:
    script = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from ferrule.mcp_client.stdio_transport import start_program\n"
        "async def main():\n"
        "    box, streams = await start_program(['sh', '-c', 'trap \"\" TERM HUP; exec sleep 1000'],"
        " folder=Path('.'), environment=dict(os.environ))\n"
        "    print(box.pid, flush=True)\n"
        "    await asyncio.sleep(1000)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as ferrule:
        assert ferrule.stdout is not None
        pid = int(ferrule.stdout.readline())
        assert alive(pid)
        ferrule.send_signal(signal.SIGKILL)
    for _ in range(1000):
        if not alive(pid):
            break
        await asyncio.sleep(0.02)
    assert not alive(pid)


def test_a_path_starts_at_the_folder_and_a_name_is_looked_up(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    assert find_executable("./tool", tmp_path, PLAIN) is None
    tool.chmod(0o755)
    assert find_executable("./tool", tmp_path, PLAIN) == str(tool)
    assert find_executable("tool", tmp_path, {"PATH": str(tmp_path)}) == str(tool)
    assert find_executable("tool", tmp_path, PLAIN) is None
