"""A layer made real: exactly what the command would have done, as one change that undo takes back."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.workspace.layers.overlay import new_layer, put, python, run_above, tree

from ferrule import Environment, Session
from ferrule.process.owned_folders import remove_tree
from ferrule.workspace.files import Files
from ferrule.workspace.layers.effects import apply_layer, effects_of
from ferrule.workspace.layers.reading import LayerChange, read_layers
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Change, Group, Side

MEMORY = Path("/dev/shm")


class Room:
    """A workspace whose commands run above it, and whose layers are then applied."""

    def __init__(self, root: Path, **environment: Any) -> None:
        self.root = root
        place = Environment(history_folder=root.parent / "history", **environment)
        self.files = Files(Session(workspace=root, environment=place))
        self.history = self.files.history

    def tried(self, command: str) -> list[LayerChange]:
        layer = new_layer(self.root)
        run_above(layer, command)
        return read_layers(self.files.paths, [layer]).changes

    def run(self, command: str) -> Group | None:
        return apply_layer(self.files, self.tried(command))


@pytest.fixture
def room(root: Path) -> Room:
    return Room(root)


@pytest.fixture
def in_memory(root: Path) -> Generator[Path]:
    """A folder in which many files are made quickly."""
    folder = Path(tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else root))
    yield folder
    remove_tree(folder)


def test_all_kinds_of_changes_are_made_undone_and_redone(room: Room) -> None:
    put(room.root, {"a": "1", "gone": "2", "d/x": "3", "d/e/y": "4", "file": "5", "closed/z": "6"})
    (room.root / "link").symlink_to("a")
    (room.root / "closed").chmod(0o555)
    before = tree(room.root)
    group = room.run(
        "echo 2 >> a; rm gone; rm -r d; echo now a file > d; rm file; mkdir -p file/deep; touch file/deep/n; "
        "ln -sfn gone link; ln -s link other; mkdir -p shut/in; echo > shut/in/f; chmod 500 shut; chmod 4755 a; "
        "chmod 755 closed; rm -rf closed; chmod 710 .; mkdir empty"
    )
    after = tree(room.root)
    assert group is not None
    assert after["d"] == (0o644, b"now a file\n")
    assert (after["link"][1], after["other"][1], after["shut"][0]) == ("gone", "link", 0o500)
    assert (after["a"], after["."][0]) == ((0o4755, b"12\n"), 0o710)
    assert "closed" not in after
    assert room.history.undo().refused is None
    assert tree(room.root) == before
    assert room.history.redo().refused is None
    assert tree(room.root) == after


def test_nothing_to_apply_is_no_change(room: Room) -> None:
    assert room.run("ls -la") is None
    assert room.history.recent() == []


def test_files_keep_the_times_that_the_command_gave_them(room: Room) -> None:
    room.run("touch -d @1000000000 old; echo > new")
    assert (room.root / "old").stat().st_mtime == 1_000_000_000


def test_a_file_too_large_for_the_history_is_applied_and_not_covered(room: Room) -> None:
    put(room.root, {"d/small": "1"})
    size = 64 * 1024 * 1024 + 1
    group = room.run(f"head -c {size} /dev/zero > big; echo 2 > d/small")
    assert group is not None
    assert [one.path.name for one in group.uncovered] == ["big"]
    assert (room.root / "big").stat().st_size == size
    gone = room.run("rm big; rm -r d")
    assert gone is not None
    assert list(room.root.iterdir()) == []


# What is refused


def refused(room: Room, changes: list[LayerChange], words: str) -> None:
    before = tree(room.root)
    with pytest.raises(PathError, match=words):
        apply_layer(room.files, changes)
    assert tree(room.root) == before
    assert room.history.recent() == []


@pytest.mark.parametrize(
    ("meanwhile", "named"),
    [
        ("echo mine > a", "a"),
        ("touch a", "a"),
        ("chmod 600 a", "a"),
        ("rm a", "a"),
        ("rm a; ln -s b a", "a"),
        ("echo mine > new", "new"),
        ("mkdir new", "new"),
        ("echo mine > gone/another", "gone(/another)?"),
        ("echo mine > gone/x", "gone/x"),
        ("rm -r kept; mkdir kept; echo mine > kept/f", "kept/f"),
        ("mv kept elsewhere; ln -s elsewhere kept", "kept(/f)?"),
        ("rm link; ln -s b link", "link"),
    ],
)
@pytest.mark.parametrize("when", ["while it ran", "before it was applied"])
def test_a_workspace_that_changed_meanwhile_is_left_alone(room: Room, meanwhile: str, named: str, when: str) -> None:
    put(room.root, {"a": "1", "b": "2", "gone/x": "3", "kept/f": "4"})
    (room.root / "link").symlink_to("a")
    layer = new_layer(room.root)
    run_above(layer, "echo 2 > b; echo 2 > a; echo > new; rm -r gone; echo 5 > kept/f; ln -sfn kept link")
    if when == "while it ran":
        subprocess.run(["bash", "-c", meanwhile], cwd=room.root, check=True)
        changes = read_layers(room.files.paths, [layer]).changes
    else:
        changes = read_layers(room.files.paths, [layer]).changes
        subprocess.run(["bash", "-c", meanwhile], cwd=room.root, check=True)
    refused(room, changes, f"^`{named}`.* ha(s|ve) changed since the command began, so nothing of it was kept")


def test_every_file_that_changed_meanwhile_is_named(room: Room) -> None:
    names = [f"f{number}" for number in range(7)]
    put(room.root, dict.fromkeys(names, "1"))
    changes = room.tried("for f in f*; do echo 2 > $f; done")
    put(room.root, dict.fromkeys(names[:2], "mine"))
    refused(room, changes, "^`f0`, `f1` have changed since the command began, so nothing of it was kept")
    put(room.root, dict.fromkeys(names, "mine"))
    refused(room, changes, "^`f0`, `f1`, `f2`, `f3`, `f4` and 2 more have changed since the command began")


def test_others_may_work_beside_what_is_applied(room: Room) -> None:
    put(room.root, {"d/a": "1", "d/b": "2"})
    changes = room.tried("echo 2 > d/a; echo > d/new; chmod 700 d")
    put(room.root, {"d/b": "mine", "d/mine": "mine"})
    assert apply_layer(room.files, changes) is not None
    assert (room.root / "d" / "mine").read_text() == "mine"


def test_a_pipe_is_refused_and_all_that_came_with_it(room: Room) -> None:
    refused(room, room.tried("mkfifo p; echo > a"), "`p` is a pipe, which cannot be kept, so nothing was changed")


def test_a_file_with_other_names_is_not_changed(room: Room, tmp_path: Path) -> None:
    put(tmp_path, {"outside": "1"})
    os.link(tmp_path / "outside", room.root / "a")
    refused(room, room.tried("echo 2 > a"), "has 2 names")
    assert room.run("chmod 600 a") is not None
    assert room.run("rm a") is not None
    assert (tmp_path / "outside").read_text() == "1"


def test_a_write_that_fails_half_way_leaves_all_as_it_was(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    put(room.root, {"a": "1", "b": "2", "d/c": "3"})
    changes = room.tried("echo > a; rm b; rm -r d; ln -s a l; mkdir m; echo > m/z")
    put_it, left = room.history._files.put, 4

    def fails(*arguments: object, **named: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise PathError("failed", "The disk is full.")
        put_it(*arguments, **named)  # pyright: ignore[reportArgumentType, reportCallIssue]

    monkeypatch.setattr(room.history._files, "put", fails)
    refused(room, changes, "The disk is full")


def test_folders_in_folders_that_were_never_made_leave_nothing_in_the_history(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(room.root, {"a": "1"})
    changes = room.tried("mkdir -p n/e/w; echo 2 >n/e/w/a; echo 2 >a")

    put_it = room.history._files.put

    def fails(change: Change, side: Side, *arguments: Any, **named: Any) -> None:
        if side is Side.AFTER:
            raise PathError("failed", "The disk is full.")
        put_it(change, side, *arguments, **named)

    monkeypatch.setattr(room.history._files, "put", fails)
    refused(room, changes, "The disk is full")


@pytest.mark.parametrize("made", ["git", "cache"])
def test_a_write_that_fails_after_what_stays_says_so(made: str, room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects and refs of git, and caches, are not taken back: a command must not run again as if it had not been."""
    put(room.root, {"a": "1", "c/CACHEDIR.TAG": "x", "c/old": "x"})
    subprocess.run(["git", "init", "-q", room.root], check=True)
    command = "git -c user.name=a -c user.email=b commit -q --allow-empty -m x" if made == "git" else "rm c/old"
    changes = room.tried(f"{command}; echo new >a")
    put_it = room.history._files.put

    def fails(change: Change, *arguments: Any, **named: Any) -> None:
        if change.path.name == "a":
            raise PathError("failed", "The disk is full.")
        put_it(change, *arguments, **named)

    monkeypatch.setattr(room.history._files, "put", fails)
    with pytest.raises(PathError, match=r"disk is full.*has stayed") as raised:
        apply_layer(room.files, changes, like_direct=True)
    assert raised.value.code == "half"
    assert (room.root / "a").read_text() == "1"


