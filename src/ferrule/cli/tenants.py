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
    from collections.abc import Callable, Generator, Sequence

    from pydantic import BaseModel
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
        # Ours begin with "must", and pydantic's with "Input should" or "String should".
        why = re.sub(r"^\w+ should ", "must ", first["msg"].removeprefix("Value error, "))
        raise PlainError(words.format(field=first["loc"][0], value=first["input"], why=why)) from None
    except (DatabaseProblem, DirectoryProblem) as error:
        raise PlainError(said_of(error)) from None
    except DBAPIError as error:
        raise PlainError(said_by_driver(error)) from None


def _in_directory(
    database: str | None,
    tenant: str | None,
    work: Callable[[Connection, Any, Any], Any],
    *,
    writes: bool = True,
    is_new: bool = False,
) -> Any:
    """What `work` gives in a transaction, called with `directory` and `messages` of the service, which is an extra."""
    with in_store(database, tenant, writes=writes, is_new=is_new) as (connection, _store):
        from ferrule.service import directory, messages

        return work(connection, directory, messages)


def _check_tool_names(said: BaseModel) -> None:
    """Refuse rules and limits that misspell a tool, as the service itself does."""
    from ferrule.app.build import build_tools
    from ferrule.service.access import check_tool_names

    check_tool_names(said, build_tools(settings_for(Path()).settings, Path.cwd()).registry)


def show(document: dict[str, Any], as_json: bool) -> None:
    """One thing, a line for each of its fields."""
    if as_json:
        write_json(document)
        return
    for name, value in document.items():
        write(f"{name}: {_cell(value)}".rstrip())


def show_all(
    document: dict[str, Any], columns: Sequence[str], as_json: bool, nothing: str, tenant: str | None = None
) -> None:
    """Many things, as a table, and the tenant that they belong to."""
    found, following = next(iter(document.values())), document.get("next")
    if as_json:
        write_json(document)
        return
    if tenant is not None:
        write(_("Tenant: {tenant}").format(tenant=tenant), err=True)
    if not found:
        write(nothing, err=True)
    else:
        rows = [[_cell(one[column]) for column in columns] for one in found]
        print_table([column.replace("_", " ") for column in columns], rows)
    if following is not None:
        write(_("There are more. Read on with --cursor {cursor}").format(cursor=following), err=True)


def _page_options(command: Any) -> Any:
    limit = click.option(
        "--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help=_("How many at most.")
    )
    return limit(click.option("--cursor", default="", help=_("Read on where the list before ended."))(command))


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, cast("Sequence[object]", value)))
    return "" if value is None else str(value)


tenants_command = click.Group("tenants", help=_("Create, list and change the tenants of `ferrule serve`."))


def _limit_options(function: Any) -> Any:
    for name, number in reversed(LIMITS.items()):
        kind = click.IntRange(min=0) if number is int else click.FloatRange(min=0)
        function = click.option(f"--{name.replace('_', '-')}", type=kind, help=_("A limit; 0 means no limit."))(
            function
        )
    return function


@tenants_command.command("list", help=_("List the tenants."))
@_page_options
@json_option
@database_option
def list_tenants(database: str | None, cursor: str, limit: int, as_json: bool = False) -> None:
    found = _in_directory(database, None, lambda c, d, m: d.list_tenants(c, cursor, limit), writes=False)
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
    said = {"name": name, "display_name": display_name, "limits": limits}
    show(
        _in_directory(database, name, lambda c, d, m: d.create_tenant(c, m.TenantRequest(**said)), is_new=True), as_json
    )


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
    def change(connection: Connection, directory: Any, messages: Any) -> dict[str, Any]:
        before = directory.show_tenant(connection, name)["limits"]
        given = {limit: value for limit, value in limits.items() if value is not None}
        if tool is not None:
            tools = before.get("tools", {})
            given = {"tools": {**tools, tool: {**tools.get(tool, {}), **given}}}
        said = messages.TenantChange(enabled=enabled, limits={**before, **given}, audit_days=audit_days)
        _check_tool_names(said)
        return directory.change_tenant(connection, name, said)

    show(_in_directory(database, name, change), as_json)


users_command = click.Group("users", help=_("Create, list, change and remove the users of `ferrule serve`."))


@users_command.command("list", help=_("List the users of a tenant."))
@_page_options
@json_option
@store_options
def list_users(database: str | None, tenant: str, cursor: str, limit: int, as_json: bool = False) -> None:
    found = _in_directory(database, tenant, lambda c, d, m: d.list_users(c, tenant, cursor, limit), writes=False)
    columns = ("name", "roles", "enabled", "created_at")
    show_all(found, columns, as_json, _("There are no users."), tenant)


