"""Where the history is kept: the contents and the journal in one folder, within their caps, and mended when broken."""

from __future__ import annotations

import secrets
import shutil
import sqlite3
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.content_store import SHARDS, ContentStore, pack, room
from ferrule.workspace.snapshots.journal import Journal
from ferrule.workspace.snapshots.store_lock import StoreLock

if TYPE_CHECKING:
    from collections.abc import Collection, Generator
    from pathlib import Path

    from ferrule.workspace.snapshots.changes import Caps
    from ferrule.workspace.snapshots.content_store import NewContents

_FILE, _CONTENTS, _ASIDE = "journal.db", "contents", "set-aside"
_MARGIN = 128 * 1024  # what the journal may grow by in one change
_AGED_AT_ONCE = 50
_SWEEP_EVERY = 32


class Broken(Exception):  # noqa: N818 - reads as what it says
    """The journal cannot be read; it was set aside, and what was tried can be tried again on a new one."""


class SnapshotStore:
    """One folder, for any number of threads and processes. `notes` says what went wrong with the store itself."""

    def __init__(self, folder: Path, caps: Caps, patience: float) -> None:
        self.caps = caps
        self.notes: list[str] = []
        self.contents = ContentStore(folder / _CONTENTS)
        self._folder = folder
        self._lock = StoreLock(folder / "lock", patience)
        self._journal: Journal | None = None
        self._turns = 0
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise _unusable(error) from None

    @contextmanager
    def locked(self) -> Generator[Journal]:
        """Be the only one who uses the store. A broken one is set aside, and `Broken` raised."""
        try:
            with self._lock.held():
                try:
                    yield self._open()
                except sqlite3.DatabaseError as error:
                    if not _is_damage(error):
                        raise
                    self._set_aside(error)
                    raise Broken from error
        except (sqlite3.Error, OSError) as error:
            raise _unusable(error) from error

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None
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
        if not self._make_room(room(len(packed)) + pending.room, keep):
            return False
        self.contents.put(name, packed, durable=durable)
        pending.add(name, len(packed))
        return True

    def tidy(self, newest: int) -> None:
        """A little housekeeping after each change: what is too old or too much, and what a kill left behind.

        The newest group stays, however large it is: what was just done can be undone.
        """
        with suppress(OSError):  # the change itself is made; what could not be removed goes another time
            self._forget_what_is_over(newest)
            if self._turns % _SWEEP_EVERY == 0:
                self._sweep(secrets.randbelow(SHARDS))
            self._turns += 1

    def _forget_what_is_over(self, newest: int) -> None:
        now = time.time()
        for _ in range(_AGED_AT_ONCE):
            oldest = self.journal.oldest()
            if oldest is None or oldest.number == newest:
                break
            too_many = self.journal.totals()[1] > self.caps.changes
            if not too_many and oldest.time >= now - self.caps.age:
                break
            self._drop_oldest(())

    def remove(self, names: Collection[str]) -> None:
        for name in names:
            self.contents.remove(name)

    @property
    def journal(self) -> Journal:
        assert self._journal is not None  # noqa: S101 - only used inside the lock
        return self._journal

    def _make_room(self, needed: int, keep: Collection[str]) -> bool:
        while self.journal.totals()[0] + needed + _MARGIN > self.caps.total:
            if not self._drop_oldest(keep):
                return False
        return True

    def _drop_oldest(self, keep: Collection[str]) -> bool:
        oldest = self.journal.oldest()
        if oldest is None:
            return False
        self.remove(self.journal.forget(oldest, oldest.changes, keep))
        return True

    def _sweep(self, number: int) -> None:
        """Remove what a kill between the contents and the journal left without an entry."""
        self.remove([name for name in self.contents.shard(number) if self.journal.content_size(name) is None])

    # Mending

    def _open(self) -> Journal:
        if self._journal is not None and not self._journal.is_current():
            self._journal.close()
            self._journal = None
        if self._journal is None:
            try:
                self._journal = Journal(self._folder / _FILE)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._set_aside(error)
                self._journal = Journal(self._folder / _FILE)
            self._forget_old_aside()
        return self._journal

    def _set_aside(self, error: Exception) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        aside = self._folder / _ASIDE
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(exist_ok=True)
        for name in (_FILE, f"{_FILE}-wal", f"{_FILE}-shm", _CONTENTS):
            if (self._folder / name).exists():
                (self._folder / name).replace(aside / name)
        self.notes.append(
            f"The history of changes could not be read ({error}). It was set aside in `{aside}`, and a new one begun: "
            "changes made before cannot be undone."
        )

    def _forget_old_aside(self) -> None:
        aside = self._folder / _ASIDE
        if aside.is_dir() and aside.stat().st_mtime < time.time() - self.caps.age:
            shutil.rmtree(aside, ignore_errors=True)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file itself is broken, and not the disk full, the folder read-only or the file busy."""
    if not isinstance(error, sqlite3.OperationalError):
        return not isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # A file that is a database with other tables in it says "no such table" (SQLITE_ERROR).
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def _unusable(error: Exception) -> PathProblem:
    why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    return PathProblem(
        "history",
        phrase("The history of changes cannot be kept: {why}. Without it no file is changed.", why=why.lower()),
        suggestion=phrase("The person can make room on the disk, or make the history's folder writable."),
    )
