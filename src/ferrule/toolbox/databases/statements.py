"""Runs one statement on one database, in a child process: in time, in bounds, and with an end at the server too.

Each engine is a class that connects when it is made, read-only unless the order is to change something. What it may do
is settled with the engine itself and with the kernel; nobody reads the SQL.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from ferrule import ErrorKind, ToolError
from ferrule.extension import advice, cut, cut_counted, joined, nearest, phrase, visible
from ferrule.toolbox.child import ChildAnswer
from ferrule.toolbox.failures import forbidden, not_found

CONNECT_SECONDS = 10
"""How long a server has to answer before the statement's own time begins."""
LOCK_SECONDS = 5
"""How long a statement waits for others who change the same rows."""
_MOST_CELL, _SHORTEST_CUT, _MOST_SHOWN = 1000, 60, 60_000
_MOST_SAVED = 60_000_000
_MOST_BYTES_SHOWN = 32
_MOST_DESCRIBED = 40
_MOST_TABLES = 500
_MOST_COMPLAINT = 600
_ENGINES = {
    "sqlite": "ferrule.toolbox.databases.sqlite_engine:SqliteDatabase",
    "duckdb": "ferrule.toolbox.databases.duckdb_engine:DuckDatabase",
    "postgresql": "ferrule.toolbox.databases.postgres_engine:PostgresDatabase",
    "mysql": "ferrule.toolbox.databases.mysql_engine:MysqlDatabase",
}

Order = dict[str, Any]
Described = dict[str, Any]


class Rows(NamedTuple):
    """What a statement gives, row by row as they are asked for."""

    columns: list[str]
    rows: Iterator[Sequence[Any]]


class SqlEngine(ABC):
    """A connection that was made for one order. `tables` names each with `name`, `kind` and `rows`."""

    _connection: Any

    @abstractmethod
    def about(self) -> str: ...
    @abstractmethod
    def query(self, sql: str, parameters: list[Any]) -> Rows: ...
    @abstractmethod
    def change(self, sql: str, parameters: list[Any]) -> tuple[int | None, Rows]:
        """In a transaction: how many rows it changed, where that can be told, and what it returns."""

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> str:
        """Undo it; words about what could not be undone."""
        self._connection.rollback()
        return ""

    def foresee(self, sql: str, parameters: list[Any]) -> tuple[int, bool] | None:
        """How many rows a change would change, and whether that is exact; None where that is not cheap to say."""
        return None

    @abstractmethod
    def tables(self) -> list[Described]: ...
    @abstractmethod
    def table(self, table: Described) -> Described:
        """The same with `columns`, `keys`, `indexes` and `definition`."""

    def stop(self) -> None:
        """End what it is doing, at the server too. Closing undoes what was not committed."""
        self._connection.close()


def described(
    table: Described, columns: Iterable[Sequence[Any]], keys: list[str], indexes: list[str], definition: str | None
) -> Described:
    """A table with what an engine told of it: each column as name, type, nullable, default and key."""
    named = [dict(zip(("name", "type", "nullable", "default", "key"), one, strict=True)) for one in columns]
    return {**table, "columns": named, "keys": keys, "indexes": indexes, "definition": definition}


def rows_of(cursor: Any) -> Rows:
    """What a statement gave, which may be nothing."""
    if cursor.description is None:
        return Rows([], iter(()))
    return Rows([one[0] for one in cursor.description], iter(cursor))


class StopWork(KeyboardInterrupt):
    """Time is up, or nobody waits any more. Drivers end what they are doing for a `KeyboardInterrupt`."""


class _StatementStop:
    """Whether the work has been told to stop; nothing stops a commit that has begun."""

    def __init__(self) -> None:
        self.told = False
        self.too_late = False

    def __call__(self, _number: int, _frame: object) -> None:
        self.told = True
        if not self.too_late:
            raise StopWork


STOPPING = _StatementStop()


