"""DescribeDatabase, QueryDatabase and ChangeDatabase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, cast

from pydantic import Field

from ferrule import CallInfo, Output, Problem, Session, Tool, ToolContext, ToolError, Touch, tool
from ferrule.extension import amount, joined, phrase, touching
from ferrule.toolbox.accounts import AccountCheck, Accounts, DatabaseAccount
from ferrule.toolbox.databases import locating
from ferrule.toolbox.databases.locating import Target, find_database, run_in_child

_SECONDS_TO_STOP, _SECONDS_TO_SAVE = 8.0, 60.0
_MOST_SQL = 100_000
_SAVED_AS = {".csv": "csv", ".jsonl": "jsonl"}
_RETURNED = 50
"""Rows that a change shows of what it returns."""

Value = str | int | float | bool | None


def tools(accounts: Accounts) -> list[Tool[Any]]:
    """The tools for the databases that the settings name and for database files in the workspace, with DuckDB also for
    its CSV and Parquet files.
    """
    databases = dict(accounts.databases)
    if locating.FILES not in databases and find_spec("duckdb") is not None:
        databases[locating.FILES] = DatabaseAccount(f"{locating.FILES}:")
    accounts = replace(accounts, databases=databases)
    found: list[Tool[Any]] = [_describe_database(accounts), _query_database(accounts)]
    if any(not one.read_only and one.url != f"{locating.FILES}:" for one in databases.values()):
        found.append(_change_database(accounts))
    return found


def _known(accounts: Accounts) -> str:
    engines = [
        "CSV and Parquet files"
        if one.url == f"{locating.FILES}:"
        else locating.ENGINE_NAMES.get(locating.engine_of(one) or "", "unknown")
        for one in accounts.databases.values()
    ]
    return f"One of {', '.join(f'`{name}` ({one})' for name, one in zip(accounts.databases, engines, strict=True))}."


def _readable(accounts: Accounts) -> str:
    known = f"{_known(accounts)[:-1]}, or the" if accounts.databases else "The"
    return f"{known} path of a SQLite or DuckDB file in the workspace."


def _time_limit(accounts: Accounts) -> float:
    return max((one.timeout for one in accounts.databases.values()), default=DatabaseAccount("").timeout) + 30.0


# DescribeDatabase


class ColumnDescribed(TypedDict):
    """`key` tells whether it belongs to the primary key."""

    name: str
    type: str
    nullable: bool
    default: str | None
    key: bool


class ObjectDescribed(TypedDict, total=False):
    """A table, a view or a file. `rows` is an estimate where the engine counts no better; only one that was asked about
    has its columns, keys, indexes and definition.
    """

    name: str
    kind: str
    rows: int | None
    columns: list[ColumnDescribed]
    keys: list[str]
    indexes: list[str]
    definition: str | None


class DatabaseDescribed(TypedDict):
    """What is in a database; `total` counts also what is not listed."""

    database: str
    engine: str
    placeholder: str
    objects: list[ObjectDescribed]
    total: int


def _describe_database(accounts: Accounts) -> Tool[Any]:
    @tool(
        name="DescribeDatabase",
        kind="readonly",
        category="databases",
        tags=("databases",),
        doing="looking at the database `{database}`",
        timeout=_time_limit(accounts),
        grace=_SECONDS_TO_STOP,
        describe=_reads(accounts, "DescribeDatabase"),
        render=_described_in_words,
        display=lambda found: phrase("1 table") if found["total"] == 1 else phrase("{n} tables", n=found["total"]),
    )
    def describe_database(
        database: Annotated[str, Field(description=_readable(accounts))],
        context: ToolContext,
        object: Annotated[str, Field(description="A table or view, for its columns, keys and indexes.")] = "",  # noqa: A002
        detail: Annotated[
            Literal["names", "columns"], Field(description="What to list of each table where no `object` is named.")
        ] = "names",
    ) -> DatabaseDescribed:
        """Describe a database: its tables and views, or one of them.

        Use this before QueryDatabase, to learn the engine and the names of tables and columns.

        Usage notes:
            - Numbers of rows are estimates where the engine does not count them cheaply.

        Examples:
            - what is in the database sales: {"database": "sales"}
            - which columns has the table orders: {"database": "sales", "object": "orders"}
        """
        target = find_database(accounts, database, context.session)
        answer = run_in_child(
            target, context.session, "describe", context.cancellation, object=object, detail=detail
        ).value
        return {
            "database": database,
            "engine": answer["about"],
            "placeholder": locating.PLACEHOLDERS[target.engine],
            "objects": answer["objects"],
            "total": answer["total"],
        }

    return describe_database


def _described_in_words(found: DatabaseDescribed) -> str:
    mark, listed = found["placeholder"], found["objects"]
    lines = [f"`{found['database']}` is {found['engine']}; parameters are written `{mark}`."]
    if not listed:
        lines.append("It has no tables.")
    for one in listed:
        rows = one.get("rows")
        lines.append(f"{one.get('kind')} {one.get('name')}" + ("" if rows is None else f" ({amount(rows, 'row')})"))
        for column in one.get("columns", ()):
            marks = [column["type"] or "any type", *(["primary key"] if column["key"] else [])]
            marks += [] if column["nullable"] else ["not null"]
            marks += [f"default {column['default']}"] if column["default"] is not None else []
            lines.append(f"  {column['name']}: {', '.join(marks)}")
        lines += [f"  key: {key}" for key in one.get("keys", ())]
        lines += [f"  index: {index}" for index in one.get("indexes", ())]
        if definition := one.get("definition"):
            lines.append(f"  definition: {definition}")
    if (left := found["total"] - len(listed)) > 0:
        lines.append(f"[… {left:,} more; name one with `object`]")
    return "\n".join(lines)


# QueryDatabase


class QueryResult(TypedDict):
    """Rows in the order of `columns`. `has_more` tells that there are more than those; `cut_values` counts values that
    were shortened. Where they were saved, `rows` is empty and `saved_rows` counts them.
    """

    database: str
    columns: list[str]
    rows: list[list[Value]]
    row_count: int
    has_more: bool
    cut_values: int
    saved_to: str | None
    saved_rows: int


def _query_database(accounts: Accounts) -> Tool[Any]:
    @tool(
        name="QueryDatabase",
        kind="readonly",
        category="databases",
        tags=("databases",),
        doing="querying the database `{database}`",
        timeout=_time_limit(accounts),
        grace=_SECONDS_TO_SAVE,
        describe=_reads(accounts, "QueryDatabase"),
        check=_check_query,
        render=_queried_in_words,
        display=lambda found: _rows_displayed(found["saved_rows"] if found["saved_to"] else found["row_count"]),
    )
    def query_database(
        database: Annotated[str, Field(description=_readable(accounts))],
        sql: Annotated[str, Field(min_length=1, max_length=_MOST_SQL, description="One query in the engine's SQL.")],
        context: ToolContext,
        parameters: Annotated[
            list[Value],
            Field(description="Values for placeholders: `?` in SQLite and DuckDB, `$1` in PostgreSQL, `%s` in MySQL."),
        ] = [],  # noqa: B006 - never changed
        limit: Annotated[int, Field(ge=1, le=1000, description="How many rows to show.")] = 100,
        save_to: Annotated[
            str | None, Field(description="A .csv or .jsonl file to save all rows to, instead of showing them.")
        ] = None,
    ) -> Output[QueryResult]:
        """Query a database.

        Use this to read rows. The engine allows nothing else: a statement that would change something is refused.

        Usage notes:
            - The database `files` is DuckDB over the CSV and Parquet files of the workspace:
              SELECT * FROM 'data/orders.csv'
            - Long values are cut, and say so; select a part of them with substr().
            - Let the database count, filter and sort; show only what is needed.

        Important:
            - Put values from elsewhere into `parameters`, not into the text of the query.
            - `save_to` writes a file, and asks first.

        Examples:
            - the five largest orders of Ada: {"database": "sales",
              "sql": "SELECT id, total FROM orders WHERE customer = ? ORDER BY total DESC", "parameters": ["Ada"],
              "limit": 5}
        """
        target = find_database(accounts, database, context.session)
        form = _SAVED_AS[Path(save_to).suffix.lower()] if save_to else ""
        answer = run_in_child(
            target, context.session, "query", context.cancellation,
            sql=sql, parameters=parameters, limit=limit, save=form,
        )  # fmt: skip
        found = answer.value
        data: QueryResult = {
            "database": database, "columns": found["columns"], "rows": found.get("rows", []),
            "row_count": len(found.get("rows", [])), "has_more": bool(found.get("more")),
            "cut_values": found.get("cut", 0), "saved_to": None, "saved_rows": 0,
        }  # fmt: skip
        if not save_to:
            return Output(data)
        from ferrule.extension import change_file

        changed = change_file(context, save_to, lambda _before, _text: answer.data, must_exist=False)
        data["saved_to"], data["saved_rows"] = changed.place.shown, found["count"]
        return Output(data, metadata=changed.metadata)

    return query_database


def _check_query(params: Any) -> list[Problem]:
    if params.save_to and Path(params.save_to).suffix.lower() not in _SAVED_AS:
        return [Problem(("save_to",), "value", phrase("it must end with .csv or .jsonl"))]
    return []


def _queried_in_words(found: QueryResult) -> str:
    if found["saved_to"]:
        return f"Saved {amount(found['saved_rows'], 'row')} to `{found['saved_to']}`."
    lines = _table(found["columns"], found["rows"])
    lines.append(f"[{amount(found['row_count'], 'row')}{'; there are more' if found['has_more'] else ''}]")
    if found["cut_values"]:
        lines.append(f"[{amount(found['cut_values'], 'value')} cut]")
    return "\n".join(lines)


def _table(columns: list[str], rows: list[list[Value]]) -> list[str]:
    head, *lines = (f"| {' | '.join(map(_cell, one))} |" for one in (columns, *rows))
    return [head, "|---" * len(columns) + "|", *lines] if columns else []


def _cell(value: Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value in ("NULL", "true", "false"):
        return f'"{value}"'
    text = str(value).replace("\\", "\\\\") if isinstance(value, str) and "\n" in value else str(value)
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("|", "\\|")


def _rows_displayed(count: int) -> str:
    return phrase("1 row") if count == 1 else phrase("{n} rows", n=f"{count:,}")


def _reads(accounts: Accounts, name: str) -> Callable[[Any, Session], CallInfo]:
    def describe(params: Any, session: Session) -> CallInfo:
        target = find_database(accounts, params.database, session)
        touches = target.touches(session)
        refusal = None
        if save_to := getattr(params, "save_to", None):
            saving = touching(save_to, session, write=True)
            touches, refusal = (*touches, *cast("tuple[Touch, ...]", saving.touches)), saving.refusal
        words = f"{name} {target.name}: {params.sql}" if name == "QueryDatabase" else f"{name} {target.name}"
        return CallInfo(
            touches=touches,
            signature=target.name,
            always_rule=f"{name}({target.name})",
            summary=f"{words}\nsave to {save_to}" if save_to else words,
            refusal=refusal,
        )

    return describe


# ChangeDatabase


class ChangeResult(TypedDict):
    """How many rows were changed, where the engine says so, and what the statement returned."""

    database: str
    row_count: int | None
    columns: list[str]
    rows: list[list[Value]]
    has_more: bool


def _change_database(accounts: Accounts) -> Tool[Any]:
    def describe(params: Any, session: Session) -> CallInfo:
        target = find_database(accounts, params.database, session, write=True)
        words = [f"ChangeDatabase {params.database}: {params.sql}"]
        words += [f"parameters: {params.parameters!r}"] if params.parameters else []
        words += [f"only if it changes {amount(params.expect_rows, 'row')}"] if params.expect_rows is not None else []
        return CallInfo(
            touches=target.touches(session, write=True),
            signature=params.database,
            always_rule=f"ChangeDatabase({params.database})",
            summary="\n".join(words),
        )

    async def preview(params: Any, session: Session) -> str:
        """How many rows it would change, for whoever is asked about it; the database is only read."""
        import asyncio

        target = find_database(accounts, params.database, session)
        order = {"sql": params.sql, "parameters": params.parameters}
        found = (await asyncio.to_thread(run_in_child, target, session, "foresee", **order)).value
        if found is None:
            return ""
        rows = _rows_displayed(found["rows"])
        if found["exact"]:
            return phrase("It would change {rows}.", rows=rows)
        return phrase("It would change about {rows}, the engine estimates.", rows=rows)

    @tool(
        name="ChangeDatabase",
        kind="write",
        category="databases",
        tags=("databases",),
        doing="changing the database `{database}`",
        timeout=_time_limit(accounts),
        grace=_SECONDS_TO_STOP,
        describe=describe,
        preview=preview,
        render=_changed_in_words,
        display=lambda found: (
            phrase("done")
            if (count := found["row_count"]) is None
            else phrase("changed {rows}", rows=_rows_displayed(count))
        ),
    )
    def change_database(
        database: Annotated[str, Field(description=_known(accounts))],
        sql: Annotated[
            str, Field(min_length=1, max_length=_MOST_SQL, description="One statement in the engine's SQL.")
        ],
        context: ToolContext,
        parameters: Annotated[
            list[Value],
            Field(description="Values for placeholders: `?` in SQLite and DuckDB, `$1` in PostgreSQL, `%s` in MySQL."),
        ] = [],  # noqa: B006 - never changed
        expect_rows: Annotated[
            int | None,
            Field(ge=0, description="How many rows must change; with any other number the statement is rolled back."),
        ] = None,
    ) -> ChangeResult:
        """Change a database with one statement, in a transaction.

        Use this for INSERT, UPDATE, DELETE, and to create or alter tables. It asks first.

        Usage notes:
            - Give `expect_rows` for UPDATE and DELETE, after counting the rows with QueryDatabase.

        Important:
            - Put values from elsewhere into `parameters`, not into the text of the statement.
            - A change of a database cannot be undone once it is made.

        Examples:
            - mark order 7 as paid: {"database": "sales", "sql": "UPDATE orders SET paid = ? WHERE id = ?",
              "parameters": [true, 7], "expect_rows": 1}
        """
        target = find_database(accounts, database, context.session, write=True)
        found = run_in_child(
            target, context.session, "change", context.cancellation,
            sql=sql, parameters=parameters, limit=_RETURNED, expect_rows=expect_rows,
        ).value  # fmt: skip
        return {
            "database": database, "row_count": found["count"], "columns": found["columns"], "rows": found["rows"],
            "has_more": bool(found["more"]),
        }  # fmt: skip

    return change_database


def _changed_in_words(found: ChangeResult) -> str:
    count = found["row_count"]
    said = "Done." if count is None else f"Changed {amount(count, 'row')}."
    more = ["[there are more]"] if found["has_more"] else []
    return "\n".join([said, *_table(found["columns"], found["rows"]), *more])


# `ferrule toolbox check`


async def check(accounts: Accounts) -> list[AccountCheck]:
    """Connect to each database as a query would, and look at its tables."""
    import asyncio

    session = Session(workspace=accounts.workspace or Path.cwd())
    return list(
        await asyncio.gather(*(asyncio.to_thread(_checked, accounts, name, session) for name in accounts.databases))
    )


def _checked(accounts: Accounts, name: str, session: Session) -> AccountCheck:
    what = phrase("database `{name}`", name=name)
    try:
        target: Target = find_database(accounts, name, session)
        found = run_in_child(target, session, "check").value
    except ToolError as error:
        words = joined(" ", [error.message, error.suggestion or ""])
        return AccountCheck(what, False, words)
    tables = phrase("1 table") if found["tables"] == 1 else phrase("{n} tables", n=f"{found['tables']:,}")
    return AccountCheck(what, True, phrase("{about}, {tables}", about=found["about"], tables=tables))
