"""`ferrule users`: who may use the service, and in which roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.options import json_option
from ferrule.cli.output import write
from ferrule.cli.service_store import in_store, show, show_all, store_options
from ferrule.cli.words import _

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ferrule.service.database import Database


@click.group("users", help=_("Create, list, change and remove the users of `ferrule serve`."))
def command() -> None:
    pass


@command.command("list", help=_("List the users of a tenant."))
@json_option
@store_options
def list_users(database: str | None, tenant: str, as_json: bool = False) -> None:
    def read(connection: Connection, _store: Database) -> list[dict[str, Any]]:
        from ferrule.service.directory import find_tenant, list_users
        from ferrule.service.documents import user_document

        find_tenant(connection, tenant)
        return [user_document(row, roles) for row, roles in list_users(connection, tenant)]

    columns = ("name", "roles", "enabled", "created_at")
    show_all("users", in_store(database, tenant, read), columns, as_json, _("There are no users."))


@command.command("create", help=_("Create a user. A key of their own comes from `ferrule keys create`."))
@click.argument("name")
@click.option("--role", "roles", multiple=True, help=_("A role; `member` unless given. Repeatable."))
@json_option
@store_options
def create_user(database: str | None, tenant: str, name: str, roles: tuple[str, ...], as_json: bool = False) -> None:
    def change(connection: Connection, _store: Database) -> dict[str, Any]:
        from ferrule.service.directory import MEMBER_ROLE, create_user, roles_of
        from ferrule.service.documents import user_document

        row = create_user(connection, tenant, name, roles or (MEMBER_ROLE,))
        return user_document(row, roles_of(connection, tenant, name))

    show(in_store(database, tenant, change, writes=True), as_json)


@command.command("change", help=_("Give a user other roles, or switch them off or on."))
@click.argument("name")
@click.option("--role", "roles", multiple=True, help=_("A role, in place of those from before. Repeatable."))
@click.option("--enable/--disable", "enabled", default=None, help=_("Whether their keys work."))
@json_option
@store_options
def change_user(
    database: str | None, tenant: str, name: str, roles: tuple[str, ...], enabled: bool | None, as_json: bool = False
) -> None:
    def change(connection: Connection, _store: Database) -> dict[str, Any]:
        from ferrule.service.directory import change_user, roles_of
        from ferrule.service.documents import user_document

        row = change_user(connection, tenant, name, given=roles or None, enabled=enabled)
        return user_document(row, roles_of(connection, tenant, name))

    show(in_store(database, tenant, change, writes=True), as_json)


@command.command("remove", help=_("Remove a user and their keys. Their calls and audit rows stay."))
@click.argument("name")
@store_options
def remove_user(database: str | None, tenant: str, name: str) -> None:
    def change(connection: Connection, _store: Database) -> None:
        from ferrule.service.directory import delete_user

        delete_user(connection, tenant, name)

    in_store(database, tenant, change, writes=True)
    write(_("Removed {name}.").format(name=name))
