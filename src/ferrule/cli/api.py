"""`ferrule api add`, `list` and `remove`: HTTP APIs whose operations become tools."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ferrule.app.server_files import ServerFile
from ferrule.app.settings import accounts_of, user_settings_file
from ferrule.cli.options import PlainError, json_option, settings_for, warn, workspace_option
from ferrule.cli.output import show_list, write
from ferrule.cli.words import _, localised
from ferrule.core.errors import ToolError
from ferrule.core.files import write_atomically
from ferrule.workspace.data_folder import data_folder

if TYPE_CHECKING:
    from ferrule.app.settings import Settings

_SECTION = "apis"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,29}")


api_command = click.Group("api", help=_("Make tools of the operations of an HTTP API."))


@api_command.command(
    "add",
    help=_("Add the API that the OpenAPI document SPEC describes, a file or an https:// address, to your settings."),
    epilog=_("The document is copied. Secrets are never written here: name a credential of your settings."),
)
@click.option("--name", help=_("What models and rules call it; from the document's title unless given."))
@click.option(
    "--operations", "-o", multiple=True, metavar="ID", help=_("Offer this operation, by id or `GET /path`. Repeatable.")
)
@click.option("--base-url", default="", help=_("The address of the server, instead of the document's."))
@click.option("--credential", default="", help=_("The credential of your settings to send along."))
@workspace_option
@click.argument("spec")
def add_command(
    spec: str, name: str | None, operations: tuple[str, ...], base_url: str, credential: str, workspace: Path
) -> None:
    import json

    from ferrule.toolbox.accounts import Api
    from ferrule.toolbox.apis import MOST_TOOLS, LoadedApi
    from ferrule.toolbox.http_client import HttpClient
    from ferrule.toolbox.openapi import OpenApi, parse_document

    settings = settings_for(workspace).settings
    client = HttpClient(settings.web)
    try:
        document = parse_document(_read(spec, client), spec)
        name = name or (
            re.sub(r"[^a-z0-9]+", "-", (OpenApi(document).title).lower().removesuffix(" api"))
            .strip("-")[:30]
            .strip("-")
            or "api"
        )
        if not _NAME.fullmatch(name):
            raise PlainError(
                _("`{name}` cannot name an API: use small letters, digits, `-` and `_`.").format(name=name)
            )
        folder = data_folder() / "apis"
        folder.mkdir(parents=True, exist_ok=True)
        copy = folder / f"{name}.json"
        api = Api(copy, base_url, credential, list(operations))
        loaded = LoadedApi(name, api, accounts_of(settings, workspace.resolve()), client)
        loaded.document = OpenApi(document, base_url)
        chosen = list(loaded.operations.values())
        unusable = _unusable(chosen)
        if not chosen:
            raise PlainError(_("{spec} has no operations.").format(spec=spec))
    except ToolError as error:
        raise PlainError(
            " ".join(filter(None, (localised(error.message), localised(error.suggestion or ""))))
        ) from None
    if credential and credential not in settings.credentials:
        raise PlainError(_("Your settings have no credential `{name}`.").format(name=credential))
    write_atomically(copy, json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
    given = {"base_url": base_url, "credential": credential, "operations": list(operations)}
    table: dict[str, Any] = {"spec": str(copy), **{key: value for key, value in given.items() if value}}
    file = user_settings_file()
    if ServerFile(file).add(name, table, _SECTION):
        warn(_("{name} existed already and was replaced.").format(name=name))
    for words in unusable:
        warn(words)
    count = len(chosen) - len(unusable)
    words = (
        _("{name} is now in {file}: {count} operations, found and called with FindOperation and CallOperation.")
        if len(chosen) > MOST_TOOLS
        else _("{name} is now in {file}: 1 operation, as a tool.")
        if count == 1
        else _("{name} is now in {file}: {count} operations, each a tool.")
    )
    write(words.format(name=name, file=file, count=f"{count:,}"))


def _read(spec: str, client: Any) -> bytes:
    from ferrule.toolbox.http_client import WebRequest
    from ferrule.toolbox.web_address import parse_address

    if not spec.lower().startswith(("https://", "http://")):
        try:
            return Path(spec).expanduser().read_bytes()
        except OSError as error:
            raise PlainError(_("{file} cannot be read: {why}.").format(file=spec, why=error.strerror)) from None
    reply = asyncio.run(client.send(WebRequest("GET", parse_address(spec)), follow=True))
    if reply.status != 200:
        raise PlainError(_("{url} answered with {status}.").format(url=spec, status=reply.status))
    return reply.body


def _unusable(operations: list[Any]) -> list[str]:
    found: list[str] = []
    for one in operations:
        try:
            _details = one.details
        except ToolError as error:
            found.append(localised(error.message))
    return found


@api_command.command("list", help=_("List the APIs of the settings, and how many operations each has."))
@json_option
@workspace_option
def list_command(as_json: bool, workspace: Path) -> None:
    found = _described(settings_for(workspace).settings, workspace)
    rows = ([one["name"], one["problem"] or str(one["operations"]), one["server"] or "-"] for one in found)
    nothing = _("There are no APIs. Add one: ferrule api add SPEC")
    show_list(found, as_json, nothing, [_("NAME"), _("OPERATIONS"), _("SERVER")], rows)


def _described(settings: Settings, workspace: Path) -> list[dict[str, Any]]:
    from ferrule.toolbox.apis import LoadedApi
    from ferrule.toolbox.http_client import HttpClient

    accounts = accounts_of(settings, workspace.resolve())
    client = HttpClient(accounts.web)
    found: list[dict[str, Any]] = []
    for name, api in accounts.apis.items():
        one: dict[str, Any] = {"name": name, "operations": 0, "server": "", "problem": ""}
        try:
            operations = list(LoadedApi(name, api, accounts, client).operations.values())
            one["operations"] = len(operations)
            one["server"] = next((operation.details.base_url for operation in operations), "")
        except ToolError as error:
            one["problem"] = localised(error.message)
        found.append(one)
    return found


@api_command.command("remove", help=_("Remove the API NAME from your settings, and the copy of its document."))
@click.argument("name")
@workspace_option
def remove_command(name: str, workspace: Path) -> None:
    from ferrule.core.nearest import nearest

    file = user_settings_file()
    if not ServerFile(file).remove(name, _SECTION):
        close = nearest(name, list(settings_for(workspace).settings.apis), most=1)
        hint = _("Did you mean `{name}`?").format(name=close[0]) if close else _("`ferrule api list` shows them.")
        raise PlainError(_("There is no API `{name}` in {file}. {hint}").format(name=name, file=file, hint=hint))
    if _NAME.fullmatch(name):
        (data_folder() / "apis" / f"{name}.json").unlink(missing_ok=True)
    write(_("{name} was removed from {file}.").format(name=name, file=file))
