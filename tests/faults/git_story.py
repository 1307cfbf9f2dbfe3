"""What an agent, a user, undo and redo do in a repository, one step after the other, and what must hold after each.

Inside a git directory undo and redo only put back what a command deleted. Everything else there stays as it is, byte
for byte, and working files are undone and redone exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NoReturn

from tests.faults.bench import COUNTS, Bench, Tree, differences, is_unfinished
from tests.faults.programs import Program, command_line, ordered_session, ready_then, session
from tests.faults.repositories import KINDS, Kind, Repository, State, make, remains, run
from tests.faults.tracing import Fate

_MOST_TOLD = 8


@dataclass
class Recorded:
    """A command that changed something, with the workspace before it and after it."""

    command: str
    before: State
    after: State

    @property
    def changed(self) -> set[str]:
        """The working files that it changed."""
        before, after = self.before.files, self.after.files
        return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}

    @property
    def lost(self) -> set[str]:
        """What it deleted in git directories and git has in no other form: refs, objects and files."""
        found = {path for path in self.before.deleted_until(self.after) if remains(path)}
        for path, old in self.before.repositories.items():
            new = self.after.repositories.get(path)
            found |= old.refs.keys() - (new.named if new else frozenset())
            found |= old.objects - (new.objects if new else frozenset())
        return found


@dataclass
class Story:
    """Steps in one workspace. Each one checks what it must not break; `problem` names the cause first."""

    bench: Bench
    kind: Kind = KINDS["plain"]
    allow: Sequence[str] = ()
    """With `["Bash"]`, commands run in the work box; without, in the look box, and their layer is applied."""
    steps: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        make(self.bench.workspace, self.kind)
        self._known: set[str] = set()
        self._recorded: dict[str, Recorded] = {}
        self._program: Program | None = None
        self._listed: list[dict[str, Any]] | None = None
        self.now = self._look()

    def close(self) -> None:
        """End the session, if there is one."""
        if self._program is not None:
            code = self._program.end_orders()
            assert code == 0, self._program.text()
            self._program = None

    def finish(self) -> None:
        """After the next start, nothing is left of what was killed."""
        self.close()
        self._groups(again=True)
        self.bench.session(("Bash", {"command": "true"}))
        left = [path for path in self._look().git if is_unfinished(path)]
        self._require(not left, "unfinished files are left in a git directory", str(left))

    # Steps

    def command(self, command: str, *, sound: bool = True) -> str:
        """What the agent runs; gives the id of its call. A `sound` command leaves no fault in a repository."""
        self._tell(f"command ({'work' if self.allow else 'look'}): {command}")
        if self._program is None:
            self._program = self.bench.start(ordered_session(self.allow))
        self._listed = None
        report = self._program.call(("Bash", {"command": command}))
        self._tell(f"  {report.metadata.get('box')}, code {report.metadata.get('exit_code')}: {report.text[:160]!r}")
        self._require("exit_code" in report.metadata, "a command did not run", report.text)
        COUNTS["git commands"] += 1
        before, after = self.now, self._look()
        self._recorded[report.id] = Recorded(command, before, after)
        self.now = after
        if sound:
            self._require_sound(before, after, "a command left a fault")
        if self._recorded[report.id].lost:
            listed = {group["call_id"] for group in self._groups()}
            self._require(report.id in listed, "what a command deleted is not on record", command)
        return report.id

    def user(self, script: str) -> None:
        """What a user does by hand meanwhile."""
        self._tell(f"user: {script}")
        done = run(self.bench.workspace, script)
        if done.returncode:
            self._tell(f"  code {done.returncode}: {done.stderr[:160]!r}")
        self.now = self._look()

    def kill_command(self, command: str, fate: Fate, then: str = "", *, sound: bool = True) -> None:
        """Run a command whose program is killed. Then the user does something, and the history is looked at."""
        self.close()
        self._tell(f"command ({'work' if self.allow else 'look'}), killed by {fate}: {command}")
        before = self.now
        program = self.bench.start(session([("Bash", {"command": command})], allow=self.allow, wait=True))
        self.bench.follow({program.until_ready().process: fate})
        self.bench.settle()
        self._tell(f"  ended with {program.code}, told {[one.text[:80] for one in program.reports()]}")
        self._unlock()
        killed = self._look()
        if sound:
            self._require_sound(before, killed, "a kill left a fault")
        if then:
            self._tell(f"user: {then}")
            run(self.bench.workspace, then)
        meant = self._look()
        groups = self._groups(again=True)
        self._unlock()
        after = self._look()
        self._require_recovered(killed, meant, after, before)
        new = [one["call_id"] for one in groups if one["call_id"] not in self._recorded]
        self._require(len(new) < 2, "more than one change for one command", str(new))
        for one in new:
            self._recorded[one] = Recorded(command, before, after)
        if not new:
            names = {*before.files, *after.files}
            # A hook of the user's own commit writes files too.
            others = [one for one in names if killed.files.get(one) == meant.files.get(one)]
            same = all(after.files.get(one) == before.files.get(one) for one in others)
            self._require(same, "a change that is not on record", self._short(after, before))
            lost = Recorded(command, before, after).lost
            self._require(not lost, "what a command deleted is not on record", str(sorted(lost)[:_MOST_TOLD]))
        self.now = after

    def undo(self, *arguments: str, fate: Fate | None = None) -> bool:
        """`ferrule undo`; gives whether it was done. Killed, it is finished at the next start."""
        return self._move("undo", arguments, fate)

    def redo(self, *arguments: str, fate: Fate | None = None) -> bool:
        return self._move("redo", arguments, fate)

    def groups(self) -> list[dict[str, Any]]:
        return [one for one in self._groups() if one["call_id"] in self._recorded]

    def _move(self, verb: str, arguments: Sequence[str], fate: Fate | None) -> bool:
        before, old = self.now, {one["number"]: one for one in self._groups()}
        self._tell(f"{verb} {' '.join(arguments)} {fate or ''}")
        COUNTS[f"{verb}s"] += 1
        if fate is None:
            output = self.bench.ferrule(verb, *arguments, "--json")
        else:
            self.close()
            program = self.bench.start(ready_then(command_line(verb, *arguments, "--json"))).until_ready()
            self.bench.follow({program.process: fate})
            self.bench.settle()
            output = program.done()
        self._require(not output.says_traceback, "a traceback", output.err)
        if fate is not None:
            self._require_only_added(before, self._look())
        groups = {one["number"]: one for one in self._groups(again=True)}
        after = self._look()
        moved = [number for number, one in groups.items() if one["state"] != old[number]["state"]]
        moved.sort(reverse=verb == "undo")
        self._tell(f"  code {output.code}, changes {moved}: {_message(output.out)[:300]!r}")
        if output.code == 0 and not moved and any(_could(verb, one) for one in old.values()) and not arguments:
            self._fail(f"{verb} did nothing", output.out)
        self._require_only_added(before, after)
        self._require_files(before, after, [groups[number] for number in moved], verb)
        if verb == "undo":
            for number in moved:
                self._require_put_back(before, after, self._recorded[groups[number]["call_id"]])
        if output.code == 1:
            self._require_refusal(before, json.loads(output.out), verb)
        self.now = after
        return bool(moved)

    # What must hold

    def require_undone(self, call: str) -> None:
        """A command that deleted something in a git directory can be undone, whatever became of the working files."""
        one = self._recorded[call]
        if one.changed or one.lost:
            self._require(self.undo("--call", call), "undo did nothing", one.command)

    def _require_sound(self, before: State, after: State, what: str) -> None:
        for path, repository in after.repositories.items():
            known = before.repositories.get(path)
            new = repository.faults - (known.faults if known else frozenset())
            gone = path not in before.repositories or before.repositories[path].usable
            if gone and not repository.usable and _is_worktree(path):
                continue  # it was removed
            self._require(not new, what, f"{path}: {sorted(new)[:_MOST_TOLD]}")

    def _require_only_added(self, before: State, after: State) -> None:
        """1, 2, 3: no fault is new, every file of git is as it was, and new ones were deleted by a command."""
        for path, old in before.repositories.items():
            if not old.usable:
                continue
            new = after.repositories[path]
            self._require(new.usable, "undo broke a repository", path)
            for name, value in old.refs.items():
                self._require(new.refs.get(name) == value, "undo moved or removed a ref", f"{path}: {name}")
            for name, values in old.logged.items():
                lost = values - new.logged.get(name, frozenset())
                self._require(not lost, "undo lost what a reflog names", f"{path}: {name}: {sorted(lost)}")
            lost = old.objects - new.objects
            self._require(not lost, "undo lost objects", f"{path}: {sorted(lost)[:_MOST_TOLD]}")
            if not old.faults or new.objects == old.objects:  # an object that is back names others that are missing
                faults = new.faults - old.faults
                self._require(not faults, "undo left a fault", f"{path}: {sorted(faults)[:_MOST_TOLD]}")
        for path, entry in before.git.items():
            now = after.git.get(path)
            if is_unfinished(path):
                continue  # of a kill before
            if entry[0] == "folder":
                self._require(now is not None and now[0] == "folder", "undo removed a folder of git", path)
            elif now is None:
                self._fail("undo removed a file of git", f"{path}, {self._names(before, after)}")
            elif now != entry:
                self._fail("undo changed a file of git", f"{path}, {self._names(before, after)}")
        deleted, refs, objects = self._deleted()
        for path in after.git.keys() - before.git.keys():
            if after.git[path][0] == "folder" or is_unfinished(path):
                continue
            self._require(not path.endswith(".lock"), "undo made a lock", path)
            if path in deleted:
                continue  # refs and objects are compared as git reads them
            allowed = any(path.endswith(f"/{name}") for name in refs) or "".join(path.split("/")[-2:]) in objects
            allowed = allowed or "/objects/pack/" in path
            self._require(allowed, "undo made a file of git that no command had deleted", path)

    def _require_files(self, before: State, after: State, groups: Sequence[dict[str, Any]], verb: str) -> None:
        """4: the working files that a command changed are as before it, or as after it, and no other changed."""
        expected = dict(before.files)
        for group in groups:
            one = self._recorded.get(group["call_id"])
            self._require(one is not None, "a change of an unknown call", str(group))
            assert one is not None
            there = (one.before if verb == "undo" else one.after).files
            for path in one.changed:
                if path in there:
                    expected[path] = there[path]
                else:
                    expected.pop(path, None)
        wrong = {
            path: what
            for path, what in differences(after.files, expected).items()
            if not _may_stay(path, after, expected)
        }
        self._require(not wrong, f"working files after {verb}", str(dict(list(wrong.items())[:_MOST_TOLD])))

    def _require_put_back(self, before: State, after: State, undone: Recorded) -> None:
        """5: what a command deleted in a git directory is there again, unless something else took its place."""
        for path, old in undone.before.repositories.items():
            left = undone.after.repositories.get(path)
            new, meanwhile = after.repositories.get(path), before.repositories.get(path)
            if not old.usable or new is None:
                self._require(not old.usable, "undo did not put back a repository", path)
                continue
            lost = old.objects - (left.objects if left else frozenset())
            missing = lost - new.objects
            self._require(not missing, "undo did not put back objects", f"{path}: {sorted(missing)[:_MOST_TOLD]}")
            if meanwhile is None or not meanwhile.usable:
                faults = new.faults - old.faults
                self._require(not faults, "undo left a repository broken", f"{path}: {sorted(faults)[:_MOST_TOLD]}")
            for name, value in old.refs.items():
                if (left and name in left.named) or name in new.refs or f"{path}/{name}" in before.git:
                    continue
                where = f"{path}: {name}"
                taken = any(one.startswith(f"{name}/") or name.startswith(f"{one}/") for one in new.refs)
                self._require(taken or not self._whole(path, value), "undo did not put back a ref", where)
            for name, value in new.refs.items():
                recreated = name in old.refs and not (meanwhile and name in meanwhile.refs) and name != "HEAD"
                if recreated and not (left and name in left.named):
                    self._require(old.refs[name] == value, "undo put back a ref with another value", f"{path}: {name}")
        for path, entry in undone.before.deleted_until(undone.after).items():
            if remains(path) and path not in before.git:
                now = after.git.get(path)
                self._require(now is not None, "undo did not put back a file of git", path)
                self._require(now == entry, "undo put back a file of git otherwise", path)

    def _require_refusal(self, before: State, told: dict[str, Any], verb: str) -> None:
        """A refusal has a working file as its reason; what happens in a git directory never stands in the way."""
        if told.get("refused") is None:
            said = any(f"{words} put back" in told["message"] for words in ("could not be", "nothing was"))
            self._require(said, f"{verb} failed", str(told)[:500])
            return
        one = self._recorded[told["refused"]["group"]["call_id"]]
        due = (one.after if verb == "undo" else one.before).files
        roots = {PurePosixPath(path).parts[0] for path in one.changed}
        free = not any(_other(path, before.files, due) for path in before.files.keys() | due if _top(path) in roots)
        conflicts = [conflict["path"] for conflict in told["refused"]["conflicts"]]
        self._require(not free, f"{verb} was refused for nothing", str(conflicts[:_MOST_TOLD]))

    def _require_recovered(self, killed: State, meant: State, after: State, origin: State) -> None:
        """What mends a kill keeps all that a user made since, and leaves no fault."""
        for path, old in meant.repositories.items():
            if not old.usable:
                continue
            new, first = after.repositories.get(path), killed.repositories[path]
            if new is None or not new.usable:
                self._fail("mending a kill broke a repository", path)
            known = origin.repositories.get(path)
            faults = new.faults - old.faults - (known.faults if known else frozenset())
            self._require(not faults, "mending a kill left a fault", f"{path}: {sorted(faults)[:_MOST_TOLD]}")
            for name, value in old.refs.items():
                moved = first.refs.get(name) != value
                kept = new.refs.get(name) == value if moved else name in new.refs or not _was_there(name, known)
                self._require(kept, "mending a kill lost a ref", f"{path}: {name}")

    # Help

    def _whole(self, folder: str, value: str) -> bool:
        """Whether all that a commit needs is there."""
        return not run(self.bench.workspace, f"git --git-dir='{folder}' rev-list --objects --quiet {value}").returncode

    def _deleted(self) -> tuple[set[str], set[str], set[str]]:
        """All that commands have deleted in git directories: paths, the names of refs, and those of objects."""
        paths: set[str] = set()
        refs: set[str] = set()
        objects: set[str] = set()
        for one in self._recorded.values():
            paths |= one.before.deleted_until(one.after).keys()
            for folder, old in one.before.repositories.items():
                new = one.after.repositories.get(folder)
                gone = old.refs.keys() - (new.refs.keys() if new else set())
                refs |= gone | {f"logs/{name}" for name in gone}
                objects |= {line.split()[0] for line in old.objects - (new.objects if new else frozenset())}
        return paths, refs, objects

    def _look(self) -> State:
        state = State.of(self.bench.workspace, self._known)
        self._known |= state.repositories.keys()
        return state

    def _groups(self, *, again: bool = False) -> list[dict[str, Any]]:
        """The history; it is read anew after a step that may have changed it."""
        if again or self._listed is None:
            self._listed = self.bench.groups()
        return self._listed

    def _unlock(self) -> None:
        """What git tells a user to do after a crash."""
        for lock in self.bench.workspace.rglob("*.lock"):
            lock.unlink()

    def _names(self, before: State, after: State) -> str:
        """What is gone or otherwise among the files of git."""
        wrong = [path for path, entry in before.git.items() if after.git.get(path) != entry]
        return f"in all {len(wrong)}: {wrong[:_MOST_TOLD]}"

    def _short(self, one: State, other: State) -> str:
        return str(differences(one.files, other.files))[:500]

    def _tell(self, step: str) -> None:
        self.steps.append(step)

    def _require(self, holds: bool, cause: str, what: str) -> None:
        if not holds:
            self._fail(cause, what)

    def _fail(self, cause: str, what: str) -> NoReturn:
        raise AssertionError("\n  ".join([f"{cause}: {what}", *self.steps]))


def _could(verb: str, group: dict[str, Any]) -> bool:
    return group["state"] == ("done" if verb == "undo" else "undone") and bool(group["changes"])


def _message(out: str) -> str:
    try:
        return json.loads(out)["message"]
    except (ValueError, KeyError):
        return out


def _is_worktree(path: str) -> bool:
    return PurePosixPath(path).parent.name == "worktrees"


def _was_there(name: str, repository: Repository | None) -> bool:
    return repository is not None and name in repository.refs


def _top(path: str) -> str:
    return PurePosixPath(path).parts[0]


def _other(path: str, now: Tree, due: Tree) -> bool:
    return now.get(path) != due.get(path)


def _may_stay(path: str, after: State, expected: Tree) -> bool:
    """A folder that holds something, or the file that says where a git directory lies, may stay where others go."""
    entry = after.files.get(path)
    if entry is None or path in expected:
        return False
    if PurePosixPath(path).name == ".git":
        return True
    return entry[0] == "folder" and any(one.startswith(f"{path}/") for one in _paths(after))


def _paths(state: State) -> Iterator[str]:
    yield from state.files
    yield from state.git
