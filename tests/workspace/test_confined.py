"""Opening below a folder, by the kernel and by the walk: both answer alike (S1)."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.workspace import confined
from ferrule.workspace.confined import LeadsOut, kernel_confines, open_beneath


@pytest.fixture(params=["kernel", "walk"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "walk":
        monkeypatch.setattr(confined, "_confines", False)
    elif not kernel_confines():
        pytest.skip("this kernel has no openat2")
    return request.param


@pytest.fixture
def folder(tmp_path: Path) -> Generator[int]:
    """A folder with a file, an inner folder and all sorts of links; beside it, what is not to be reached."""
    make_tree(tmp_path)
    opened = os.open(tmp_path / "in", os.O_RDONLY | os.O_DIRECTORY)
    yield opened
    os.close(opened)


def make_tree(top: Path) -> None:
    (top / "in/d/e").mkdir(parents=True)
    (top / "out").mkdir()
    (top / "out/f").write_text("outside")
    for inner in ("in/f", "in/d/f", "in/d/e/f"):
        (top / inner).write_text("inside")
    for link, target in {
        "in/up": "..",
        "in/here": ".",
        "in/d/top": "..",
        "in/out": "../out",
        "in/abs": str(top / "out"),
        "in/d/file": "../f",
        "in/deep": "d/e",
        "in/ring": "ring",
        "in/none": "nothing",
    }.items():
        (top / link).symlink_to(target)


def text(folder: int, path: str) -> str:
    with os.fdopen(open_beneath(folder, path, os.O_RDONLY)) as file:
        return file.read()


@pytest.mark.parametrize(
    "path", ["f", "./f", "d/f", "d//e/./f", "d/../f", "d/file", "d/top/f", "deep/f", "deep/../f", "here/here/d/f"]
)
def test_what_lies_inside_is_opened_through_links_and_dots(folder: int, path: str) -> None:
    assert text(folder, path) == "inside"


@pytest.mark.parametrize(
    "path",
    ["..", "../in/f", "../out/f", "d/../../out/f", "up/out/f", "out/f", "abs/f", "/etc/passwd", "deep/../../../out/f",
     "ring", "ring/f", "d/top/../out/f"],
)  # fmt: skip
def test_what_leads_out_is_refused_even_if_it_comes_back(folder: int, path: str) -> None:
    with pytest.raises(LeadsOut):
        open_beneath(folder, path, os.O_RDONLY)


@pytest.mark.parametrize("path", ["x", "d/x", "x/f", "none", "none/f"])
def test_what_is_missing_is_missing(folder: int, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        open_beneath(folder, path, os.O_RDONLY)


@pytest.mark.parametrize("path", ["f/x", "f/..", "d/file/x"])
def test_a_file_is_no_folder(folder: int, path: str) -> None:
    with pytest.raises(NotADirectoryError):
        open_beneath(folder, path, os.O_RDONLY)


def test_an_empty_path_is_the_folder_itself(folder: int) -> None:
    opened = open_beneath(folder, "", os.O_RDONLY | os.O_DIRECTORY)
    assert os.path.samestat(os.fstat(opened), os.fstat(folder))
    os.close(opened)


def test_a_file_is_made_inside_with_its_mode(folder: int, tmp_path: Path) -> None:
    os.close(open_beneath(folder, "d/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640))
    assert stat.S_IMODE((tmp_path / "in/d/new").stat().st_mode) == 0o640
    with pytest.raises(LeadsOut):
        open_beneath(folder, "out/new", os.O_WRONLY | os.O_CREAT, 0o640)
    assert sorted(os.listdir(tmp_path / "out")) == ["f"]  # noqa: PTH208


def test_a_mount_is_not_crossed() -> None:
    """`/proc` lies on another device than `/`."""
    top = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with pytest.raises(LeadsOut):
            open_beneath(top, "proc/self/status", os.O_RDONLY)
    finally:
        os.close(top)


def test_descriptors_are_closed_in_children_and_none_is_left_open(folder: int) -> None:
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    opened = open_beneath(folder, "d/e/f", os.O_RDONLY)
    assert not os.get_inheritable(opened)
    os.close(opened)
    for path in ("d/e/x", "out/f", "/f", "f/x", "d/../../x"):
        with pytest.raises((FileNotFoundError, NotADirectoryError, LeadsOut)):
            open_beneath(folder, path, os.O_RDONLY)
    assert set(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


PARTS = st.sampled_from(["f", "d", "e", "x", "..", ".", "", "up", "here", "top", "out", "abs", "file", "deep", "ring"])


@pytest.mark.parametrize("way", ["kernel"], indirect=True)
def test_the_walk_answers_as_the_kernel_does() -> None:
    """Any path at all: the same file, or the same refusal."""
    with tempfile.TemporaryDirectory() as name:
        make_tree(Path(name))
        folder = os.open(f"{name}/in", os.O_RDONLY | os.O_DIRECTORY)

        @given(st.lists(PARTS, max_size=6), st.sampled_from(["f", "d", "..", "out", "file", "ring", "x"]))
        def alike(parts: list[str], last: str) -> None:
            path = "/".join([*parts, last])
            assert answer(folder, path, kernel=True) == answer(folder, path, kernel=False)

        try:
            alike()
        finally:
            os.close(folder)


def answer(folder: int, path: str, *, kernel: bool) -> object:
    was, confined._confines = confined._confines, kernel  # pyright: ignore[reportPrivateUsage]
    try:
        opened = open_beneath(folder, path, os.O_RDONLY)
    except OSError as error:
        return type(error)
    finally:
        confined._confines = was  # pyright: ignore[reportPrivateUsage]
    found = os.fstat(opened)
    os.close(opened)
    return found.st_ino
