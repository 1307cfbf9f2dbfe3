"""Caches and build output stay with the session, above the workspace and never in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.workspace.layers.overlay import Tree, put, python, run_above, told, tree

from ferrule.process.owned_folders import remove_tree
from ferrule.workspace.layers.reading import LayerChanges
from ferrule.workspace.layers.session_layer import SessionLayer, layers_folder
from ferrule.workspace.paths import Paths

MEMORY = Path("/dev/shm")


class Session:
    """Commands of one session in look boxes, each of which sees what the earlier ones left."""

    def __init__(self, root: Path, **more: object) -> None:
        self.root = root
        self.folder = root.parent / "layers"
        self.layer = SessionLayer(Paths([root]), self.folder, **more)  # pyright: ignore[reportArgumentType]
        self.note = ""

    def run(self, command: str) -> LayerChanges:
        layers = self.layer.begin()
        run_above(layers[0], command)
        found = self.layer.read(layers)
        self.note = self.layer.end(layers, None if found.changes else found)
        return found

    def sees(self, command: str) -> str:
        """What a command in the next box prints; its output is left where nobody looks."""
        layers = self.layer.begin()
        output = self.root.parent / "output"
        run_above(layers[0], f"exec > {output} 2>&1; {command}")
        self.layer.end(layers)
        return output.read_text()


@pytest.fixture
def session(root: Path) -> Session:
    put(root, {".gitignore": "out/\n*.o\n", "src/a.c": "1"})
    return Session(root)


def test_a_later_command_finds_what_an_earlier_one_left_and_the_workspace_has_nothing_of_it(session: Session) -> None:
    before = tree(session.root)
    assert not session.run(
        "mkdir -p out/deep; echo 1 > out/deep/x; echo 2 > src/a.o; mkdir src/__pycache__; touch src/__pycache__/m"
    )
    assert session.sees("cat out/deep/x src/a.o; ls src") == "1\n2\n__pycache__\na.c\na.o\n"
    session.run("echo 3 >> out/deep/x; rm src/a.o; mkdir out/more; touch out/more/y")
    assert session.sees("cat out/deep/x; find out src | sort") == (
        "1\n3\nout\nout/deep\nout/deep/x\nout/more\nout/more/y\nsrc\nsrc/__pycache__\nsrc/__pycache__/m\nsrc/a.c\n"
    )
    session.run("rm -r out; mkdir out; touch out/only")
    assert session.sees("find out") == "out\nout/only\n"
    session.run("rm -r out")
    assert session.sees("ls; ls src/__pycache__") == "src\nm\n"
    assert tree(session.root) == before


def test_what_the_workspace_has_itself_can_be_replaced_and_removed_above_it(session: Session) -> None:
    put(session.root, {"out/a": "1", "out/b": "2", "out/sub/c": "3"})
    before = tree(session.root)
    session.run("echo 2 > out/a; rm out/b")
    assert session.sees("cat out/*a; ls out") == "2\na\nsub\n"
    session.run("rm -r out/sub; mkdir out/sub; touch out/sub/new")
    assert session.sees("ls out/sub") == "new\n"
    session.run("rm -r out")
    assert session.sees("ls") == "src\n"
    session.run("mkdir out; touch out/fresh")
    assert session.sees("ls out") == "fresh\n"
    assert tree(session.root) == before


def test_where_the_workspace_changed_since_it_counts(session: Session) -> None:
    put(session.root, {"out/a": "1", "out/b": "2"})
    session.run("echo theirs > out/a; rm out/b; mkdir out/new; echo theirs > out/new/f; touch src/a.o")
    put(session.root, {"out/a": "mine", "out/new/g": "mine", "out/b": "mine"})
    assert session.sees("cat out/a out/b; ls out/new src") == "mineminenout/new:\ng\n\nsrc:\na.c\na.o\n".replace(
        "nout", "out"
    )


def test_a_folder_looks_as_it_does_in_the_workspace_and_goes_with_it(session: Session) -> None:
    session.run("touch src/a.o")
    (session.root / "src").chmod(0o711)
    assert session.sees("stat -c %a src") == "711\n"
    assert session.run("touch src/b.o").changes == []
    shutil.rmtree(session.root / "src")
    assert session.sees("ls") == ""


def test_a_command_with_other_changes_leaves_nothing(session: Session) -> None:
    assert session.run("mkdir out; touch out/x; touch kept.c").changes
    assert session.sees("ls") == "src\n"


def test_what_is_ignored_below_a_folder_with_changes_is_kept_apart(session: Session) -> None:
    put(session.root, {"lib/a.c": "1", "lib/a.o": "2"})
    layers = session.layer.begin()
    run_above(layers[0], "rm -r lib; mkdir -p lib/new; touch lib/a.c lib/b.o lib/new/c.o lib/new/c.c; mkfifo lib/p.o")
    found = session.layer.read(layers)
    assert told(found.changes) == ["~lib/a.c", "+lib/new", "+lib/new/c.c"]
    session.layer.end(layers, found)
    assert session.sees("cat lib/a.c; find lib | sort") == "1lib\nlib/a.c\nlib/b.o\nlib/new\nlib/new/c.o\n"


@pytest.mark.parametrize("choice", ["drop", "keep"])
def test_nothing_stays_where_that_is_not_wanted(session: Session, choice: str) -> None:
    other = Session(session.root, ignored=choice)
    other.run("mkdir out; touch out/x")
    assert other.sees("ls") == "src\n"


def test_ignored_files_can_be_asked_about_like_others(session: Session) -> None:
    other = Session(session.root, ignored="ask")
    assert told(other.run("mkdir out; touch out/x").changes) == ["+out", "+out/x"]


def test_what_takes_too_much_room_is_dropped_and_said(session: Session) -> None:
    other = Session(session.root, most=10_000)
    for _ in range(5):
        other.run("mkdir -p out; head -c 4000 /dev/zero > out/x")  # the same place again takes no more room
        assert other.note == ""
    other.run("head -c 9000 /dev/zero > out/y")
    assert other.note == "Files that git ignores took more than 10,000 bytes, and were dropped."
    assert other.sees("ls") == "src\n"


def test_nothing_changes_below_a_command_that_still_runs(session: Session) -> None:
    running = session.layer.begin()
    session.run("mkdir out; touch out/x")
    later = session.layer.begin()
    assert later[0].below == ()
    session.layer.end(running)
    session.layer.end(later)
    assert session.sees("ls out") == "x\n"


def test_a_session_that_is_over_leaves_no_folder(session: Session) -> None:
    session.run("mkdir -p out/shut/in; touch out/shut/in/x; chmod 0 out/shut")
    session.layer.close()
    session.layer.close()
    assert os.listdir(session.folder) == []  # noqa: PTH208


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(root: Path, tmp_path: Path) -> None:
    code = """
