"""In a large workspace approved commands run in a layer: what they leave, and what undo restores, is as after a command
that wrote directly (P11, P3).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.builtin.shell_desk import shell_desk
from tests.needs import needs, slow

from ferrule.builtin import working_apart
from ferrule.core.context import SandboxChoice
from ferrule.process.sandbox.choose import best_sandbox
from ferrule.workspace.files import files_of
from ferrule.workspace.layers import reading
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Change
from ferrule.workspace.snapshots.file_states import FileStates
from ferrule.workspace.snapshots.shell_changes import ShellChanges

Tree = dict[str, tuple[Any, ...]]
LONG_AGO = 1_700_000_000


def tree_of(root: Path) -> Tree:
    """What is there, but for when it was changed; files with several names by the first of them."""
    found: Tree = {}
    first: dict[int, str] = {}
    for folder, folders, names in os.walk(root):
        for name in sorted((*folders, *names)):
            path = Path(folder, name)
            state, inner = path.lstat(), str(path.relative_to(root))
            attributes = [one for one in os.listxattr(path, follow_symlinks=False) if one.startswith("user.")]
            what = (
                path.read_bytes()
                if path.is_file() and not path.is_symlink()
                else os.fspath(path.readlink())
                if path.is_symlink()
                else b""
            )
            twin = first.setdefault(state.st_ino, inner) if state.st_nlink > 1 and path.is_file() else inner
            found[inner] = (stat.filemode(state.st_mode), what, twin, state.st_uid, attributes)
    return found


def times_of(root: Path) -> Tree:
    """The times of changes that a program set to long ago."""
    times = ((path, path.lstat().st_mtime) for path in root.rglob("*"))
    return {str(path.relative_to(root)): (time,) for path, time in times if time < LONG_AGO}


def plant(root: Path) -> None:
    (root / "src" / "deep").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "src/main.py", "src/deep/c.txt"):
        (root / name).write_text(f"{name} has this in it\n")
        os.utime(root / name, (1_000_000_000, 1_000_000_000))
    (root / "link").symlink_to("a.txt")
    os.link(root / "a.txt", root / "twin.txt")


def layers_are_possible() -> bool:
    return best_sandbox().has_layers


def plant_caches(root: Path) -> None:
    (root / "cache").mkdir()
    (root / "cache" / "CACHEDIR.TAG").write_text("x\n")
    (root / "src" / "__pycache__").mkdir()
    (root / "src" / "__pycache__" / "main.pyc").write_text("old\n")


class Watched:
    """How commands ran: `directly` counts those that the whole workspace was compared for."""

    def __init__(self) -> None:
        self.directly = 0


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Watched:
    """Every workspace counts as large."""
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(working_apart, "COMPARED_FROM_HERE", 1)
    needs(layers_are_possible(), "bubblewrap and overlays")
    watched, begin = Watched(), ShellChanges.begin

    def counted(self: ShellChanges, *given: Any, **named: Any) -> bool:
        watched.directly += 1
        return begin(self, *given, **named)

    monkeypatch.setattr(ShellChanges, "begin", counted)
    return watched


def python(code: str) -> str:
    return f"python3 -c '{code}'"


APART = {
    "in place": "sed -i s/has/had/ b.txt; echo more >>src/main.py",
    "new": "mkdir -p new/er; echo x >new/er/file; ln -s ../b.txt new/link; chmod 700 new",
    "removed": "rm -rf src; rm b.txt link",
    "kinds": "rm b.txt; mkdir b.txt; echo x >b.txt/in; rm -r src/deep; echo x >src/deep; rm link; echo x >link",
    "modes": "chmod 755 b.txt; chmod 500 src/deep",
    "moved": "mv b.txt c.txt; mv src other",
    "same time and size": "printf 'B.TXT HAS THIS IN IT\\n' >b.txt; touch -d @1000000000 b.txt",
    "mapped": python(
        'import mmap; f = open("b.txt", "r+b"); m = mmap.mmap(f.fileno(), 0); f.close(); m[:5] = b"MMMMM"; m.close()'
    ),
    "through a descriptor": "exec 7<>b.txt; rm b.txt; echo x >&7; echo y >b.txt",
    "written late": "(sleep 0.3; echo late >late) & sleep 0.1; echo soon >soon",
    "odd names": "printf x >$'new\\nline'; printf y >./-dash; printf z >'a b'",
    "truncated": "truncate -s 0 b.txt; truncate -s 100 src/main.py",
    "caches": "echo new >src/__pycache__/main.pyc; echo x >src/__pycache__/two.pyc; echo y >cache/out; echo 1 >b.txt",
    "new caches": "mkdir -p d/__pycache__ e/in; echo x >d/__pycache__/x; echo t >e/CACHEDIR.TAG; echo y >e/in/y",
    "no caches": "rm -r cache src/__pycache__",
    "removed with caches": "rm -rf src",
    "moved with caches": "mv src other",
    "made again": "rm -rf src; mkdir -p src/deep; echo z >src/z",
    "times of folders": "mkdir n; echo 1 >n/f; ln -s f n/l; touch -h -d @1100000000 n/f n/l n link src",
    "copied with times": "cp -a src copy; mv src other",
    "failed": "echo x >b.txt; exit 3",
    "nothing": "cat b.txt; ls -R",
}
DIRECTLY = {
    "renamed folder": python('import os; os.rename("src", "other"); open("other/new", "w").write("x")'),
    "renamed folder, and no failure": "perl -e 'rename(q(src), q(other)) or warn $!'",
    "another user's file": "echo 'b.txt: Value too large for defined data type' >&2; echo x >b.txt",
    "hard link made": "ln b.txt c.txt",
    "hard links of new files": "echo x >n1; ln n1 n2; ln n1 src/n3",
    "hard link written": "echo more >>a.txt",
    "hard link's mode": "chmod 600 twin.txt",
    "attribute": python('import os; os.setxattr("b.txt", "user.x", b"1")'),
    "attribute of a folder": python('import os; os.setxattr("src", "user.x", b"1")'),
    "attribute of a new file": python('import os; open("n", "w"); os.setxattr("n", "user.x", b"1")'),
}


QUICK = ("in place", "mapped", "moved", "caches", "renamed folder", "hard link written")


@pytest.mark.parametrize("name", [name if name in QUICK else slow(name) for name in (*APART, *DIRECTLY)])
async def test_a_command_leaves_the_same_and_is_undone_the_same(
    name: str, large: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = {**APART, **DIRECTLY}[name]
    trees: dict[str, list[Tree]] = {}
    for way, least in (("apart", 1), ("direct", 1 << 40)):
        monkeypatch.setattr(working_apart, "COMPARED_FROM_HERE", least)
        large.directly = 0
        (tmp_path / way).mkdir()
        async with shell_desk(tmp_path / way) as desk:
            plant(desk.workspace)
            if "caches" in name:
                plant_caches(desk.workspace)
            trees[way] = [tree_of(desk.workspace)]
            said = await desk.bash(command)
            assert large.directly == (way == "direct" or name in DIRECTLY), said
            assert ("It was run a second time" in said) == (way == "apart" and name in DIRECTLY), said
            trees[way] += [tree_of(desk.workspace), times_of(desk.workspace)]
            for again in (files_of(desk.session).history.undo, files_of(desk.session).history.redo):
                report = again()
                assert report.refused is None, str(report)
                trees[way].append(tree_of(desk.workspace))
    assert trees["apart"] == trees["direct"]
    if "caches" not in name and name not in ("hard link written", "hard link made", "attribute of a folder"):
        assert trees["apart"][3] == trees["apart"][0]


async def test_times_that_a_command_sets_are_kept(large: Watched, tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        await desk.bash("touch -d @1100000000 b.txt; echo new >src/main.py; touch -d @1200000000 src/main.py; touch c")
        times = [int((desk.workspace / one).stat().st_mtime) for one in ("b.txt", "src/main.py", "src/deep/c.txt")]
        await desk.bash("touch b.txt")
        assert (desk.workspace / "b.txt").stat().st_mtime > 1_100_000_000
    assert times == [1_100_000_000, 1_200_000_000, 1_000_000_000]
    assert not large.directly


async def test_what_others_changed_between_two_commands_is_what_undo_restores(large: Watched, tmp_path: Path) -> None:
    """No look is needed for that: the workspace itself holds what was there until the changes are applied."""
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        file, outside = desk.workspace / "b.txt", tmp_path / "outside"
        changes: list[Callable[[], Any]] = [
            lambda: file.write_text("an editor was here\n"),
            lambda: (os.link(file, outside), outside.write_text("by another name\n"), outside.unlink()),
            lambda: (file.write_text("BY another name\n"), os.utime(file, (1_000_000_000, 1_000_000_000))),
        ]
        for change in changes:
            change()
            before = tree_of(desk.workspace)
            await desk.bash("echo changed >b.txt; echo made >made")
            assert files_of(desk.session).history.undo().refused is None
            assert tree_of(desk.workspace) == before
    assert not large.directly


async def test_a_file_that_another_program_changed_meanwhile_is_changed_once_more(
    large: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command is run again, on what the other program left."""
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        file = desk.workspace / "b.txt"
        read = reading.read_layers

        def meanwhile(*given: Any, **named: Any) -> Any:
            file.write_text("theirs\n")
            return read(*given, **named)

        monkeypatch.setattr(reading, "read_layers", meanwhile)
        said = await desk.bash("echo ours >>b.txt; echo x >made")
        assert "It was run a second time" in said
        assert file.read_text() == "theirs\nours\n"
        assert (desk.workspace / "made").read_text() == "x\n"
    assert large.directly == 1


