"""Git's settings are replaced as git itself does it: under its lock, in one step (S2, X2)."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.workspace.layers.test_applying import Room

from ferrule.core import files
from ferrule.workspace import atomic
from ferrule.workspace.layers.effects import apply_layer
from ferrule.workspace.problems import PathError

ADD = "git remote add origin https://example.org/x.git"


@pytest.fixture
def room(root: Path) -> Room:
    git(root, "init", "-q")
    return Room(root)


def git(root: Path, *words: str) -> str:
    return subprocess.run(("git", *words), cwd=root, check=True, capture_output=True, text=True).stdout


def left(root: Path) -> list[str]:
    return [path.name for path in (root / ".git").iterdir() if "lock" in path.name or "ferrule" in path.name]


def test_new_settings_are_put_in_place_and_no_lock_is_left(room: Room) -> None:
    room.run(ADD)
    assert git(room.root, "remote") == "origin\n"
    assert left(room.root) == []


def test_while_git_writes_them_they_are_left_alone(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "_SECONDS_FOR_LOCK", 0.0)
    changes = room.tried(ADD)
    before = (room.root / ".git/config").read_bytes()
    lock = room.root / ".git/config.lock"
    lock.write_text("half")
    with pytest.raises(PathError, match=r"config\.lock"):
        apply_layer(room.files, changes)
    assert (room.root / ".git/config").read_bytes() == before
    assert lock.read_text() == "half"
    lock.unlink()
    apply_layer(room.files, changes)
    assert git(room.root, "remote") == "origin\n"


def test_what_git_wrote_at_the_last_moment_is_not_overwritten(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = room.tried(ADD)
    linked = atomic._linked

    def late(*words: object) -> bool:
        git(room.root, "config", "user.name", "Ada")
        return linked(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(atomic, "_linked", late)
    with pytest.raises(PathError):
        apply_layer(room.files, changes)
    assert git(room.root, "config", "user.name") == "Ada\n"
    assert git(room.root, "remote") == ""
    assert left(room.root) == []


@pytest.mark.parametrize("moment", ["before the lock", "with the lock", "once replaced"])
def test_a_kill_leaves_the_old_settings_or_the_new_and_hinders_nobody(room: Room, moment: str) -> None:
    changes = room.tried(ADD)
    child = os.fork()
    if child == 0:
        place = "_linked" if moment == "before the lock" else "take_place"
        original = files.take_place

        def killed(*words: object, **more: object) -> None:
            if moment == "once replaced":
                original(*words, **more)  # type: ignore[arg-type]
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(atomic, place, killed)
        apply_layer(room.files, changes)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert git(room.root, "remote") == ("origin\n" if moment == "once replaced" else "")
    again = Room(room.root)
    again.history.settle()
    assert left(room.root) == []
    assert (room.root / ".git/config").stat().st_nlink == 1
    git(room.root, "config", "user.name", "Ada")
    again.run("git remote add second https://example.org/y.git")
    assert "second\n" in git(room.root, "remote")


def test_without_hard_links_the_lock_is_held_too(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(atomic.os, "link", cannot)
    monkeypatch.setattr(atomic, "_SECONDS_FOR_LOCK", 0.0)
    changes = room.tried(ADD)
    lock = room.root / ".git/config.lock"
    lock.touch()
    with pytest.raises(PathError):
        apply_layer(room.files, changes)
    lock.unlink()
    apply_layer(room.files, changes)
    assert git(room.root, "remote") == "origin\n"
    assert left(room.root) == []
