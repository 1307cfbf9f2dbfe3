"""Every change of a file goes through here: what was there before is kept first, so that it can be undone."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import phrase
from ferrule.workspace.atomic import synced_together, writing
from ferrule.workspace.names import one_line
from ferrule.workspace.problems import PathError, only_read
from ferrule.workspace.snapshots.changes import (
    NO_FILE,
    Caps,
    Change,
    Delete,
    Group,
    Move,
    Operation,
    Origin,
    Phase,
    SetMode,
    Side,
    State,
    Step,
    Write,
)
from ferrule.workspace.snapshots.content_store import ContentLost, ContentsAtHand, NewContents
from ferrule.workspace.snapshots.file_states import FileStates
from ferrule.workspace.snapshots.git_record import HeldOfGit, stays_in_git
from ferrule.workspace.snapshots.git_undo import PutBack, by_safety
from ferrule.workspace.snapshots.shell_changes import ShellChanges
from ferrule.workspace.snapshots.snapshot_store import Recovery, SnapshotStore, again_if_broken
from ferrule.workspace.snapshots.tree_store import in_order
from ferrule.workspace.snapshots.undo_report import Conflict, Conflicts, Refusal, Report, Why, bounded, no_such_call
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ferrule.workspace.paths import Paths, Place
    from ferrule.workspace.snapshots.file_states import Staged
    from ferrule.workspace.snapshots.journal import Journal


# From the steps that were asked for to the changes they are, with the old contents safely kept.


_MOST_NAMED = 5


class ChangedMeanwhileError(PathError):
    """A file is not what the step expected."""

    def __init__(self, place: Place, now: State | None) -> None:
        super().__init__(
            "changed",
            phrase("`{place}` no longer exists, and was left as it is.", place=place)
            if now is None
            else phrase("`{place}` has changed meanwhile, and was left as it is.", place=place),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Read it again, then make the change."),
        )


class NotAsBeforeError(PathError):
    """Something is not as it was when a command began that ran aside from the workspace."""

    def __init__(self, *shown: str) -> None:
        names = ", ".join(f"`{one}`" for one in shown[:_MOST_NAMED])
        super().__init__(
            "changed",
            phrase("{places} has changed since the command began, so nothing of it was kept.", places=names)
            if len(shown) == 1
            else phrase("{places} have changed since the command began, so nothing of it was kept.", places=names)
            if len(shown) <= _MOST_NAMED
            else phrase(
                "{places} and {count} more have changed since the command began, so nothing of it was kept.",
                places=names,
                count=f"{len(shown) - _MOST_NAMED:,}",
            ),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Run the command again."),
        )


class HalfMadeError(PathError):
    """Changes failed in the middle, and not all that was made of them could be taken back."""

    def __init__(self, why: PathError) -> None:
        super().__init__(
            "half",
            phrase(
                "{problem} What was changed before in git directories, caches and very large files has stayed.",
                problem=why.message,
            ),
            kind=why.kind,
            suggestion=phrase("Look at what is there before you run the command again."),
        )


@dataclass(slots=True)
class Plan:
    """What will be done: `contents` are new in the store and how much room they take, `data` what files hold before
    and after.
    """

    changes: list[Change] = field(default_factory=list[Change])
    contents: NewContents = field(default_factory=NewContents)
    data: dict[str, bytes] = field(default_factory=dict[str, bytes])
    through_hard_links: set[Path] = field(default_factory=set["Path"])
    durable: bool = True
    """Whether what it needs must outlast a power cut before anything is changed.

    So it must where something would be gone for good, or half done. One file that is written is old or new after a
    power cut, whatever the history knows of it; to wait for the disk three times more would only keep its undo, which
    the kernel writes to the disk half a minute later anyway. A kill loses nothing of either. For very many files the
    disk is waited for once, before the first of them changes.
    """


class _Planner:
    def __init__(self, store: SnapshotStore, files: FileStates, *, durable: bool) -> None:
        self._store, self._files = store, files
        self.plan = Plan(durable=durable)
        self._needed: set[str] = set()

    def add(self, step: Step) -> None:
        match step:
            case Write():
                self._write(step)
            case Delete():
                self._delete(step)
            case Move():
                self._move(step)
            case SetMode():
                before = self._files.look(step.place)
                if before is None:
                    raise _missing(step.place)
                if before.mode != step.mode:
                    after = State("", step.mode)
                    self.plan.changes.append(
                        Change(0, step.place.path, Operation.MODE, None, before, after, 0, covered=True)
                    )

    def _write(self, step: Write) -> None:
        place = step.place
        before, old = self._files.read(place, holds=step.holds, named=step.expect)
        _check(place, before, step.expect)
        name = digest(step.data)
        mode = before.mode if before and step.mode is None else step.mode
        after = State(name, mode)
        if before == after:
            return
        self.plan.data[name] = step.data
        if step.through_hard_links:
            self.plan.through_hard_links.add(place.path)
        covered = (before is None or self._keep(before, old, durable=self.plan.durable)) and self._keep(
            after, step.data, durable=False
        )
        operation = Operation.CREATE if before is None else Operation.CHANGE
        made = self._files.missing_folders(place) if before is None else 0
        self.plan.changes.append(Change(0, place.path, operation, None, before, after, made, covered))

    def _delete(self, step: Delete) -> None:
        before, old = self._files.read(step.place)
        _check(step.place, before, step.expect)
        if before is None:
            raise _missing(step.place)
        covered = self._keep(before, old, durable=self.plan.durable)
        self.plan.changes.append(Change(0, step.place.path, Operation.DELETE, None, before, None, 0, covered))

    def _move(self, step: Move) -> None:
        state = self._files.look(step.place)
        if state is None:
            raise _missing(step.place)
        if self._files.look(step.to) is not None:
            raise PathError(
                "exists",
                phrase("`{place}` was not moved: there is a file at `{to}`.", place=step.place, to=step.to),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Choose another name, or delete that file first."),
            )
        made, path = self._files.missing_folders(step.to), step.place.path
        self.plan.changes.append(Change(0, path, Operation.MOVE, step.to.path, state, state, made, covered=True))

    def _keep(self, state: State, data: bytes | None, *, durable: bool) -> bool:
        if data is None:
            return False
        self._needed.add(state.digest)
        self.plan.data.setdefault(state.digest, data)
        return self._store.keep(state.digest, data, self._needed, self.plan.contents, durable=durable)


def plan(steps: Sequence[Step], store: SnapshotStore, files: FileStates) -> Plan:
    """What the steps will change, their old contents in the store. Steps that change nothing are left out."""
    loses = len(steps) > 1 or any(isinstance(step, Delete) for step in steps)
    planner = _Planner(store, files, durable=loses and len(steps) <= _MANY)
    for step in steps:
        planner.add(step)
    return planner.plan


def _check(place: Place, now: State | None, expect: str | None) -> None:
    if expect is not None and (now.digest if now else NO_FILE) != expect:
        raise ChangedMeanwhileError(place, now)


def _missing(place: Place) -> PathError:
    return PathError("missing", phrase("There is no file at `{given}`.", given=place), kind=ErrorKind.NOT_FOUND)


# The history


_MANY = 64
_MOST_CALLS = 10_000
_MOST_RECENT = 1_000


class History:
    """The changes of one workspace. Safe in any number of threads and processes; nothing in here waits for long.

    A file is changed by steps (`Write`, `Delete`, `Move`, `SetMode`): there is no way to change it without its old
    content being kept. `notes` says what went wrong with the store itself, such as a broken journal set aside, and
    `tell` hears of it at once.
    """

    def __init__(
        self,
        folder: Path,
        paths: Paths,
        caps: Caps | None = None,
        *,
        patience: float = 30,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._paths, self._folder = paths, folder
        self._store = SnapshotStore(folder, caps or Caps(), patience, tell)
        self._files = FileStates(paths, self._store.caps.file)
        self._recovery = Recovery(self._store, self._files)
        self._conflicts = Conflicts(self._store, self._files, paths)
        self._told = 0  # of the notes, by a report
        self.shell_changes = ShellChanges(folder, self._store, self._recovery, paths)
        """What shell commands do to the files."""

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(self._store.notes)

    def close(self) -> None:
        self.shell_changes.close()
        self._store.close()

    def settle(self) -> None:
        """Finish or roll back what a kill left in the middle."""
        if self._folder.exists():
            self._recovery.use(lambda _: None)

    # Changing

    def apply(
        self, steps: Sequence[Step], origin: Origin | None = None, *, before_each: Callable[[int], None] | None = None
    ) -> Group | None:
        """Make changes as one: all of them or none, undone as one. None when everything was so already.

        `before_each` hears of every change before it is made, by its position; raising there takes all back.
        """
        paths = [place.path for step in steps for place in _places(step)]
        if len(set(paths)) < len(paths):
            raise ValueError("a path occurs twice in one batch of changes")
        with writing(*paths):
            return self._recorded(lambda: self._apply(steps, origin or Origin(), before_each))

    def _apply(self, steps: Sequence[Step], origin: Origin, before_each: Callable[[int], None] | None) -> Group | None:
        if fixed := next((place for step in steps for place in _places(step) if place.root.read_only), None):
            raise only_read(str(fixed))
        with self._recovery.settled() as journal:
            self.shell_changes.take_up(journal, (place.path for step in steps for place in _places(step)))
            planned = plan(steps, self._store, self._files)
            if not planned.changes:
                return None
            self._store.require_current()
            group = journal.begin(time.time(), origin, planned.changes, planned.contents, durable=planned.durable)
            try:
                self._carry_out(group, planned, before_each)
                if not self._store.is_current():
                    raise _NotOnRecord(group, planned.data)
                journal.finish(group, self._recovery.new_modes(group))
            except _NotOnRecord:
                raise
            except BaseException:
                self._recovery.roll_back(group, planned.data)
                raise
            self._store.tidy(group.number)
            return journal.group(group.number)

    def _carry_out(self, group: Group, planned: Plan, before_each: Callable[[int], None] | None) -> None:
        content, through_hard_links = planned.data.__getitem__, planned.through_hard_links
        with ExitStack() as together:
            staged: Staged = {}
            if len(group.changes) > _MANY:
                # Waiting for the disk five times for each of many files takes minutes. It is waited for three times in
                # all: once the old contents are kept, once all new ones lie beside their files, and at the end. At no
                # moment is a file in its place that a power cut could leave empty.
                together.enter_context(synced_together())
                staged = together.enter_context(self._files.staged(group.changes, content, through_hard_links))
                os.sync()
            many = bool(staged)
            # What cannot be rolled back comes last.
            for position, change in enumerate(sorted(group.changes, key=lambda one: not one.covered)):
                if before_each is not None:
                    before_each(position)
                # The plan of many files is no longer fresh when the last of them has its turn.
                if (position or many) and change.covered and not self._files.is_at(change, Side.BEFORE):
                    place = self._files.place(change.path)
                    raise ChangedMeanwhileError(place, self._files.look(place))
                linked = change.path in through_hard_links
                self._files.put(change, Side.AFTER, content, through_hard_links=linked, staged=staged)

    def make(
        self,
        changes: Sequence[Change],
        content: Callable[[Change, Side], BinaryIO],
        origin: Origin | None = None,
        *,
        check: Callable[[], None] | None = None,
        unlisted: Sequence[Change] = (),
    ) -> Group | None:
        """Make changes of files, links and folders in the order given, as one: all of them or none.

        `content` opens what a file holds at one side of a change. `check` raises where the changes do not fit what is
        there by now. A file above the caps is changed all the same, and noted as not covered. Of the `unlisted`, the
        folders that the history leaves out and all in them, nothing is kept.
        """
        with writing(*(path for one in (*changes, *unlisted) for path in one.paths)):
            return self._recorded(lambda: self._make(changes, content, origin or Origin(), check, unlisted))

    def _make(
        self,
        changes: Sequence[Change],
        content: Callable[[Change, Side], BinaryIO],
        origin: Origin,
        check: Callable[[], None] | None,
        unlisted: Sequence[Change],
    ) -> Group | None:
        with self._recovery.settled() as journal:
            if check is not None:
                check()

            stays = False

            def put(these: Sequence[Change]) -> None:
                nonlocal stays
                for change in these:
                    self._files.put(change, Side.AFTER, lambda _, change=change: content(change, Side.AFTER))
                    stays = stays or not change.covered or change.repository is not None

            if not changes:
                try:
                    with synced_together() if len(unlisted) > _MANY else nullcontext():
                        put(unlisted)
                except PathError as error:
                    if stays:
                        raise HalfMadeError(error) from error
                    raise
                return None
            git = [one for one in changes if one.repository is not None]
            changes = [one for one in changes if one.repository is None]
            self.shell_changes.take_up(journal, (path for one in changes for path in one.paths))
            many = len(changes) + len(git) + len(unlisted) > _MANY
            contents, at_hand = NewContents(), ContentsAtHand()
            needed: set[str] = set()
            kept = partial(self._both_kept, content=content, needed=needed, contents=contents, at_hand=at_hand)
            planned = [replace(one, covered=one.covered and kept(one, durable=not many)) for one in changes]
            held = HeldOfGit(git, lambda one: content(one, Side.BEFORE), self._files, self._store)
            self._store.require_current()
            apart = {one.path for one in unlisted}  # what is not covered of these, nothing waits for
            ordered = in_order([one for one in planned if one.covered or one.path not in apart])
            left_out = (one for one in planned if not one.covered and one.path in apart)
            planned = [*ordered, *left_out, *held.deleted, *held.created]
            group = journal.begin(time.time(), origin, planned, contents | held.contents, durable=not many)
            try:
                with synced_together() if many else nullcontext():
                    put([one for one in unlisted if one.after is None])  # before the folders that they lie in
                    # What is done in a git directory stays, so that comes before what would be rolled back.
                    for change in (*by_safety(git), *(one for one in group.changes if one.path not in apart)):
                        if not held.is_as_before(change):
                            raise NotAsBeforeError(one_line(self.show(change.path)))
                        put([change])
                    put([one for one in unlisted if one.after is not None])
                    if not self._store.is_current():
                        raise _NotOnRecord(group, at_hand)
                    if git:
                        group = held.settle(group)
                    journal.finish(group, {})
            except _NotOnRecord:
                raise
            except BaseException as error:
                self._recovery.roll_back(group, at_hand)
                if stays and isinstance(error, PathError):
                    raise HalfMadeError(error) from error
                raise
            self._store.tidy(group.number)
            return journal.group(group.number)

    def _both_kept(
        self,
        change: Change,
        content: Callable[[Change, Side], BinaryIO],
        needed: set[str],
        contents: NewContents,
        at_hand: ContentsAtHand,
        *,
        durable: bool,
    ) -> bool:
        """Put in the store what a file holds at either side of a change; what it held before outlasts a power cut."""
        for side, state in ((Side.BEFORE, change.before), (Side.AFTER, change.after)):
            if state is None or not state.content:
                continue
            with content(change, side) as file:
                data = file.read(self._store.caps.file + 1)
            if len(data) <= self._store.caps.file and digest(data) != state.content:
                raise NotAsBeforeError(one_line(self.show(change.path)))
            needed.add(state.content)
            at_hand.add(state.content, data)
            last = durable and side is Side.BEFORE
            if not self._store.keep(state.content, data, needed, contents, durable=last):
                return False
        return True

    # Undoing

    def undo(
        self, *, to: int | None = None, call: str | None = None, turn: str | None = None, session: str | None = None,
        most: int = 1,
    ) -> Report:  # fmt: skip
        """Undo the newest call, or the `most` newest, or a call or all of a turn, or all groups after the group `to`.

        A group is undone whole or, where one of its files has changed since, not at all; then it stops there. A call
        of several groups is undone whole or not at all too; one that is not in the history is a problem of its own.
        Changes of no call are undone one by one.
        """
        return self._turn(Side.BEFORE, to, call, turn, session, most)

    def undo_turns(self, session: str, *, most: int | None = None, since: int | None = None) -> tuple[Report, int]:
        """Take back a conversation's last turns that changed something, the newest first: so many, or all from turn
        `since` on. Gives what came of all of them together, and how many were undone whole.
        """
        report, turns = Report(undo=True), 0
        while most is None or turns < most:
            done = next((one for one in self.recent(_MOST_RECENT, session=session) if one.phase is Phase.DONE), None)
            turn = done.origin.turn if done is not None else ""
            if done is None or (since is not None and (not turn.isdecimal() or int(turn) < since)):
                break
            more = self.undo(session=session, turn=turn or None)
            report = replace(
                more,
                groups=report.groups + more.groups,
                notes=report.notes + more.notes,
                put_back=report.put_back + more.put_back,
                incomplete=report.incomplete or more.incomplete,
            )
            if more.refused is not None or not more.groups:
                break
            turns += 1
        stays = stays_in_git(report.groups, self._store.contents, self.show)
        return replace(report, stays=tuple(stays)), turns

    def changed_since(self, session: str, turn: int) -> bool:
        """Whether a conversation's turns from this one on changed something that still stands."""
        done = [one for one in self.recent(_MOST_RECENT, session=session) if one.phase is Phase.DONE]
        return any(one.origin.turn.isdecimal() and int(one.origin.turn) >= turn for one in done)

    def redo_turn(self, session: str) -> Report:
        """Do again what was undone last in a conversation, with all of its turn."""
        undone = [one for one in self.recent(_MOST_RECENT, session=session) if one.phase is Phase.UNDONE]
        return self.redo(session=session, turn=(undone[-1].origin.turn if undone else "") or None)

    def redo(
        self, *, to: int | None = None, call: str | None = None, turn: str | None = None, session: str | None = None,
        most: int = 1,
    ) -> Report:  # fmt: skip
        """Do again what was undone last, or the `most` last; or all of a call or a turn; or all up to group `to`."""
        return self._turn(Side.AFTER, to, call, turn, session, most)

    def _turn(
        self, side: Side, to: int | None, call: str | None, turn: str | None, session: str | None, most: int
    ) -> Report:
        groups: list[Group] = []
        refused: Refusal | None = None
        self.shell_changes.settle()
        if call is not None:
            refused = self._recovery.use(partial(self._check_call, side, call, to, turn, session))
        counted = to is None and call is None and turn is None
        put_back: dict[int, PutBack] = {}
        whole: Origin | None = None  # where changes are counted: the call whose changes go together now
        counts = False

        def choose(journal: Journal) -> Group | None:
            if whole is not None:
                return journal.next_to(side, call=whole.call, turn=whole.turn, session=whole.session)
            return journal.next_to(side, to=to, call=call, turn=turn, session=session)

        while refused is None:
            group = self._recovery.use(choose)
            if group is None:
                if whole is None:
                    break
                most, whole, counts = most - counts, None, False
                if most == 0:
                    break
                continue
            if counted and whole is None and group.origin.call:
                whole, one = group.origin, group.origin
                refused = self._recovery.use(partial(self._check_call, side, one.call, None, one.turn, one.session))
                continue
            with writing(*group.paths):
                done = self._recovery.use(partial(self._turn_group, group, side, put_back))
            if done is None:
                continue  # someone else was quicker; look again
            if isinstance(done, Refusal):
                refused = done
                break
            groups.append(done)
            if counted and (done.changes or any(one.operation is Operation.DELETE for one in done.git)):
                # else there was nothing to do: it only changed what git keeps
                counts = True
                if whole is None and (most := most - 1) == 0:
                    break
        told, self._told = self._told, len(self._store.notes)
        notes = tuple(self._store.notes[told:])
        restored = [line for one in put_back.values() for line in one.lines(self.show)]
        stays = stays_in_git(groups, self._store.contents, self.show) if side is Side.BEFORE else []
        incomplete = any(one.failed for one in put_back.values())
        return Report(side is Side.BEFORE, tuple(groups), refused, notes, tuple(restored), incomplete, tuple(stays))

    def _check_call(
        self, side: Side, call: str, to: int | None, turn: str | None, session: str | None, journal: Journal
    ) -> Refusal | None:
        """What keeps a call from being undone or redone as a whole.

        One that no change came from is probably a typo, and not one that was undone already.
        """
        if not journal.has_call(call):
            if calls := journal.calls(_MOST_CALLS):
                raise no_such_call(call, calls)
            return None
        groups = journal.all_to(side, to=to, call=call, turn=turn, session=session)
        self.shell_changes.take_up(journal, (path for group in groups for path in group.paths))
        groups = journal.all_to(side, to=to, call=call, turn=turn, session=session)
        for at, group in enumerate(groups):
            if conflicts := self._conflicts.of(group, side, after=groups[:at]):
                return Refusal(group, tuple(conflicts))
        return None

    def _turn_group(
        self, chosen: Group, side: Side, begun: dict[int, PutBack], journal: Journal
    ) -> Group | Refusal | None:
        """`begun` says which it has begun already, should it have to be tried again, and what was put back."""
        under_way, over = (Phase.UNDOING, Phase.UNDONE) if side is Side.BEFORE else (Phase.REDOING, Phase.DONE)
        self.shell_changes.take_up(journal, chosen.paths)
        group = journal.find(chosen.number)
        if group is not None and group.phase is over and group.number in begun:
            return group  # finished as after a kill
        if group is None or group.phase is not chosen.phase:
            return None
        conflicts = self._conflicts.of(group, side)
        if conflicts:
            return Refusal(group, tuple(conflicts))
        journal.mark(group, under_way, durable=True)
        begun[group.number] = PutBack()
        changes = [one for one in group.changes if one.covered]
        # What the group needs to be brought to either end, as much as fits.
        at_hand = ContentsAtHand()
        for name in (state.content for one in changes for state in (one.before, one.after) if state):
            if name and name not in at_hand and at_hand.left:
                with suppress(ContentLost):  # reported when it is needed
                    at_hand.add(name, self._store.contents.get(name))

        content = partial(self._store.contents.get, at_hand=at_hand)
        try:
            with synced_together() if len(changes) > _MANY else nullcontext():
                for change in reversed(changes) if side is Side.BEFORE else changes:
                    self._files.put(change, side, content)
                if side is Side.BEFORE:
                    begun[group.number] = self._recovery.put_back(group)
        except (PathError, ContentLost, OSError) as error:
            self._recovery.return_to(group, side.opposite, at_hand)
            text = error.message if isinstance(error, PathError) else str(error)
            return Refusal(group, (Conflict(Why.FAILED, str(group), text),))
        if not self._store.is_current():
            self._store.note(f"The history of changes was removed meanwhile: change {group.number} is off record.")
            return group
        journal.mark(group, over)
        return journal.group(group.number)

    # Looking

    def recent(self, limit: int = 50, *, path: Path | None = None, session: str | None = None) -> list[Group]:
        """The newest groups first; with `path`, those of one file or of all below a folder."""
        try:
            self.shell_changes.settle()
        except PathError as problem:  # the list is shown all the same, and what it lacks is said
            self._store.note(problem.message)
        return self._recovery.use(lambda journal: journal.recent(limit, path, session))

    def show(self, path: Path) -> str:
        """A path as it is shown to people and models."""
        return self._paths.show(path)

    def diff(self, first: int, last: int | None = None, *, most: int = 50_000) -> str:
        """What a group did, or all from one to another taken together, as a unified diff of bounded length."""

        def compare(journal: Journal) -> list[str]:
            between = (first, first if last is None else last)
            git = [f"{self.show(one)}: changed by git.\n" for one in journal.repositories_between(*between)]
            return [*self._conflicts.diffs(journal.changes_between(*between)), *git]

        parts = self._recovery.use(compare)
        if not parts:
            raise PathError(
                "missing",
                phrase("There is no change {n} in the history.", n=first)
                if last is None
                else phrase("There is no change from {first} to {last} in the history.", first=first, last=last),
                kind=ErrorKind.NOT_FOUND,
                suggestion=phrase("`ferrule history` lists those that are kept; older ones are forgotten."),
            )
        return bounded(parts, most)

    def _recorded(self, work: Callable[[], Group | None]) -> Group | None:
        """Make a change; one whose store was taken away in the middle goes into the new one."""
        try:
            return again_if_broken(work)
        except _NotOnRecord as made:
            changes = made.group.changes
            try:
                modes = self._recovery.new_modes(made.group)
                noted = [
                    replace(one, after=replace(one.after, mode=modes[one.seq]))
                    if one.after and one.seq in modes
                    else one
                    for one in changes
                ]
                record = partial(self._store.record, noted, made.at_hand.get, made.group.origin)
                group = self._recovery.use(lambda _: record())
            except PathError as problem:
                self._store.note(f"{_counted(changes)} changed but not on record, and cannot be undone: {problem}")
                return made.group
            if lost := group.uncovered[len(made.group.uncovered) :]:
                self._store.note(f"{_counted(lost)} changed meanwhile and cannot be undone.")
            return group


class _NotOnRecord(Exception):  # noqa: N818 - reads as what it says
    """A change was made whole, and the store that should say so is gone."""

    def __init__(self, group: Group, at_hand: Mapping[str, bytes]) -> None:
        super().__init__(group)
        self.group, self.at_hand = group, at_hand


def _counted(changes: Sequence[Change]) -> str:
    return f"`{changes[0].path.name}` was" if len(changes) == 1 else f"{len(changes):,} files were"


def _places(step: Step) -> tuple[Place, ...]:
    return (step.place, step.to) if isinstance(step, Move) else (step.place,)
