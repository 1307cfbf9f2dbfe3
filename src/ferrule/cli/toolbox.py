"""`ferrule toolbox`: which areas of the toolbox are there, and whether its accounts can be used."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from ferrule.app.settings import accounts_of
from ferrule.cli.options import json_option, settings_for, workspace_option
from ferrule.cli.output import print_table, write, write_json
from ferrule.cli.words import _, localised
from ferrule.toolbox.areas import AREAS

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.toolbox.accounts import AccountCheck, Accounts


toolbox_command = click.Group(
    "toolbox", help=_("See the tools for documents, notes, databases, web, mail and calendars.")
)


@toolbox_command.command("list", help=_("List the areas, their tools here, and what is missing."))
@json_option
@workspace_option
def list_areas(as_json: bool, workspace: Path) -> None:
    accounts = accounts_of(settings_for(workspace).settings, workspace.resolve())
    found = [(area, area.missing, [] if area.missing else area.tools(accounts)) for area in AREAS]
    if as_json:
        write_json(
            [
                {"area": area.name, "tools": [tool.name for tool in tools], "missing": missing, "extra": area.extra}
                for area, missing, tools in found
            ]
        )
        return
    rows: list[list[str]] = []
    for area, missing, tools in found:
        if missing:
            state = _("not installed: pip install 'ferrule[{extra}]'").format(extra=area.extra)
        else:
            state = ", ".join(tool.name for tool in tools) or _("nothing to work on: {what}").format(what=_(area.needs))
        rows.append([area.name, state])
    print_table([_("AREA"), _("TOOLS")], rows)


@toolbox_command.command(
    "check", help=_("Try every account in the settings and say what is wrong. Exits with 1 if one cannot be used.")
)
@json_option
@workspace_option
def check(as_json: bool, workspace: Path) -> None:
    accounts = accounts_of(settings_for(workspace).settings, workspace.resolve())
    found = asyncio.run(_tried(accounts))
    if as_json:
        write_json([{"what": one.what, "works": one.works, "words": one.words} for one in found])
    elif not found:
        click.echo(_("The settings name no account. See the settings reference: databases, mail, calendars."), err=True)
    for one in () if as_json else found:
        words = _("{what}: {why}").format(what=one.what, why=localised(one.words))
        write(f"{'✓' if one.works else '✗'} {words}\n")
    if not all(one.works for one in found):
        raise SystemExit(1)


async def _tried(accounts: Accounts) -> list[AccountCheck]:
    groups = await asyncio.gather(*(area.check(accounts) for area in AREAS if not area.missing))
    return [one for group in groups for one in group]
