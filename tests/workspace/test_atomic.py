"""A write is whole or not at all, and changes nothing of a file but its content."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.workspace.desk import Desk

from ferrule import ErrorKind
from ferrule.workspace import atomic
from ferrule.workspace.atomic import remove_file, write_whole
from ferrule.workspace.paths import Paths
from ferrule.workspace.problems import PathError

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths([tmp_path])


@pytest.fixture
def umask() -> Generator[None]:
    was = os.umask(0o027)
    yield
    os.umask(was)


def write(paths: Paths, name: str, data: bytes) -> bool:
    return write_whole(paths, paths.locate(name), data)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# What stays


@pytest.mark.usefixtures("umask")
def test_a_new_file_gets_its_mode_from_the_umask(paths: Paths, tmp_path: Path) -> None:
    assert write(paths, "new/folder/f", b"new") is True
    assert mode(tmp_path / "new/folder/f") == 0o640
    assert mode(tmp_path / "new/folder") == 0o750


@pytest.mark.parametrize("bits", [0o755, 0o600, 0o444, 0o4755, 0o2750])
def test_the_mode_of_a_file_stays(paths: Paths, tmp_path: Path, bits: int) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(bits)
    assert write(paths, "f", b"new") is False
    assert (path.read_bytes(), mode(path)) == (b"new", bits)


def test_a_mode_that_is_asked_for_is_given_whatever_the_umask(paths: Paths, tmp_path: Path) -> None:
    for _ in range(2):  # made, then changed
        write_whole(paths, paths.locate("f"), b"new", mode=0o777)
        assert mode(tmp_path / "f") == 0o777


@as_root
def test_the_owner_and_the_group_stay(paths: Paths, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    os.chown(path, 12345, 54321)
    path.chmod(0o4750)
    write(paths, "f", b"new")
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (12345, 54321, 0o4750)


@as_root
def test_the_group_stays_in_a_folder_that_hands_down_its_own(paths: Paths, tmp_path: Path) -> None:
    path = tmp_path / "shared/f"
    path.parent.mkdir()
    path.write_bytes(b"old")
    os.chown(path.parent, -1, 54321)
    path.parent.chmod(0o2775)
    write(paths, "shared/f", b"new")
    assert path.stat().st_gid == os.getegid()


def test_extended_attributes_stay(paths: Paths, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    try:
        os.setxattr(path, "user.origin", b"\0any bytes")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    write(paths, "f", b"new")
    assert os.getxattr(path, "user.origin") == b"\0any bytes"


# Whole or not at all


def test_no_temporary_file_is_left(paths: Paths, tmp_path: Path) -> None:
    for data in (b"", b"x" * 3_000_000, b"small"):
        write(paths, "d/f", data)
        assert (tmp_path / "d/f").read_bytes() == data
        assert [path.name for path in (tmp_path / "d").iterdir()] == ["f"]


@pytest.mark.parametrize("step", ["os.write", "os.fchmod", "os.fsync", "os.replace"])
def test_a_failure_at_any_step_leaves_the_old_file_alone(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    (tmp_path / "f").write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step.removeprefix("os."), fail)
    with pytest.raises(PathError) as problem:
        write(paths, "f", b"new")
    assert problem.value.message == snapshot(
        "`f` could not be written: no space left on device. It is as it was before."
    )
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"old"}


def test_a_reader_with_the_old_file_open_keeps_the_old_content(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with (tmp_path / "f").open("rb") as reader:
        write(paths, "f", b"new")
        assert reader.read() == b"old"


WRITER = """
import sys
from pathlib import Path
from ferrule.workspace.atomic import write_whole
from ferrule.workspace.paths import Paths
paths = Paths([Path(sys.argv[1])])
place = paths.locate("f")
print("go", flush=True)
for number in range(10**9):
    write_whole(paths, place, bytes([65 + number % 26]) * 400_000)
