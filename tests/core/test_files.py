"""A file is the old one or the new one, and a lock ends with its process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule.core.files import (
    UNFINISHED,
    lock,
    locked,
    take_place,
    unfinished_in,
    unfinished_name,
    write_atomically,
    write_new,
)

if TYPE_CHECKING:
    from pathlib import Path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask() -> int:
    os.umask(now := os.umask(0))
    return now


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(before=st.none() | st.binary(), data=st.binary(), durable=st.booleans())
def test_it_holds_what_was_written_and_nothing_is_left_beside_it(
    tmp_path: Path, before: bytes | None, data: bytes, durable: bool
) -> None:
    path = tmp_path / "f"
    path.unlink(missing_ok=True)
    if before is not None:
        path.write_bytes(before)
    write_atomically(path, data, durable=durable)
    assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["write", "fsync", "replace", "fchmod"])
def test_a_failure_at_any_step_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    (tmp_path / "f").write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(tmp_path / "f", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"old"}


def test_a_file_keeps_its_mode_and_a_new_one_gets_the_users(tmp_path: Path, umask: int) -> None:
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.touch()
    kept.chmod(0o4751)
    for path in (kept, new):
        write_atomically(path, b"x")
    assert (mode_of(kept), mode_of(new)) == (0o4751, 0o666 & ~umask)


def test_a_private_file_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "secret", list[int]()
    path.touch(mode=0o644)
    put = os.replace
    monkeypatch.setattr(os, "replace", lambda *given, **named: (seen.append(mode_of(given[0])), put(*given, **named)))
    write_atomically(path, b"x", mode=0o600)
    assert [*seen, mode_of(path)] == [0o600, 0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_stays_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.touch()
    os.chown(path, 12345, 23456)
    write_atomically(path, b"x")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_an_owner_that_cannot_be_kept_does_not_stop_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.touch(mode=0o640)
    found = path.lstat()
    real = os.fstat

    def others(opened: int) -> os.stat_result:
        return os.stat_result([*real(opened)[:4], found.st_uid + 1, *real(opened)[5:]])

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fstat", others)
    monkeypatch.setattr(os, "fchown", refuse)
    write_atomically(path, b"x")
    assert (path.read_bytes(), mode_of(path)) == (b"x", 0o640)


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes")
def test_extended_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.touch()
    try:
        os.setxattr(path, "user.origin", b"\0any bytes")
    except OSError:
        pytest.skip("not on this disk")
    write_atomically(path, b"x")
    assert os.getxattr(path, "user.origin") == b"\0any bytes"


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to("elsewhere")
    write_atomically(tmp_path / "link", b"ours")
    assert (tmp_path / "elsewhere").read_bytes() == b"theirs"
    assert not (tmp_path / "link").is_symlink()


def test_a_new_file_takes_nobodys_place(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("f", "link"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, b"new", 0o600)
    assert (tmp_path / "f").read_bytes() == b"old"
    assert not (tmp_path / "nowhere").exists()


def test_what_cannot_take_its_place_is_removed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    write_new(tmp_path / "made", b"", 0o600)
    with pytest.raises(IsADirectoryError):
        take_place(tmp_path / "made", tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_unfinished_files_are_known_by_their_names(tmp_path: Path) -> None:
    name = unfinished_name()
    assert UNFINISHED.fullmatch(name)
    for one in (name, ".ferrule-notes", "f.json"):
        (tmp_path / one).touch()
    assert unfinished_in(tmp_path) == [tmp_path / name]


# Locks

HOLDER = """
import sys, time
from pathlib import Path
from ferrule.core.files import locked
with locked(Path(sys.argv[1])) as held:
    print(held, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_lock_keeps_other_processes_out_until_its_own_is_killed(tmp_path: Path, kind: str) -> None:
    path = tmp_path if kind == "folder" else tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"True\n"
        for seconds in (0, 0.05):
            with locked(path, seconds) as held:
                assert not held
        process.kill()
        with locked(path, 60) as held:
            assert held


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    path, order = tmp_path / "lock", list[str]()

    def second() -> None:
        with locked(path):
            order.append("second")

    with ExitStack() as first:
        first.enter_context(locked(path))
        waiting = threading.Thread(target=second)
        waiting.start()
        time.sleep(0.05)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


def test_a_lock_file_is_the_users_own(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"):
        assert mode_of(tmp_path / "lock") == 0o600


def test_a_lock_can_be_taken_twice_by_one_descriptor(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("ab") as opened:
        assert lock(opened.fileno(), 0)
        assert lock(opened.fileno())
