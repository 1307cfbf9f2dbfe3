"""DuckDB: files of its own, and the CSV and Parquet files of the workspace. Its configuration is locked before a
statement is run, and it can open no other file.
"""

from __future__ import annotations

import os
from typing import Any

from ferrule import ToolError
from ferrule.extension import phrase
from ferrule.toolbox.databases import statements
from ferrule.toolbox.databases.statements import Described, Order, Rows, SqlEngine
from ferrule.toolbox.failures import forbidden

_MEMORY = "512MB"
_PIECE = 1000
_CONFIGURATION = {
    "memory_limit": _MEMORY,
    "threads": "2",
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}
_READING = frozenset({"SELECT", "EXPLAIN"})
_CHANGING = frozenset({"INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "CREATE_FUNC", "MERGE_INTO"})


class DuckDatabase(SqlEngine):
    """One connection: to a database file, or to none, where an order names the files of the workspace."""

    def __init__(self, order: Order) -> None:
        import duckdb

        self._files: list[str] = order.get("listed", [])
        self._root: str = order.get("root", "")
        writes = order["action"] == "change"
        path = order.get("path", ":memory:")
        access = {} if path == ":memory:" or writes else {"access_mode": "READ_ONLY"}
        connection: Any = duckdb.connect(path, config={**_CONFIGURATION, **access})
        if self._files:
            os.chdir(self._root)  # where the names in a statement start
            connection.execute("SET allowed_paths = $1", [self._files])
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        self._connection = connection

    def _run(self, sql: str, parameters: list[Any], kinds: frozenset[str]) -> Any:
        """DuckDB's own parser says how many statements there are, and of which kind."""
        statements = self._connection.extract_statements(sql)
        if len(statements) != 1:
            raise forbidden(
                phrase("One statement is run at a time, and this is {n}.", n=len(statements)),
                phrase("Make a call for each."),
            )
        kind = statements[0].type.name
        if kind not in kinds:
            if kinds is _READING and kind in _CHANGING:
                raise statements.no_rows()
            can = phrase("ChangeDatabase inserts, updates, deletes, creates, alters and drops.")
            raise forbidden(phrase("{kind} is not available here.", kind=kind), None if kinds is _READING else can)
        return self._connection.execute(statements[0], parameters or None)

    def about(self) -> str:
        return f"DuckDB {self._connection.execute('SELECT version()').fetchone()[0].removeprefix('v')}"

    def query(self, sql: str, parameters: list[Any]) -> Rows:
        return self._rows(self._run(sql, parameters, _READING))

    @staticmethod
    def _rows(cursor: Any) -> Rows:
        def each() -> Any:
            while piece := cursor.fetchmany(_PIECE):
                yield from piece

        return Rows([one[0] for one in cursor.description or ()], each())

    def change(self, sql: str, parameters: list[Any]) -> tuple[int | None, Rows]:
        self._connection.execute("BEGIN")
        found = self._rows(self._run(sql, parameters, _CHANGING))
        rows = list(found.rows)
        if found.columns == ["Count"]:
            return (rows[0][0] if rows else 0), Rows([], iter(()))
        return (len(rows) if found.columns else None), Rows(found.columns, iter(rows))

    def commit(self) -> None:
        super().commit()
        self._connection.close()

    def tables(self) -> list[Described]:
        if self._root:
            names = [os.path.relpath(path, self._root) for path in self._files]
            return [{"name": name, "kind": "file", "rows": None} for name in names]
        found = self._connection.execute(
            "SELECT schema_name, table_name, 'table', estimated_size, NULL FROM duckdb_tables() WHERE NOT internal "
            "UNION ALL SELECT schema_name, view_name, 'view', NULL, sql FROM duckdb_views() WHERE NOT internal "
            "ORDER BY 1, 2"
        ).fetchall()
        return [
            {"name": name if schema == "main" else f"{schema}.{name}", "kind": kind, "rows": rows, "_sql": sql}
            | {"_at": [schema, name]}
            for schema, name, kind, rows, sql in found
        ]

    def table(self, table: Described) -> Described:
        if self._root:
            name = table["name"].replace("'", "''")
            columns = self._connection.execute(f"DESCRIBE SELECT * FROM '{name}'")  # noqa: S608 - a file of the list
            named = [(name, kind, True, None, False) for name, kind, *_ in columns.fetchall()]
            return statements.described(table, named, [], [], None)

        def ask(what: str, order: str = "") -> list[Any]:
            sql = f"SELECT {what} WHERE schema_name = ? AND table_name = ? {order}"
            return self._connection.execute(sql, table["_at"]).fetchall()

        constraints = ask("constraint_type, constraint_text, constraint_column_names FROM duckdb_constraints()")
        keys = {column for kind, _, columns in constraints if kind == "PRIMARY KEY" for column in columns}
        of_columns = "column_name, data_type, is_nullable, column_default FROM duckdb_columns()"
        return statements.described(
            table,
            [(*one, one[0] in keys) for one in ask(of_columns, "ORDER BY column_index")],
            [text for kind, text, _ in constraints if kind in ("FOREIGN KEY", "UNIQUE")],
            [sql for (sql,) in ask("sql FROM duckdb_indexes()")],
            table["_sql"],
        )


def problem(error: Exception, order: Order) -> ToolError:
    name, words = type(error).__name__, str(error)
    if name == "PermissionException":
        return forbidden(
            phrase("The statement opens a file that is not available here."),
            phrase(
                "Name a CSV or Parquet file that DescribeDatabase lists, in quotes: SELECT * FROM 'data/a.csv'; "
                "several as read_csv(['a.csv', 'b.csv']). Patterns with * are not available."
            )
            if "listed" in order
            else phrase("Use the tables of the database."),
        )
    if "lock" in words and name == "IOException":
        return ToolError(
            phrase("Another program has the database open for writing."),
            suggestion=phrase("Make the call again when that program has ended."),
        )
    if name in ("IOException", "SerializationException") or isinstance(error, OSError):
        if "listed" in order:
            return statements.failed(words)
        return statements.unreachable(phrase("its file is not a DuckDB database, or cannot be opened"), order, "")
    if name == "OutOfMemoryException":
        return statements.failed(phrase("the statement needs more than {most} of memory", most=_MEMORY),
                      phrase("Ask for less at once."))  # fmt: skip
    return statements.failed(words)