"""


def kill(script: str, *arguments: str, after: float) -> None:
    """Run a writer and kill it in the middle of its work."""
    process = subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"go\n"
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()


def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"A" * 400_000)
    seen: set[bytes] = set()
    for attempt in range(5):
        kill(WRITER, str(tmp_path), after=0.02 + 0.0137 * attempt)
        data = (tmp_path / "f").read_bytes()
        assert len(data) == 400_000
        assert len(set(data)) == 1
        seen.add(data)
    assert len(seen) > 1  # it did write


EDITOR = """
import asyncio, sys
from pathlib import Path
from ferrule import RulePolicy, Runtime, Session
from ferrule.builtin.all_tools import builtin_tools
async def main():
    session = Session(workspace=Path(sys.argv[1]))
    runtime = Runtime(builtin_tools(), policy=RulePolicy(mode="accept-edits"), session=session)
    await runtime.run("Read", {"file_path": "f"})
    print("go", flush=True)
    for number in range(10**9):
        result = await runtime.run("Write", {"file_path": "f", "content": chr(65 + number % 26) * 100_000})
        assert result.success, result.llm_content
asyncio.run(main())
"""


def test_after_a_kill_the_next_change_clears_what_was_left_and_undo_still_works(desk: Desk) -> None:
    """P11."""
    path = desk.put("f", "first")
    for attempt in range(3):
        kill(EDITOR, str(desk.workspace), after=0.05 + 0.0317 * attempt)
        data = path.read_bytes()
        assert data == b"first" or (len(data) == 100_000 and len(set(data)) == 1)
    assert desk.read("f").success
    assert desk.write("f", "last").success
    assert desk.names() == ["f"]
    while desk.files.history.undo().groups:
        pass
    assert path.read_bytes() == b"first"


# Refusals


def test_a_file_with_other_names_is_not_written_unless_that_is_allowed(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    os.link(tmp_path / "f", tmp_path / "g")
    with pytest.raises(PathError) as problem:
        write(paths, "f", b"new")
    assert (problem.value.code, problem.value.kind) == ("hard_link", ErrorKind.PERMISSION)
    write_whole(paths, paths.locate("f"), b"new", through_hard_links=True)
    assert ((tmp_path / "f").read_bytes(), (tmp_path / "g").read_bytes()) == (b"new", b"old")


def test_what_became_a_link_or_a_folder_meanwhile_is_not_written(paths: Paths, tmp_path: Path) -> None:
    link, folder = paths.locate("link"), paths.locate("folder")
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "folder").mkdir()
    for place, code in ((link, "changed"), (folder, "special")):
        with pytest.raises(PathError) as problem:
            write_whole(paths, place, b"new")
        assert problem.value.code == code
    assert (tmp_path / "target").read_bytes() == b"old"


def test_a_file_where_a_folder_is_needed_is_said_so(paths: Paths, tmp_path: Path) -> None:
    place = paths.locate("a/b/c")
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(PathError) as problem:
        write_whole(paths, place, b"new")
    assert problem.value.message == snapshot("`a/b/c` cannot be written: a file is where a folder is needed.")


def test_a_folder_that_became_a_link_out_is_not_written_or_deleted_through(tmp_path: Path) -> None:
    (tmp_path / "ws/d").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/f").write_bytes(b"theirs")
    (tmp_path / "ws/d/f").write_bytes(b"mine")
    paths = Paths([tmp_path / "ws"])
    place = paths.locate("d/f")
    (tmp_path / "ws/d").rename(tmp_path / "ws/e")
    (tmp_path / "ws/d").symlink_to("../out")
    with pytest.raises(PathError, match="outside"):
        write_whole(paths, place, b"new")
    with pytest.raises(PathError, match="outside"):
        remove_file(paths, place)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["f"]
    assert (tmp_path / "out/f").read_bytes() == b"theirs"


def test_removing_takes_the_file_and_nothing_else(paths: Paths, tmp_path: Path) -> None:
    write(paths, "d/f", b"x")
    write(paths, "d/g", b"x")
    remove_file(paths, paths.locate("d/f"))
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["g"]
    with pytest.raises(PathError, match="no such file"):
        remove_file(paths, paths.locate("d/f"))


def test_many_files_wait_for_the_disk_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda opened: waits.append("one"))  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(os, "sync", lambda: waits.append("all"))
    paths = Paths([tmp_path])
    with atomic.synced_together():
        for name in "abc":
            atomic.write_whole(paths, paths.locate(name), b"x")
    assert waits == ["all", "all"]
    atomic.write_whole(paths, paths.locate("d"), b"x")
    assert waits[2:] == ["one", "one"]
