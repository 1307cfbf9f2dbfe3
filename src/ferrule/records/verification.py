"""Whether an audit log is as it was written.

The chain has no key: it shows every change by someone who does not recompute it. Someone who may write the
file and knows how can forge a whole new chain; only a head that was noted elsewhere (`Head`, one line of
text) shows that.
"""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ferrule.records.database import AuditError, open_for_reading
from ferrule.records.row import COLUMNS, RETENTION, SELECT, hash_of

if TYPE_CHECKING:
    from pathlib import Path

_KIND = COLUMNS.index("kind")
_ARGUMENTS = COLUMNS.index("arguments")


class Head(NamedTuple):
    """The end of a log at one moment. Note it where the log's writer cannot reach."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Self:
        seq, colon, digest = text.strip().partition(":")
        if not (colon and seq.isdigit() and len(digest) in (0, 64)):
            raise ValueError(f"A head looks like 42:9f86d081… (a number and 64 hex digits), not {text!r}.")
        return cls(int(seq), digest)


class Verification(NamedTuple):
    """What `verify` found. `rows` were sound; `first_bad_seq` is None when no single row is to blame."""

    ok: bool
    rows: int
    first_bad_seq: int | None
    why: str
    head: Head | None

    def __bool__(self) -> bool:
        return self.ok


class _Broken(Exception):  # noqa: N818 - the finding of a check, not an error of ours
    def __init__(self, why: str, seq: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.seq = seq


def read_head(path: str | Path) -> Head:
    """The head as it is now, to be noted elsewhere."""
    connection = open_for_reading(path)
    try:
        return _Chain(connection).head()
    except _Broken as broken:
        raise AuditError(f"{path}: {broken.why}") from None
    finally:
        connection.close()


def verify(path: str | Path, *, expected_head: Head | str | None = None) -> Verification:
    """Follow the chain from the first row to the head, and past a head that was noted earlier."""
    noted = Head.parse(expected_head) if isinstance(expected_head, str) else expected_head
    connection = open_for_reading(path)
    chain = _Chain(connection)
    try:
        # One transaction: the log may be written while we read.
        connection.execute("BEGIN")
        chain.follow(noted)
    except _Broken as broken:
        return Verification(False, chain.rows, broken.seq, broken.why, None)
    except sqlite3.DatabaseError as problem:
        return Verification(False, chain.rows, None, f"The file is damaged: {problem}.", None)
    finally:
        connection.close()
    return Verification(True, chain.rows, None, "", chain.end)


class _Chain:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.rows = 0
        self.end = Head(0, "")

    def head(self) -> Head:
        return self._single("head")

    def follow(self, noted: Head | None) -> None:
        head, start = self.head(), self._single("checkpoint")
        self.end = start
        retained = Head(0, "")
        found_noted = noted is None or noted in (start, Head(0, ""))
        for row in self.connection.execute(f"{SELECT} ORDER BY seq"):
            seq: int = row[0]
            self._check_row(row)
            self.end = Head(seq, row[-1])
            self.rows += 1
            if row[_KIND] == RETENTION:
                retained = _removed_to(row)
            if noted is not None and noted.seq == seq:
                if noted.hash != row[-1]:
                    raise _Broken("The log was rewritten: this row is not the one whose hash was noted.", seq)
                found_noted = True
        if start != retained:
            raise _Broken(f"Rows up to {start.seq} are gone, and no retention row of the chain says so.", start.seq + 1)
        if self.end != head:
            raise _Broken(
                f"The log ends at row {self.end.seq}, its head at {head.seq}: the end was cut or added to.",
                self.end.seq + 1,
            )
        if noted is not None and not found_noted:
            self._miss(noted, start)

    def _check_row(self, row: tuple[Any, ...]) -> None:
        expected = self.end.seq + 1
        seq: int = row[0]
        if seq != expected:
            last = seq - 1
            gone = f"row {expected} is" if last == expected else f"rows {expected} to {last} are"
            raise _Broken(f"{gone.capitalize()} missing.", expected)
        if row[-2] != self.end.hash:
            raise _Broken("This row does not follow the one before it: one of them was replaced or moved.", seq)
        try:
            digest = hash_of(seq, row[1:-2], row[-2])
        except (TypeError, ValueError):
            digest = ""  # a blob where text was: nothing that we ever wrote
        if digest != row[-1]:
            raise _Broken("This row was changed after it was written.", seq)

    def _miss(self, noted: Head, start: Head) -> None:
        if noted.seq > self.end.seq:
            raise _Broken(
                f"The log was cut: row {noted.seq} was noted, and it ends at row {self.end.seq}.",
                self.end.seq + 1,
            )
        raise _Broken(
            f"Row {noted.seq}, which was noted, is older than what retention kept (from row "
            f"{start.seq + 1}). Note a newer head."
        )

    def _single(self, table: str) -> Head:
        rows = self.connection.execute(f"SELECT seq, hash FROM {table}").fetchall()  # noqa: S608
        if len(rows) != 1:
            raise _Broken(f"The log's {table} was removed.")
        return Head(*rows[0])


def _removed_to(row: tuple[Any, ...]) -> Head:
    said = json.loads(row[_ARGUMENTS])
    return Head(said["removed_to"], said["hash"])
