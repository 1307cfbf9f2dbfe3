"""The list of changes: a SQLite file that says what happened to which path, and which contents that needs."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.workspace.snapshots.changes import (
    UNKNOWN,
    Change,
    Group,
    Operation,
    Origin,
    Phase,
    Running,
    Side,
    State,
    Transition,
    Watch,
)
from ferrule.workspace.snapshots.content_store import room

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

_VERSION = 3
_SCHEMA = """
CREATE TABLE groups (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL,
    call TEXT NOT NULL, tool TEXT NOT NULL, phase TEXT NOT NULL, undone INTEGER NOT NULL DEFAULT 0,
    others TEXT NOT NULL DEFAULT ''
);
CREATE INDEX groups_by_phase ON groups (phase, number);
CREATE INDEX groups_by_undone ON groups (undone);
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL, path BLOB NOT NULL, operation TEXT NOT NULL,
    other BLOB, before TEXT, before_mode INTEGER, after TEXT, after_mode INTEGER, made INTEGER NOT NULL,
    covered INTEGER NOT NULL, repository BLOB,
    before_attributes TEXT NOT NULL DEFAULT '', after_attributes TEXT NOT NULL DEFAULT ''
);
CREATE INDEX changes_by_group ON changes (number);
CREATE INDEX changes_by_path ON changes (path);
CREATE INDEX changes_by_other ON changes (other) WHERE other IS NOT NULL;
CREATE INDEX changes_by_before ON changes (before) WHERE before IS NOT NULL;
CREATE INDEX changes_by_after ON changes (after) WHERE after IS NOT NULL;
CREATE TABLE contents (digest TEXT PRIMARY KEY, size INTEGER NOT NULL, room INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE totals (room INTEGER NOT NULL, changes INTEGER NOT NULL);
INSERT INTO totals VALUES (0, 0);
CREATE TRIGGER content_in AFTER INSERT ON contents BEGIN UPDATE totals SET room = room + new.room; END;
CREATE TRIGGER content_out AFTER DELETE ON contents BEGIN UPDATE totals SET room = room - old.room; END;
CREATE TRIGGER change_in AFTER INSERT ON changes BEGIN UPDATE totals SET changes = changes + 1; END;
CREATE TRIGGER change_out AFTER DELETE ON changes BEGIN UPDATE totals SET changes = changes - 1; END;
CREATE TABLE commands (
    number INTEGER PRIMARY KEY AUTOINCREMENT, process TEXT NOT NULL, session TEXT NOT NULL, turn TEXT NOT NULL,
    call TEXT NOT NULL, tool TEXT NOT NULL, watch TEXT NOT NULL
);
CREATE TABLE transitions (
    at INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL, digest TEXT, mode INTEGER, source BLOB
);
INSERT INTO sqlite_sequence VALUES ('transitions', CAST(strftime('%s', 'now') AS INTEGER) * 1000000);
"""
# The positions of transitions begin with the time, so that those of a new journal come after all of an older one.
_ADD_CHANGE = "INSERT INTO changes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UNSETTLED = (Phase.DOING, Phase.UNDOING, Phase.REDOING)


class HistoryDatabase(sqlite3.Connection):
    """A database that closes when it is no longer used: not every session is closed."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, timeout=30, isolation_level=None, check_same_thread=False)

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it could not be opened
            self.close()


class Journal:
    """Used by one thread at a time, inside the lock of the store."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = HistoryDatabase(path)
        try:
            run = self._database.execute
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA journal_size_limit = 1048576")
            run("PRAGMA synchronous = NORMAL")
            run("PRAGMA recursive_triggers = ON")  # so that replacing a content counts as taking it out
            version = run("PRAGMA user_version").fetchone()[0]
            if version == 0:
                # In one piece: a kill in the middle leaves an empty file, which is made again.
                self._database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT;")
            elif version != _VERSION:
                raise sqlite3.DatabaseError(f"it was written by another version of Ferrule ({version})")
            run("SELECT room, changes FROM totals").fetchone()
        except BaseException:
            self._database.close()
            raise
        self.file = path.stat()
        """The file that was opened, to tell it from another of its name."""
        self._files = (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))

    def close(self) -> None:
        self._database.close()

    def is_current(self) -> bool:
        """Whether the file is still the one that was opened; it may have been set aside, removed or replaced."""
        try:
            return os.path.samestat(self._path.stat(), self.file)
        except OSError:
            return False

    @contextmanager
    def writing(self, *, durable: bool = False) -> Generator[None]:
        """All or nothing; `durable` holds also through a power cut."""
        run = self._database.execute
        if durable:
            run("PRAGMA synchronous = FULL")
        try:
            run("BEGIN IMMEDIATE")
            try:
                yield
                run("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # on a full disk SQLite may have rolled back already
                    run("ROLLBACK")
                raise
        finally:
            if durable:
                run("PRAGMA synchronous = NORMAL")

    # Writing

    def begin(
        self,
        now: float,
        origin: Origin,
        changes: Sequence[Change],
        contents: Mapping[str, int],
        *,
        durable: bool = True,
        others: Sequence[Origin] = (),
    ) -> Group:
        """Note changes that are about to be made, and the contents they need."""
        with self.writing(durable=durable):
            told = json.dumps([astuple(one) for one in others]) if others else ""
            query = "INSERT INTO groups VALUES (NULL, ?, ?, ?, ?, ?, 'doing', 0, ?)"
            number = self._run(query, now, *astuple(origin), told).lastrowid
            self._add(number or 0, changes, contents)
        return self.group(number or 0)

    def _add(self, number: int, changes: Iterable[Change], contents: Mapping[str, int]) -> None:
        for change in changes:
            self._run(_ADD_CHANGE, number, *_row(change))
        rows = [(name, size, room(size)) for name, size in contents.items()]
        self._database.executemany("INSERT OR REPLACE INTO contents VALUES (?, ?, ?)", rows)

    def replace_git(self, group: Group, rows: Iterable[Change], contents: Mapping[str, int]) -> list[str]:
        """Keep other rows of git directories than those that a group began with; gives the contents that are free."""
        names = {one.before.content for one in group.git if one.before} - {""}
        with self.writing():
            self._run("DELETE FROM changes WHERE number = ? AND repository IS NOT NULL", group.number)
            self._add(group.number, rows, contents)
            return self._free(names)

    def mark(self, group: Group, phase: Phase, *, durable: bool = False) -> None:
        with self.writing(durable=durable):
            undone = "(SELECT max(undone) + 1 FROM groups)" if phase is Phase.UNDONE else "undone"
            self._run(f"UPDATE groups SET phase = ?, undone = {undone} WHERE number = ?", phase, group.number)  # noqa: S608
            if phase in (Phase.UNDONE, Phase.DONE):
                self._keep_states(group, Side.BEFORE if phase is Phase.UNDONE else Side.AFTER)

    def finish(self, group: Group, modes: Mapping[int, int]) -> None:
        """The changes were made. What was undone of the same files, and all that builds on it, cannot be redone now."""
        with self.writing():
            for seq, mode in modes.items():
                self._run("UPDATE changes SET after_mode = ? WHERE seq = ?", mode, seq)
            self._run("UPDATE groups SET phase = 'done' WHERE number = ?", group.number)
            self._keep_states(group, Side.AFTER, modes)
            # From what is undone, which is little, and not from all that ever happened to the path.
            query = (
                "SELECT number FROM groups AS one WHERE phase = 'undone' AND EXISTS (SELECT 1 FROM changes "
                "WHERE changes.number = one.number AND ? IN (path, other)) ORDER BY number LIMIT 1"
            )
            undone = (self._run(query, os.fsencode(path)).fetchone() for path in group.paths)
            first = min((found[0] for found in undone if found), default=None)
            if first is not None:
                touched = set(group.paths)
                for one in self._groups("phase = 'undone' AND number >= ? ORDER BY number", first):
                    if touched.intersection(one.paths):
                        touched.update(one.paths)
                        self._run("UPDATE groups SET phase = 'dropped' WHERE number = ?", one.number)

    def forget(self, group: Group, changes: Iterable[Change], keep: Iterable[str] = ()) -> list[str]:
        """Drop changes of a group, and the group with its last; gives the contents that are no longer needed."""
        changes = list(changes)
        whole = len(changes) == len(group.changes)
        changes += group.git if whole else ()
        names = {state.content for one in changes for state in (one.before, one.after) if state} - {"", *keep}
        with self.writing():
            self._database.executemany("DELETE FROM changes WHERE seq = ?", [(one.seq,) for one in changes])
            if whole:
                self._run("DELETE FROM groups WHERE number = ?", group.number)
            return self._free(names)

    def _free(self, names: Iterable[str]) -> list[str]:
        """Drop the contents among these that are not needed any more."""
        needed = "SELECT 1 FROM changes WHERE before = ? UNION ALL SELECT 1 FROM changes WHERE after = ? LIMIT 1"
        free = [name for name in names if self._run(needed, name, name).fetchone() is None]
        self._database.executemany("DELETE FROM contents WHERE digest = ?", [(name,) for name in free])
        return free

    # Commands under way

    def add_command(self, process: str, origin: Origin) -> int:
        """A command is about to begin; from here on it is known what the history itself changes meanwhile."""
        with self.writing():
            query = "INSERT INTO commands VALUES (NULL, ?, ?, ?, ?, ?, ?)"
            return self._run(query, process, *astuple(origin), Watch.STARTING).lastrowid or 0

    def set_commands(self, *, over: Sequence[int] = (), watched: int = 0) -> None:
        """Some are over, and what they changed is in the list; of one it is known how the workspace was before it."""
        if not over and not watched:
            return
        with self.writing():
            self._run("UPDATE commands SET watch = ? WHERE number = ?", Watch.WATCHED, watched)
            self._database.executemany("DELETE FROM commands WHERE number = ?", [(number,) for number in over])
            self._run("DELETE FROM transitions WHERE NOT EXISTS (SELECT 1 FROM commands)")

    def lose_commands(self) -> None:
        """How the workspace was before the commands under way is not known any more."""
        with self.writing():
            self._run("UPDATE commands SET watch = ? WHERE watch = ?", Watch.LOST, Watch.WATCHED)

    def commands(self) -> list[Running]:
        """The commands that have begun and were not seen to end, oldest first."""
        return [
            Running(number, process, Origin(*who), Watch(watch))
            for number, process, *who, watch in self._run("SELECT * FROM commands ORDER BY number")
        ]

    def position(self) -> int:
        """Where the list of transitions ends."""
        return self._run("SELECT seq FROM sqlite_sequence WHERE name = 'transitions'").fetchone()[0]

    def transitions(self, since: int) -> list[Transition]:
        """What the history itself did after a position, while commands were under way."""
        return [
            Transition(at, _path(path), digest, mode, _path(source) if source is not None else None)
            for at, path, digest, mode, source in self._run("SELECT * FROM transitions WHERE at > ? ORDER BY at", since)
        ]

    def _keep_states(self, group: Group, side: Side, modes: Mapping[int, int] | None = None) -> None:
        """What a group has left at its paths is no command's doing."""
        if self._run("SELECT 1 FROM commands LIMIT 1").fetchone() is None:
            return
        rows: list[tuple[bytes, str | None, int | None, bytes | None]] = []
        for change in group.changes if side is Side.AFTER else reversed(group.changes):
            if change.covered or modes is not None:  # what is not covered is never undone or redone
                mode = (modes or {}).get(change.seq)
                # What comes, then what goes.
                for path, state in sorted(change.at(side).items(), key=lambda one: one[1] is None):
                    source = next((one for one in change.paths if one != path), None) if state is not None else None
                    found = None if state is None else state.digest
                    if state is not None and not found and source is None and change.operation is not Operation.MODE:
                        found = UNKNOWN
                    kept = None if state is None else mode if mode is not None else state.mode
                    rows.append((os.fsencode(path), found, kept, os.fsencode(source) if source is not None else None))
                folder = State.folder(0).digest if side is Side.AFTER else None
                made = (change.other or change.path).parents[: change.made]
                rows += [(os.fsencode(one), folder, None, None) for one in made]
        self._database.executemany("INSERT INTO transitions VALUES (NULL, ?, ?, ?, ?)", rows)

    # Reading

    def totals(self) -> tuple[int, int]:
        """Bytes on the disk, this file and its log included, and the number of changes."""
        used, changes = self._run("SELECT room, changes FROM totals").fetchone()
        for name in self._files:
            with suppress(FileNotFoundError):
                used += name.stat().st_size
        return used, changes

    def content_size(self, name: str) -> int | None:
        """How many bytes a content takes in the store; None when it is not there."""
        found = self._run("SELECT size FROM contents WHERE digest = ?", name).fetchone()
        return found[0] if found else None

    def content_names(self) -> set[str]:
        """The names of all contents that are in the store."""
        return {name for (name,) in self._run("SELECT digest FROM contents")}

    def group(self, number: int) -> Group:
        found = self.find(number)
        if found is None:  # another program wrote over the file while it was open
            raise sqlite3.DatabaseError(f"change {number} is gone from it")
        return found

    def find(self, number: int) -> Group | None:
        return next(iter(self._groups("number = ?", number)), None)

    def oldest(self) -> Group | None:
        return next(iter(self._groups("1 ORDER BY number LIMIT 1")), None)

    def unsettled(self) -> list[Group]:
        """Groups that a crash left in the middle."""
        return self._groups("phase IN (?, ?, ?) ORDER BY number DESC", *_UNSETTLED)

    def next_to(self, side: Side, *, to: int | None = None, **origin: str | None) -> Group | None:
        """The group to undo or redo next: made last, or undone last. `to` is the group that will be the newest."""
        return next(iter(self.all_to(side, to=to, most=1, **origin)), None)

    def all_to(self, side: Side, *, to: int | None = None, most: int = -1, **origin: str | None) -> list[Group]:
        """All groups to undo or redo, in that order."""
        parts: list[tuple[str, str | int]] = [
            (f"{name} = ?", value) for name, value in origin.items() if value is not None
        ]
        if to is not None:
            parts.append((f"number {'>' if side is Side.BEFORE else '<='} ?", to))
        phase, order = ("done", "number") if side is Side.BEFORE else ("undone", "undone")
        where = " AND ".join([f"phase = '{phase}'", *(text for text, _ in parts)])
        return self._groups(f"{where} ORDER BY {order} DESC LIMIT ?", *(value for _, value in parts), most)

    def in_the_way(self, group: Group, side: Side, after: Iterable[Group] = ()) -> dict[Path, Group]:
        """By path, the group that must be undone first because it is later, or redone first because it is earlier.

        Those of `after` will have been by then.
        """
        phase, sign, order = ("done", ">", "DESC") if side is Side.BEFORE else ("undone", "<", "ASC")
        aside = {one.number for one in after}
        query = (
            f"SELECT number FROM groups WHERE phase = '{phase}' AND number {sign} ? AND number IN (SELECT number FROM "  # noqa: S608
            f"changes WHERE path = ? UNION ALL SELECT number FROM changes WHERE other = ?) ORDER BY number {order}"
        )
        found: dict[Path, Group] = {}
        groups: dict[int, Group] = {}
        for path in dict.fromkeys(group.paths):
            numbers = self._run(query, group.number, *[os.fsencode(path)] * 2)
            other = next((number for (number,) in numbers if number not in aside), None)
            if other is not None:
                found[path] = groups[other] = groups.get(other) or self.group(other)
        return found

    def recent(self, limit: int, path: Path | None, session: str | None) -> list[Group]:
        """The newest groups first; `path` is a file, or a folder with all below it."""
        parts: list[str] = []
        values: list[Any] = []
        if path is not None:
            name = os.fsencode(path)
            below = " OR ".join(f"{one} = ? OR ({one} >= ? AND {one} < ?)" for one in ("path", "other"))
            parts.append(f"number IN (SELECT number FROM changes WHERE {below})")  # noqa: S608
            values += [name, name + b"/", name + b"0"] * 2
        if session is not None:
            parts.append("session = ?")
            values.append(session)
        return self._groups(" AND ".join(parts or ["1"]) + " ORDER BY number DESC LIMIT ?", *values, limit)

    def calls(self, limit: int) -> list[str]:
        """The ids of the calls that changed something, newest first."""
        query = "SELECT call FROM groups WHERE call != '' GROUP BY call ORDER BY max(number) DESC LIMIT ?"
        return [call for (call,) in self._run(query, limit)]

    def has_call(self, call: str) -> bool:
        return self._run("SELECT 1 FROM groups WHERE call = ? LIMIT 1", call).fetchone() is not None

    def newest(self) -> int:
        """The number of the newest group; 0 when there is none."""
        return self._run("SELECT coalesce(max(number), 0) FROM groups").fetchone()[0]

    def changes_between(self, first: int, last: int) -> list[Change]:
        """All of the groups from one number to another."""
        rows = self._run("SELECT * FROM changes WHERE number BETWEEN ? AND ? ORDER BY seq", first, last)
        return [one for one in map(_change, rows) if one.repository is None]

    def repositories_between(self, first: int, last: int) -> list[Path]:
        """The git directories in which the groups from one number to another changed something."""
        query = "SELECT DISTINCT repository FROM changes WHERE number BETWEEN ? AND ? AND repository IS NOT NULL"
        return [_path(name) for (name,) in self._run(query, first, last)]

    def _groups(self, where: str, *values: Any) -> list[Group]:
        heads = self._run(f"SELECT * FROM groups WHERE {where}", *values).fetchall()  # noqa: S608 - fixed texts alone
        groups: list[Group] = []
        for number, time, *who, phase, _, others in heads:
            rows = list(map(_change, self._run("SELECT * FROM changes WHERE number = ? ORDER BY seq", number)))
            files = tuple(one for one in rows if one.repository is None)
            git = tuple(one for one in rows if one.repository is not None)
            beside = tuple(Origin(*one) for one in json.loads(others)) if others else ()
            groups.append(Group(number, time, Origin(*who), Phase(phase), files, beside, git))
        return groups

    def _run(self, query: str, *values: Any) -> sqlite3.Cursor:
        return self._database.execute(query, values)


def _row(change: Change) -> tuple[Any, ...]:
    before, after = change.before, change.after
    return (
        os.fsencode(change.path),
        change.operation,
        os.fsencode(change.other) if change.other else None,
        before.digest if before else None,
        before.mode if before else None,
        after.digest if after else None,
        after.mode if after else None,
        change.made,
        change.covered,
        os.fsencode(change.repository) if change.repository else None,
        before.attributes if before else "",
        after.attributes if after else "",
    )


def _change(row: tuple[Any, ...]) -> Change:
    seq, _, path, operation, other, before, before_mode, after, after_mode, made, covered, repository, old, new = row
    return Change(
        seq,
        _path(path),
        Operation(operation),
        _path(other) if other is not None else None,
        State(before, before_mode, old) if before is not None else None,
        State(after, after_mode, new) if after is not None else None,
        made,
        bool(covered),
        _path(repository) if repository is not None else None,
    )


def _path(name: bytes) -> Path:
    return Path(os.fsdecode(name))