@users_command.command("create", help=_("Create a user. A key of their own comes from `ferrule keys create`."))
@click.argument("name")
@click.option("--role", "roles", multiple=True, help=_("A role; `member` unless given. Repeatable."))
@json_option
@store_options
def create_user(database: str | None, tenant: str, name: str, roles: tuple[str, ...], as_json: bool = False) -> None:
    said = {"name": name, **({"roles": list(roles)} if roles else {})}
    show(_in_directory(database, tenant, lambda c, d, m: d.create_user(c, tenant, m.UserRequest(**said))), as_json)


@users_command.command("change", help=_("Give a user other roles, or switch them off or on."))
@click.argument("name")
@click.option("--role", "roles", multiple=True, help=_("A role, in place of those from before. Repeatable."))
@click.option("--enable/--disable", "enabled", default=None, help=_("Whether their keys work."))
@json_option
@store_options
def change_user(
    database: str | None, tenant: str, name: str, roles: tuple[str, ...], enabled: bool | None, as_json: bool = False
) -> None:
    said = {"roles": list(roles) or None, "enabled": enabled}
    show(_in_directory(database, tenant, lambda c, d, m: d.change_user(c, tenant, name, m.UserChange(**said))), as_json)


@users_command.command("remove", help=_("Remove a user and their keys. Their calls and audit rows stay."))
@click.argument("name")
@store_options
def remove_user(database: str | None, tenant: str, name: str) -> None:
    _in_directory(database, tenant, lambda c, d, m: d.delete_user(c, tenant, name))
    write(_("Removed {name}.").format(name=name))


roles_command = click.Group("roles", help=_("Set, list and remove the roles of `ferrule serve`."))


@roles_command.command("list", help=_("List the roles of a tenant and their rules."))
@json_option
@store_options
def list_roles(database: str | None, tenant: str, as_json: bool = False) -> None:
    found = _in_directory(database, tenant, lambda c, d, m: d.list_roles(c, tenant), writes=False)
    columns = ("name", "mode", "allow", "ask", "deny")
    show_all(found, columns, as_json, _("There are no roles."), tenant)


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
    database: str | None, tenant: str, name: str, mode: str | None, as_json: bool = False, **rules: tuple[str, ...]
) -> None:
    said = {"mode": Mode(mode) if mode else None, **{listed: list(given) for listed, given in rules.items()}}

    def put(connection: Connection, directory: Any, messages: Any) -> dict[str, Any]:
        body = messages.RoleBody(**said)
        _check_tool_names(body)
        return directory.put_role(connection, tenant, name, body)

    show(_in_directory(database, tenant, put), as_json)


@roles_command.command("remove", help=_("Remove a role that nobody has."))
@click.argument("name")
@store_options
def remove_role(database: str | None, tenant: str, name: str) -> None:
    _in_directory(database, tenant, lambda c, d, m: d.delete_role(c, tenant, name))
    write(_("Removed {name}.").format(name=name))


keys_command = click.Group("keys", help=_("Create, list, rotate and revoke the API keys of `ferrule serve`."))


@keys_command.command("list", help=_("List the keys of a tenant. Secrets are not kept, so none is shown."))
@_page_options
@json_option
@store_options
def list_keys(database: str | None, tenant: str, cursor: str, limit: int, as_json: bool = False) -> None:
    found = _in_directory(database, tenant, lambda c, d, m: d.list_keys(c, tenant, cursor, limit), writes=False)
    columns = ("id", "user", "name", "scopes", "hint", "expires_at", "revoked")
    show_all(found, columns, as_json, _("There are no keys."), tenant)


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
    said = {"user": user, "name": name, "scopes": list(scopes or SCOPES), "expires_in": expires}
    document = _in_directory(database, tenant, lambda c, d, m: d.create_key(c, tenant, m.KeyRequest(**said)))
    _show_secret(document, as_json)


@keys_command.command("rotate", help=_("Give a key a new secret, and print it."))
@click.argument("key")
@click.option(
    "--overlap", callback=read_duration, default="0s", metavar="DURATION", help=_("How long the old secret works.")
)
@json_option
@store_options
def rotate_key(database: str | None, tenant: str, key: str, overlap: float, as_json: bool = False) -> None:
    said = {"overlap": overlap}
    document = _in_directory(database, tenant, lambda c, d, m: d.rotate_key(c, tenant, key, m.RotateRequest(**said)))
    _show_secret(document, as_json)


@keys_command.command("revoke", help=_("End a key at once."))
@click.argument("key")
@json_option
@store_options
def revoke_key(database: str | None, tenant: str, key: str, as_json: bool = False) -> None:
    document = _in_directory(database, tenant, lambda c, d, m: d.revoke_key(c, tenant, key))
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
