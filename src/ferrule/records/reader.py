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
from ferrule.records.database import AuditError, open_for_reading
from ferrule.records.row import COLUMNS, AuditRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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
    ) -> Iterator[str]:
        """The log as lines of text, for a file or a pipe.

        `jsonl` is exact. `csv` is for spreadsheets: a cell that one would run as a formula gets a `'` in
        front.
        """
        if format == "jsonl":
            return self._jsonl(since)
        if format == "csv":
            return self._csv(since)
        raise ValueError(f'An export is "jsonl" or "csv", not {format!r}.')

    def _jsonl(self, since: float | None) -> Iterator[str]:
        # SQLite writes the JSON: to fetch the columns one by one takes longer than all the rest. It would round what is
        # no whole number, so those are put in here.
        last = 0
        try:
            for seq, first, time, second, duration, third, waited, queued, fourth in self._select(_JSON, since, last):
                if not type(time) is type(duration) is float:
                    raise AuditError(_TAMPERED)
                yield (
                    f'{first[:-1]},"time":{time!r},{second[1:-1]},"duration":{duration!r},{third[1:-1]},'
                    f'"waited":{_seconds(waited)},"queued":{_seconds(queued)},{fourth[1:]}\n'
                )
                last = seq
        except AuditError:
            # Something that JSON has no form for, where somebody tampered; or an SQLite without JSON.
            for row in self._select(_COLUMNS, since, last, lenient=True):
                yield well_formed(_json(AuditRow(*row).to_dict()) + "\n")

    def _csv(self, since: float | None) -> Iterator[str]:
        yield ",".join(COLUMNS) + "\n"
        last = 0
        try:
            # SQLite writes the cells, and would round what is no whole number, as above.
            rows = self._select(_CSV, since, last)
            while some := tuple(islice(rows, _ROWS_AT_ONCE)):
                text = "".join(
                    [
                        f"{seq},{time!r},{first},{duration!r},{second},{_or_empty(waited)},{_or_empty(queued)},{third}\n"
                        for seq, time, first, duration, second, waited, queued, third, _ in some
                    ]
                )
                if any(row[-1] for row in some) or _FORMULA_CELL.search(text):
                    text = _as_csv(tuple(islice(self._select(_COLUMNS, since, last), len(some))))
                yield text
                last = some[-1][0]
        except AuditError:
            # Bytes that are no text, where somebody tampered.
            for row in self._select(_COLUMNS, since, last, lenient=True):
                yield well_formed(_as_csv((row,)))

    def _rows(self, where: list[str], values: list[Any], tail: str) -> Iterator[AuditRow]:
        return (_row(row) for row in self._query(_COLUMNS, where, values, tail))

    def _select(
        self, what: str, since: float | None, after: int, *, lenient: bool = False
    ) -> Iterator[tuple[Any, ...]]:
        where, values = ["seq > ?"], [after]
        if since is not None:
            where, values = [*where, "time >= ?"], [*values, since]
        return self._query(what, where, values, "ORDER BY seq", lenient=lenient)

    def _query(
        self, what: str, where: list[str], values: list[Any], tail: str, *, lenient: bool = True
    ) -> Iterator[tuple[Any, ...]]:
        if self._tenant is not _ANY:
            where, values = [*where, "tenant IS ?"], [*values, self._tenant]
        clause = f"WHERE {' AND '.join(where)}" if where else ""
        # A connection for each question: cheap, safe from any thread, and no lock outlives it.
        with closing(open_for_reading(self.path)) as connection:
            if not lenient:
                connection.text_factory = str  # quicker, and fails where bytes are no text
            try:
                yield from connection.execute(f"SELECT {what} FROM calls {clause} {tail}", values)  # noqa: S608 - our own
            except sqlite3.Error as problem:
                raise AuditError(phrase("{path} could not be read: {why}.", path=self.path, why=problem)) from problem


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
