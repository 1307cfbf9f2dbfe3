"""Two to six programs at once in one workspace: writes, edits, commands, undo, and `git checkout`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.faults.bench import COUNTS, Bench, Tree, differences, rounds
from tests.faults.programs import Call, Program, Report, session
from tests.faults.tracing import Fate

pytestmark = pytest.mark.slow

BRANCHES = ("one", "two")
TRACKED = tuple(f"tracked/{n}.txt" for n in range(6))


@dataclass
class Actor:
    """A program with files of its own, and what those must hold when it has done what it was told that it did."""

    name: str
    calls: list[Call] = field(default_factory=list[Call])
    files: list[dict[str, bytes]] = field(default_factory=list[dict[str, bytes]])
    """Its files after each call, beginning with those before the first."""

    @classmethod
    def by_chance(cls, name: str, chance: Random, length: int) -> Actor:
        actor = cls(name, files=[{}])
        for number in range(length):
            actor._add(number, chance)
        return actor

    def expected(self, reports: list[Report]) -> dict[str, bytes]:
        """What its files hold after as many calls as it told of; each of them must have succeeded."""
        for one in reports:
            assert one.success, f"{self.name}: {one.text}"
            assert one.metadata.get("exit_code", 0) == 0, f"{self.name}: {one.text}"
        return self.files[len(reports)]

    def _add(self, number: int, chance: Random) -> None:
        files = dict(self.files[-1])
        own = sorted(files)
        content = f"{self.name} {number}\n" * chance.randint(1, 300)
        kind = chance.choice(["write", "edit", "command", "removal", "undo"])
        if kind == "undo" and self.calls and self.calls[-1][0] != "undo":
            self.calls.append(("undo", {}))
            files = dict(self.files[-2])
        elif kind == "edit" and own:
            path = chance.choice(own)
            old, new = files[path].decode().split("\n")[0], f"{self.name} edited {number}"
            files[path] = files[path].replace(old.encode() + b"\n", new.encode() + b"\n")
            edit = {"file_path": path, "old_string": f"{old}\n", "new_string": f"{new}\n", "replace_all": True}
            self.calls += [("Read", {"file_path": path}), ("Edit", edit)]
            self.files.append(self.files[-1])
        elif kind == "removal" and own:
            path = chance.choice(own)
            self.calls.append(("Bash", {"command": f"{_pause(chance)}; rm {path}"}))
            del files[path]
        elif kind in ("command", "removal"):
            path = f"{self.name}/{number}.txt"
            text = content.replace("\n", "\\n")
            command = (
                f"mkdir -p {self.name}; printf '{text}' > {path}; {_pause(chance)}; cp {path} {self.name}/copy.txt"
            )
            self.calls.append(("Bash", {"command": command}))
            files[path] = files[f"{self.name}/copy.txt"] = content.encode()
        else:
            path = f"{self.name}/written-{number}.txt"
            self.calls.append(("Write", {"file_path": path, "content": content}))
            files[path] = content.encode()
        self.files.append(files)


def _pause(chance: Random) -> str:
    return f"sleep {chance.uniform(0, 0.3):.2f}"


def start(bench: Bench, actors: list[Actor], allow: list[str]) -> list[Program]:
    programs = [bench.start(session(one.calls, first=[], allow=allow, wait=True)) for one in actors]
    for one in programs:
        one.until_ready()
    COUNTS["programs at once"] += len(programs)
    return programs


def files_of(tree: Tree, name: str) -> dict[str, bytes]:
    return {path: entry[2] for path, entry in tree.items() if path.startswith(f"{name}/") and entry[0] == "file"}


@rounds(3)
@pytest.mark.parametrize("way", ["direct", "held back"])
def test_each_program_has_its_own_changes(bench: Bench, chance: Random, way: str) -> None:
    """P5, P11: whoever else works, what each did is there, and can be undone without anybody else's."""
    origin = bench.tree()
    actors = [Actor.by_chance(f"actor{n}", chance, 5) for n in range(chance.randint(2, 6))]
    programs = start(bench, actors, ["Bash"] if way == "direct" else [])
    for one in programs:
        one.go()
    for one in programs:
        assert one.wait() == 0, one.text()
    reports = [one.reports() for one in programs]
    now = bench.tree()
    for actor, told in zip(actors, reports, strict=True):
        expected = actor.expected(told)
        assert files_of(now, actor.name) == expected, f"{actor.name} is not as it was told"
    alone = chance.randrange(len(actors))
    for one in reversed(_kept(actors[alone], reports[alone])):
        undone = bench.ferrule("undo", "--call", one)
        assert undone.code == 0, undone
    left = bench.tree()
    assert not files_of(left, actors[alone].name), "something of it is left"
    others = {path: entry for path, entry in left.items() if not path.startswith(actors[alone].name)}
    expected = {path: entry for path, entry in now.items() if not path.startswith(actors[alone].name)}
    assert not (wrong := differences(others, expected)), f"undoing one changed what others did: {wrong}"
    bench.start_again()
    bench.check_audit([one for told in reports for one in told if one.id])
    back = bench.ferrule("undo", "--to", "0", "--json")
    assert back.code == 0, back
    assert not (wrong := differences(bench.tree(), origin)), f"after undo: {wrong}"
    bench.check_leftovers()


