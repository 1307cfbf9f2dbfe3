"""PostgreSQL: one statement in one transaction, read-only and rolled back unless something is to be changed."""

from __future__ import annotations

from typing import Any

from ferrule import ToolError
from ferrule.extension import phrase
from ferrule.toolbox.databases import statements
from ferrule.toolbox.databases.statements import Described, Order, Rows, SqlEngine
from ferrule.toolbox.failures import forbidden

_OWN_VALUES = frozenset({"bool", "int2", "int4", "int8", "oid", "float4", "float8", "bytea"})
"""Types whose values come as Python's; all others come as PostgreSQL writes them, which is exact."""
_ROLES = """
SELECT r.rolsuper, r.rolreplication,
       (SELECT min(g.rolname) FROM pg_roles g WHERE g.rolname LIKE 'pg\\_%' AND g.rolname <> 'pg_database_owner'
        AND pg_has_role(r.oid, g.oid, 'MEMBER'))
FROM pg_roles r WHERE r.rolname = session_user
"""
_TABLES = """
SELECT c.oid, n.nspname, c.relname, pg_table_is_visible(c.oid), c.relkind, c.reltuples::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition AND n.nspname <> 'information_schema'
  AND n.nspname NOT LIKE 'pg\\_%' AND has_schema_privilege(n.oid, 'USAGE')
ORDER BY n.nspname, c.relname
"""
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid),
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEYS = (
    "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = $1 AND contype IN ('f','u','c') ORDER BY 1"
)
_INDEXES = "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = $1 ORDER BY 1"
_KINDS = {"r": "table", "p": "table", "v": "view", "m": "materialized view", "f": "foreign table"}


class PostgresDatabase(SqlEngine):
    """One connection, as a role that has no powers over the server itself."""

    def __init__(self, order: Order) -> None:
        import psycopg

        self._writes = order["action"] == "change"
        given = {name: order[name] for name in ("host", "port", "user", "dbname", "password") if order.get(name)}
        connection: Any = psycopg.connect(
            "",
            **given,
            **order["options"],
            connect_timeout=statements.CONNECT_SECONDS,
            application_name="ferrule",
            cursor_factory=psycopg.RawCursor,
        )
        self._connection = connection
        connection.read_only = not self._writes
        # Keep values as the server writes them: Python cannot represent infinity or a date after the year 9999.
        from psycopg.types.string import TextLoader

        for kind in list(connection.adapters.types):
            if kind.name not in _OWN_VALUES:
                connection.adapters.register_loader(kind.oid, TextLoader)
            if kind.array_oid:
                connection.adapters.register_loader(kind.array_oid, TextLoader)
        limit = int(order["seconds"] * 1000)
        settings = {"statement_timeout": limit, "idle_in_transaction_session_timeout": limit}
        settings["lock_timeout"] = statements.LOCK_SECONDS * 1000
        if connection.info.server_version >= 140000:
            settings["client_connection_check_interval"] = 2000  # should this process be killed
        # The first query of the transaction: from here on nothing makes it read-write any more.
        sets = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
        connection.execute(f"SELECT {sets}")
        found = connection.execute(_ROLES).fetchone()
        if found is None or found[0] or found[1]:
            raise forbidden(
                phrase("Its user is a superuser or may replicate the server, and is not used."),
                phrase("Its `url` must name a role with only the privileges it needs: CREATE ROLE … LOGIN; GRANT …"),
            )
        if found[2]:
            raise forbidden(
                phrase(
                    "Its user is a member of `{role}`, which reaches beyond tables, and is not used.", role=found[2]
                ),
                phrase("Its `url` must name a role with only the privileges it needs: GRANT SELECT ON … TO …"),
            )

    def about(self) -> str:
        return f"PostgreSQL {self._connection.info.parameter_status('server_version')}"

    def query(self, sql: str, parameters: list[Any]) -> Rows:
        # Let the server compile it: it must be one statement that returns rows, which COPY, SET and DO do not.
        from psycopg import pq
        from psycopg.errors import error_from_result

        plain = self._connection.pgconn
        for result in (plain.prepare(b"", sql.encode()), plain.describe_prepared(b"")):
            if result.status != pq.ExecStatus.COMMAND_OK:
                raise error_from_result(result, encoding="utf-8")
        if not result.nfields:
            raise statements.no_rows()
        cursor = self._connection.cursor()
        rows = cursor.stream(sql, parameters or None)
        first = next(rows, None)
        columns = [one.name for one in cursor.description or ()]

        def each() -> Any:
            if first is not None:
                yield first
                yield from rows

        return Rows(columns, each())

    def change(self, sql: str, parameters: list[Any]) -> tuple[int | None, Rows]:
        cursor = self._connection.execute(sql, parameters or None, prepare=True)
        counted = (cursor.statusmessage or "").split(" ")[0] in ("INSERT", "UPDATE", "DELETE", "MERGE")
        return (cursor.rowcount if counted else None), statements.rows_of(cursor)

    def foresee(self, sql: str, parameters: list[Any]) -> tuple[int, bool] | None:
        import json

        import psycopg

        try:
            found = self._connection.execute(f"EXPLAIN (FORMAT JSON) {sql}", parameters or None, prepare=True)
        except psycopg.errors.SyntaxError:
            return None  # what has no plan, such as CREATE TABLE
        plan = json.loads(found.fetchone()[0])[0].get("Plan", {})
        return (int(plan["Plans"][0]["Plan Rows"]), False) if plan.get("Plans") else None

    def tables(self) -> list[Described]:
        return [
            {
                "name": name if visible else f"{schema}.{name}",
                "kind": _KINDS[kind],
                "rows": None if rows < 0 or kind == "v" else rows,
                "_oid": oid,
            }
            for oid, schema, name, visible, kind, rows in self._connection.execute(_TABLES)
        ]

    def table(self, table: Described) -> Described:
        def ask(sql: str) -> list[Any]:
            return self._connection.execute(sql, [table["_oid"]]).fetchall()

        definition = ask("SELECT pg_get_viewdef($1::oid)")[0][0] if table["kind"].endswith("view") else None
        return statements.described(
            table, ask(_COLUMNS), [one for (one,) in ask(_KEYS)], [one for (one,) in ask(_INDEXES)], definition
        )


def problem(error: Exception, order: Order) -> ToolError:
    """What an error of the driver means; its own text may hold the address and the user."""
    import psycopg

    if not isinstance(error, psycopg.Error):
        return statements.failed(phrase("its answer cannot be read").because(type(error).__name__))
    words = error.diag.message_primary
    if words is None and isinstance(error, psycopg.OperationalError):
        said, host = str(error), order.get("host") or ""
        if host and not host.startswith("/") and (why := statements.host_problem(order)):
            return statements.unreachable(why, order, "")
        if "password" in said or "authentication" in said or "no pg_hba.conf entry" in said:
            why = phrase("the server refused the login")
        elif "database" in said and "does not exist" in said:
            why = phrase("the server has no such database")
        else:
            why = phrase("the connection failed")
        return statements.unreachable(why, order, said.strip().splitlines()[-1])
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return statements.only_read()
    if isinstance(error, psycopg.errors.QueryCanceled):
        return statements.out_of_time(order)
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return ToolError(
            phrase(
                "Another session holds a lock on these tables, and did not finish within {n} s.",
                n=statements.LOCK_SECONDS,
            ),
            suggestion=phrase("Make the call again in a moment."),
        )
    more = "; ".join(one for one in (error.diag.message_detail, error.diag.message_hint) if one)
    return statements.failed(f"{words or error}{f' ({more})' if more else ''}")
