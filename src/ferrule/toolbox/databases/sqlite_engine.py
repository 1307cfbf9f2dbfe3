"""SQLite: opened read-only unless it is to be changed, with an authorizer that decides about each step."""

from __future__ import annotations

import os
import sqlite3
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote

from ferrule import ToolError
from ferrule.extension import advice, phrase
from ferrule.toolbox.databases import statements
from ferrule.toolbox.databases.statements import Described, Order, Rows, SqlEngine
from ferrule.toolbox.failures import forbidden

_MEMORY = 512 << 20
_SMALL = 64 << 20
"""Bytes of a database whose rows are counted instead of estimated."""
_STEPS = 5000
"""Of SQLite's virtual machine between two looks at the clock."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 50_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_READING = frozenset({
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
    sqlite3.SQLITE_PRAGMA,
})  # fmt: skip
_NEVER = frozenset({
    sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT,
})  # fmt: skip
_FUNCTIONS_REFUSED = frozenset({"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"})
_PRAGMAS_ABOUT_TABLES = frozenset({
    "table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list",
    "integrity_check", "quick_check", "foreign_key_check",
})  # fmt: skip
_PRAGMAS_ASKED = _PRAGMAS_ABOUT_TABLES | {
    "application_id", "collation_list", "compile_options", "data_version", "encoding", "foreign_keys",
    "freelist_count", "function_list", "journal_mode", "page_count", "page_size", "schema_version", "user_version",
}  # fmt: skip


class SqliteDatabase(SqlEngine):
    """One connection. A file whose write-ahead log is at rest is read as it lies, and looked at again afterwards."""

    def __init__(self, order: Order) -> None:
        self._path: str = order["path"]
        self._writes = order["action"] == "change"
        self._end = monotonic() + order["seconds"]
        self._as_it_lay = None if self._writes else _at_rest(self._path)
        mode = "mode=rw" if self._writes else "mode=ro" + ("&immutable=1" if self._as_it_lay else "")
        self._connection = self._opened(f"file:{quote(self._path)}?{mode}")
        self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # whether it can be read at all

    def _opened(self, uri: str) -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, timeout=statements.LOCK_SECONDS, isolation_level=None)
        connection.text_factory = partial(str, encoding="utf-8", errors="backslashreplace")
        for limit, most in _LIMITS.items():
            connection.setlimit(limit, most)
        for pragma in (
            f"hard_heap_limit={_MEMORY}", "temp_store=MEMORY", "trusted_schema=OFF", "cell_size_check=ON",
            "foreign_keys=ON",
        ):  # fmt: skip
            connection.execute(f"PRAGMA {pragma}")

        def is_over() -> bool:
            statements.STOPPING.told = statements.STOPPING.told or monotonic() > self._end
            return statements.STOPPING.told

        connection.set_progress_handler(is_over, _STEPS)
        connection.set_authorizer(self._decide)
        return connection

    def _decide(self, action: int, first: str | None, second: str | None, *_where: str | None) -> int:
        """What SQLite asks while it compiles a statement, its triggers and its views."""
        if action == sqlite3.SQLITE_FUNCTION:
            allowed = (second or "").lower() not in _FUNCTIONS_REFUSED
        elif action == sqlite3.SQLITE_PRAGMA:
            name = (first or "").lower()
            allowed = name in (_PRAGMAS_ASKED if second is None else _PRAGMAS_ABOUT_TABLES)
        elif self._writes:
            allowed = action not in _NEVER
        else:  # a table that is a function, such as `pragma_table_info`, is declared as if it were written down
            allowed = action in _READING or (action == sqlite3.SQLITE_UPDATE and first == "sqlite_master")
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def about(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def query(self, sql: str, parameters: list[Any]) -> Rows:
        cursor = self._connection.execute(sql, parameters)
        if cursor.description is None:
            raise statements.no_rows()

        def each() -> Any:
            yield from cursor
            self._require_unchanged()

        return Rows([one[0] for one in cursor.description], each())

    def _require_unchanged(self) -> None:
        if self._as_it_lay and self._as_it_lay != _state(self._path):
            raise ToolError(
                phrase("Another program changed the database while it was read."),
                suggestion=phrase("Make the call again."),
            )

    def change(self, sql: str, parameters: list[Any]) -> tuple[int | None, Rows]:
        self._connection.set_authorizer(None)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.set_authorizer(self._decide)
        cursor = self._connection.execute(sql, parameters)
        found = Rows([one[0] for one in cursor.description or ()], iter(cursor.fetchall()))
        return self._connection.execute("SELECT changes()").fetchone()[0], found

    def commit(self) -> None:
        self._connection.set_progress_handler(None, 0)
        self._connection.set_authorizer(None)
        self._connection.execute("COMMIT")
        self._connection.close()

    def rollback(self) -> str:
        self._connection.set_authorizer(None)
        self._connection.execute("ROLLBACK")
        return ""

    def foresee(self, sql: str, parameters: list[Any]) -> tuple[int, bool] | None:
        """On a copy in memory, so that the file is not even locked."""
        if Path(self._path).stat().st_size > _SMALL:
            return None
        copy = self._opened("file::memory:")
        copy.set_authorizer(None)
        self._connection.backup(copy)
        self._require_unchanged()
        self._writes = True
        copy.execute("BEGIN")
        copy.set_authorizer(self._decide)
        copy.execute(sql, parameters).fetchall()
        return copy.execute("SELECT changes()").fetchone()[0], True

    def tables(self) -> list[Described]:
        found = self._connection.execute(
            "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite~_%' "
            "ESCAPE '~' ORDER BY name"
        )
        small = Path(self._path).stat().st_size <= _SMALL
        return [
            {"name": name, "kind": kind, "rows": self._count(name) if small and kind == "table" else None, "_sql": sql}
            for name, kind, sql in found.fetchall()
        ]

    def _count(self, name: str) -> int | None:
        try:
            quoted = name.replace('"', '""')
            return self._connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0]  # noqa: S608
        except sqlite3.Error:
            if statements.STOPPING.told:
                raise
            return None  # a virtual table whose module is not here

    def table(self, table: Described) -> Described:
        ask = self._connection.execute
        name = table["name"]
        keys: dict[int, list[tuple[Any, ...]]] = {}
        for number, _, *key in ask("SELECT * FROM pragma_foreign_key_list(?) ORDER BY id, seq", (name,)):
            keys.setdefault(number, []).append(tuple(key))
        columns = ask("SELECT * FROM pragma_table_xinfo(?)", (name,)).fetchall()
        indexes = ask('SELECT name, "unique" FROM pragma_index_list(?) ORDER BY name', (name,)).fetchall()
        return statements.described(
            table,
            [
                (column, kind, not (required or key), default, bool(key))
                for _, column, kind, required, default, key, hidden in columns
                if hidden != 1
            ],
            [
                f"({', '.join(one[1] for one in key)}) references {key[0][0]}"
                + (f" ({', '.join(one[2] for one in key)})" if key[0][2] else "")
                for key in keys.values()
            ],
            [
                f"{'unique ' if unique else ''}{index} ({', '.join(column or 'expression' for (column,) in of)})"
                for index, unique in indexes
                if (of := ask("SELECT name FROM pragma_index_info(?)", (index,)).fetchall())
            ],
            table["_sql"] if table["kind"] == "view" else None,
        )


def _state(path: str) -> tuple[int, int]:
    found = Path(path).stat()
    return found.st_mtime_ns, found.st_size


def _at_rest(path: str) -> tuple[int, int] | None:
    """The state of a file that has a write-ahead log which nobody uses now; None of any other.

    SQLite would make files beside such a one in order to read it.
    """
    with Path(path).open("rb") as file:
        head = file.read(20)
    log = Path(f"{path}-wal")
    if head[18:] != b"\x02\x02" or os.path.exists(f"{path}-shm"):  # noqa: PTH110
        return None
    if log.exists() and log.stat().st_size:
        raise ToolError(
            phrase(
                "The database has a write-ahead log that its program has not merged, so it cannot be read as it is."
            ),
            suggestion=advice(
                "Ask the user to open it once with the program that writes it.",
                "Open it once with the program that writes it.",
            ),
        )
    return _state(path)


def problem(error: Exception, order: Order) -> ToolError:
    name = str(getattr(error, "sqlite_errorname", ""))
    if name in ("SQLITE_READONLY_ROLLBACK", "SQLITE_READONLY_RECOVERY", "SQLITE_READONLY_CANTINIT"):
        return ToolError(
            phrase("A change of this database was interrupted and has not been rolled back, so it cannot be trusted."),
            suggestion=advice(
                "Ask the user to open it once with the program that writes it.",
                "Open it once with the program that writes it.",
            ),
        )
    if name == "SQLITE_AUTH" or "not authorized" in str(error):
        if order["action"] != "change":
            return statements.only_read()
        return forbidden(
            phrase("The statement uses what is not available here: ATTACH, PRAGMA, transactions or extensions."),
            phrase("Change tables with plain SQL."),
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return ToolError(
            phrase(
                "Another program is changing the database, and did not finish within {n} s.", n=statements.LOCK_SECONDS
            ),
            suggestion=phrase("Make the call again in a moment."),
        )
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return statements.unreachable(phrase("the file is not an SQLite database, or is damaged"), order, "")
    if name.startswith("SQLITE_CANTOPEN") or isinstance(error, OSError):
        return statements.unreachable(phrase("its file cannot be opened"), order, error)
    if name == "SQLITE_TOOBIG":
        return statements.failed(phrase("a value is too large"), phrase("Ask for a part of it, such as with substr()."))
    return statements.failed(error)
