"""Turns that outlive their process: every step is kept in a SQLite file, sealed, and one process goes on with it.

Each entry is sealed together with all entries before it, by a key of the application. A process adds an entry only
where the turn is still as that process left it, in one transaction. So of two that resume the same state one is
refused, and a process that was taken for dead starts nothing more.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import sqlite3
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from threading import RLock
from time import time
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4
from weakref import WeakSet

from ferrule.agent.conversation import Conversation, DamagedLogError
from ferrule.agent.turn_log import ConversationJournal, TurnStateError, to_form
from ferrule.core.files import lock, write_atomically
from ferrule.core.phrases import phrase
from ferrule.core.result import finite

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from ferrule.agent.turn_log import Entry, WaitingCall
    from ferrule.core.context import Session

VERSION = 1
_APPLICATION_ID = 0x46725475
_SCHEMA = """
CREATE TABLE conversations (
  id TEXT PRIMARY KEY, entries INTEGER NOT NULL, seal TEXT NOT NULL, changed REAL NOT NULL, state TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX conversations_state ON conversations (state, changed);
CREATE TABLE entries (
  conversation TEXT NOT NULL, number INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (conversation, number)
) WITHOUT ROWID;
"""
_DAY = 86_400.0
_LEAST_KEY = 16
_IDLE, _WORKING, _PAUSED = "idle", "working", "paused"
_PURGE_SECONDS = 3600.0
_WITH_FLOATS = re.compile(r"\d(?:\.\d|[eE])")


_FORGED = phrase("The state is not as Ferrule sealed it: it was changed, cut short or sealed with another key.")
_GONE_ON = phrase("The turn has gone on since this state was taken: it was resumed already, or the user said more.")


@dataclass(slots=True, frozen=True)
class StoredTurn:
    """A turn in a store that has not ended: one that waits, or one whose process ended while it worked."""

    id: str
    waiting: tuple[WaitingCall, ...]
    """The calls that it waits for; empty if its process ended."""
    changed: float
    """When it last went on, in seconds since 1970."""
    user: str | None
    tenant: str | None
    state: str
    """For `Agent.resume`."""


class TurnStore:
    """Keeps the turns of agents in a file, so that they can pause, and go on in another process.

    `key` seals them: at least 16 secret bytes, or several keys, of which the first seals and all can open; without it,
    one is made and kept beside the file, for its owner alone. Without a `path` they are kept in memory, for tests. A
    paused turn can be resumed for `expires` seconds, and what was unused for that long is removed; None keeps it.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        key: bytes | str | Sequence[bytes | str] | None = None,
        expires: float | None = 30 * _DAY,
    ) -> None:
        if expires is not None and not 0 < expires < inf:
            raise ValueError(f"`expires` is a number of seconds above 0, or None, not {expires!r}.")
        self.path = Path(path).absolute() if path is not None else None
        self.expires = expires
        self._lock = RLock()
        self._purge_at = 0.0
        self._held: dict[str, int] = {}
        self._closed = False
        _stores.add(self)
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
                self._file = _identity(self.path)
            self._keys = _keys(key, self.path)
            self._database: sqlite3.Connection | None = self._open()
        except (OSError, sqlite3.Error) as error:
            raise TurnStateError(
                phrase("Turns cannot be kept in {path}: {error}.", path=path, error=error),
                phrase("Choose another file, or move this one away."),
            ) from None

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path or ":memory:", isolation_level=None, check_same_thread=False, timeout=10.0)
        try:
            if self.path is not None:
                database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("BEGIN IMMEDIATE")
            version = database.execute("PRAGMA user_version").fetchone()[0]
            known = database.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID
            if not version and not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _SCHEMA.split(";"):
                    database.execute(statement)
                database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                database.execute(f"PRAGMA user_version = {VERSION}")
            elif not known or version != VERSION:
                raise sqlite3.DatabaseError("it is another program's file, or a newer version's")
            database.execute("COMMIT")
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        """Close the file. Turns that still work fail at their next step."""
        with self._lock:
            self._closed = True
            self.disconnect()
            for opened in self._held.values():
                os.close(opened)
            self._held.clear()

    def __del__(self) -> None:
        database = getattr(self, "_database", None)
        if database is not None:
            database.close()

    def disconnect(self) -> None:
        """Close the connection; the next use opens another. No connection may be open where a process forks."""
        if self._database is not None and (self.path is not None or self._closed):
            self._database.close()
            self._database = None

    @contextmanager
    def disconnected(self) -> Generator[None]:
        """Keep others from using the store, and the file closed."""
        with self._lock:
            self.disconnect()
            yield

    # What there is

    def turns(self, *, paused: bool | None = None) -> list[StoredTurn]:
        """The turns that have not ended and that no process works on, the oldest first.

        `paused=True` gives those that wait for results or approvals, `paused=False` those whose process ended.
        """
        states = {None: (_PAUSED, _WORKING), True: (_PAUSED,), False: (_WORKING,)}[paused]
        with self._transaction() as run:
            rows = [
                row
                for state in states
                for row in run("SELECT id, changed, state FROM conversations WHERE state = ?", state).fetchall()
            ]
        found = [self._stored(row[0], row[1]) for row in rows if row[2] == _PAUSED or self._is_free(row[0])]
        return sorted((one for one in found if one is not None), key=lambda one: one.changed)

    def _stored(self, name: str, changed: float) -> StoredTurn | None:
        state = self.state_of(name)
        try:
            journal, conversation = self.open(state, check_expired=False)
        except TurnStateError:
            return None  # it has gone on meanwhile, or its key is gone
        open_turn = conversation.open
        if open_turn is None:
            return None
        caller = journal.caller
        return StoredTurn(name, _all_waiting(conversation), changed, caller.get("user"), caller.get("tenant"), state)

    def has(self, conversation: str) -> bool:
        """Whether a conversation is kept here; one that was unused for long is not."""
        with self._transaction() as run:
            return run("SELECT 1 FROM conversations WHERE id = ?", conversation).fetchone() is not None

    def remove(self, turn: str) -> None:
        """Remove all that is kept of a turn and its conversation."""
        with self._transaction() as run:
            self._remove(run, turn)

    def _remove(self, run: Any, name: str) -> None:
        run("DELETE FROM entries WHERE conversation = ?", name)
        run("DELETE FROM conversations WHERE id = ?", name)

    # A conversation's journal

    def begin(self, conversation: Conversation, session: Session) -> TurnJournal:
        """Keep a conversation from here on, with all that was said in it before."""
        caller = session.caller
        head: Entry = {
            "ferrule_turn": VERSION,
            "id": uuid4().hex,
            "key": _fingerprint(self._keys[0]),
            "caller": {"tenant": caller.tenant, "user": caller.user},
            "at": round(time(), 3),
        }
        journal = TurnJournal(self, head, self._keys[0])
        first = [to_form(message) for message in conversation.messages]
        if conversation.turn or conversation.handed_to:
            first += [{"type": "handed_over", "to": name} for name in conversation.handed_to]
            first += [{"type": "found", "tools": conversation.found_tools}] if conversation.found_tools else []
            used = asdict(conversation.usage)
            first.append({"type": "turn", "turn": conversation.turn, "ending": "kept", "usage": used, "model": ""})
        with self._transaction() as run:
            self._purge(run)
            run("INSERT INTO conversations VALUES (?, 0, '', ?, ?)", journal.id, time(), _IDLE)
        journal.append([head, *first])
        conversation.journal = journal
        return journal

    def open(
        self, state: str | bytes | Mapping[str, Any], *, check_expired: bool = True
    ) -> tuple[TurnJournal, Conversation]:
        """The conversation of a state, and its journal, which no process has claimed by that.

        Raises `TurnStateError` if the state was changed, has expired, is of another store, or is no longer the latest.
        """
        journal, entries = self._verified(state)
        try:
            conversation = Conversation.replay(entries)
        except DamagedLogError as damage:
            raise TurnStateError(phrase("The state cannot be read: {why}.", why=damage)) from None
        with self._transaction() as run:
            row = run("SELECT entries, seal FROM conversations WHERE id = ?", journal.id).fetchone()
        if row is None:
            raise TurnStateError(
                phrase("This store has no such turn: it is another store's, or was removed."),
                phrase("Resume it with the TurnStore that it was paused in."),
            )
        if tuple(row) != (journal.count, journal.seal):
            raise TurnStateError(_GONE_ON)
        expires = conversation.open.expires if conversation.open is not None else None
        if check_expired and expires is not None and expires <= time():
            raise TurnStateError(
                phrase("The state has expired."), phrase("Ask again in a new turn of the conversation.")
            )
        conversation.journal = journal
        return journal, conversation

    def _verified(self, state: str | bytes | Mapping[str, Any]) -> tuple[TurnJournal, list[Entry]]:
        try:
            document: Any = json.loads(state, parse_constant=_refuse) if isinstance(state, (str, bytes)) else state
            if not isinstance(document, dict) or "ferrule_turn" not in document:
                raise TurnStateError(phrase("This is not the state of a turn: that is JSON with `ferrule_turn` in it."))
            if document["ferrule_turn"] != VERSION:
                raise TurnStateError(
                    phrase(
                        "The state has version {version}, which this Ferrule cannot read.",
                        version=document["ferrule_turn"],
                    )
                )
            given = cast("dict[str, Any]", document)
            head, *entries = cast("list[Entry]", given["entries"])
            key = next((one for one in self._keys if _fingerprint(one) == head["key"]), None)
            if key is None:
                raise TurnStateError(_FORGED, phrase("Give the TurnStore the key that it was sealed with, too."))
            journal = TurnJournal(self, head, key)
            for entry in (head, *entries):
                journal.advance(_canonical(entry))
            if not hmac.compare_digest(str(given["seal"]), journal.seal):
                raise TurnStateError(_FORGED)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            raise TurnStateError(_FORGED) from None
        return journal, entries

    def state_of(self, name: str) -> str:
        """A conversation as it is now, for `Agent.resume`."""
        with self._transaction() as run:
            row = run("SELECT seal FROM conversations WHERE id = ?", name).fetchone()
            texts = run("SELECT text FROM entries WHERE conversation = ? ORDER BY number", name).fetchall()
        seal = row[0] if row is not None else ""
        return f'{{"ferrule_turn":{VERSION},"entries":[{",".join(text for (text,) in texts)}],"seal":"{seal}"}}'

    # Rows

    @contextmanager
    def _transaction(self) -> Generator[Any]:
        """One transaction at a time; raises `TurnStateError` where the file cannot be used."""
        if self.path is not None and self._file != _identity(self.path):
            raise TurnStateError(
                phrase("The turns in {path} are gone: the file was removed or replaced.", path=self.path),
                phrase("Put it back, or make a new TurnStore."),
            )

        def run(statement: str, *values: Any) -> sqlite3.Cursor:
            if self._database is None:
                if self._closed:
                    raise sqlite3.ProgrammingError("it was closed")
                self._database = self._open()
            return self._database.execute(statement, values)

        with self._lock:
            try:
                run("BEGIN IMMEDIATE")
                try:
                    yield run
                except BaseException:
                    with suppress(sqlite3.Error):
                        run("ROLLBACK")
                    raise
                run("COMMIT")
            except sqlite3.Error as error:
                raise TurnStateError(
                    phrase("The turn could not be kept in {path}: {error}.", path=self.path or "memory", error=error),
                    phrase("Make sure that the disk has room and the file can be written."),
                ) from error

    def _purge(self, run: Any) -> None:
        now = time()
        if self.expires is None or now < self._purge_at:
            return
        self._purge_at = now + _PURGE_SECONDS
        old = run("SELECT id FROM conversations WHERE changed < ? LIMIT 1000", now - self.expires).fetchall()
        for (name,) in old:
            if self._is_free(name):
                self._remove(run, name)

    def extend(self, name: str, before: tuple[int, str], after: tuple[int, str], texts: list[str], state: str) -> None:
        """Add entries to a conversation that is still as it was `before`."""
        with self._transaction() as run:
            changed = run(
                "UPDATE conversations SET entries = ?, seal = ?, changed = ?, state = ? "
                "WHERE id = ? AND entries = ? AND seal = ?",
                *after, time(), state, name, *before,
            )  # fmt: skip
            if changed.rowcount != 1:
                raise TurnStateError(_GONE_ON)
            for number, text in enumerate(texts, before[0]):
                run("INSERT INTO entries VALUES (?, ?, ?)", name, number, text)

    # Who works on it

    def _lock_file(self, name: str) -> Path | None:
        return self.path.with_name(f"{self.path.name}-working") / name if self.path is not None else None

    def hold(self, name: str) -> None:
        """Have other processes see that this one works on a turn; raises `TurnStateError` if another does."""
        with self._lock:
            taken = name in self._held
            path = self._lock_file(name)
            if not taken and path is not None:
                try:
                    path.parent.mkdir(exist_ok=True, mode=0o700)
                    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                except OSError as error:
                    said = phrase("The turn could not be kept in {path}: {error}.", path=path.parent, error=error)
                    raise TurnStateError(said) from None
                if taken := not lock(opened, 0):
                    os.close(opened)
                else:
                    self._held[name] = opened
            elif not taken:
                self._held[name] = os.open(os.devnull, os.O_RDONLY)
        if taken:
            raise TurnStateError(phrase("Another process, or another task of this one, works on this turn now."))

    def let_go(self, name: str) -> None:
        with self._lock:
            opened = self._held.pop(name, None)
            if opened is not None:
                if (path := self._lock_file(name)) is not None:
                    path.unlink(missing_ok=True)
                os.close(opened)

    def _is_free(self, name: str) -> bool:
        path = self._lock_file(name)
        if name in self._held:
            return False
        if path is None:
            return True
        try:
            opened = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            return lock(opened, 0)
        finally:
            os.close(opened)


