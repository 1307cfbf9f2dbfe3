"""`ferrule roles`: rules that the service's users have, over tools and over administration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.options import json_option, permission_options
from ferrule.cli.output import write
from ferrule.cli.service_store import in_store, show, show_all, store_options
from ferrule.cli.words import _

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ferrule.service.database import Database


@click.group("roles", help=_("Set, list and remove the roles of `ferrule serve`."))
def command() -> None:
    pass


@command.command("list", help=_("List the roles of a tenant and their rules."))
@json_option
@store_options
def list_roles(database: str | None, tenant: str, as_json: bool = False) -> None:
    def read(connection: Connection, _store: Database) -> list[dict[str, Any]]:
        from ferrule.service.directory import find_tenant, list_roles
        from ferrule.service.documents import role_document

        find_tenant(connection, tenant)
        return [role_document(row) for row in list_roles(connection, tenant)]

    columns = ("name", "mode", "allow", "ask", "deny")
    show_all("roles", in_store(database, tenant, read), columns, as_json, _("There are no roles."))


@command.command(
    "set",
    help=_("Make a role, or replace its rules."),
    epilog=_("Administration is `Admin`, or a part of it: `Admin(keys)`, `Admin(users)`, `Admin(approve others)` …"),
)
@click.argument("name")
@permission_options
@json_option
@store_options
def set_role(
    database: str | None, tenant: str, name: str, mode: str | None, allow: tuple[str, ...], ask: tuple[str, ...],
    deny: tuple[str, ...], as_json: bool = False,
) -> None:  # fmt: skip
    def change(connection: Connection, _store: Database) -> dict[str, Any]:
        from ferrule.service.directory import find_tenant, put_role
        from ferrule.service.documents import role_document

        find_tenant(connection, tenant)
        return role_document(put_role(connection, tenant, name, mode=mode, allow=allow, ask=ask, deny=deny))

    show(in_store(database, tenant, change, writes=True), as_json)


@command.command("remove", help=_("Remove a role that nobody has."))
@click.argument("name")
@store_options
def remove_role(database: str | None, tenant: str, name: str) -> None:
    def change(connection: Connection, _store: Database) -> None:
        from ferrule.service.directory import delete_role

        delete_role(connection, tenant, name)

    in_store(database, tenant, change, writes=True)
    write(_("Removed {name}.").format(name=name))