# A crash

KILLED = """
import os, signal, sys
from pathlib import Path
from typing import Any
from tests.workspace.layers.test_applying import Room
from ferrule.workspace.layers.reading import Layer, read_layers
from ferrule.workspace.layers.effects import apply_layer
from ferrule.workspace.layers.effects import effects_of

root, upper, step, moment = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
room = Room(root)
changes = read_layers(room.files.paths, [Layer(root, upper)]).changes
put, rename, count = room.history._files.put, os.rename, 0

def dies(*arguments, **named):
    os.kill(os.getpid(), signal.SIGKILL)

def counted(*arguments, **named):
    global count
    count += 1
    if count == step and moment == "before":
        dies()
    if count == step and moment == "within":
        os.rename = dies
    put(*arguments, **named)
    if count == step and moment == "after":
        dies()

room.history._files.put = counted
apply_layer(room.files, changes)
"""
STEPS = 10


@pytest.mark.parametrize("moment", ["before", "within", "after"])
@pytest.mark.parametrize("step", range(1, STEPS + 1, 3))
def test_a_kill_leaves_all_of_it_or_nothing_and_the_history_says_which(room: Room, step: int, moment: str) -> None:
    put(room.root, {"a": "1", "b": "2", "d/c": "3", "file": "4", "over": "5"})
    (room.root / "link").symlink_to("a")
    before = tree(room.root)
    layer = new_layer(room.root)
    run_above(
        layer, "echo 2 > a; rm b; rm -r d; echo > d; rm file; mkdir file; echo > file/z; ln -sfn b link; ln -sf a over"
    )
    with python(KILLED, room.root, layer.upper, str(step), moment) as process:
        pass
    assert process.returncode == -signal.SIGKILL or moment == "within"
    half = {name: what for name, what in tree(room.root).items() if ".ferrule-" not in name}
    groups = room.history.recent()
    after = tree(room.root)
    assert len(groups) == (process.returncode == 0 or (step == STEPS and moment == "after"))
    assert half.keys() <= before.keys() | {"file/z"}
    if groups:
        assert room.history.undo().refused is None
        assert room.history.redo().refused is None
        assert tree(room.root) == after
        assert room.history.undo().refused is None
    assert tree(room.root) == before


