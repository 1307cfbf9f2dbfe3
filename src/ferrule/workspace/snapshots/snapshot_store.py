"""Where the history is kept: the contents and the journal in one folder, within their caps, and mended when broken."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ferrule.core.files import lock, unlock
from ferrule.core.phrases import advice, phrase
from ferrule.pipeline.threads import seen_through
from ferrule.records.reserve import RESERVE, Reserve, is_full
from ferrule.workspace.data_folder import data_folder
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Change, Group, Node, Operation, Phase, Side
from ferrule.workspace.snapshots.content_store import (
    SHARDS,
    ContentLost,
    ContentStore,
    NewContents,
    is_linked,
    pack,
    room,
)
from ferrule.workspace.snapshots.git_undo import PutBack, put_back, remove_unfinished
from ferrule.workspace.snapshots.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
    from pathlib import Path

    from ferrule.workspace.snapshots.changes import Caps, Origin
    from ferrule.workspace.snapshots.file_states import FileStates


# One at a time in a folder, over all threads and processes. The kernel lets go of it when a process dies.


_HELD, _LET_GO = b"1", b"0"


class StoreLock:
    """Nothing else may be locked while it is held, so that nobody waits in a ring.

    The file says that somebody works inside, and who was killed there, or failed, does not take that back.
    """

    def __init__(self, path: Path, patience: float) -> None:
        self._path, self._patience = path, patience
        self._threads = threading.Lock()
        self._opened: int | None = None

    @contextmanager
    def held(self) -> Generator[bool]:
        """Hold it; a tool whose call is given up meanwhile goes on until it has let go.

        Gives whether whoever held it last came to the end of their work.
        """
        with seen_through():
            deadline = time.monotonic() + self._patience
            if not self._threads.acquire(timeout=self._patience):
                raise self._busy()
            try:
                opened = self._lock(deadline)
                try:
                    whole = os.pread(opened, 1, 0) != _HELD
                    _write(opened, _HELD)
                    yield whole
                    _write(opened, _LET_GO)
                finally:
                    unlock(opened)
            finally:
                self._threads.release()

    def is_current(self) -> bool:
        """Whether the file that is open is the one that others find, and not one that was removed or replaced."""
        if self._opened is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._opened), self._path.stat())
        except OSError:
            return False

    def close(self) -> None:
        with self._threads:
            self._drop()

    def __del__(self) -> None:
        if getattr(self, "_opened", None) is not None:  # a session that nobody closed must not cost a descriptor
            self._drop()

    def _lock(self, deadline: float) -> int:
        """The file, locked. Only once it is locked can it be told whether others will lock the same."""
        while True:
            if self._opened is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                try:
                    self._opened = os.open(self._path, flags, 0o600)
                except FileNotFoundError:
                    self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    self._opened = os.open(self._path, flags, 0o600)
            if not lock(self._opened, deadline - time.monotonic()):
                raise self._busy()
            if self.is_current():
                return self._opened
            self._drop()
            if time.monotonic() > deadline:
                raise self._busy()

    def _drop(self) -> None:
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None

    def _busy(self) -> PathError:
        return PathError(
            "busy",
            phrase(
                "The history of changes has been in use by another program for {seconds} seconds, "
                "so nothing was changed.",
                seconds=f"{self._patience:g}",
            ),
            suggestion=phrase("Try again, or stop the other Ferrule that works in this folder."),
        )


def _write(opened: int, said: bytes) -> None:
    with suppress(OSError):  # a full disk: what a kill leaves behind is then found by the sweep now and then
        os.pwrite(opened, said, 0)


_FILE, _CONTENTS, _LINKS, _ASIDE, _RESERVE = "journal.db", "contents", "linked", "set-aside", "reserve"
_MARGIN = 128 * 1024  # what the journal may grow by in one change
_AGED_AT_ONCE = 50
_SWEEP_EVERY = 32
_MANY = 200
_LOST = "A new one was started: earlier changes cannot be undone."


class Broken(Exception):  # noqa: N818 - reads as what it says
    """The store cannot be used as it was: broken and set aside, removed or replaced. Trying again finds a new one."""


class SnapshotStore:
    """One folder, for any number of threads and processes. `notes` says what went wrong with the store itself."""

    def __init__(self, folder: Path, caps: Caps, patience: float, tell: Callable[[str], None] | None = None) -> None:
        self.caps = caps
        self.notes: list[str] = []
        self.contents = ContentStore(folder / _CONTENTS)
        self.links = ContentStore(folder / _LINKS)
        """Second names of the objects in git directories, for when a command removes some."""
        self._tell = tell
        self._folder = folder
        self._lock = StoreLock(folder / "lock", patience)
        self._reserve = Reserve(folder / _RESERVE, min(RESERVE, caps.total // 64))
        self._used_reserve = False
        self._journal: Journal | None = None
        self._turns = 0
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise unusable(error) from None

    @contextmanager
    def locked(self, *, reserve: bool = False) -> Generator[Journal]:
        """Be the only one who uses the store. `Broken` is raised where it broke, or was removed, meanwhile.

        With `reserve` it is raised too where the disk was full, as long as there is room left that is kept for what has
        happened already: trying again finds that room.
        """
        try:
            with self._lock.held() as whole:
                try:
                    journal = self._open()
                    if not whole:
                        self._sweep(self.contents.all())
                    yield journal
                    if self._used_reserve:
                        self._reserve.take_back()
                        self._used_reserve = False
                except sqlite3.DatabaseError as error:
                    if reserve and self.give_up_reserve(error):
                        self._close_journal()
                        raise Broken(str(error)) from error
                    if not self.is_current():
                        raise Broken(str(error)) from error
                    if not _is_damage(error):
                        raise
                    self._set_aside(error)
                    raise Broken(str(error)) from error
                except OSError as error:
                    if reserve and self.give_up_reserve(error):
                        raise Broken(error.strerror or str(error)) from error
                    if self.is_current():
                        raise
                    raise Broken(error.strerror or str(error)) from error
        except (sqlite3.Error, OSError) as error:
            raise unusable(error) from error

    @property
    def reserved(self) -> int:
        """Bytes that are kept for what has happened already."""
        return self._reserve.held

    def give_up_reserve(self, error: Exception) -> bool:
        """Whether something failed for want of room, and there is more now."""
        if not is_full(error, self._folder) or not self._reserve.give_up():
            return False
        self._used_reserve = True
        return True

    def is_current(self) -> bool:
        """Whether the store is still the one that is locked, and not removed or replaced meanwhile."""
        return self._lock.is_current() and self._journal is not None and self._journal.is_current()

    def require_current(self) -> None:
        """Raise `Broken` unless what is written now lands where others will find it."""
        if not self.is_current():
            raise Broken(str(phrase("it was removed meanwhile")))

    def note(self, text: str) -> None:
        """Have something told to whoever uses the store, once."""
        self.notes.append(text)
        if self._tell is not None:
            self._tell(text)

    def close(self) -> None:
        self._close_journal()
        self._lock.close()

    # Contents, inside the lock

    def keep(self, name: str, data: bytes, keep: Collection[str], pending: NewContents, *, durable: bool) -> bool:
        """Put a content in the store and into `pending`; False when the caps leave no room for it.

        Room is made first, so that the store is never over its cap; `keep` names what must stay.
        """
        if len(data) > self.caps.file:
            return False
        known = pending.get(name) or self.journal.content_size(name)
        if known is not None and self.contents.has(name, known, durable=durable):
            return True
        packed = pack(data)
        size = sum(map(len, packed))
        needed = room(size) + pending.room
        while self.journal.totals()[0] + self._reserve.held + needed + _MARGIN > self.caps.total:
            if not self._drop_oldest(keep):
                return False
        self.contents.put(name, packed, durable=durable)
        pending.add(name, size)
        return True

    def record(
        self,
        changes: Sequence[Change],
        content: Callable[[str], bytes | None],
        origin: Origin,
        others: Sequence[Origin] = (),
    ) -> Group:
        """Put changes in the list that are made already; one whose contents are not to be had is not covered.

        `content` gives the bytes of a digest.
        """
        contents = NewContents()
        needed: set[str] = set()
        noted = [replace(one, covered=one.covered and self._kept(one, content, needed, contents)) for one in changes]
        self.require_current()
        group = self.journal.begin(time.time(), origin, noted, contents, others=others)
        self.journal.finish(group, {})
        self.tidy(group.number)
        return self.journal.group(group.number)

    def _kept(
        self, change: Change, content: Callable[[str], bytes | None], needed: set[str], contents: NewContents
    ) -> bool:
        for state in (change.before, change.after):
            if state is None or not state.content:
                continue
            if is_linked(state):
                if not self.contents.link(state.content, self.links.path(state.content)):
                    return False
                contents[state.content] = 0
                continue
            data = content(state.content)
            needed.add(state.content)
            if data is None or not self.keep(state.content, data, needed, contents, durable=False):
                return False
        return True

    def tidy(self, newest: int) -> None:
        """A little housekeeping after each change: what is too old or too much, and what a kill left behind.

        The newest group stays, however large it is: what was just done can be undone.
        """
        with suppress(OSError, Broken):  # the change itself is made; what could not be removed goes another time
            self.require_current()
            now = time.time()
            for _ in range(_AGED_AT_ONCE):
                oldest = self.journal.oldest()
                if oldest is None or oldest.number == newest:
                    break
                too_many = self.journal.totals()[1] > self.caps.changes
                if not too_many and oldest.time >= now - self.caps.age:
                    break
                self._drop_oldest(())
            if self._turns % _SWEEP_EVERY == 0:
                self._sweep(self.contents.shard(secrets.randbelow(SHARDS)))
            self._turns += 1

    def forget(self, group: Group, changes: Iterable[Change], keep: Collection[str] = ()) -> None:
        """Drop changes of a group, and the contents that nobody needs any more."""
        self.require_current()  # what has taken the place of this store may need contents of the same name
        for name in self.journal.forget(group, changes, keep):
            self.contents.remove(name)

    def replace_git(self, group: Group, rows: Sequence[Change], contents: Mapping[str, int]) -> None:
        """Keep other rows of git directories than those that a group began with."""
        self.require_current()
        kept = {one.before.content for one in rows if one.before is not None}
        needed = {name: size for name, size in contents.items() if name in kept}
        free = self.journal.replace_git(group, rows, needed)
        for name in {*free, *(contents.keys() - kept)} - kept:
            self.contents.remove(name)

    @property
    def journal(self) -> Journal:
        assert self._journal is not None  # noqa: S101 - only used inside the lock
        return self._journal

    def _drop_oldest(self, keep: Collection[str]) -> bool:
        oldest = self.journal.oldest()
        if oldest is None:
            return False
        self.forget(oldest, oldest.changes, keep)
        return True

    def _sweep(self, names: Iterable[str]) -> None:
        """Remove what a kill between the contents and the journal left without an entry."""
        found = list(names)
        known = self.journal.content_names() if len(found) > _MANY else None
        for name in found:
            if (self.journal.content_size(name) is None) if known is None else name not in known:
                self.contents.remove(name)

    # Mending

    def _open(self) -> Journal:
        if self._journal is not None and not self._journal.is_current():
            self._follow()
        if self._journal is None:
            try:
                self._journal = Journal(self._folder / _FILE)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._set_aside(error)
                self._journal = Journal(self._folder / _FILE)
            self._forget_if_old(self._folder / _ASIDE)
            self._reserve.keep()
        return self._journal

    def _follow(self) -> None:
        """The journal is not where it was. Go on with what is there now, or with a new one."""
        lost = self._journal
        self._close_journal()
        aside = self._folder / _ASIDE / _FILE
        if lost is not None and aside.exists() and os.path.samestat(aside.stat(), lost.file):
            self.note(f"Another program could not read the history of changes and set it aside as `{aside}`. {_LOST}")
        elif (self._folder / _FILE).exists():
            self.note(
                "The history of changes was replaced while this session was running. Changes that the one in its "
                "place does not list cannot be undone."
            )
        else:
            self.note(f"The history of changes was removed while this session was running. {_LOST}")

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _set_aside(self, error: Exception) -> None:
        self._close_journal()
        for old in histories_set_aside():  # of workspaces that nobody uses any more, too
            self._forget_if_old(old)
        aside = self._folder / _ASIDE
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(exist_ok=True)
        for name in (_FILE, f"{_FILE}-wal", f"{_FILE}-shm", _CONTENTS):
            if (self._folder / name).exists():
                (self._folder / name).replace(aside / name)
        self.note(f"The history of changes could not be read ({error}) and was set aside as `{aside / _FILE}`. {_LOST}")

    def _forget_if_old(self, aside: Path) -> None:
        with suppress(OSError):
            if aside.stat().st_mtime < time.time() - self.caps.age:
                shutil.rmtree(aside, ignore_errors=True)


def histories_set_aside() -> list[Path]:
    """Folders with histories that could not be read, one for each workspace that had such."""
    return sorted((data_folder() / "history").glob(f"*/{_ASIDE}"))


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file itself is broken, and not the disk full, the folder read-only or the file busy."""
    if not isinstance(error, sqlite3.OperationalError):
        return not isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # A file that is a database with other tables in it says "no such table" (SQLITE_ERROR).
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def unusable(error: Exception) -> PathError:
    """Why nothing can be changed: the store does not work."""
    why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return PathError(
        "history",
        phrase("The history of changes cannot be kept: {why}. Without it no file is changed.", why=why.lower()),
        suggestion=advice(
            "The user can free disk space, or make the history's folder writable.",
            "Free disk space, or make the history's folder writable.",
        ),
    )


