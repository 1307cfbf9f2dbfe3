"""Reading the audit log: lists, one row, exports. Nothing here can change it."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from ferrule.core.phrases import phrase
from ferrule.core.shown_text import well_formed
from ferrule.records.database import AuditError, as_text, open_for_reading
from ferrule.records.processes import readers_of
from ferrule.records.row import COLUMNS, AuditRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection
    from pathlib import Path

_ANY: Any = object()
_FLAGS = ("cached", "abandoned")


def _object(first: str, last: str) -> str:
    """SQL for the JSON of the columns from one to another."""
    columns = COLUMNS[COLUMNS.index(first) : COLUMNS.index(last) + 1]
    return f"json_object({', '.join(_pair(name) for name in columns)})"


def _pair(name: str) -> str:
    return f"'{name}', json(iif({name}, 'true', 'false'))" if name in _FLAGS else f"'{name}', {name}"


_JSON = ", ".join(
    (
        "seq",
        _object("seq", "seq"),
        "time",
        _object("session", "error"),
        "duration",
        _object("result_length", "repairs"),
        "waited",
        "queued",
        _object("box", "hash"),
    )
)
_COLUMNS = ", ".join(COLUMNS)
_ROWS_AT_ONCE = 500
_ROWS_OF_STRETCH = 5_000
_WORTH_SHARING = 60_000
"""Rows; for fewer, starting processes takes longer than reading."""
_LAST = 2**63 - 1
# A spreadsheet runs a cell that begins with one of these as a formula, and arguments come from a model.
_FORMULA = frozenset("=+-@\t\r")
_FORMULA_CELL = re.compile(r',"[=+\-@\t\r]')
_TYPES = {
    "time": "real", "duration": "real", "waited": "real", "queued": "real",
    "arguments_length": "integer", "result_length": "integer", "cached": "integer", "abandoned": "integer",
}  # fmt: skip
# What others named or said; all other texts are our own words, hashes or JSON.
_FREE_TEXTS = (
    "session", "call_id", "parent", "tool", "version", "tenant", "user", "role", "arguments", "reason", "rule",
    "answer", "error",
)  # fmt: skip
_MAY_BE_NULL = ("parent", "tenant", "user", "role", "rule", "answer", "error", "box", "effects")


def _cells(first: str, last: str) -> str:
    """SQL for the columns from one to another as cells of CSV."""
    columns = COLUMNS[COLUMNS.index(first) : COLUMNS.index(last) + 1]
    cells = ",".join("%s" if name in _TYPES else '"%w"' for name in columns)
    return f"printf('{cells}', {', '.join(_value(name) for name in columns)})"


def _value(name: str) -> str:
    return f"ifnull({name}, '')" if name in _MAY_BE_NULL else name


_CSV = ", ".join(
    (
        "seq",
        "time",
        _cells("session", "error"),
        "duration",
        _cells("result_length", "repairs"),
        "waited",
        "queued",
        _cells("box", "hash"),
        # What `printf` would cut short, and what only tampering can put there.
        " OR ".join(
            [
                *(f"instr({name}, char(0))" for name in _FREE_TEXTS),
                *(f"typeof({name}) NOT IN ('{kind}', 'null')" for name, kind in _TYPES.items()),
            ]
        ),
    )
)
_TAMPERED = "A time is not a number."


class AuditReader:
    """A read-only view of an audit log. With a `tenant` it shows that tenant's rows alone."""

    def __init__(self, path: str | Path, *, tenant: str | None = _ANY) -> None:
        self.path = path
        self._tenant = tenant
        open_for_reading(path).close()

    def list(
        self,
        *,
        limit: int = 50,
        tool: str | None = None,
        outcome: str | None = None,
        session: str | None = None,
        tenant: str | None = None,
        user: str | None = None,
        kind: str | None = None,
        verdict: str | None = None,
        since: float | None = None,
        until: float | None = None,
        before: int | None = None,
    ) -> list[AuditRow]:
        """The newest rows that match, newest first.

        `outcome="failure"` means everything but success. `since` and `until` are times in seconds since 1970;
        `before` is the last `seq` of the page before.
        """
        equal = {"tool": tool, "session": session, "user": user, "kind": kind, "verdict": verdict}
        where = [f"{column} = ?" for column, value in equal.items() if value is not None]
        values: list[Any] = [value for value in equal.values() if value is not None]
        if outcome == "failure":
            where.append("outcome <> 'success'")
        elif outcome is not None:
            where.append("outcome = ?")
            values.append(outcome)
        for clause, value in (
            ("tenant = ?", tenant),
            ("time >= ?", since),
            ("time < ?", until),
            ("seq < ?", before),
        ):
            if value is not None:
                where.append(clause)
                values.append(value)
        return list(self._rows(where, values, f"ORDER BY seq DESC LIMIT {int(limit)}"))

    def show(self, which: int | str) -> AuditRow | None:
        """One row, by its number or its call id; ids are reused, so of several it is the newest."""
        column = "seq" if isinstance(which, int) else "call_id"
        return next(self._rows([f"{column} = ?"], [which], "ORDER BY seq DESC LIMIT 1"), None)

    def rows(self, *, since: float | None = None) -> Iterator[AuditRow]:
        """Every row, oldest first, one at a time."""
        where = [] if since is None else ["time >= ?"]
        return self._rows(where, [] if since is None else [since], "ORDER BY seq")

    def export(
        self,
        format: Literal["jsonl", "csv"] = "jsonl",  # noqa: A002 - the word for it
        *,
        since: float | None = None,
        after: int = 0,
        processes: int = 1,
    ) -> Iterator[str]:
        """The log as text of whole lines, for a file or a pipe; from the row after `after` on.

        `jsonl` is exact. `csv` is for spreadsheets: a cell that one would run as a formula gets a `'` in
        front, and an export from the first row on begins with the names of the columns. A long log is shared out among
        `processes`; a program that asks for several needs `if __name__ == "__main__"`.
        """
        if format not in ("jsonl", "csv"):
            raise ValueError(f'An export is "jsonl" or "csv", not {format!r}.')
        return self._export(format, since, after, processes)

    def _export(self, form: Literal["jsonl", "csv"], since: float | None, after: int, processes: int) -> Iterator[str]:
        if form == "csv" and not after:
            yield ",".join(COLUMNS) + "\n"
        if processes > 1 and since is None and self._tenant is _ANY:
            # The last row that there is now; and rows that retention removes while others are read stay in this view.
            with closing(open_for_reading(self.path)) as connection:
                connection.execute("BEGIN")
                (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM calls").fetchone()
                if last - after >= _WORTH_SHARING:
                    yield from self._shared(connection, form, after, last, processes)
                    return
        with closing(open_for_reading(self.path)) as connection:
            yield from self._texts(connection, form, since, after, _LAST)

    def _shared(
        self, connection: sqlite3.Connection, form: Literal["jsonl", "csv"], after: int, last: int, processes: int
    ) -> Iterator[str]:
        stretches = [(first, min(first + _ROWS_OF_STRETCH, last)) for first in range(after, last, _ROWS_OF_STRETCH)]
        shares = [(str(self.path), form, stretches[number::processes]) for number in range(processes)]
        with readers_of(_send_stretches, shares) as readers:
            for number, (first, end) in enumerate(stretches):
                try:
                    text = readers[number % processes].recv_bytes().decode()
                except (EOFError, OSError, IndexError):
                    text = ""  # the process has ended, or was never started
                if text:
                    yield text
                else:
                    yield from self._texts(connection, form, None, first, end)

    def _texts(
        self, connection: sqlite3.Connection, form: Literal["jsonl", "csv"], since: float | None, after: int, until: int
    ) -> Iterator[str]:
        return (self._jsonl if form == "jsonl" else self._csv)(connection, since, after, until)

    def _jsonl(
        self, connection: sqlite3.Connection, since: float | None, after: int, until: int
    ) -> Iterator[str]:  # fmt: skip
        # SQLite writes the JSON: to fetch the columns one by one takes longer than all the rest. It would round what is
        # no whole number, so those are put in here.
        last = after
        try:
            rows = self._select(connection, _JSON, since, last, until)
            for seq, first, time, second, duration, third, waited, queued, fourth in rows:
                if not type(time) is type(duration) is float:
                    raise AuditError(_TAMPERED)
                yield (
                    f'{first[:-1]},"time":{time!r},{second[1:-1]},"duration":{duration!r},{third[1:-1]},"waited":'
                    f"{'null' if waited is None else _seconds(waited)},"
                    f'"queued":{"null" if queued is None else _seconds(queued)},{fourth[1:]}\n'
                )
                last = seq
        except AuditError:
            # Something that JSON has no form for, where somebody tampered; or an SQLite without JSON.
            for row in self._select(connection, _COLUMNS, since, last, until, lenient=True):
                yield well_formed(_json(AuditRow(*row).to_dict()) + "\n")

    def _csv(
        self, connection: sqlite3.Connection, since: float | None, after: int, until: int
    ) -> Iterator[str]:  # fmt: skip
        last = after
        try:
            # SQLite writes the cells, and would round what is no whole number, as above.
            rows = self._select(connection, _CSV, since, last, until)
            while some := tuple(islice(rows, _ROWS_AT_ONCE)):
                text = "".join(
                    [
                        f"{seq},{time!r},{first},{duration!r},{second},{_or_empty(waited)},{_or_empty(queued)},{third}\n"
                        for seq, time, first, duration, second, waited, queued, third, _ in some
                    ]
                )
                if any(row[-1] for row in some) or _FORMULA_CELL.search(text):
                    text = _as_csv(tuple(islice(self._select(connection, _COLUMNS, since, last, until), len(some))))
                yield text
                last = some[-1][0]
        except AuditError:
            # Bytes that are no text, where somebody tampered.
            for row in self._select(connection, _COLUMNS, since, last, until, lenient=True):
                yield well_formed(_as_csv((row,)))

    def _rows(self, where: list[str], values: list[Any], tail: str) -> Iterator[AuditRow]:
        # A connection for each question: cheap, safe from any thread, and no lock outlives it.
        with closing(open_for_reading(self.path)) as connection:
            for row in self._query(connection, _COLUMNS, where, values, tail):
                yield _row(row)

    def _select(
        self, connection: sqlite3.Connection, what: str, since: float | None, after: int, until: int, *,
        lenient: bool = False,
    ) -> Iterator[tuple[Any, ...]]:  # fmt: skip
        where, values = ["seq > ?", "seq <= ?"], [after, until]
        if since is not None:
            where, values = [*where, "time >= ?"], [*values, since]
        # `str` is quicker, and fails where bytes are no text.
        connection.text_factory = as_text if lenient else str
        return self._query(connection, what, where, values, "ORDER BY seq")

    def _query(
        self, connection: sqlite3.Connection, what: str, where: list[str], values: list[Any], tail: str
    ) -> Iterator[tuple[Any, ...]]:
        if self._tenant is not _ANY:
            where, values = [*where, "tenant IS ?"], [*values, self._tenant]
        clause = f"WHERE {' AND '.join(where)}" if where else ""
        try:
            yield from connection.execute(f"SELECT {what} FROM calls {clause} {tail}", values)  # noqa: S608 - our own
        except sqlite3.Error as problem:
            raise AuditError(phrase("{path} could not be read: {why}.", path=self.path, why=problem)) from problem

    def _send_whole(
        self, form: Literal["jsonl", "csv"], stretches: list[tuple[int, int]], writer: Connection
    ) -> None:  # fmt: skip
        """Send each stretch as text; nothing where rows are missing or odd, which is looked at elsewhere."""
        with closing(open_for_reading(self.path)) as connection:
            for first, last in stretches:
                text = "".join(self._texts(connection, form, None, first, last))
                within = "SELECT count(*) FROM calls WHERE seq > ? AND seq <= ?"
                (rows,) = connection.execute(within, (first, last)).fetchone()
                writer.send_bytes(text.encode() if rows == last - first else b"")


def _send_stretches(
    path: str, form: Literal["jsonl", "csv"], stretches: list[tuple[int, int]], writer: Connection
) -> None:  # fmt: skip
    """In a process of its own."""
    AuditReader(path)._send_whole(form, stretches, writer)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _row(values: tuple[Any, ...]) -> AuditRow:
    """A row; bytes, which only tampering can put there, are shown as digits."""
    shown: list[Any] = [one.hex() if type(one) is bytes else one for one in values]
    return AuditRow(*shown)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=bytes.hex)


def _seconds(value: Any) -> str:
    return repr(value) if type(value) is float else _json(value)


def _or_empty(value: Any) -> str:
    return "" if value is None else repr(value)


def _as_csv(rows: Sequence[tuple[Any, ...]]) -> str:
    """Lines for spreadsheets."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows(map(_without_formulas, rows))
    return lines.getvalue()


def _without_formulas(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Most rows have none, which one look at the first letters of all cells tells."""
    if _FORMULA.isdisjoint([one[:1] for one in row if type(one) is str]):
        return row
    return tuple(f"'{one}" if type(one) is str and one[:1] in _FORMULA else one for one in row)
