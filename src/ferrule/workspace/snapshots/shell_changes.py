"""What shell commands do to the files of a workspace, so that each can be undone, whatever else works there.

A command that changes the workspace directly is known in the journal from its begin to its end. What it changed is the
difference between two looks, less what the history itself did meanwhile. Before the history changes a path, what such a
command has done there is taken up first: so every change has its owner, and the list is in the order of events.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ferrule.core.phrases import phrase
from ferrule.records.reserve import free_bytes, is_full
from ferrule.workspace.names import one_line
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Change, Group, Operation, Origin, Running, Side, Watch
from ferrule.workspace.snapshots.content_store import ContentLost
from ferrule.workspace.snapshots.git_record import kept_of_git, uncovered_in_git
from ferrule.workspace.snapshots.journal import Journal
from ferrule.workspace.snapshots.known_tree import KnownTree, Look
from ferrule.workspace.snapshots.tree_store import TreeDamaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ferrule.workspace.paths import Paths
    from ferrule.workspace.snapshots.snapshot_store import Recovery, SnapshotStore

_Result = TypeVar("_Result")
_UNSEEN = "The workspace was not looked at before it ran; what it changed cannot be undone."
_LOST = (
    "The copy of the workspace that undo works from could not be read while it ran, and was "
    "rebuilt; what it changed until then cannot be undone."
)
_REBUILT = "The copy of the workspace that undo works from could not be read, and was rebuilt."
_MOST_NAMED = 5
_BESIDE_CONTENTS = 256 * 1024
"""What all the rest may take that is written for a look."""
_DONE = {Operation.DELETE: "deleted", Operation.CREATE: "created", Operation.CHANGE: "changed"}
_UNDER_WAY: dict[tuple[str, int], Origin] = {}
"""The commands of this process, by the folder of their history and their number in it."""


@dataclass(slots=True, frozen=True)
class RecordedChanges:
    """What a command changed. `group` is None when that is nothing, or nothing that could be seen."""

    group: Group | None = None
    note: str = ""
    """Why some or all of it cannot be undone, or may not be its own; empty when all is well."""
    waiting: int = 0
    """How many paths changed that the history could not take up yet; `note` says which."""

    @property
    def count(self) -> int:
        return len(self.group.changes) if self.group is not None else self.waiting


class ShellChanges:
    """Looks at the workspace before a command that may write and after it. Safe in any thread and process.

    What others change while no command is under way is taken as it is and belongs to none.
    """

    def __init__(self, folder: Path, store: SnapshotStore, recovery: Recovery, paths: Paths) -> None:
        self._place = folder
        self._folder, self._store, self._recovery, self._paths = str(folder), store, recovery, paths
        self._tree = KnownTree(folder, paths, store.caps, store.links)
        self._untold = ""
        """What the result of the next command that ends has to say."""

    def close(self) -> None:
        self._tree.close()

    def begin(self, origin: Origin, *, alone: bool = False) -> bool:
        """Know the workspace as it is now; call it before a command that may write.

        With `alone` it does nothing but give False where another command is under way already. Where there are pipes
        or sockets it gives True all the same: they are how one command talks to another, and only directly.
        """
        number = self._add(origin, alone=alone)
        if number is None and self._tree.has_pipes():
            number = self._add(origin, alone=False)
        if number is None:
            return False
        try:
            self._look(begun=number)
        except BaseException:
            self._drop(number)
            raise
        return True

    def end(self, origin: Origin) -> RecordedChanges:
        """See what has changed since `begin`, and put it in the history as one group."""
        return self._record(origin, over=True)

    def so_far(self, origin: Origin) -> RecordedChanges:
        """The same for a command that goes on."""
        return self._record(origin, over=False)

    def withdraw(self, origin: Origin) -> None:
        """The command was never run: what has changed since `begin` is not its own, nor what changes from now on."""
        if (number := self._number_of(origin)) is not None:
            self._drop(number)

    def settle(self) -> None:
        """Take up what a command changed whose program could not do so: it was killed, or the disk was full.

        Raises `PathError` where that cannot be now: what the history lists is then not what was changed last.
        """
        waiting = [one for one in self._recovery.use(Journal.commands) if not self._is_under_way(one)]
        if not waiting:
            return
        try:
            self._look()
        except (PathError, OSError) as problem:
            raise PathError(
                "waiting",
                phrase(
                    "What the call `{call}` changed is not in the history yet, because {why}.",
                    call=one_line(waiting[-1].origin.call),
                    why=self._why(problem),
                ),
                suggestion=phrase("Free some disk space, or repair the history folder, then try again."),
            ) from problem

    def take_up(self, journal: Journal, paths: Iterable[Path]) -> None:
        """Before the history changes these paths: what a command under way has done there is put in the list first.

        Inside the lock of the store.
        """

        def work() -> None:
            owners = self._owners(journal)
            if owners and (position := self._known_since(journal)) is not None:
                changes = self._tree.compare_at(paths, journal.transitions(position))
                self._note(changes, owners)

        if journal.commands():
            self._mended(journal, work)

    # Commands under way

    def _add(self, origin: Origin, *, alone: bool) -> int | None:
        def add(journal: Journal) -> int | None:
            if alone and any(self._is_under_way(one) for one in journal.commands()):
                return None
            number = journal.add_command(_this_process(), origin)
            _UNDER_WAY[self._folder, number] = origin
            return number

        return self._recovery.use(add, reserve=False)

    def _drop(self, number: int) -> None:
        _UNDER_WAY.pop((self._folder, number), None)
        self._recovery.use(lambda journal: journal.set_commands(over=[number]))

    def _number_of(self, origin: Origin) -> int | None:
        own = list(_UNDER_WAY.items())
        return next((number for (folder, number), one in own if folder == self._folder and one == origin), None)

    def _is_under_way(self, command: Running) -> bool:
        if command.process == _this_process():
            return (self._folder, command.number) in _UNDER_WAY
        return _is_alive(command.process) and not self._over_mark(command).exists()

    def _over_mark(self, command: Running) -> Path:
        """A file that is there where a command is over and the journal, on a full disk, cannot say so."""
        return self._place / f"over-{command.number}-{command.process.replace(':', '-')}"

    def _owners(self, journal: Journal, ended: int = 0) -> list[Running]:
        """The commands that may have made an unexplained change, the most likely one first."""
        watched = [one for one in journal.commands() if one.watch is Watch.WATCHED]
        return sorted(watched, key=lambda one: (one.number != ended, self._is_under_way(one), one.number))

    # Looking

    def _record(self, origin: Origin, *, over: bool) -> RecordedChanges:
        number = self._number_of(origin)
        if number is None:
            return RecordedChanges(note=_UNSEEN)
        if over:
            del _UNDER_WAY[self._folder, number]  # should the look fail, the next one takes it up
        try:
            recorded = self._look(ended=number)
        except (PathError, OSError) as problem:
            if over:
                with suppress(OSError):  # then it counts as under way until its process has ended
                    self._over_mark(Running(number, _this_process(), origin, Watch.WATCHED)).touch(mode=0o600)
            changed = self._tree.changed_since()
            said = [
                f"{verb} {_some(sorted(self._paths.show(Path(path)) for path, one in changed.items() if one is done))}"
                for done, verb in _DONE.items()
                if done in changed.values()
            ]
            return RecordedChanges(
                note=f"It {'; '.join(said) or 'may have changed files'}. That is not in the history yet, because "
                f"{self._why(problem)}. It will be added once that is fixed; until then undo refuses.",
                waiting=len(changed),
            )
        untold, self._untold = self._untold, ""
        return recorded if recorded.note == _LOST else replace(recorded, note=f"{recorded.note} {untold}".strip())

    def _look(self, *, begun: int = 0, ended: int = 0) -> RecordedChanges:
        """Take the workspace as it is now; what differs is what the commands under way did, if there are any."""
        look = self._whole(begins=bool(begun))
        tries: list[int] = []
        return self._recovery.use(partial(self._take, look, begun, ended, tries), reserve=not begun)

    def _whole(self, *, begins: bool) -> Look | None:
        """Before a command, all that it may change must be kept; after it, nothing can be done about what is new."""

        def look() -> Look | None:
            room = free_bytes(self._place) + self._store.reserved - _BESIDE_CONTENTS
            return self._tree.look(within=None if begins else room)

        try:
            return look()
        except TreeDamaged:
            pass
        except OSError as error:
            if begins or not self._store.give_up_reserve(error):
                raise
            return look()
        self._recovery.use(self._rebuild, reserve=not begins)
        return look()

    def _why(self, problem: Exception) -> str:
        if is_full(problem, self._place):
            return phrase("the disk is full")
        cause = problem.__cause__ or problem
        return phrase(
            "it cannot be written ({why})",
            why=((cause.strerror or str(cause)) if isinstance(cause, OSError) else str(cause)).lower(),
        )

    def _take(self, look: Look | None, begun: int, ended: int, tries: list[int], journal: Journal) -> RecordedChanges:
        """`tries` has the newest number in the list at each try: an earlier one may have got as far as the list."""
        tries.append(journal.newest())
        group = self._mended(journal, lambda: self._compare(journal, look, ended)) if look is not None else None
        commands = {one.number: one for one in journal.commands()}
        if group is None and len(tries) > 1 and ended in commands:
            group = journal.next_to(Side.BEFORE, to=tries[0], call=commands[ended].origin.call)
        over = [number for number, one in commands.items() if not self._is_under_way(one)]
        journal.set_commands(over=over, watched=begun if look is not None else 0)
        for number in over:
            self._over_mark(commands[number]).unlink(missing_ok=True)
        self._mended(journal, self._tree.tidy)
        return RecordedChanges(group, self._note_on(commands.get(ended), look, group) if ended else "")

    def _compare(self, journal: Journal, look: Look, ended: int) -> Group | None:
        """Record unexplained changes, and make this look the new baseline."""
        owners = self._owners(journal, ended)
        position = self._known_since(journal) if owners else self._tree.position()
        transitions = journal.transitions(position or 0)
        self._tree.catch_up(look, transitions)
        group = None
        if owners and position is not None:
            group = self._note(self._tree.compare(look, transitions), owners)
        self._tree.accept(look, journal.position())
        return group if owners and owners[0].number == ended else None

    def _known_since(self, journal: Journal) -> int | None:
        """Where the journal was at the last look. Another process may have had to throw that look away."""
        position = self._tree.position()
        if position is None or position > journal.position():  # the journal may have been restored from a copy
            journal.lose_commands()
            return None
        return position

    def _mended(self, journal: Journal, work: Callable[[], _Result]) -> _Result:
        try:
            return work()
        except TreeDamaged:
            self._rebuild(journal)
            return work()

    def _rebuild(self, journal: Journal) -> None:
        """Throw the broken copy away. What the commands under way have changed until now cannot be told any more."""
        self._tree.rebuild()
        journal.lose_commands()
        self._untold = _REBUILT
        self._store.note(_REBUILT)

    # Noting

    def _note(self, changes: Sequence[Change], owners: Sequence[Running]) -> Group | None:
        """Take up changes that commands have made already, so that they can be undone like our own."""
        git = kept_of_git(
            [one for one in changes if one.repository is not None],
            lambda one: self._content(one.before.content) if one.before is not None else None,
            lambda one: self._store.links.path(one.before.content) if one.before is not None else Path(os.devnull),
        )
        changes = [*(one for one in changes if one.repository is None), *git.rows]
        if not changes:
            return None
        others = list(dict.fromkeys(one.origin for one in owners[1:] if one.origin != owners[0].origin))

        def content(name: str) -> bytes | None:
            return git.contents[name] if name in git.contents else self._content(name)

        return self._store.record(changes, content, owners[0].origin, others)

    def _content(self, name: str) -> bytes | None:
        data = self._tree.content(name)
        if data is None:
            with suppress(ContentLost):
                data = self._store.contents.get(name)
        return data

    def _note_on(self, ended: Running | None, look: Look | None, group: Group | None) -> str:
        if look is None:
            return f"There are more than {self._store.caps.entries:,} files here; what it changed cannot be undone."
        if ended is None or ended.watch is Watch.STARTING:
            return _UNSEEN
        if ended.watch is Watch.LOST:
            return _LOST
        if group is None:
            return ""
        show = self._paths.show
        said = [f"{one}." for one in uncovered_in_git(group, show)]
        crowded = [show(one.path) for one in group.uncovered if str(one.path) in look.no_room]
        others = [show(one.path) for one in group.uncovered if str(one.path) not in look.no_room]
        if crowded:
            said.append(f"Undo does not cover {_some(crowded)}: the disk is full.")
        if others:
            why = "too large to keep, or in a folder the history leaves out"
            said.append(f"Undo does not cover {_some(others)}: {why}.")
        if group.others:
            calls = ", ".join(f"`{one_line(one.call)}`" for one in group.others)
            said.append(
                f"Another command ran at the same time ({calls}) and may have made some of its changes; "
                "undo reverts all of them."
            )
        return " ".join(said)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{one_line(name)}`" for name in names[:_MOST_NAMED])
    return shown + (f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else "")


def _this_process() -> str:
    return _process(os.getpid())


@lru_cache(maxsize=1)
def _process(number: int) -> str:
    return f"{number}:{_started(number)}"


def _is_alive(process: str) -> bool:
    number, _, started = process.partition(":")
    return bool(started) and _started(int(number)) == started


def _started(number: int) -> str:
    """When a process began, so that another with the same number is not taken for it; empty when there is none, or it
    is dead and only waits for its parent to see that.
    """
    try:
        stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if stat[0] in "ZX" else stat[19]
    except FileNotFoundError:
        pass
    except ProcessLookupError:
        return ""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "?"
    return "?"