# What a crash or a failure left in the middle is finished, or rolled back as if it had never begun.


_Result = TypeVar("_Result")
_NEW_STORES = 5
"""How often something begins anew because its store broke or was taken away."""


def again_if_broken(work: Callable[[], _Result]) -> _Result:
    """Do something with the store; where that broke or was taken away, with the new one."""
    for _ in range(_NEW_STORES - 1):
        with suppress(Broken):
            return work()
    try:
        return work()
    except Broken as error:
        raise unusable(error) from error


class Recovery:
    """Works inside the lock of the store: whatever is in the middle there has nobody left who works on it."""

    def __init__(self, store: SnapshotStore, files: FileStates) -> None:
        self._store, self._files = store, files

    @contextmanager
    def settled(self, *, reserve: bool = False) -> Generator[Journal]:
        """Be the only one who uses the journal, with what a crash left in the middle finished or rolled back.

        With `reserve` also the room is used that is kept for what has happened already.
        """
        with self._store.locked(reserve=reserve) as journal:
            for group in journal.unsettled():
                self.settle(group)
            yield journal

    def use(self, work: Callable[[Journal], _Result], *, reserve: bool = True) -> _Result:
        """Do something with the settled journal; with a new one where it broke. `reserve` is as in `settled`."""

        def attempt() -> _Result:
            with self.settled(reserve=reserve) as journal:
                return work(journal)

        return again_if_broken(attempt)

    def settle(self, group: Group) -> None:
        """After a kill: an undo or redo is finished; a change is done if it got to its end, and else rolled back."""
        self._files.clear_unfinished((*group.paths, *(one.path for one in group.git)))
        if group.phase is Phase.UNDOING:
            self.return_to(group, Side.BEFORE)
        elif group.phase is Phase.REDOING:
            self.return_to(group, Side.AFTER)
        elif group.changes and all(
            self._files.is_at(one, Side.AFTER) or self._is_past(group, one, Side.AFTER)
            if one.covered
            else self._files.got_there(one)
            for one in group.changes
        ):
            self._store.journal.finish(group, self.new_modes(group))
        else:
            self.roll_back(group)

    def roll_back(self, group: Group, at_hand: Mapping[str, bytes] | None = None) -> None:
        """Forget a change that was not made whole. What someone else has changed since stays, and in the list.

        `at_hand` are contents that need not be in the store any more.
        """
        self.put_back(group)
        remove_unfinished(group.git, self._files)
        kept = [change for change in reversed(group.changes) if not self._put(group, change, Side.BEFORE, at_hand)]
        gone = [change for change in group.changes if change not in kept]
        if not self._store.is_current():
            return  # its place has no list of it
        self._store.forget(group, gone)
        if kept:
            self._store.journal.finish(group, {})

    def return_to(self, group: Group, side: Side, at_hand: Mapping[str, bytes] | None = None) -> None:
        """Bring every file of a group to one end, as far as nobody else has changed it."""
        for change in group.changes if side is Side.AFTER else reversed(group.changes):
            if change.covered and not self._put(group, change, side, at_hand):
                self._store.note(f"`{change.path.name}` was changed while {group} was undone or redone.")
        if side is Side.BEFORE:
            self.put_back(group)
        self._store.journal.mark(group, Phase.UNDONE if side is Side.BEFORE else Phase.DONE)

    def put_back(self, group: Group) -> PutBack:
        """Put back what a group deleted in git directories, as far as it is still missing."""
        done = put_back(group.git, self._files, self._store.contents)
        for note in done.failed:
            self._store.note(note)
        return done

    def new_modes(self, group: Group) -> dict[int, int]:
        """The modes that new files got from the umask."""
        found: dict[int, int] = {}
        for change in group.changes:
            after = change.after
            if change.operation is Operation.CREATE and after and after.node is Node.FILE and after.mode is None:
                state = self._files.look(self._files.place(change.path))
                if state is not None and state.mode is not None:
                    found[change.seq] = state.mode
        return found

    def _put(self, group: Group, change: Change, side: Side, at_hand: Mapping[str, bytes] | None = None) -> bool:
        """Whether a change is at that end now; a file that is at neither is left alone."""
        if not change.covered:
            return not self._files.got_there(change)
        try:
            done = self._files.finish(change, side, partial(self._store.contents.get, at_hand=at_hand))
        except (PathError, ContentLost, OSError):
            return False
        return done or self._is_past(group, change, side)

    def _is_past(self, group: Group, change: Change, side: Side) -> bool:
        """Whether what stands there is further that way than the change alone goes: a folder that gives way to a file
        is removed by one change of a group, and the file made by the next.
        """
        at = group.changes.index(change)
        others = group.changes[:at] if side is Side.BEFORE else group.changes[at + 1 :]
        return any(one.path == change.path and self._files.is_at(one, side) for one in others)
