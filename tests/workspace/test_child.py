"""Programs that tools run: their output as it comes, and nothing of them left."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ferrule.process.arguments import CommandLine
from ferrule.process.sandbox.places import find_program
from ferrule.workspace.child import Child

ENVIRONMENT = {"PATH": os.defpath}


def python(code: str, folder: Path) -> Child:
    return Child(CommandLine([sys.executable, "-c", code]), folder=folder, environment=ENVIRONMENT)


async def all_of(child: Child) -> bytes:
    return b"".join([piece async for piece in child.output()])


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z"


def test_output_complaints_and_code(tmp_path: Path) -> None:
    async def main() -> None:
        code = "import sys, os; print(os.getcwd()); print('x' * 300000, file=sys.stderr); sys.exit(3)"
        async with python(code, tmp_path) as child:
            assert await all_of(child) == f"{tmp_path}\n".encode()
            assert await child.ended() == 3
        assert child.complaints.startswith("xxx")
        assert len(child.complaints) == 1 << 16

    asyncio.run(main())


def test_the_first_piece_comes_before_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with python("import time; print('first', flush=True); time.sleep(60)", tmp_path) as child:
            async for piece in child.output():
                assert piece == b"first\n"
                break

    asyncio.run(asyncio.wait_for(main(), 20))


def test_leaving_ends_the_program_and_what_it_started(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, os, time;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print(os.getpid(), p.pid, flush=True); time.sleep(60)"
    )

    async def main() -> list[int]:
        async with python(code, tmp_path) as child:
            async for piece in child.output():
                return [int(word) for word in piece.split()]
        raise AssertionError

    leader, other = asyncio.run(main())
    assert gone(leader)
    for _ in range(100):
        if gone(other):
            break
        asyncio.run(asyncio.sleep(0.02))
    assert gone(other)


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    async def main() -> None:
        async with Child(CommandLine([str(tmp_path / "none")]), folder=tmp_path, environment={}):
            pass

    with pytest.raises(FileNotFoundError):
        asyncio.run(main())


def test_a_program_of_the_workspace_is_never_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, outside = tmp_path / "ws", tmp_path / "outside"
    for folder in (workspace, outside):
        folder.mkdir()
        (folder / "tool").write_text("#!/bin/sh\n")
        (folder / "tool").chmod(0o755)
    monkeypatch.setenv("PATH", f".:{workspace}::{outside}")
    monkeypatch.chdir(workspace)
    assert find_program("tool", [workspace]) == str(outside / "tool")
    (outside / "tool").unlink()
    assert find_program("tool", [workspace]) is None
    (outside / "tool").symlink_to(workspace / "tool")
    assert find_program("tool", [workspace]) is None


def test_a_program_reads_what_it_is_given_and_else_nothing(tmp_path: Path) -> None:
    code = "import sys; print(len(sys.stdin.read()))"

    async def read(given: bytes) -> bytes:
        child = Child(CommandLine([sys.executable, "-c", code]), folder=tmp_path, environment=ENVIRONMENT, given=given)
        async with child:
            return await all_of(child)

    assert asyncio.run(read(b"")) == b"0\n"
    assert asyncio.run(read(b"x" * 4096)) == b"4096\n"
    with pytest.raises(ValueError, match="4,097 bytes"):
        asyncio.run(read(b"x" * 4097))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux says which cores a program may use")
def test_a_program_leaves_a_core_to_whoever_reads_it_with_all_its_threads(tmp_path: Path) -> None:
    code = (
        "import os, threading, sys;"
        "print(threading.get_native_id(), flush=True);"
        "seen = lambda: print(threading.get_native_id(), flush=True) or threading.Event().wait();"
        "threading.Thread(target=seen).start()"
    )

    async def main() -> None:
        async with python(code, tmp_path) as child:
            written = b""
            async for piece in child.output():
                written += piece
                if written.count(b"\n") == 2:
                    break
            threads = [int(line) for line in written.split()]
            mine = os.sched_getaffinity(0)
            child.leave_a_core()
            child.leave_a_core()  # only the first time counts
            left = {thread: os.sched_getaffinity(thread) for thread in threads}
            assert len(threads) == 2
            assert all(len(mine - cores) == (len(mine) > 1) for cores in left.values())
            assert os.sched_getaffinity(0) == mine

    asyncio.run(asyncio.wait_for(main(), 20))