class TurnJournal(ConversationJournal):
    """The journal of one conversation in a store."""

    def __init__(self, store: TurnStore, head: Entry, key: bytes) -> None:
        self.store = store
        self.id = str(head["id"])
        self.caller: Mapping[str, Any] = dict(head["caller"])
        self.count = 0
        self.seal = ""
        self.expires = store.expires
        self._key = key
        self._lost: TurnStateError | None = None

    def write(self, entry: Entry) -> None:
        """Keep an entry. Once one could not be kept none is, and nothing that needs it may happen."""
        self.append([entry])

    def append(self, entries: Sequence[Entry]) -> None:
        if self._lost is not None:
            raise self._lost
        before = self.count, self.seal
        texts = [_canonical(_with_finite(entry)) for entry in entries]
        for text in texts:
            self.advance(text)
        try:
            self.store.extend(self.id, before, (self.count, self.seal), texts, _state_after(entries[-1]))
        except TurnStateError as error:
            self._lost = error
            raise

    def advance(self, text: str) -> None:
        """Seal one entry more. Programs that write its JSON anew may write `1.0` as `1`."""
        if _WITH_FLOATS.search(text):
            text = _canonical(_whole_numbers(json.loads(text)))
        sealed = f"{self.seal}\n{text}".encode("utf-8", "surrogatepass")
        self.seal = hmac.new(self._key, sealed, hashlib.sha256).hexdigest()
        self.count += 1

    def state(self) -> str:
        """The conversation as it is now, for `Agent.resume`."""
        return self.store.state_of(self.id)


