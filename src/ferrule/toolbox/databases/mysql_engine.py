"""MySQL and MariaDB: one query in a read-only transaction, or one statement in a transaction that is committed."""

from __future__ import annotations

import contextlib
from typing import Any

from ferrule import ToolError
from ferrule.extension import phrase
from ferrule.toolbox.databases import statements
from ferrule.toolbox.databases.statements import Described, Order, Rows, SqlEngine
from ferrule.toolbox.failures import forbidden

_POWERS = ("FILE", "SUPER", "SHUTDOWN", "CREATE USER", "RELOAD")
_QUERIES = frozenset({"SHOW", "EXPLAIN", "DESCRIBE", "DESC", "WITH"})
"""What begins so can neither end the transaction nor set anything, and need not stand in brackets, nor could it."""
_TABLES = """
SELECT table_schema, table_name, table_type, table_rows FROM information_schema.tables
WHERE table_schema = COALESCE(DATABASE(), table_schema)
  AND table_schema NOT IN ('information_schema', 'performance_schema', 'mysql', 'sys')
ORDER BY table_schema, table_name
"""
_COLUMNS = """
SELECT column_name, column_type, is_nullable = 'YES', column_default, column_key = 'PRI'
FROM information_schema.columns WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position
"""
_KEYS = """
SELECT constraint_name, GROUP_CONCAT(column_name ORDER BY ordinal_position SEPARATOR ', '),
       MIN(referenced_table_name), GROUP_CONCAT(referenced_column_name ORDER BY ordinal_position SEPARATOR ', ')
FROM information_schema.key_column_usage
WHERE table_schema = %s AND table_name = %s AND referenced_table_name IS NOT NULL GROUP BY constraint_name ORDER BY 1
"""
_INDEXES = """
SELECT index_name, MIN(non_unique), GROUP_CONCAT(column_name ORDER BY seq_in_index SEPARATOR ', ')
FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s GROUP BY index_name ORDER BY 1
"""
_NOT_UNDONE, _IN_TRANSACTION = 1196, 1
_READ_ONLY, _LOCKED, _DEADLOCK, _INTERRUPTED, _MAX_TIME, _MAX_EXECUTION = 1792, 1205, 1213, 1317, 1969, 3024
_LOGIN, _NO_DATABASE = frozenset({1045, 1698, 1130}), frozenset({1044, 1049})
_LOST = frozenset({2002, 2003, 2006, 2013})