def test_undo_enters_what_the_command_closed_and_gives_it_back_its_mode(room: Room) -> None:
    put(room.root, {"d/e/f": "old\n"})
    before = tree(room.root)
    room.run("echo new > d/e/f; echo x > d/g; chmod 000 d/e; chmod 100 d")
    after = tree(room.root)
    assert room.history.undo().refused is None
    assert tree(room.root) == before
    assert room.history.redo().refused is None
    assert tree(room.root) == after


# What it costs


def test_it_costs_by_what_changed_and_not_by_the_tree(in_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in what is looked at and opened, in a tree of 50,000 files."""
    room = Room(_made(in_memory / "ws"))
    for folder in range(500):
        here = room.root / f"d{folder}"
        here.mkdir()
        for name in range(100):
            os.close(os.open(here / f"f{name}", os.O_CREAT | os.O_WRONLY, 0o644))
    layer = new_layer(room.root)
    run_above(layer, "echo 1 > d7/f7; rm d8/f8; mkdir new; echo 2 > new/x; ln -s x new/y; chmod 600 d9/f9")
    calls = 0

    def counting(name: str) -> None:
        real = getattr(os, name)

        def counted(*arguments: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            return real(*arguments, **named)

        monkeypatch.setattr(os, name, counted)

    for name in ("stat", "lstat", "open", "scandir", "listdir", "readlink", "fstat", "rename", "unlink", "mkdir"):
        counting(name)
    changes = read_layers(room.files.paths, [layer]).changes
    effects_of(room.files.paths, changes)
    assert apply_layer(room.files, changes) is not None
    assert room.history.undo().refused is None
    assert len(changes) == 6
    assert calls < 1000


# The law

NAMES = st.sampled_from(["a", "b", "c", "d"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
MODES = st.sampled_from(["600", "644", "755", "400", "700", "4711"])
TEXTS = st.sampled_from(["", "x", "same", "y" * 5000])
NODES = st.one_of(
    st.tuples(st.just("file"), PATHS, TEXTS, MODES),
    st.tuples(st.just("folder"), PATHS, st.just(""), st.sampled_from(["755", "700", "500"])),
    st.tuples(st.just("link"), PATHS, PATHS, st.just("")),
)
OPERATIONS = st.one_of(
    st.builds("printf %s {1} > {0}".format, PATHS, TEXTS.map(lambda text: f"'{text}'")),
    st.builds("printf %s {1} >> {0}".format, PATHS, TEXTS.map(lambda text: f"'{text}'")),
    st.builds("rm -f {0}".format, PATHS),
    st.builds("rm -rf {0}".format, PATHS),
    st.builds("rmdir {0}".format, PATHS),
    st.builds("mkdir -p {0}".format, PATHS),
    st.builds("mv {0} {1}".format, PATHS, PATHS),
    st.builds("mv -T {0} {1}".format, PATHS, PATHS),
    st.builds("cp -a {0} {1}".format, PATHS, PATHS),
    st.builds("ln -s {0} {1}".format, PATHS, PATHS),
    st.builds("ln -sfnT {0} {1}".format, PATHS, PATHS),
    st.builds("ln {0} {1}".format, PATHS, PATHS),
    st.builds("chmod {1} {0}".format, PATHS, MODES),
    st.builds("[ -d {0} ] && [ ! -L {0} ] && chmod {1} {0}".format, PATHS, st.sampled_from(["000", "100", "300"])),
    st.builds("touch {0}".format, PATHS),
    st.builds("cp {0} {0}.new && mv {0}.new {0}".format, PATHS),
)


def plant(root: Path, nodes: list[tuple[str, str, str, str]]) -> None:
    """A tree of whatever of the nodes fits together."""
    closed: list[tuple[Path, str]] = []
    for kind, name, more, mode in nodes:
        path = root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "folder":
                path.mkdir()
                closed.append((path, mode))
            elif kind == "link":
                path.symlink_to(more)
            elif not os.path.lexists(path):
                path.write_text(more)
                path.chmod(int(mode, 8))
        except OSError:
            continue
    for path, mode in closed:
        path.chmod(int(mode, 8))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nodes=st.lists(NODES, max_size=8), operations=st.lists(OPERATIONS, min_size=1, max_size=8))
def test_applying_a_layer_is_running_for_real_and_undo_and_redo_are_exact(
    nodes: list[tuple[str, str, str, str]], operations: list[str]
) -> None:
    folder = Path(tempfile.mkdtemp(dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    script = "; ".join(operations) + "; true"
    try:
        room, real = Room(_made(folder / "ws")), _made(folder / "real")
        plant(room.root, nodes)
        plant(real, nodes)
        before = tree(room.root)
        subprocess.run(["bash", "-c", script], cwd=real, check=True, capture_output=True)
        room.run(script)
        after = tree(room.root)
        assert after == tree(real)
        assert room.history.undo().refused is None
        assert tree(room.root) == before
        assert room.history.redo().refused is None
        assert tree(room.root) == after
        room.history.close()
    finally:
        remove_tree(folder)


def _made(path: Path) -> Path:
    path.mkdir()
    return path