def _state_after(entry: Entry) -> str:
    if entry.get("in"):
        return _WORKING
    kind = entry.get("type")
    return _PAUSED if kind == "paused" else _IDLE if kind == "turn" else _WORKING


def _canonical(entry: Entry) -> str:
    """The same text for the same entry, also after a database or a proxy has written its JSON anew."""
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _with_finite(entry: Entry) -> Entry:
    """The entry without numbers that JSON has no form for."""
    try:
        json.dumps(entry, allow_nan=False)
    except ValueError:
        return finite(entry)
    return entry


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: _whole_numbers(one) for name, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole_numbers(one) for one in cast("list[Any]", value)]
    return value


def _all_waiting(conversation: Conversation) -> tuple[WaitingCall, ...]:
    return conversation.open.waiting if conversation.open is not None else ()


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


_stores: WeakSet[TurnStore] = WeakSet()
_before_fork = ExitStack()


def _about_to_fork() -> None:
    """SQLite's connections and their locks must not be open in two processes."""
    for store in list(_stores):
        _before_fork.enter_context(store.disconnected())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_about_to_fork, after_in_parent=lambda: _before_fork.close(), after_in_child=lambda: _before_fork.close()
    )


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is, whatever its name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _fingerprint(key: bytes) -> str:
    return hashlib.sha256(b"ferrule turn key\n" + key).hexdigest()[:16]


def _keys(key: bytes | str | Sequence[bytes | str] | None, path: Path | None) -> list[bytes]:
    if key is None:
        if path is None:
            return [secrets.token_bytes(32)]
        file = path.with_name(f"{path.name}.key")
        try:
            found = file.read_bytes()
        except FileNotFoundError:
            made = f"{secrets.token_hex(32)}\n".encode()
            with suppress(FileExistsError):
                temporary = file.with_name(f"{file.name}.{uuid4().hex}")
                write_atomically(temporary, made, mode=0o600)
                try:
                    os.link(temporary, file)  # of two processes that make one at once, one wins
                finally:
                    temporary.unlink()
            found = file.read_bytes()
        key = [line for line in found.decode("ascii", "replace").split() if len(line) >= _LEAST_KEY]
        if not key:
            raise OSError(f"{file} has no key")
    given = [key] if isinstance(key, (bytes, str)) else list(key)
    keys = [one.encode() if isinstance(one, str) else bytes(one) for one in given]
    if not keys or any(len(one) < _LEAST_KEY for one in keys):
        raise ValueError(f"A key of a TurnStore has at least {_LEAST_KEY} secret bytes.")
    return keys