class MysqlDatabase(SqlEngine):
    """One connection, as a user who has no powers over the server itself."""

    def __init__(self, order: Order) -> None:
        self._order = order
        writes = order["action"] in ("change", "foresee")  # it explains no UPDATE where none could be made
        self._connection = self._connect()
        order["connected"] = True
        self._is_mariadb = "MariaDB" in self._connection.get_server_info()
        seconds = order["seconds"]
        limit = f"max_statement_time = {seconds}" if self._is_mariadb else f"max_execution_time = {int(seconds * 1000)}"
        lock = f"lock_wait_timeout = {statements.LOCK_SECONDS}"
        settings = (lock, f"innodb_{lock}", limit)
        self._ask(f"SET SESSION {', SESSION '.join(settings)}")
        held = {one for (one,) in self._ask("SELECT privilege_type FROM information_schema.user_privileges")}
        if powers := [one for one in _POWERS if one in held]:
            raise forbidden(
                phrase(
                    "Its user has the privilege {powers}, which reaches beyond tables, and is not used.",
                    powers=", ".join(powers),
                ),
                phrase("Its `url` must name a user with only the privileges it needs: GRANT SELECT ON … TO …"),
            )
        if not writes:
            self._ask("SET SESSION TRANSACTION READ ONLY")
        self._ask(f"START TRANSACTION READ {'WRITE' if writes else 'ONLY'}")

    def _connect(self) -> Any:
        import pymysql

        order = self._order
        names = {"host": "host", "port": "port", "user": "user", "dbname": "database", "password": "password"}
        given = {name: order[ours] for ours, name in names.items() if order.get(ours)}
        return pymysql.connect(
            **given,
            **order["options"],
            charset="utf8mb4",
            connect_timeout=statements.CONNECT_SECONDS,
            read_timeout=order["seconds"] + statements.CONNECT_SECONDS,
            write_timeout=order["seconds"] + statements.CONNECT_SECONDS,
            local_infile=False,
            autocommit=False,
            program_name="ferrule",
        )

    def _ask(self, sql: str, parameters: list[Any] | None = None) -> list[Any]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def about(self) -> str:
        version = self._connection.get_server_info().removeprefix("5.5.5-")
        return f"{'MariaDB' if self._is_mariadb else 'MySQL'} {version.split('-')[0]}"

    def query(self, sql: str, parameters: list[Any]) -> Rows:
        """In brackets nothing but a query is a statement: the grammar refuses BEGIN, CALL, SET and so on."""
        from pymysql.cursors import SSCursor

        statement = sql.strip().rstrip(";").rstrip()
        if not _QUERIES.intersection(statement.upper().split(None, 1)[:1]):
            statement = f"({statement}\n)"
        cursor = self._connection.cursor(SSCursor)
        cursor.execute(statement, parameters or None)
        return Rows([one[0] for one in cursor.description or ()], iter(cursor.fetchone, None))

    def change(self, sql: str, parameters: list[Any]) -> tuple[int | None, Rows]:
        cursor = self._connection.cursor()
        return cursor.execute(sql, parameters or None), statements.rows_of(cursor)

    def rollback(self) -> str:
        if not self._connection.server_status & _IN_TRANSACTION:
            return phrase("The server committed it at once, as it does with CREATE, ALTER, DROP and the like.")
        self._connection.rollback()
        if any(code == _NOT_UNDONE for _, code, _ in self._ask("SHOW WARNINGS")):
            return phrase("A table whose engine knows no transactions was changed, and cannot be rolled back.")
        return ""

    def foresee(self, sql: str, parameters: list[Any]) -> tuple[int, bool] | None:
        import pymysql

        try:
            with self._connection.cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute(f"EXPLAIN FORMAT=TRADITIONAL {sql}", parameters or None)
                rows = cursor.fetchone()["rows"]
        except (pymysql.MySQLError, KeyError, TypeError):
            return None  # what has no plan, such as CREATE TABLE
        return None if rows is None else (int(rows), False)

    def tables(self) -> list[Described]:
        found = self._ask(_TABLES)
        several = len({schema for schema, *_ in found}) > 1
        return [
            {
                "name": f"{schema}.{name}" if several else name,
                "kind": "view" if "VIEW" in kind else "table",
                "rows": rows,
                "_at": [schema, name],
            }
            for schema, name, kind, rows in found
        ]

    def table(self, table: Described) -> Described:
        at, definition = table["_at"], None
        if table["kind"] == "view":
            definition = self._ask(
                "SELECT view_definition FROM information_schema.views WHERE table_schema = %s AND table_name = %s", at
            )[0][0]
        columns = self._ask(_COLUMNS, at)
        return statements.described(
            table,
            [(name, _text(kind), bool(null), _text(default), bool(key)) for name, kind, null, default, key in columns],
            [f"({columns}) references {other} ({others})" for _, columns, other, others in self._ask(_KEYS, at)],
            [f"{'' if repeated else 'unique '}{name} ({of})" for name, repeated, of in self._ask(_INDEXES, at)],
            definition,
        )

    def stop(self) -> None:
        """A server goes on with a statement whose client is gone, so another connection ends it."""
        with contextlib.suppress(Exception):  # it is stopped as well by the time limit of the session
            other = self._connect()
            with other.cursor() as cursor:
                cursor.execute(f"KILL QUERY {self._connection.thread_id()}")
            other.close()


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def problem(error: Exception, order: Order) -> ToolError:
    """What an error of the driver means; its own text may hold the address and the user."""
    code, words = (*error.args, "", "")[:2]
    if code in _LOST or isinstance(error, OSError):
        why = statements.host_problem(order) if order.get("host") else ""
        return statements.unreachable(why or phrase("the connection failed or was lost"), order, "" if why else words)
    if "connected" not in order and code in _LOGIN:
        return statements.unreachable(phrase("the server refused the login"), order, words)
    if "connected" not in order and code in _NO_DATABASE:
        return statements.unreachable(phrase("the server has no such database for its user"), order, words)
    if code in (_INTERRUPTED, _MAX_TIME, _MAX_EXECUTION):
        return statements.out_of_time(order)
    if code == _READ_ONLY:
        return statements.only_read()
    if code in (_LOCKED, _DEADLOCK):
        return ToolError(
            phrase(
                "Another session holds a lock on these rows, and did not finish within {n} s.",
                n=statements.LOCK_SECONDS,
            ),
            suggestion=phrase("Make the call again in a moment."),
        )
    if not isinstance(code, int):
        return statements.failed(error)
    hint = phrase("Only one query is run here: SELECT, WITH, VALUES or SHOW.") if order["action"] == "query" else None
    return statements.failed(words, hint if code == 1064 else None)
