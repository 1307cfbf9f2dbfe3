"""Whether an audit log is as it was written.

The chain has no key: it shows every change by someone who does not recompute it. Someone who may write the
file and knows how can forge a whole new chain; only a head that was noted elsewhere (`Head`, one line of
text) shows that.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from itertools import pairwise
from math import isfinite
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ferrule.records.database import AuditError, as_text, open_for_reading
from ferrule.records.processes import readers_of
from ferrule.records.row import COLUMNS, GAP, RETENTION, SELECT, hash_of
from ferrule.records.statistics import BLOCK, NEEDED, UsageSums, stored_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

_needed = itemgetter(*(COLUMNS.index(name) for name in NEEDED))
_TIME = COLUMNS.index("time")
_KIND = COLUMNS.index("kind")
_ARGUMENTS = COLUMNS.index("arguments")
_WORTH_SHARING = 100_000
"""Rows; for fewer, starting processes takes longer than reading."""
_WORTH_SAYING = 16 * BLOCK
_MOST_BLOCKS = 16
"""How much a process reads before it reports. It notices only then that its parent has died."""
_LAST = 2**63 - 1


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


def verify(
    path: str | Path,
    *,
    expected_head: Head | str | None = None,
    since: Head | str | None = None,
    processes: int = 1,
    progress: Callable[[Head], None] | None = None,
) -> Verification:
    """Follow the chain from the first row to the head, and past a head that was noted earlier.

    `since` is a head up to which the log was verified before: the rows up to it are not read again. A long log is
    shared out among `processes`; a program that asks for several needs `if __name__ == "__main__"`. `progress` hears
    how far the log is sound, again and again.
    """
    noted, sure = (Head.parse(one) if isinstance(one, str) else one for one in (expected_head, since))
    connection = open_for_reading(path)
    chain = _Chain(connection, progress)
    try:
        # One transaction: the log may be written while we read.
        connection.execute("BEGIN")
        chain.follow(noted, sure, path, processes)
    except _Broken as broken:
        return Verification(False, chain.rows, broken.seq, broken.why, None, tuple(chain.gaps))
    except sqlite3.DatabaseError as problem:
        return Verification(False, chain.rows, None, f"The file is damaged: {problem}.", None, tuple(chain.gaps))
    finally:
        connection.close()
    return Verification(True, chain.rows, None, "", chain.end, tuple(chain.gaps))


class _Stretch(NamedTuple):
    """What a process found of the rows from one to another: all of them are sound."""

    end: Head
    rows: int
    gaps: list[Gap]
    retained: Head | None
    blocks: set[int]
    passed: set[int]


def _read_stretches(path: str, stretches: list[tuple[Head, int]], noted: dict[int, str], writer: Connection) -> None:
    """In a process of its own. None is told where anything is wrong, which is then looked for in order."""
    with closing(open_for_reading(path)) as connection:
        for start, last in stretches:
            chain = _Chain(connection)
            chain.noted, chain.end = noted, start
            chain.stored = {block.number for block in stored_blocks(connection)}
            stored = set(chain.stored)
            try:
                chain.read(last)
            except (_Broken, sqlite3.Error):
                writer.send(None)
                return
            blocks = stored - chain.stored
            writer.send(_Stretch(chain.end, chain.rows, chain.gaps, chain.retained, blocks, chain.passed))


class _Chain:
    def __init__(self, connection: sqlite3.Connection, progress: Callable[[Head], None] | None = None) -> None:
        self.connection = connection
        self.progress = progress
        self.rows = 0
        self.gaps: list[Gap] = []
        self.end: Head = Head(0, "")
        self.retained: Head | None = None
        self.stored: set[int] = set()
        """The blocks of which statistics are kept, less those whose rows were read."""
        self.noted: dict[int, str] = {}
        self.passed: set[int] = set()

    def head(self) -> Head:
        return self._single("head")

    def follow(self, noted: Head | None, sure: Head | None, path: str | Path, processes: int) -> None:
        head, start = self.head(), self._single("checkpoint")
        if sure is not None and sure.seq <= start.seq:
            sure = None  # retention removed what was verified, so all that is left is read
        self.end, self.noted = start, dict([one for one in (sure, noted) if one is not None])
        self.stored = {block.number for block in stored_blocks(self.connection)}
        if sure is not None:
            self._go_to(sure, start)
        if processes > 1 and head.seq - self.end.seq >= _WORTH_SHARING:
            self._share_out(str(path), head.seq, processes)
        self.read()
        if start != (self.retained or self._retained_before() or Head(0, "")):
            raise _Broken(f"Rows up to {start.seq} are gone, and no retention row of the chain says so.", start.seq + 1)
        if self.end != head:
            raise _Broken(
                f"The log ends at row {self.end.seq}, its head at {head.seq}: the end was cut or added to.",
                self.end.seq + 1,
            )
        if self.connection.execute("SELECT count(*) FROM calls").fetchone() != (head.seq - start.seq,):
            raise _Broken("There are rows in the log that are not of its chain.")
        if self.stored:
            raise _Broken("Statistics are kept of rows that are not in the log.")
        for seq in (one.seq for one in (noted, sure) if one not in (None, start, Head(0, ""))):
            if seq > self.end.seq:
                raise _Broken(
                    f"The log was cut: row {seq} was noted, and it ends at row {self.end.seq}.", self.end.seq + 1
                )
            if seq not in self.passed:
                raise _Broken(
                    f"Row {seq}, which was noted, is older than what retention kept (from row "
                    f"{start.seq + 1}). Note a newer head."
                )

    def read(self, last: int | None = None) -> None:
        """The rows that follow, up to the last or to the end."""
        block: list[tuple[Any, ...]] = []
        for row in self._sound_rows(last):
            seq: int = row[0]
            if row[_KIND] == RETENTION:
                self.retained = Head(*_said(row, ("removed_to", int), ("hash", str)))
            elif row[_KIND] == GAP:
                ended_at, found = _said(row, ("ended_at", int), ("found", int))
                self.gaps.append(Gap(seq, row[_TIME], ended_at, found))
            block.append(row)
            if seq % BLOCK == 0:
                if (number := seq // BLOCK - 1) in self.stored:
                    self.stored.remove(number)
                    self._check_statistics(number, block)
                block = []
                if self.progress is not None and seq % _WORTH_SAYING == 0:
                    self.progress(self.end)
            if seq in self.noted:
                if self.noted[seq] != row[-1]:
                    raise _Broken("The log was rewritten: this row is not the one whose hash was noted.", seq)
                self.passed.add(seq)

    def _check_statistics(self, number: int, block: list[tuple[Any, ...]]) -> None:
        """They must follow from the rows."""
        usage = UsageSums()
        try:
            usage.add_rows(map(_needed, block))
        except (TypeError, ValueError, OverflowError):
            raise _Broken("One of the rows up to this one has an invalid number.", block[-1][0]) from None
        kept = self.connection.execute("SELECT * FROM usage WHERE block = ? ORDER BY rowid", (number,)).fetchall()
        if [one for one in kept if one[5]] != usage.of_block(number):
            first, last = number * BLOCK + 1, (number + 1) * BLOCK
            raise _Broken(f"The statistics kept of rows {first} to {last} do not follow from these rows.")

    def _go_to(self, sure: Head, start: Head) -> None:
        """Begin with the block that a head is in, of which what comes before was verified."""
        first = sure.seq // BLOCK * BLOCK
        if first > start.seq and (at := self._heads([first])):
            self.end = at[0]
            self.stored = {number for number in self.stored if number >= first // BLOCK}

    def _share_out(self, path: str, last: int, processes: int) -> None:
        """Have processes read all but the newest rows. What one of them finds wrong is then read here, in order."""
        size = min(max((last - self.end.seq) // (processes * 4) // BLOCK, 1), _MOST_BLOCKS) * BLOCK
        ends = self._heads(range(self.end.seq // BLOCK * BLOCK + size, last, size))
        stretches = [(start, end.seq) for start, end in pairwise([self.end, *ends])]
        shares = [(path, stretches[number::processes], self.noted) for number in range(processes)]
        with readers_of(_read_stretches, shares) as readers:
            for number, (start, _) in enumerate(stretches):
                try:
                    found: _Stretch | None = readers[number % processes].recv()
                except (EOFError, OSError, IndexError):
                    return  # it was ended, or none could be started: the rest is read in this process
                if found is None or start != self.end:
                    return
                self.end, self.rows = found.end, self.rows + found.rows
                self.gaps += found.gaps
                self.retained = found.retained or self.retained
                self.stored -= found.blocks
                self.passed |= found.passed
                if self.progress is not None:
                    self.progress(self.end)

    def _heads(self, numbers: Iterable[int]) -> list[Head]:
        find = "SELECT seq, hash FROM calls WHERE seq = ?"
        found: list[Any] = [self.connection.execute(find, (number,)).fetchone() for number in numbers]
        return [Head(*one) for one in found if one is not None and type(one[1]) is str]

    def _retained_before(self) -> Head | None:
        """What the newest row about retention says, where it was not read now because it was verified before."""
        row = self.connection.execute(f"{SELECT} WHERE kind = ? ORDER BY seq DESC LIMIT 1", (RETENTION,)).fetchone()
        if row is None or hash_of(row[0], row[1:-2], row[-2]) != row[-1]:
            return None
        return Head(*_said(row, ("removed_to", int), ("hash", str)))

    def _sound_rows(self, until: int | None) -> Iterator[tuple[Any, ...]]:
        """Each row that follows from the one before it, up to the first that does not."""
        # There may be millions, so the usual row is checked right here, and only a wrong one is looked at closely.
        last, digest = self.end
        for row in self._rows_after(self.end.seq, until):
            seq, stored = row[0], row[-1]
            try:
                sound = seq == last + 1 and row[-2] == digest and hash_of(seq, row[1:-2], digest) == stored
            except (TypeError, ValueError):
                sound = False  # a blob where text was: nothing that we ever wrote
            if not sound:
                raise self._fault(row)
            last, digest = seq, stored
            self.end = Head(last, digest)
            self.rows += 1
            yield row

    def _rows_after(self, seq: int, until: int | None) -> Iterator[tuple[Any, ...]]:
        query, limit = f"{SELECT} WHERE seq > ? AND seq <= ? ORDER BY seq", _LAST if until is None else until
        self.connection.text_factory = str  # quicker, and fails where bytes are no text
        try:
            yield from self.connection.execute(query, (seq, limit))
        except sqlite3.OperationalError:
            self.connection.text_factory = as_text
            yield from self.connection.execute(query, (self.end.seq, limit))

    def _fault(self, row: tuple[Any, ...]) -> _Broken:
        """What is wrong with a row that does not follow from the one before it."""
        expected, seq = self.end.seq + 1, row[0]
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