import sys, time
from pathlib import Path
from ferrule.workspace.paths import Paths
from ferrule.workspace.layers.session_layer import SessionLayer
layer = SessionLayer(Paths([Path(sys.argv[1])]), Path(sys.argv[2]))
layer.begin()
print("ready", flush=True)
time.sleep(600)
"""
    with python(code, root, tmp_path / "layers") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        mine = Session(root)
        assert len(os.listdir(mine.folder)) == 2  # noqa: PTH208
        other.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while len(os.listdir(mine.folder)) != 1:  # noqa: PTH208
        assert time.monotonic() < deadline
        Session(root).layer.close()
    mine.layer.close()


def test_layers_never_lie_in_the_workspace_they_are_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "home" / "data"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "home").mkdir()
    (tmp_path / "temp").mkdir()
    assert layers_folder(Paths([tmp_path / "temp"])) == tmp_path / "home" / "data" / "layers"
    elsewhere = layers_folder(Paths([tmp_path / "home"]))
    assert elsewhere == tmp_path / "temp" / f"ferrule-layers-{os.geteuid()}"
    assert elsewhere is not None
    elsewhere.chmod(0o777)
    assert layers_folder(Paths([tmp_path / "home"])) is None
    assert layers_folder(Paths([tmp_path])) is None


def test_a_tree_deeper_than_any_path_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    script = "n=$(printf 'x%.0s' {1..200}); for i in {1..60}; do mkdir $n; cd $n || exit; done; touch f; chmod 0 ."
    subprocess.run(["bash", "-c", script], cwd=top, check=True)
    remove_tree(top)
    assert list(tmp_path.iterdir()) == []


# The law

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
OPERATIONS = st.one_of(
    st.builds("echo {1} > {0}".format, PATHS, NAMES),
    st.builds("rm -rf {0}".format, PATHS),
    st.builds("mkdir -p {0}".format, PATHS),
    st.builds("mv -T {0} {1}".format, PATHS, PATHS),
    st.builds("ln -sfnT {0} {1}".format, PATHS, PATHS),
    st.builds("chmod {1} {0}".format, PATHS, st.sampled_from(["700", "755", "555"])),
)
SCRIPTS = st.lists(st.lists(OPERATIONS, min_size=1, max_size=4).map("; ".join), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=st.lists(OPERATIONS, min_size=1, max_size=5).map("; ".join), scripts=SCRIPTS)
@example("mkdir -p c/b", ["echo a > a; rm -rf c; mkdir -p c", "echo a > a; mkdir -p c/b"])
def test_commands_one_after_the_other_see_what_they_would_see_for_real(before: str, scripts: list[str]) -> None:
    folder = Path(tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    try:
        trees: list[Tree] = []
        (folder / "ws").mkdir()
        (folder / "real").mkdir()
        for root in (folder / "ws", folder / "real"):
            put(root, {".gitignore": "/out/\n", "out/first": "1"})
            subprocess.run(["bash", "-c", f"cd out; {before}; true"], cwd=root, check=True, capture_output=True)
            trees.append(tree(root))
        session = Session(folder / "ws")
        for script in scripts:
            subprocess.run(
                ["bash", "-c", f"cd out; {script}; true"], cwd=folder / "real", check=True, capture_output=True
            )
            assert told(session.run(f"cd out; {script}; true").changes) == []
        copied = session.sees(f"cp -a . {folder}/copy; echo done")
        assert copied == "done\n"
        assert tree(folder / "copy") == tree(folder / "real")
        assert tree(folder / "ws") == trees[0]
        session.layer.close()
    finally:
        remove_tree(folder)
