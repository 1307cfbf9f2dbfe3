"""Reading the audit log: lists, one row, exports. Nothing here can change it."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

from ferrule.core.phrases import phrase
from ferrule.records.database import AuditError, open_for_reading
from ferrule.records.row import COLUMNS, SELECT, AuditRow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ANY: Any = object()
# A spreadsheet runs a cell that begins with one of these as a formula, and arguments come from a model.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


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
            return (json.dumps(row.to_dict(), ensure_ascii=False) + "\n" for row in self.rows(since=since))
        if format == "csv":
            return self._csv(since)
        raise ValueError(f'An export is "jsonl" or "csv", not {format!r}.')

    def _csv(self, since: float | None) -> Iterator[str]:
        line = io.StringIO()
        writer = csv.writer(line, lineterminator="\n")

        def written(cells: Any) -> str:
            writer.writerow(cells)
            text = line.getvalue()
            line.seek(0)
            line.truncate()
            return text

        yield written(COLUMNS)
        for row in self.rows(since=since):
            yield written([_cell(value) for value in row])

    def _rows(self, where: list[str], values: list[Any], tail: str) -> Iterator[AuditRow]:
        if self._tenant is not _ANY:
            where, values = [*where, "tenant IS ?"], [*values, self._tenant]
        clause = f"WHERE {' AND '.join(where)}" if where else ""
        # A connection for each question: cheap, safe from any thread, and no lock outlives it.
        with closing(open_for_reading(self.path)) as connection:
            try:
                for row in connection.execute(f"{SELECT} {clause} {tail}", values):
                    yield AuditRow(*row)
            except sqlite3.Error as problem:
                raise AuditError(phrase("{path} could not be read: {why}.", path=self.path, why=problem)) from problem


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
