"""`ferrule tenants`, `users`, `roles` and `keys`: who may use the service."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ferrule.app.service_settings import LIMITS
from ferrule.cli.options import MODES, PlainError, json_option, settings_for
from ferrule.cli.output import print_table, write, write_json
from ferrule.cli.serve import database_option, missing_service
from ferrule.cli.words import _, said_of
from ferrule.core.access import Mode
from ferrule.service.vocabulary import SCOPES

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from sqlalchemy import Connection

    from ferrule.service.database import Database
    from ferrule.service.vocabulary import Scope


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


@contextmanager
def in_store(
    database: str | None, tenant: str | None, *, writes: bool = False, is_new: bool = False
) -> Generator[tuple[Connection, Database]]:
    """A transaction of the service's database; what cannot be done in it is said in one line."""
    loaded = settings_for(Path(), {"service": {"database": database}} if database else {})
    try:
        from pydantic import ValidationError
        from sqlalchemy.exc import DBAPIError

        from ferrule.service.database import Database, DatabaseProblem, said_by_driver
        from ferrule.service.directory import DirectoryProblem, find_tenant, note_change
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
                if tenant is not None and not is_new:
                    find_tenant(connection, tenant)
                yield connection, store
                if writes:
                    note_change(connection, store)
        finally:
            store.close()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        words = _("`{field}` cannot be `{value}`: it {why}.")
        why = first["msg"].removeprefix("Value error, ")
        raise PlainError(words.format(field=first["loc"][0], value=first["input"], why=why)) from None
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


def show_all(document: dict[str, Any], columns: Sequence[str], as_json: bool, nothing: str) -> None:
    """Many things, as a table."""
    [found] = document.values()
    if as_json:
        write_json(document)
    elif not found:
        write(nothing, err=True)
    else:
        rows = [[_cell(one[column]) for column in columns] for one in found]
        print_table([column.replace("_", " ") for column in columns], rows)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, cast("Sequence[object]", value)))
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
    with in_store(database, None) as (connection, _store):
        from ferrule.service.directory import list_tenants

        found = list_tenants(connection)
    columns = ("name", "display_name", "operator", "enabled", "created_at")
    show_all(found, columns, as_json, _("There are no tenants."))


@tenants_command.command("create", help=_("Create a tenant, with the roles `admin` and `member`."))
@click.argument("name")
@click.option("--display-name", default="", help=_("Its name for people."))
@_limit_options
@json_option
@database_option
def create_tenant(
    database: str | None, name: str, display_name: str, as_json: bool = False, **limits: float | None
) -> None:
    with in_store(database, name, writes=True, is_new=True) as (connection, _store):
        from ferrule.service.directory import create_tenant
        from ferrule.service.messages import LimitValues, TenantRequest

        said = TenantRequest(name=name, display_name=display_name, limits=LimitValues.model_validate(limits))
        document = create_tenant(connection, said)
    show(document, as_json)


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
    with in_store(database, name, writes=True) as (connection, _store):
        from ferrule.service.directory import change_tenant, show_tenant
        from ferrule.service.messages import LimitValues, TenantChange

        before = show_tenant(connection, name)["limits"]
        given = {limit: value for limit, value in limits.items() if value is not None}
        if tool is not None:
            tools = before.get("tools", {})
            given = {"tools": {**tools, tool: {**tools.get(tool, {}), **given}}}
        merged = LimitValues.model_validate({**before, **given})
        document = change_tenant(connection, name, TenantChange(enabled=enabled, limits=merged, audit_days=audit_days))
    show(document, as_json)


# `ferrule users`: who may use the service, and in which roles.


@click.group("users", help=_("Create, list, change and remove the users of `ferrule serve`."))
def users_command() -> None:
    pass


@users_command.command("list", help=_("List the users of a tenant."))
@json_option
@store_options
def list_users(database: str | None, tenant: str, as_json: bool = False) -> None:
    with in_store(database, tenant) as (connection, _store):
        from ferrule.service.directory import list_users

        found = list_users(connection, tenant)
    columns = ("name", "roles", "enabled", "created_at")
    show_all(found, columns, as_json, _("There are no users."))


@users_command.command("create", help=_("Create a user. A key of their own comes from `ferrule keys create`."))
@click.argument("name")
@click.option("--role", "roles", multiple=True, help=_("A role; `member` unless given. Repeatable."))
@json_option
@store_options
def create_user(database: str | None, tenant: str, name: str, roles: tuple[str, ...], as_json: bool = False) -> None:
    with in_store(database, tenant, writes=True) as (connection, _store):
        from ferrule.service.directory import create_user
        from ferrule.service.messages import UserRequest

        said = UserRequest(name=name, roles=list(roles)) if roles else UserRequest(name=name)
        document = create_user(connection, tenant, said)
    show(document, as_json)


