"""`ferrule tenants`, `users`, `roles` and `keys`: who may use the service."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ferrule.app.service_settings import LIMITS
from ferrule.cli.options import MODES, PlainError, json_option, settings_for
from ferrule.cli.output import print_table, write, write_json
from ferrule.cli.serve import database_option, missing_service
from ferrule.cli.words import _, said_of
from ferrule.service.vocabulary import SCOPES

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


@click.group("tenants", help=_("Create, list and change the tenants of `ferrule serve`."))
def tenants_command() -> None:
    pass


def _limit_options(function: Any) -> Any:
    for name, number in reversed(LIMITS.items()):
        kind = click.IntRange(min=0) if number is int else click.FloatRange(min=0)
        function = click.option(f"--{name.replace('_', '-')}", type=kind, help=_("A limit; 0 means no limit."))(
            function
        )
    return function


@tenants_command.command("list", help=_("List the tenants."))
@json_option
@database_option
def list_tenants(database: str | None, as_json: bool = False) -> None:
    def read(connection: Connection, _store: Database) -> list[dict[str, Any]]:
        from ferrule.service.directory import list_tenants
        from ferrule.service.documents import tenant_document

        return [tenant_document(row) for row in list_tenants(connection)]

    columns = ("name", "display_name", "operator", "enabled", "created_at")
    show_all("tenants", in_store(database, None, read), columns, as_json, _("There are no tenants."))


@tenants_command.command("create", help=_("Create a tenant, with the roles `admin` and `member`."))
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


@tenants_command.command("change", help=_("Change a tenant's limits, or switch it off or on."))
@click.argument("name")
@click.option("--enable/--disable", "enabled", default=None, help=_("Whether its keys work."))
@click.option(
    "--audit-days", type=click.FloatRange(min=0), help=_("How long its audit log is kept, in days; 0 keeps all.")
)
@click.option("--tool", help=_("Set the limits for calls of this tool alone."))
@_limit_options
@json_option
@database_option
def change_tenant(
    database: str | None, name: str, enabled: bool | None, audit_days: float | None, tool: str | None,
    as_json: bool = False, **limits: float | None,
) -> None:  # fmt: skip
    if audit_days and audit_days < 1:
        raise PlainError(_("--audit-days must be 0 to keep all, or 1 or more."))

    def change(connection: Connection, _store: Database) -> dict[str, Any]:
        import json

        from ferrule.service.directory import change_tenant, find_tenant
        from ferrule.service.documents import tenant_document

        before = json.loads(find_tenant(connection, name).limits)
        given = _given(limits)
        if tool is not None:
            tools = before.get("tools", {})
            given = {"tools": {**tools, tool: {**tools.get(tool, {}), **given}}}
        return tenant_document(
            change_tenant(connection, name, enabled=enabled, limits={**before, **given}, audit_days=audit_days)
        )

    show(in_store(database, name, change, writes=True), as_json)


def _given(limits: dict[str, float | None]) -> dict[str, Any]:
    return {name: value for name, value in limits.items() if value is not None}


# `ferrule users`: who may use the service, and in which roles.


@click.group("users", help=_("Create, list, change and remove the users of `ferrule serve`."))
def users_command() -> None:
    pass


@users_command.command("list", help=_("List the users of a tenant."))
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


@users_command.command("create", help=_("Create a user. A key of their own comes from `ferrule keys create`."))
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


@users_command.command("change", help=_("Give a user other roles, or switch them off or on."))
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


@users_command.command("remove", help=_("Remove a user and their keys. Their calls and audit rows stay."))
@click.argument("name")
@store_options
def remove_user(database: str | None, tenant: str, name: str) -> None:
    def change(connection: Connection, _store: Database) -> None:
        from ferrule.service.directory import delete_user

        delete_user(connection, tenant, name)

    in_store(database, tenant, change, writes=True)
    write(_("Removed {name}.").format(name=name))


# `ferrule roles`: rules that the service's users have, over tools and over administration.


@click.group("roles", help=_("Set, list and remove the roles of `ferrule serve`."))
def roles_command() -> None:
    pass


@roles_command.command("list", help=_("List the roles of a tenant and their rules."))
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


@roles_command.command(
    "set",
    help=_("Make a role, or replace its rules."),
    epilog=_("Administration is `Admin`, or a part of it: `Admin(keys)`, `Admin(users)`, `Admin(approve others)` …"),
)
@click.argument("name")
@click.option("--mode", type=click.Choice(MODES), help=_("How much runs without asking."))
@click.option("--allow", multiple=True, metavar="RULE", help=_("Run this without asking. Repeatable."))
@click.option("--ask", multiple=True, metavar="RULE", help=_("Always ask about this. Repeatable."))
@click.option("--deny", multiple=True, metavar="RULE", help=_("Never run this. Repeatable."))
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


@roles_command.command("remove", help=_("Remove a role that nobody has."))
@click.argument("name")
@store_options
def remove_role(database: str | None, tenant: str, name: str) -> None:
    def change(connection: Connection, _store: Database) -> None:
        from ferrule.service.directory import delete_role

        delete_role(connection, tenant, name)

    in_store(database, tenant, change, writes=True)
    write(_("Removed {name}.").format(name=name))


# `ferrule keys`: the API keys of the service's users.


@click.group("keys", help=_("Create, list, rotate and revoke the API keys of `ferrule serve`."))
def keys_command() -> None:
    pass


@keys_command.command("list", help=_("List the keys of a tenant. Secrets are not kept, so none is shown."))
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


@keys_command.command("create", help=_("Create a key for a user, and print its secret, which is shown this once."))
@click.argument("user")
@click.option("--name", default="", help=_("What the key is for."))
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help=_("What it may do. Repeatable."))
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

        row, secret = create_key(connection, tenant, user, name=name, scopes=scopes or SCOPES, expires_in=expires)
        return key_document(row, secret)

    _show_secret(in_store(database, tenant, change, writes=True), as_json)


@keys_command.command("rotate", help=_("Give a key a new secret, and print it."))
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


@keys_command.command("revoke", help=_("End a key at once."))
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
