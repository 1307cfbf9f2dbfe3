"""The service's database as the shell administers it: which one, whose rows, and how a change is made.

Whoever may read the database may do all of this. The service itself need not run, and hears of a change when it does.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ferrule.cli.options import PlainError, settings_for
from ferrule.cli.output import write, write_json
from ferrule.cli.serve import database_option, missing_service
from ferrule.cli.table import print_table
from ferrule.cli.words import _, said_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from ferrule.service.database import Database

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def store_options(command: Any) -> Any:
    """--database, and --tenant for what belongs to one."""
    tenant = click.option("--tenant", default="default", show_default=True, help=_("Whose it is."))
    return database_option(tenant(command))


def read_duration(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """`90s`, `15m`, `12h` or `30d`, in seconds."""
    if value is None:
        return None
    found = _DURATION.fullmatch(value)
    if found is None:
        words = _("`{value}` is not a duration. Write 90s, 15m, 12h or 30d.").format(value=value)
        raise click.BadParameter(words, context, parameter)
    return float(found[1]) * _SECONDS[found[2]]


def in_store(
    database: str | None, tenant: str | None, work: Callable[[Connection, Database], Any], *, writes: bool = False
) -> Any:
    """Run `work` in a transaction of the service's database; what it cannot do is said in one line."""
    loaded = settings_for(Path(), {"service": {"database": database}} if database else {})
    try:
        from sqlalchemy.exc import DBAPIError

        from ferrule.service.database import Database, DatabaseProblem, said_by_driver
        from ferrule.service.directory import DirectoryProblem, note_change
        from ferrule.service.service import database_url
        from ferrule.service.tables import HEAD
    except ModuleNotFoundError as error:
        raise missing_service(error) from None
    try:
        store = Database(database_url(loaded.settings.service))
        try:
            if store.revision() != HEAD:
                raise PlainError(
                    _(
                        "There is no current service database there. Start `ferrule serve`, or run "
                        "`ferrule serve migrate`."
                    )
                )
            with store.transaction(tenant, writes=writes) as connection:
                result = work(connection, store)
                if writes:
                    note_change(connection, store)
                return result
        finally:
            store.close()
    except (DatabaseProblem, DirectoryProblem) as error:
        raise PlainError(said_of(error)) from None
    except DBAPIError as error:
        raise PlainError(said_by_driver(error)) from None


def show(document: dict[str, Any], as_json: bool) -> None:
    """One thing, a line for each of its fields."""
    if as_json:
        write_json(document)
        return
    for name, value in document.items():
        write(f"{name}: {_cell(value)}".rstrip())


def show_all(
    key: str, documents: Sequence[dict[str, Any]], columns: Sequence[str], as_json: bool, nothing: str
) -> None:
    """Many things, as a table."""
    if as_json:
        write_json({key: list(documents)})
    elif not documents:
        write(nothing, err=True)
    else:
        rows = [[_cell(one[column]) for column in columns] for one in documents]
        print_table([column.replace("_", " ") for column in columns], rows)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[object]", value)))
    return "" if value is None else str(value)