@users_command.command("change", help=_("Give a user other roles, or switch them off or on."))
@click.argument("name")
@click.option("--role", "roles", multiple=True, help=_("A role, in place of those from before. Repeatable."))
@click.option("--enable/--disable", "enabled", default=None, help=_("Whether their keys work."))
@json_option
@store_options
def change_user(
    database: str | None, tenant: str, name: str, roles: tuple[str, ...], enabled: bool | None, as_json: bool = False
) -> None:
    with in_store(database, tenant, writes=True) as (connection, _store):
        from ferrule.service.directory import change_user
        from ferrule.service.messages import UserChange

        document = change_user(connection, tenant, name, UserChange(roles=list(roles) or None, enabled=enabled))
    show(document, as_json)


@users_command.command("remove", help=_("Remove a user and their keys. Their calls and audit rows stay."))
@click.argument("name")
@store_options
def remove_user(database: str | None, tenant: str, name: str) -> None:
    with in_store(database, tenant, writes=True) as (connection, _store):
        from ferrule.service.directory import delete_user

        delete_user(connection, tenant, name)
    write(_("Removed {name}.").format(name=name))


# `ferrule roles`: rules that the service's users have, over tools and over administration.


@click.group("roles", help=_("Set, list and remove the roles of `ferrule serve`."))
def roles_command() -> None:
    pass


@roles_command.command("list", help=_("List the roles of a tenant and their rules."))
@json_option
@store_options
def list_roles(database: str | None, tenant: str, as_json: bool = False) -> None:
    with in_store(database, tenant) as (connection, _store):
        from ferrule.service.directory import list_roles

        found = list_roles(connection, tenant)
    columns = ("name", "mode", "allow", "ask", "deny")
    show_all(found, columns, as_json, _("There are no roles."))


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
    with in_store(database, tenant, writes=True) as (connection, _store):
        from ferrule.service.directory import put_role
        from ferrule.service.messages import RoleBody

        said = RoleBody(mode=Mode(mode) if mode else None, allow=list(allow), ask=list(ask), deny=list(deny))
        document = put_role(connection, tenant, name, said)
    show(document, as_json)


@roles_command.command("remove", help=_("Remove a role that nobody has."))
@click.argument("name")
@store_options
def remove_role(database: str | None, tenant: str, name: str) -> None:
    with in_store(database, tenant, writes=True) as (connection, _store):
        from ferrule.service.directory import delete_role

        delete_role(connection, tenant, name)
    write(_("Removed {name}.").format(name=name))


# `ferrule keys`: the API keys of the service's users.


@click.group("keys", help=_("Create, list, rotate and revoke the API keys of `ferrule serve`."))
def keys_command() -> None:
    pass


@keys_command.command("list", help=_("List the keys of a tenant. Secrets are not kept, so none is shown."))
@json_option
@store_options
def list_keys(database: str | None, tenant: str, as_json: bool = False) -> None:
    with in_store(database, tenant) as (connection, _store):
        from ferrule.service.directory import list_keys

        found = list_keys(connection, tenant)
    columns = ("id", "user", "name", "scopes", "hint", "expires_at", "revoked")
    show_all(found, columns, as_json, _("There are no keys."))


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
    database: str | None, tenant: str, user: str, name: str, scopes: tuple[Scope, ...], expires: float | None,
    as_json: bool = False,
) -> None:  # fmt: skip
    with in_store(database, tenant, writes=True) as (connection, _store):
        from ferrule.service.directory import create_key
        from ferrule.service.messages import KeyRequest

        said = KeyRequest(user=user, name=name, scopes=list(scopes or SCOPES), expires_in=expires)
        document = create_key(connection, tenant, said)
    _show_secret(document, as_json)


@keys_command.command("rotate", help=_("Give a key a new secret, and print it."))
@click.argument("key")
@click.option(
    "--overlap", callback=read_duration, default="0s", metavar="DURATION", help=_("How long the old secret works.")
)
@json_option
@store_options
def rotate_key(database: str | None, tenant: str, key: str, overlap: float, as_json: bool = False) -> None:
    with in_store(database, tenant, writes=True) as (connection, _store):
        from ferrule.service.directory import rotate_key
        from ferrule.service.messages import RotateRequest

        document = rotate_key(connection, tenant, key, RotateRequest(overlap=overlap))
    _show_secret(document, as_json)


@keys_command.command("revoke", help=_("End a key at once."))
@click.argument("key")
@json_option
@store_options
def revoke_key(database: str | None, tenant: str, key: str, as_json: bool = False) -> None:
    with in_store(database, tenant, writes=True) as (connection, _store):
        from ferrule.service.directory import revoke_key

        document = revoke_key(connection, tenant, key)
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