async def test_pipes_and_sockets_in_the_workspace_keep_commands_in_it(large: Watched, tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        os.mkfifo(desk.workspace / "pipe")
        (desk.workspace / "a.txt").write_text("a\n")
        await desk.bash("echo x >a.txt")
        (desk.workspace / "pipe").unlink()
        await desk.bash("echo y >a.txt")
    assert large.directly == 1


async def test_what_a_rerun_leaves_in_tmp_is_of_one_run(large: Watched, tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        await desk.bash("echo kept >/tmp/kept")
        said = await desk.bash("mkdir /tmp/once && echo x >/tmp/once/x && ln b.txt c.txt && cat /tmp/kept")
        assert said.startswith("kept")
    assert large.directly == 1


async def test_a_rerun_finds_the_temporary_files_that_the_first_run_found(large: Watched, tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        await desk.bash(
            "mkdir -p /tmp/d; echo kept >/tmp/d/file; echo 1 >/tmp/log; ln -s log /tmp/link; chmod 700 /tmp/d"
        )
        said = await desk.bash("mv /tmp/d ./d; echo 2 >>/tmp/log; ln b.txt c.txt; cat /tmp/link; stat -c %a d")
        assert "It was run a second time" in said
        assert said.startswith("1\n2\n700\n")
        assert (desk.workspace / "d" / "file").read_text() == "kept\n"


async def test_with_many_temporary_files_a_command_runs_once(large: Watched, tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        await desk.bash("mkdir -p /tmp/.cache; seq 1100 | (cd /tmp/.cache && xargs touch)")
        await desk.bash("echo x >b.txt; truncate -s 20M /tmp/large")
        assert not large.directly
        assert "second time" not in await desk.bash("rm /tmp/large; ln b.txt c.txt")
    assert large.directly == 1


@pytest.mark.parametrize("mode", ["r", "a"])
async def test_a_file_that_another_program_has_open_stays_the_same_file(
    mode: str, large: Watched, tmp_path: Path
) -> None:
    """A server with an open database would otherwise go on with one that nobody else can see."""
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        with (desk.workspace / "b.txt").open(mode) as other:
            said = await desk.bash("echo more >>b.txt")
            assert os.path.samestat(os.fstat(other.fileno()), (desk.workspace / "b.txt").stat())
            assert "another program that has `b.txt` open sees what it writes" in said
            assert large.directly == 1
            await desk.bash("echo new >n; mv n b.txt; chmod 600 src/main.py")
            assert not os.path.samestat(os.fstat(other.fileno()), (desk.workspace / "b.txt").stat())
    assert large.directly == 1


async def test_beside_a_background_command_nothing_runs_twice(large: Watched, tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        await desk.bash("sleep 60", run_in_background=True)
        assert "second time" not in (said := await desk.bash("echo 1 >>/tmp/log; ln b.txt c.txt"))
        assert await desk.bash("cat /tmp/log") == "1", said


async def test_a_command_that_was_half_applied_is_not_run_again(
    large: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        plant_caches(desk.workspace)
        put = FileStates.put

        def fails(self: FileStates, change: Change, *given: Any, **named: Any) -> None:
            if change.path.name == "b.txt":
                raise PathError("failed", "The disk is full.")
            put(self, change, *given, **named)

        monkeypatch.setattr(FileStates, "put", fails)
        (desk.workspace / "cache" / "old").touch()
        said = await desk.bash("rm cache/old; echo x >b.txt")
        assert "The disk is full." in said
        assert "has stayed" in said
        assert (desk.workspace / "b.txt").read_text() == "b.txt has this in it\n"
    assert not large.directly


async def test_a_state_that_a_command_leaves_is_that_of_one_run(large: Watched, tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        await desk.bash("count=$((count + 1)); ln b.txt c.txt")
        assert (await desk.bash("echo $count")).startswith("1")


async def test_hidden_and_guarded_places_are_as_they_are_directly(large: Watched, tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        (desk.workspace / ".env").write_text("SECRET=1\n")
        assert "SECRET" not in await desk.bash("cat .env; cp .env out; ln -s .env l; cat l")
        (desk.workspace / ".envrc").write_text("safe\n")
        await desk.bash("echo evil >.envrc; echo x >b.txt")
        assert (desk.workspace / ".envrc").read_text() == "safe\n"
        assert (desk.workspace / "b.txt").read_text() == "x\n"


async def test_a_command_with_a_network_runs_once(large: Watched, tmp_path: Path) -> None:
    async with shell_desk(tmp_path, sandbox=SandboxChoice(hosts=("example.org",))) as desk:
        plant(desk.workspace)
        await desk.bash("echo x >b.txt")
    assert large.directly == 1


async def test_a_small_workspace_is_compared(large: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_apart, "COMPARED_FROM_HERE", 20)
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        await desk.bash("echo x >b.txt")
        assert large.directly == 1
        for number in range(20):
            (desk.workspace / f"f{number}").touch()
        await desk.bash("echo y >b.txt")
    assert large.directly == 1


async def test_undo_after_both_ways_by_turns_restores_each_state(
    large: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = ["echo 1 >b.txt; mkdir n", "rm src/main.py; echo 2 >n/x", "mv n m; chmod 700 b.txt", "echo 3 >>m/x"]
    async with shell_desk(tmp_path) as desk:
        plant(desk.workspace)
        trees = [tree_of(desk.workspace)]
        for number, command in enumerate(commands * 2):
            monkeypatch.setattr(working_apart, "COMPARED_FROM_HERE", 1 if number % 2 else 1 << 40)
            await desk.bash(command)
            trees.append(tree_of(desk.workspace))
        while len(trees) > 1:
            now = trees.pop()
            assert tree_of(desk.workspace) == now
            if now != trees[-1]:
                assert files_of(desk.session).history.undo().refused is None
        assert tree_of(desk.workspace) == trees[0]