def _kept(actor: Actor, reports: list[Report]) -> list[str]:
    """The ids of its changes that it did not undo itself."""
    kept: list[str] = []
    for call, one in zip(actor.calls, reports, strict=True):
        if call[0] == "undo":
            kept.pop()
        elif call[0] != "Read":
            kept.append(one.id)
    return kept


@rounds(3)
def test_one_of_them_is_killed(bench: Bench, chance: Random) -> None:
    """P11: the others go on and lose nothing; what the killed one did is taken up, and is its own."""
    origin = bench.tree()
    actors = [Actor.by_chance(f"actor{n}", chance, 4) for n in range(chance.randint(2, 4))]
    programs = start(bench, actors, ["Bash"])
    fates = {one.process: Fate() for one in programs}
    fates[programs[0].process] = Fate(after=chance.uniform(0, 2))
    bench.follow(fates)
    bench.settle()
    bench.start_again()
    now = bench.tree()
    for actor, program in list(zip(actors, programs, strict=True))[1:]:
        assert files_of(now, actor.name) == actor.expected(program.reports()), f"{actor.name} is not as it was told"
    bench.check_history((), origin)
    bench.check_audit([one for program in programs for one in program.reports() if one.id])
    bench.check_leftovers()


@rounds(2)
def test_git_checks_out_while_others_write(bench: Bench, chance: Random) -> None:
    """P11: what git does in a command is that command's, what it does outside is nobody's; undo is exact or refused."""
    _make_repository(bench.workspace)
    origin = bench.tree()
    by_tool = chance.random() < 0.5
    actors = [Actor.by_chance(f"actor{n}", chance, 4) for n in range(chance.randint(1, 3))]
    git = Actor("git", [("Bash", {"command": f"git checkout -q {BRANCHES[n % 2]}"}) for n in range(4)])
    programs = start(bench, [*actors, git] if by_tool else actors, ["Bash"])
    for one in programs:
        one.go()
    for n in range(0 if by_tool else 4):
        _git(bench.workspace, "checkout", "-q", BRANCHES[n % 2])
    for one in programs:
        assert one.wait() == 0, one.text()
    now = bench.tree()
    for actor, program in zip(actors, programs, strict=False):
        assert files_of(now, actor.name) == actor.expected(program.reports()), f"{actor.name} is not as it was told"
    assert {now[path][2] for path in TRACKED} == {f"{BRANCHES[1]}\n".encode()}
    back = bench.ferrule("undo", "--to", "0", "--json")
    assert back.code == 0, back
    expected = {**origin, **({} if by_tool else {path: now[path] for path in TRACKED})}
    assert not (wrong := differences(bench.tree(), expected)), f"after undo: {wrong}"
    bench.check_leftovers()


def _make_repository(folder: Path) -> None:
    _git(folder, "init", "-q", "-b", "main")
    for branch in BRANCHES:
        _git(folder, "checkout", "-q", "-b", branch)
        for path in TRACKED:
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(f"{branch}\n")
        _git(folder, "add", "tracked")
        _git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", branch)


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@rounds(3)
def test_programs_at_once_on_a_disk_that_is_nearly_full(bench: Bench, chance: Random) -> None:
    """P11, O3: some calls fail for want of room and say so, some programs are killed; the rest is whole, and what was
    told is on record once there is room.
    """
    disk = bench.one_disk()
    origin = bench.tree()
    actors = [Actor.by_chance(f"actor{n}", chance, 4) for n in range(chance.randint(2, 6))]
    programs = start(bench, actors, ["Bash"])
    disk.fill(chance.randrange(65_536))
    fates = {one.process: Fate(after=chance.uniform(0, 3)) if chance.random() < 0.3 else Fate() for one in programs}
    bench.follow(fates)
    bench.settle()
    disk.empty()
    bench.start_again()
    reports = [report for one in programs for report in one.reports() if report.id]
    for one in reports:
        assert one.success or one.text.startswith("Error ("), one
    assert not (bad := [one.text for one in programs if "Traceback" in one.text()]), bad
    bench.check_history([one for one in reports if one.success], origin)
    bench.check_audit(one for one in reports if "unrecorded" not in one.metadata)
    bench.check_leftovers()
