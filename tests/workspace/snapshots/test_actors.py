"""Several who change one workspace at once: each change has its owner, and undo takes back that owner's alone (P11)."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.workspace.history_room import MEMORY
from tests.workspace.layers.overlay import new_layer, put, run_above

from ferrule import Environment, Session
from ferrule.process.owned_folders import remove_tree
from ferrule.workspace.files import Files
from ferrule.workspace.layers.effects import apply_layer
from ferrule.workspace.layers.reading import Layer, read_layers
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots import shell_changes
from ferrule.workspace.snapshots.changes import Delete, Origin, Write

BASH = shutil.which("bash") or "/bin/bash"
State = tuple[int, bytes]
Tree = dict[str, State]


def files_in(root: Path) -> Tree:
    found: Tree = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            found[str(path.relative_to(root))] = (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
    return found


@dataclass
class Actor:
    """Somebody with a session of their own: a command that runs directly or in a layer, and calls of file tools."""

    files: Files
    calls: list[str] = field(default_factory=list[str])
    """Those that are over, oldest first."""
    direct: Origin | None = None
    layered: Origin | None = None
    layer: Layer | None = None
    began: int = 0


@dataclass
class Deed:
    """What one call made of a file."""

    call: str
    before: State | None
    after: State | None


class World:
    """A workspace, those who work there, and the truth about who did what, seen after every single step."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "ws"
        put(self.root, {"a": "0", "b": "0", "d/x": "0"})
        place = Environment(history_folder=folder / "history")
        self.actors = [Actor(Files(Session(workspace=self.root, environment=place))) for _ in range(3)]
        self.deeds: dict[str, list[Deed]] = {}
        self.first = self.tree = files_in(self.root)
        self.number = self.moments = 0

    def close(self) -> None:
        for actor in self.actors:
            actor.files.history.close()

    def do(self, who: int, what: str, path: str, other: str) -> None:
        actor = self.actors[who]
        if what == "write":
            self.write(actor, path)
        elif what == "delete":
            self.delete(actor, path)
        elif what == "undo" and actor.calls:
            self.undo(actor)
        elif what == "over":
            self.over(actor)
        elif what == "killed" and actor.direct:
            self.killed(actor)
        elif what not in ("undo", "killed"):
            self.command(actor, self.script(what, path, other))

    def script(self, what: str, path: str, other: str) -> str:
        self.number += 1
        return {
            "echo": f"mkdir -p $(dirname {path}); echo {self.number} > {path}",
            "append": f"mkdir -p $(dirname {path}); echo {self.number} >> {path}",
            "rm": f"rm -f {path}",
            "rm -r": f"rm -rf $(dirname {path})/*",
            "mv": f"mkdir -p $(dirname {other}); mv -f {path} {other} 2>/dev/null; true",
            "chmod": f"chmod {600 + self.number % 7 * 10} {path} 2>/dev/null; true",
        }[what]

    def origin(self, actor: Actor, tool: str) -> Origin:
        self.number += 1
        return Origin(session=str(self.actors.index(actor)), call=f"call-{self.number}", tool=tool)

    def command(self, actor: Actor, script: str) -> None:
        """One more step of the actor's command, which begins where there is none; a layered one has this one step."""
        if actor.layered:
            return
        if not actor.direct:
            origin = self.origin(actor, "Bash")
            if not actor.files.shell_changes.begin(origin, alone=True):
                actor.layered, actor.began, actor.layer = origin, self.moments, new_layer(self.root)
                run_above(actor.layer, script)
                self.saw(origin.call, changed=False)
                return
            actor.direct = origin
        subprocess.run([BASH, "-c", script], cwd=self.root, check=True)
        self.saw(actor.direct.call)

    def over(self, actor: Actor) -> None:
        if actor.direct is not None:
            actor.files.shell_changes.end(actor.direct)
            self.saw(actor.direct.call, changed=False)
            actor.calls.append(actor.direct.call)
            actor.direct = None
        elif actor.layered is not None and actor.layer is not None:
            call = actor.layered.call
            refused: PathError | None = None
            try:
                changes = read_layers(actor.files.paths, [actor.layer], ignore=False).changes
                apply_layer(actor.files, changes, actor.layered)
            except PathError as problem:
                refused = problem
            if refused is None:
                self.saw(call)
                actor.calls.append(call)
            else:
                assert "since the command began, so nothing of it was kept" in refused.message
                assert self.moments > actor.began, refused.message
                self.saw(call, changed=False)
            actor.layered = actor.layer = None

    def killed(self, actor: Actor) -> None:
        """Its program is no more; what it did stays."""
        assert actor.direct is not None
        for one in list(shell_changes._UNDER_WAY):
            if one[0] == str(self.root.parent / "history"):  # there is one direct command at a time
                del shell_changes._UNDER_WAY[one]
        actor.calls.append(actor.direct.call)
        actor.direct = None

    def write(self, actor: Actor, path: str) -> None:
        origin = self.origin(actor, "Write")
        actor.files.history.apply([Write(actor.files.paths.locate(path), f"{self.number}".encode())], origin)
        self.saw(origin.call)
        actor.calls.append(origin.call)

    def delete(self, actor: Actor, path: str) -> None:
        if path in self.tree:
            origin = self.origin(actor, "Delete")
            actor.files.history.apply([Delete(actor.files.paths.locate(path))], origin)
            self.saw(origin.call)
            actor.calls.append(origin.call)

    def saw(self, call: str, *, changed: bool = True) -> None:
        """Whatever is not as it was is this call's doing."""
        now = files_in(self.root)
        if not changed:
            assert now == self.tree
        for path in {*now, *self.tree}:
            before, after = self.tree.get(path), now.get(path)
            if before != after:
                self.moments += 1
                deeds = self.deeds.setdefault(path, [])
                if deeds and deeds[-1].call == call:
                    deeds[-1].after = after
                else:
                    deeds.append(Deed(call, before, after))
        self.tree = now

    def undo(self, actor: Actor) -> bool:
        """Undo the actor's latest call. It goes through whole, or is refused with every file as it was."""
        call = actor.calls.pop()
        mine = {path: [one.call == call for one in deeds] for path, deeds in self.deeds.items()}
        mine = {path: marks for path, marks in mine.items() if any(marks)}
        # What was changed and changed back may be in the list or not, by who has looked in between.
        noise = any(one.before == one.after for path in mine for one in self.deeds[path])
        shared = {path for path, marks in mine.items() if sum(marks) > 1 or not marks[-1]}
        if not mine:
            with suppress(PathError):  # it may be on record for a folder that it made
                actor.files.history.undo(call=call)
            self.saw(call, changed=False)
            return True
        report = actor.files.history.undo(call=call)
        now = files_in(self.root)
        if report.refused is not None:
            assert now == self.tree
            assert not report.groups
            named = {one.name for one in report.refused.conflicts}
            assert noise or named & shared or named <= {"d", "n"}, (named, shared)  # folders are shared as well
            return False
        assert noise or not shared, str(report)
        expected = dict(self.tree)
        for path in mine:
            deed = self.deeds[path].pop()
            expected.pop(path, None)
            if deed.before is not None:
                expected[path] = deed.before
        assert noise or now == expected, (now, expected)
        self.moments += 1
        self.tree = now
        return True


