"""`ferrule keys`: the API keys of the service's users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.options import json_option
from ferrule.cli.output import write
from ferrule.cli.service_store import in_store, read_duration, show, show_all, store_options
from ferrule.cli.words import _

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ferrule.service.database import Database

_SCOPES = ("tools", "calls", "approvals", "admin")


@click.group("keys", help=_("Create, list, rotate and revoke the API keys of `ferrule serve`."))
def command() -> None:
    pass


@command.command("list", help=_("List the keys of a tenant. Secrets are not kept, so none is shown."))
@json_option
@store_options
def list_keys(database: str | None, tenant: str, as_json: bool = False) -> None:
    def read(connection: Connection, _store: Database) -> list[dict[str, Any]]:
        from ferrule.service.directory import find_tenant, list_keys
        from ferrule.service.documents import key_document

        find_tenant(connection, tenant)
        return [key_document(row) for row in list_keys(connection, tenant)]

    columns = ("id", "user", "name", "scopes", "hint", "expires_at", "revoked")
    show_all("keys", in_store(database, tenant, read), columns, as_json, _("There are no keys."))


@command.command("create", help=_("Create a key for a user, and print its secret, which is shown this once."))
@click.argument("user")
@click.option("--name", default="", help=_("What the key is for."))
@click.option("--scope", "scopes", multiple=True, type=click.Choice(_SCOPES), help=_("What it may do. Repeatable."))
@click.option(
    "--expires", callback=read_duration, metavar="DURATION", help=_("When it ends: 90s, 15m, 12h or 30d from now.")
)
@json_option
@store_options
def create_key(
    database: str | None, tenant: str, user: str, name: str, scopes: tuple[str, ...], expires: float | None,
    as_json: bool = False,
) -> None:  # fmt: skip
    def change(connection: Connection, _store: Database) -> dict[str, Any]:
        from ferrule.service.directory import create_key
        from ferrule.service.documents import key_document

        row, secret = create_key(connection, tenant, user, name=name, scopes=scopes or _SCOPES, expires_in=expires)
        return key_document(row, secret)

    _show_secret(in_store(database, tenant, change, writes=True), as_json)


@command.command("rotate", help=_("Give a key a new secret, and print it."))
@click.argument("key")
@click.option(
    "--overlap", callback=read_duration, default="0s", metavar="DURATION", help=_("How long the old secret works.")
)
@json_option
@store_options
def rotate_key(database: str | None, tenant: str, key: str, overlap: float, as_json: bool = False) -> None:
    def change(connection: Connection, _store: Database) -> dict[str, Any]:
        from ferrule.service.directory import rotate_key
        from ferrule.service.documents import key_document

        row, secret = rotate_key(connection, tenant, key, overlap)
        return key_document(row, secret)

    _show_secret(in_store(database, tenant, change, writes=True), as_json)


@command.command("revoke", help=_("End a key at once."))
@click.argument("key")
@json_option
@store_options
def revoke_key(database: str | None, tenant: str, key: str, as_json: bool = False) -> None:
    def change(connection: Connection, _store: Database) -> dict[str, Any]:
        from ferrule.service.directory import revoke_key
        from ferrule.service.documents import key_document

        return key_document(revoke_key(connection, tenant, key))

    document = in_store(database, tenant, change, writes=True)
    if as_json:
        show(document, as_json)
    else:
        write(_("Revoked {key}.").format(key=document["id"]))


def _show_secret(document: dict[str, Any], as_json: bool) -> None:
    """The secret alone on standard output, so that a script can take it."""
    if as_json:
        show(document, as_json)
        return
    write(
        _("Key {key} of {user}. Its secret is shown this once:").format(key=document["id"], user=document["user"]),
        err=True,
    )
    write(document["secret"])
