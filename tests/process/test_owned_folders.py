"""What a killed process left is removed at the next start, and nothing of one that lives."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from ferrule.process import owned_folders
from ferrule.process.owned_folders import OwnedFolder

HOLDS = """
import sys, time
from pathlib import Path
from ferrule.process.owned_folders import OwnedFolder
folder = OwnedFolder(Path(sys.argv[1]))
(folder.path / "closed" / "deep").mkdir(parents=True)
(folder.path / "closed" / "deep" / "file").touch()
(folder.path / "closed").chmod(0)
print(folder.path, flush=True)
time.sleep(600)
"""


def held_by_another(above: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", HOLDS, str(above)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_only_what_nobody_holds_any_more_is_removed(tmp_path: Path) -> None:
    alive, first = held_by_another(tmp_path)
    killed, second = held_by_another(tmp_path)
    killed.kill()
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # a zombie from here on, and nobody has asked for it yet
    try:
        with OwnedFolder(tmp_path) as own:
            assert sorted(tmp_path.iterdir()) == sorted([first, own.path])
            with OwnedFolder(tmp_path) as another:
                assert own.is_there()
                assert own.path != another.path
        assert not second.exists()
        assert list(tmp_path.iterdir()) == [first]
    finally:
        for process in (alive, killed):
            process.kill()
            process.communicate()


def test_one_that_another_program_locked_at_once_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1: whoever sees the folder can lock it, and must not keep us waiting for ever."""
    taken: list[int] = []
    make = tempfile.mkdtemp

    def made(**given: Any) -> str:
        path = make(**given)
        if not taken:
            taken.append(os.open(path, os.O_RDONLY))
            fcntl.flock(taken[0], fcntl.LOCK_EX)
        return path

    monkeypatch.setattr(tempfile, "mkdtemp", made)
    monkeypatch.setattr(owned_folders, "_PATIENCE", 0.01)
    try:
        with OwnedFolder(tmp_path) as folder:
            assert folder.is_there()
            assert len(list(tmp_path.iterdir())) == 2
    finally:
        os.close(taken[0])


def test_files_that_are_to_be_kept_stay_for_a_week(tmp_path: Path) -> None:
    empty, full = OwnedFolder(tmp_path), OwnedFolder(tmp_path)
    (full.path / "output.txt").write_text("long")
    for folder in (empty, full):
        folder.close(keep_files=True)
        folder.close()
    assert list(tmp_path.iterdir()) == [full.path]
    OwnedFolder(tmp_path).close()
    assert (full.path / "output.txt").read_text() == "long"
    old = time.time() - 8 * 24 * 3600
    os.utime(full.path, (old, old))
    OwnedFolder(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


DEEP = """
import os, sys
from pathlib import Path
from ferrule.process.owned_folders import OwnedFolder
folder = OwnedFolder(Path(sys.argv[1]))
os.chdir(folder.path)
for _ in range(200):
    os.mkdir("deep" * 10)
    os.chdir("deep" * 10)
os.chdir("/")
sys.setrecursionlimit(150)
folder.close()
"""


def test_what_lies_deeper_than_calls_and_paths_go_is_removed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", DEEP, str(tmp_path)], check=True)
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_removed_under_its_owner_is_seen(tmp_path: Path) -> None:
    folder = OwnedFolder(tmp_path / "above", mode=0o1777)
    assert folder.path.stat().st_mode & 0o7777 == 0o1777
    folder.path.rmdir()
    assert not folder.is_there()
    folder.path.mkdir()
    assert not folder.is_there(), "another of the same name is not ours"
    folder.close()
    assert folder.path.exists()