PATHS = st.sampled_from(["a", "b", "c", "d/x", "d/y", "n/z"])
OWN = [["a", "d/x"], ["b", "d/y", "n/w"], ["c", "n/z"]]
KINDS = ["echo", "append", "rm", "mv", "chmod", "write", "write", "delete", "over", "over", "undo", "killed"]


@contextmanager
def played(events: list[tuple[int, str, str, str]]) -> Generator[World]:
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    world = World(folder)
    try:
        for event in events:
            world.do(*event)
        for actor in world.actors:
            world.over(actor)
        yield world
    finally:
        world.close()
        remove_tree(folder)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    events=st.lists(
        st.integers(0, 2).flatmap(
            lambda who: st.tuples(
                st.just(who), st.sampled_from(KINDS), st.sampled_from(OWN[who]), st.sampled_from(OWN[who])
            )
        ),
        max_size=16,
    ),
    last=st.integers(0, 2),
)
def test_undoing_all_of_one_leaves_exactly_what_the_others_did(events: list[tuple[int, str, str, str]], last: int):
    """Each has files of their own, and the commands, calls, undos and kills come in any order."""
    with played(events) as world:
        report = world.actors[last].files.history.undo(to=0, session=str(last))
        assert report.refused is None, str(report)
        others = {path: state for path, state in world.tree.items() if path not in OWN[last]}
        before = {path: state for path, state in world.first.items() if path in OWN[last]}
        assert files_in(world.root) == others | before


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    events=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([*KINDS, "rm -r"]), PATHS, PATHS), max_size=16),
    last=st.integers(0, 2),
)
@example([(0, "echo", "a", "a"), (1, "write", "a", "a"), (0, "echo", "a", "a"), (0, "over", "a", "a")], 0)
@example([(0, "rm -r", "d/x", "a"), (1, "write", "d/y", "a"), (0, "over", "a", "a")], 0)
def test_where_two_changed_one_file_undo_says_which_and_does_nothing(
    events: list[tuple[int, str, str, str]], last: int
):
    with played(events) as world:
        actor = world.actors[last]
        while actor.calls and world.undo(actor):
            pass
