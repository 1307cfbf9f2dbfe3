"""Whether an audit log is as it was written.

The chain has no key: it shows every change by someone who does not recompute it. Someone who may write the
file and knows how can forge a whole new chain; only a head that was noted elsewhere (`Head`, one line of
text) shows that.
"""

from __future__ import annotations

import json
import sqlite3
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ferrule.records.database import AuditError, as_text, open_for_reading
from ferrule.records.row import COLUMNS, GAP, RETENTION, SELECT, hash_of
from ferrule.records.statistics import BLOCK, NEEDED, UsageSums, stored_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_needed = itemgetter(*(COLUMNS.index(name) for name in NEEDED))
_TIME = COLUMNS.index("time")
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


class Gap(NamedTuple):
    """A place where the file was removed or replaced under a running session, which then wrote row `seq` to say so.

    The log had `ended_at` that row once, and what stood in its place at the row `found`. Nobody tampered with the rows
    that are here; others are missing.
    """

    seq: int
    time: float
    ended_at: int
    found: int


class Verification(NamedTuple):
    """What `verify` found. `rows` were sound; `first_bad_seq` is None when no single row is to blame.

    A log with `gaps` is still `ok`: what is in it is as it was written, and it says itself that rows are missing.
    """

    ok: bool
    rows: int
    first_bad_seq: int | None
    why: str
    head: Head | None
    gaps: tuple[Gap, ...] = ()

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
        return Verification(False, chain.rows, broken.seq, broken.why, None, tuple(chain.gaps))
    except sqlite3.DatabaseError as problem:
        return Verification(False, chain.rows, None, f"The file is damaged: {problem}.", None, tuple(chain.gaps))
    finally:
        connection.close()
    return Verification(True, chain.rows, None, "", chain.end, tuple(chain.gaps))


class _Chain:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.rows = 0
        self.gaps: list[Gap] = []
        self.end = Head(0, "")

    def head(self) -> Head:
        return self._single("head")

    def follow(self, noted: Head | None) -> None:
        head, start = self.head(), self._single("checkpoint")
        self.end = start
        retained = Head(0, "")
        found_noted = noted is None or noted in (start, Head(0, ""))
        stored = {block.number for block in stored_blocks(self.connection)}
        block: list[tuple[Any, ...]] = []
        for row in self._sound_rows():
            seq: int = row[0]
            if row[_KIND] == RETENTION:
                retained = Head(*_said(row, ("removed_to", int), ("hash", str)))
            elif row[_KIND] == GAP:
                ended_at, found = _said(row, ("ended_at", int), ("found", int))
                self.gaps.append(Gap(seq, row[_TIME], ended_at, found))
            block.append(row)
            if seq % BLOCK == 0:
                if (number := seq // BLOCK - 1) in stored:
                    stored.remove(number)
                    # The statistics must follow from the rows.
                    usage = UsageSums()
                    try:
                        usage.add_rows(map(_needed, block))
                    except (TypeError, ValueError, OverflowError):
                        raise _Broken("One of the rows up to this one has an invalid number.", block[-1][0]) from None
                    kept = self.connection.execute(
                        "SELECT * FROM usage WHERE block = ? ORDER BY rowid", (number,)
                    ).fetchall()
                    if [one for one in kept if one[5]] != usage.of_block(number):
                        first, last = number * BLOCK + 1, (number + 1) * BLOCK
                        raise _Broken(f"The statistics kept of rows {first} to {last} do not follow from these rows.")
                block = []
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
        if stored:
            raise _Broken("Statistics are kept of rows that are not in the log.")
        if noted is not None and not found_noted:
            if noted.seq > self.end.seq:
                raise _Broken(
                    f"The log was cut: row {noted.seq} was noted, and it ends at row {self.end.seq}.", self.end.seq + 1
                )
            raise _Broken(
                f"Row {noted.seq}, which was noted, is older than what retention kept (from row "
                f"{start.seq + 1}). Note a newer head."
            )

    def _sound_rows(self) -> Iterator[tuple[Any, ...]]:
        """Each row that follows from the one before it, up to the first that does not."""
        # There may be millions, so the usual row is checked right here, and only a wrong one is looked at closely.
        last, digest = self.end
        for row in self._all_rows():
            seq, stored = row[0], row[-1]
            try:
                sound = (
                    type(seq) is int
                    and seq == last + 1
                    and row[-2] == digest
                    and hash_of(seq, row[1:-2], digest) == stored
                )
            except (TypeError, ValueError):
                sound = False  # a blob where text was: nothing that we ever wrote
            if not sound:
                raise self._fault(row)
            last, digest = seq, stored
            self.end = Head(last, digest)
            self.rows += 1
            yield row

    def _all_rows(self) -> Iterator[tuple[Any, ...]]:
        self.connection.text_factory = str  # quicker, and fails where bytes are no text
        try:
            yield from self.connection.execute(f"{SELECT} ORDER BY seq")
        except sqlite3.OperationalError:
            self.connection.text_factory = as_text
            yield from self.connection.execute(f"{SELECT} ORDER BY seq LIMIT -1 OFFSET ?", (self.rows,))

    def _fault(self, row: tuple[Any, ...]) -> _Broken:
        """What is wrong with a row that does not follow from the one before it."""
        expected, seq = self.end.seq + 1, row[0]
        if type(seq) is not int:
            return _Broken(f"In place of row {expected} stands one without a number.", expected)
        if seq != expected:
            last = seq - 1
            gone = f"row {expected} is" if last == expected else f"rows {expected} to {last} are"
            return _Broken(f"{gone.capitalize()} missing.", expected)
        if row[-2] != self.end.hash:
            return _Broken("This row does not follow the one before it: one of them was replaced or moved.", seq)
        return _Broken("This row was changed after it was written.", seq)

    def _single(self, table: str) -> Head:
        rows = self.connection.execute(f"SELECT seq, hash FROM {table}").fetchall()  # noqa: S608
        if len(rows) != 1:
            raise _Broken(f"The log's {table} was removed.")
        seq, digest = rows[0]
        if not isinstance(seq, int) or seq < 0 or not isinstance(digest, str):
            raise _Broken(f"The log's {table} was changed: it names no row.")
        return Head(seq, digest)


def _said(row: tuple[Any, ...], *fields: tuple[str, type]) -> list[Any]:
    """What a row about the log itself says. Whoever can compute a hash can put anything there."""
    try:
        said: Any = json.loads(row[_ARGUMENTS])
        values = [said[name] for name, _ in fields]
    except (TypeError, ValueError, KeyError, RecursionError):
        values = []
    fits = [type(one) is kind for one, (_, kind) in zip(values, fields, strict=False)]
    if type(row[_TIME]) is not float or not isfinite(row[_TIME]) or len(fits) < len(fields) or not all(fits):
        raise _Broken("This row is about the log itself, and does not say what Ferrule writes there.", row[0])
    return values
