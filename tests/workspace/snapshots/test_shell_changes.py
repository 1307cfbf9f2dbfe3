"""Whatever a script does to the files of a workspace can be undone, and done again (P11)."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.workspace.history_room import MEMORY, Room

from ferrule.workspace.snapshots.changes import Caps, Origin
from ferrule.workspace.snapshots.shell_changes import Recorded, ShellChanges

BASH = shutil.which("bash") or "/bin/bash"


class Shop:
    """A workspace in which a real bash runs scripts."""

    def __init__(self, folder: Path, caps: Caps | None = None) -> None:
        self.room = Room(folder, caps)
        self.tree = self.room.tree
        self.changes = ShellChanges(self.room.history, self.room.store, self.room.paths, caps)

    def again(self) -> None:
        """As the next start of the program does."""
        self.changes.close()
        self.room.again()
        self.changes = ShellChanges(self.room.history, self.room.store, self.room.paths, self.room.caps)

    def run(self, script: str, call: str = "1") -> Recorded:
        origin = Origin(call=call, tool="Bash")
        self.changes.begin(origin)
        self.bash(script)
        return self.changes.end(origin)

    def bash(self, script: str) -> None:
        subprocess.run([BASH, "-c", script], cwd=self.tree, check=False, capture_output=True, stdin=subprocess.DEVNULL)

    def look(self) -> dict[str, Any]:
        """Every file, link and folder with its mode."""
        found: dict[str, Any] = {}
        for folder, folders, files in os.walk(self.tree):
            for name in (*folders, *files):
                path = Path(folder) / name
                state = path.lstat()
                key = os.path.relpath(path, self.tree)
                if stat.S_ISLNK(state.st_mode):
                    found[key] = ("link", str(path.readlink()))
                elif stat.S_ISDIR(state.st_mode):
                    found[key] = ("folder", stat.S_IMODE(state.st_mode))
                else:
                    found[key] = ("file", stat.S_IMODE(state.st_mode), path.read_bytes())
        return found


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        "rm -rf src",
        "rm a.txt; mkdir a.txt; echo x > a.txt/inner",
        "rm -rf src; echo 'a file now' > src",
        "mv a.txt b.txt; mv src other",
        "sed -i s/one/two/ a.txt",
        "chmod 755 a.txt; chmod 700 src",
        "ln -sf a.txt link; rm link2; ln -s /etc/passwd link2",
        "rm a.txt; ln -s src/main.py a.txt",
        "rm link2; echo 'no link now' > link2",
        "mkdir -p deep/er/est; touch deep/er/file",
        "rmdir empty",
        "printf 'no newline' > 'odd name'; printf x > $'new\\nline'; printf y > -dash",
        "cp -r src copy; truncate -s 0 src/main.py",
        "for i in $(seq 50); do echo $i > f$i; done; rm f1*",
        "mkdir locked; touch locked/in; chmod 555 locked",
    ],
)
def test_undo_gives_back_the_tree_and_redo_what_the_script_made(shop: Shop, script: str):
    (shop.tree / "a.txt").write_text("one\n")
    (shop.tree / "src").mkdir()
    (shop.tree / "src" / "main.py").write_text("print()\n")
    (shop.tree / "empty").mkdir()
    (shop.tree / "link2").symlink_to("a.txt")
    before = shop.look()
    recorded = shop.run(script)
    after = shop.look()
    assert recorded.group is not None
    assert recorded.note == ""
    assert after != before
    report = shop.room.history.undo()
    assert report.refused is None, str(report)
    assert shop.look() == before
    report = shop.room.history.redo()
    assert report.refused is None, str(report)
    assert shop.look() == after


NAMES = st.sampled_from(["a", "b", "d", "d/e", "d/f", "d/g/h", "'x y'"])
OPERATIONS = st.one_of(
    st.builds("rm -rf {}".format, NAMES),
    st.builds("mkdir -p {}".format, NAMES),
    st.builds("rmdir {}".format, NAMES),
    st.builds("mv -f {} {}".format, NAMES, NAMES),
    st.builds("cp -r {} {}".format, NAMES, NAMES),
    st.builds("echo {} > {}".format, st.integers(0, 3), NAMES),
    st.builds("echo {} >> {}".format, st.integers(0, 3), NAMES),
    st.builds("ln -sfn {} {}".format, NAMES, NAMES),
    st.builds("ln -f {} {}".format, NAMES, NAMES),
    st.builds("chmod {} {}".format, st.sampled_from(["600", "644", "755", "400"]), st.sampled_from(["a", "b", "d/e"])),
    st.builds("chmod {} d".format, st.sampled_from(["755", "700", "555"])),
    st.builds("touch {}".format, NAMES),
    st.builds("sed -i s/1/2/ {}".format, NAMES),
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scripts=st.lists(st.lists(OPERATIONS, min_size=1, max_size=6), min_size=1, max_size=4))
@example(scripts=[["mkdir -p d", "echo 1 > d/e", "chmod 555 d"], ["chmod 755 d", "rm -rf d"]])
@example(scripts=[["echo 1 > a", "ln -f a b"], ["sed -i s/1/2/ a"]])
@example(scripts=[["echo 0 > d"], ["rm -rf d", "mkdir -p d", "chmod 555 d"]])
@example(scripts=[["mkdir -p d/g/h", "ln -sfn d b"], ["rm -rf d", "ln -sfn b d", "echo 1 > a"]])
def test_any_scripts_then_undo_give_back_every_tree_in_turn(scripts: list[list[str]]):
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    try:
        shop = Shop(folder)
        trees = [shop.look()]
        done: list[int] = []
        for number, script in enumerate(scripts):
            recorded = shop.run("\n".join(script), call=str(number))
            now = shop.look()
            assert (recorded.group is None) == (now == trees[-1])
            if recorded.group is not None:
                trees.append(now)
                done.append(number)
        for tree in reversed(trees[:-1]):
            report = shop.room.history.undo()
            assert report.refused is None, str(report)
            assert shop.look() == tree
        for tree in trees[1:]:
            report = shop.room.history.redo()
            assert report.refused is None, str(report)
            assert shop.look() == tree
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=False)
        shutil.rmtree(folder)


def test_touching_a_file_is_no_change(shop: Shop):
    (shop.tree / "a").write_text("x")
    assert shop.run("touch -d 2001-01-01 a").group is None


def test_a_change_of_the_same_size_in_the_same_instant_is_seen(shop: Shop):
    (shop.tree / "a").write_text("one")
    os.utime(shop.tree / "a", ns=(1, 1))
    assert shop.run("printf two > a; touch -d @0.000000001 a").group is not None


def test_what_others_did_between_two_commands_belongs_to_none(shop: Shop):
    (shop.tree / "a").write_text("one")
    shop.run("echo x > b", call="1")
    (shop.tree / "a").write_text("by hand")
    recorded = shop.run("echo y > c", call="2")
    assert recorded.group is not None
    assert [one.path.name for one in recorded.group.changes] == ["c"]


def test_what_others_did_after_a_command_that_was_never_run_belongs_to_none(shop: Shop):
    never, behind = Origin(call="1", tool="Bash"), Origin(call="2", tool="Bash")
    shop.changes.begin(never)
    (shop.tree / "a").write_text("by hand")
    shop.changes.withdraw(never)
    assert shop.run("echo y > c", call="3").group is not None
    shop.changes.begin(behind)
    shop.changes.begin(never)
    shop.changes.withdraw(never)
    shop.bash("echo x > b")  # what runs in the background is still looked at
    assert shop.changes.end(behind).group is not None
    groups = shop.room.history.recent()
    assert [(one.origin.call, [change.path.name for change in one.changes]) for one in groups] == [
        ("2", ["b"]),
        ("3", ["c"]),
    ]


def test_undo_refuses_where_the_file_changed_since_and_touches_nothing(shop: Shop):
    (shop.tree / "a").write_text("one")
    shop.run("echo two > a; echo new > b")
    (shop.tree / "a").write_text("by hand")
    before = shop.look()
    report = shop.room.history.undo()
    assert report.refused is not None
    assert "`a` was changed since" in str(report)
    assert shop.look() == before


def test_an_edit_of_a_file_tool_while_a_command_runs_is_not_noted_twice(shop: Shop):
    origin = Origin(call="1", tool="Bash")
    shop.changes.begin(origin)
    shop.room.write("edited", b"by a tool")
    shop.bash("echo x > scripted")
    recorded = shop.changes.end(origin)
    assert recorded.group is not None
    assert [one.path.name for one in recorded.group.changes] == ["scripted"]


def test_what_is_not_covered_is_said(shop: Shop):
    shop = Shop(shop.room.tree.parent, Caps(file=1000, tree=1_000_000))
    (shop.tree / "large").write_bytes(b"x" * 2000)
    (shop.tree / "node_modules").mkdir()
    (shop.tree / "small").write_text("x")
    recorded = shop.run("rm -rf large node_modules small; head -c 3000 /dev/zero > larger")
    assert recorded.note == (
        "Undo does not cover `large`, `larger`, `node_modules`: "
        "too large to keep, or in a folder the history leaves out."
    )
    assert "3 changes" not in str(shop.room.history.undo())
    assert (shop.tree / "small").read_text() == "x"
    assert (shop.tree / "larger").exists()


def test_a_folder_that_git_or_a_package_manager_owns_is_left_out(shop: Shop):
    (shop.tree / ".git").mkdir()
    (shop.tree / "venv").mkdir()
    (shop.tree / "venv" / "pyvenv.cfg").write_text("")
    assert shop.run("echo x > .git/config; echo y > venv/lib; mkdir -p node_modules/a").group is not None
    assert shop.run("echo x2 > .git/config; echo y2 > venv/lib; echo z > node_modules/a/b").group is None


def test_too_many_files_to_look_at_are_said_and_nothing_breaks(shop: Shop):
    shop = Shop(shop.room.tree.parent, Caps(entries=10))
    recorded = shop.run("for i in $(seq 20); do echo $i > f$i; done")
    assert recorded.group is None
    assert recorded.note == "There are more than 10 files here; what it changed cannot be undone."


def test_what_a_killed_program_left_is_taken_up_by_the_next(shop: Shop):
    (shop.tree / "a").write_text("one")
    code = (
        "import sys, os, signal; from pathlib import Path\n"
        "from ferrule.workspace.paths import Paths\n"
        "from ferrule.workspace.snapshots.changes import Origin\n"
        "from ferrule.workspace.snapshots.history import History\n"
        "from ferrule.workspace.snapshots.shell_changes import ShellChanges\n"
        "tree, store = map(Path, sys.argv[1:]); paths = Paths([tree])\n"
        "ShellChanges(History(store, paths), store, paths).begin(Origin(call='killed', tool='Bash'))\n"
        "(tree / 'a').unlink(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    shop.room.history.close()
    done = subprocess.run([sys.executable, "-c", code, str(shop.tree), str(shop.room.store)], check=False)
    assert done.returncode == -9
    shop.again()
    recorded = shop.changes.settle()
    assert recorded.group is not None
    assert recorded.group.origin.call == "killed"
    shop.room.history.undo()
    assert (shop.tree / "a").read_text() == "one"


def test_a_command_that_still_runs_elsewhere_is_left_to_its_own_program(shop: Shop):
    shop.changes.begin(Origin(call="1"))
    other = ShellChanges(shop.room.history, shop.room.store, shop.room.paths)
    shop.bash("echo x > a")
    assert other.settle().group is None
    other.close()
    assert shop.changes.end(Origin(call="1")).group is not None


def test_a_broken_copy_of_the_tree_is_made_anew(shop: Shop):
    shop.run("echo x > a")
    shop.changes.close()
    (shop.room.store / "tree.db").write_bytes(b"broken" * 1000)
    shop.again()
    assert shop.run("echo y > a").group is not None
    assert shop.room.history.undo().refused is None
    assert (shop.tree / "a").read_text() == "x\n"


def test_the_copy_stays_within_its_cap(shop: Shop):
    shop = Shop(shop.room.tree.parent, Caps(tree=200_000))
    for number in range(20):
        shop.run(f"head -c 30000 /dev/urandom > f{number % 7}", call=str(number))
    assert shop.changes._room <= 200_000
    assert (shop.room.store / "tree.db").stat().st_size < 1_000_000


def test_the_end_of_a_command_that_never_began_is_said(shop: Shop):
    assert "cannot be undone" in shop.changes.end(Origin(call="?")).note
