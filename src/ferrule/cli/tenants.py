"""`ferrule tenants`: whose data the service keeps apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.options import json_option
from ferrule.cli.serve import database_option
from ferrule.cli.service_store import in_store, show, show_all
from ferrule.cli.words import _

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ferrule.service.database import Database

_LIMITS = ("rate", "burst", "concurrency", "calls_per_day", "argument_bytes", "result_bytes")


@click.group("tenants", help=_("Create, list and change the tenants of `ferrule serve`."))
def command() -> None:
    pass


def _limit_options(function: Any) -> Any:
    for name in reversed(_LIMITS):
        kind = click.FloatRange(min=0) if name == "rate" else click.IntRange(min=0)
        function = click.option(f"--{name.replace('_', '-')}", type=kind, help=_("A limit; 0 is none."))(function)
    return function


@command.command("list", help=_("List the tenants."))
@json_option
@database_option
def list_tenants(database: str | None, as_json: bool = False) -> None:
    def read(connection: Connection, _store: Database) -> list[dict[str, Any]]:
        from ferrule.service.directory import list_tenants
        from ferrule.service.documents import tenant_document

        return [tenant_document(row) for row in list_tenants(connection)]

    columns = ("name", "display_name", "operator", "enabled", "created_at")
    show_all("tenants", in_store(database, None, read), columns, as_json, _("There are no tenants."))


@command.command("create", help=_("Create a tenant, with the roles `admin` and `member`."))
@click.argument("name")
@click.option("--display-name", default="", help=_("Its name for people."))
@_limit_options
@json_option
@database_option
def create_tenant(
    database: str | None, name: str, display_name: str, as_json: bool = False, **limits: float | None
) -> None:
    def change(connection: Connection, _store: Database) -> dict[str, Any]:
        from ferrule.service.directory import create_tenant
        from ferrule.service.documents import tenant_document

        return tenant_document(create_tenant(connection, name, display_name=display_name, limits=_given(limits)))

    show(in_store(database, name, change, writes=True), as_json)


@command.command("change", help=_("Change a tenant's limits, or switch it off or on."))
@click.argument("name")
@click.option("--enable/--disable", "enabled", default=None, help=_("Whether its keys work."))
@_limit_options
@json_option
@database_option
def change_tenant(
    database: str | None, name: str, enabled: bool | None, as_json: bool = False, **limits: float | None
) -> None:
    def change(connection: Connection, _store: Database) -> dict[str, Any]:
        import json

        from ferrule.service.directory import change_tenant, find_tenant
        from ferrule.service.documents import tenant_document

        before = json.loads(find_tenant(connection, name).limits)
        return tenant_document(change_tenant(connection, name, enabled=enabled, limits={**before, **_given(limits)}))

    show(in_store(database, name, change, writes=True), as_json)


def _given(limits: dict[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in limits.items() if value is not None}