def work(order: Order) -> Any:
    """What `in_child` runs: the order names the engine, the action, and what to connect to."""
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, STOPPING)
    signal.setitimer(signal.ITIMER_REAL, order["seconds"] + CONNECT_SECONDS)
    module, _, name = _ENGINES[order["engine"]].partition(":")
    home = import_module(module)
    opened: list[SqlEngine] = []
    try:
        for path, device, inode in order["files"]:
            found = os.stat(path)  # noqa: PTH116 - thousands of them
            if (found.st_dev, found.st_ino) != (device, inode):
                raise ToolError(
                    phrase("`{name}` was replaced at this moment.", name=os.path.basename(path)),  # noqa: PTH119
                    suggestion=phrase("Make the call again."),
                )
        opened.append(getattr(home, name)(order))
        return _ACTIONS[order["action"]](opened[0], order)
    except ModuleNotFoundError:
        raise ToolError(
            phrase("The driver for this kind of database is not installed."),
            suggestion=advice(
                "Ask the user to run: pip install 'ferrule[databases]'", "Run: pip install 'ferrule[databases]'"
            ),
        ) from None
    except StopWork:
        for engine in opened:
            engine.stop()
        raise out_of_time(order) from None
    except (ToolError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a driver's error may hold what nobody should read: its engine words it
        if STOPPING.told:
            raise out_of_time(order) from None
        raise home.problem(error, order) from None


def out_of_time(order: Order) -> ToolError:
    return ToolError(
        phrase("The statement took longer than {seconds} s, and was stopped.", seconds=f"{order['seconds']:g}"),
        kind=ErrorKind.TIMEOUT,
        suggestion=advice(
            "Ask for less, or ask the user to raise `timeout` of this database.",
            "Ask for less, or raise `timeout` of this database.",
        ),
    )


def no_rows() -> ToolError:
    return forbidden(
        phrase("This statement gives no rows, so it was not run."),
        phrase("QueryDatabase only reads, such as with SELECT. Use ChangeDatabase to change something."),
    )


def only_read() -> ToolError:
    return forbidden(
        phrase("This database is only read here, and the statement does more than read."),
        phrase("Use ChangeDatabase to change something."),
    )


def failed(words: object, suggestion: str | None = None) -> ToolError:
    """The engine's own words about a statement."""
    return ToolError(
        phrase("The database said: {words}", words=visible(cut(str(words).strip(), _MOST_COMPLAINT))),
        suggestion=suggestion,
    )


def unreachable(why: str, order: Order, words: object) -> ToolError:
    """A connection that cannot be made. Addresses are for whoever wrote them, so a model does not read the details."""
    if order["action"] == "check":
        return ToolError(
            phrase("{why}: {words}", why=why, words=visible(cut(str(words).strip(), _MOST_COMPLAINT))) if words else why
        )
    return ToolError(
        phrase("The database cannot be used: {why}.", why=why),
        suggestion=advice("Ask the user to run `ferrule toolbox check`.", "Run `ferrule toolbox check`."),
    )


def host_problem(order: Order) -> str:
    """Why the host of an order does not take connections; empty where it does, and something else is wrong."""
    import socket

    try:
        socket.create_connection((order["host"], order["port"]), timeout=CONNECT_SECONDS).close()
    except socket.gaierror:
        return phrase("its host is unknown")
    except ConnectionRefusedError:
        return phrase("its host refused the connection")
    except TimeoutError:
        return phrase("its host did not answer in time")
    except OSError as error:
        return phrase("its host cannot be reached").because(error.strerror or "")
    return ""


# The actions


def _query(engine: SqlEngine, order: Order) -> Any:
    rows = engine.query(order["sql"], order["parameters"])
    return _saved(rows, order["save"]) if order["save"] else _shown(rows, order["limit"])


def _change(engine: SqlEngine, order: Order) -> Any:
    count, rows = engine.change(order["sql"], order["parameters"])
    expected = order["expect_rows"]
    found = _shown(rows, order["limit"])
    if expected is not None and count != expected:
        remains = engine.rollback()
        changed = phrase("1 row") if count == 1 else phrase("{count} rows", count=f"{count or 0:,}")
        if count is None:
            changed = phrase("an unknown number of rows")
        message = phrase(
            "The statement changed {count}, not {expected} as expected.", count=changed, expected=f"{expected:,}"
        )
        raise ToolError(
            joined(" ", [message, remains or phrase("It was rolled back: nothing is changed.")]),
            suggestion=phrase("Look at the rows with QueryDatabase, then correct the statement or `expect_rows`."),
            details={"rows": count, "rolled_back": not remains},
        )
    STOPPING.too_late = True
    engine.commit()
    return {**found, "count": count}


def _foresee(engine: SqlEngine, order: Order) -> Any:
    found = engine.foresee(order["sql"], order["parameters"])
    return None if found is None else {"rows": found[0], "exact": found[1]}


def _describe(engine: SqlEngine, order: Order) -> Any:
    tables = engine.tables()
    wanted: str = order["object"]
    if wanted:
        exact = [
            one
            for one in tables
            if wanted.casefold() in (one["name"].casefold(), one["name"].rpartition(".")[2].casefold())
        ]
        if not exact:
            close = nearest(wanted, [one["name"] for one in tables])
            raise not_found(
                phrase("There is no table or view `{name}`.", name=wanted),
                phrase("Did you mean {names}?", names=", ".join(f"`{one}`" for one in close))
                if close
                else phrase("Leave `object` out to list all."),
            )
        shown = [engine.table(exact[0])]
    elif order["detail"] == "columns":
        shown = [engine.table(one) for one in tables[:_MOST_DESCRIBED]]
    else:
        shown = tables[:_MOST_TABLES]
    objects = [{key: value for key, value in one.items() if not key.startswith("_")} for one in shown]
    return {"about": engine.about(), "objects": objects, "total": 1 if wanted else len(tables)}


def _check(engine: SqlEngine, _order: Order) -> Any:
    return {"about": engine.about(), "tables": len(engine.tables())}


_ACTIONS = {"query": _query, "change": _change, "foresee": _foresee, "describe": _describe, "check": _check}


# Values in bounds


def _shown(rows: Rows, limit: int) -> dict[str, Any]:
    """The first rows, as a model is shown them: no value and no table is too long to be read."""
    most = max(_SHORTEST_CUT, min(_MOST_CELL, _MOST_SHOWN // 2 // max(1, len(rows.columns))))
    taken: list[list[Any]] = []
    size = cut = 0
    more = ""
    for row in rows.rows:
        if len(taken) == limit:
            more = "limit"
            break
        if size > _MOST_SHOWN:
            more = "size"
            break
        values = [_plain(value) for value in row]
        short = [_shortened(value, most) for value in values]
        cut += sum(isinstance(one, str) and len(one) > most for one in values)
        cut += sum(isinstance(one, bytes) and len(one) > _MOST_BYTES_SHOWN for one in values)
        size += sum(len(value) if isinstance(value, str) else 8 for value in short)
        taken.append(short)
    return {"columns": rows.columns, "rows": taken, "more": more, "cut": cut}


def _plain(value: Any) -> Any:
    """A value as JSON has it; what JSON has no form for, as text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, (dict, list, tuple, set)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value.isoformat(" ") if hasattr(value, "hour") and hasattr(value, "year") else str(value)


def _shortened(value: Any, most: int) -> Any:
    if isinstance(value, bytes):
        rest = f"… [{len(value):,} bytes]" if len(value) > _MOST_BYTES_SHOWN else ""
        return f"\\x{value[:_MOST_BYTES_SHOWN].hex()}{rest}"
    return cut_counted(value, most) if isinstance(value, str) else value


def _saved(rows: Rows, form: str) -> ChildAnswer:
    """Every row, whole, as a file."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    if form == "csv":
        writer.writerow(rows.columns)
    count = 0
    keys = [f"{name}_{number}" if name in rows.columns[:number] else name for number, name in enumerate(rows.columns)]
    for row in rows.rows:
        values = [f"\\x{one.hex()}" if isinstance(one, bytes) else one for one in map(_plain, row)]
        if form == "csv":
            writer.writerow(values)
        else:
            text.write(json.dumps(dict(zip(keys, values, strict=True)), ensure_ascii=False) + "\n")
        count += 1
        if text.tell() > _MOST_SAVED:
            raise ToolError(
                phrase("The result is larger than {most} MB, so nothing was saved.", most=_MOST_SAVED // 1_000_000),
                suggestion=phrase("Ask for fewer rows or columns."),
            )
    return ChildAnswer({"columns": rows.columns, "count": count}, text.getvalue().encode("utf-8", "backslashreplace"))
