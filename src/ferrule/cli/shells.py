"""`ferrule shells`: the background commands of Ferrule programs that run on this machine, for one workspace."""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from time import time
from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.group import DefaultGroup
from ferrule.cli.options import json_option, workspace_option
from ferrule.cli.output import show_list, write, write_json, write_json_error
from ferrule.cli.words import _, as_error
from ferrule.process.shell.background import noted_commands
from ferrule.workspace.data_folder import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferrule.process.shell.background import NotedCommand

_AT_ONCE = 1 << 16


shells_command = DefaultGroup(
    "shells", help=_("See and stop what agents run in the background of this workspace. Without a command: list it.")
)


@shells_command.command("list", help=_("List the background commands, running and ended."))
@json_option
@workspace_option
def list_shells(as_json: bool, workspace: Path) -> None:
    commands = _here(workspace)
    rows = ([one.id, _state(one), _age(time() - one.began), str(one.program.pid), one.command] for one in commands)
    headers = [_("ID"), _("STATE"), _("AGE"), _("PROCESS"), _("COMMAND")]
    nothing = _("Nothing runs in the background of this workspace.")
    show_list([_document(one) for one in commands], as_json, nothing, headers, rows)


@shells_command.command(
    "stop", help=_("Stop the command ID and everything it started. `bash_1` is enough where only one matches.")
)
@click.argument("id")
@json_option
@workspace_option
def stop(id: str, as_json: bool, workspace: Path) -> None:  # noqa: A002 - the word on the command line
    chosen = _find(_here(workspace), id)
    running = chosen.status == "running"
    if running and not asyncio.run(chosen.stop()):
        words = _("{id} could not be stopped; it belongs to another user.").format(id=chosen.id)
        if not write_json_error("permission_error", words):
            write(as_error(words), err=True)
        sys.exit(1)
    if as_json:
        write_json({"id": chosen.id, "stopped": running})
    elif running:
        write(_("{id} was stopped, with everything it had started.").format(id=chosen.id))
    else:
        write(_("{id} has already ended.").format(id=chosen.id))


@shells_command.command("output", help=_("Print what the command ID has written so far."))
@click.argument("id")
@json_option
@workspace_option
def output(id: str, as_json: bool, workspace: Path) -> None:  # noqa: A002 - the word on the command line
    chosen = _find(_here(workspace), id)
    pieces = _pieces(chosen)
    if as_json:
        write_json({"id": chosen.id, "output": "".join(pieces)})
        return
    for text in pieces:
        write(text, end="", exact=True)


def _pieces(chosen: NotedCommand) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        if chosen.output is None:
            raise FileNotFoundError
        with chosen.output.open("rb") as file:
            while piece := file.read(_AT_ONCE):
                yield decoder.decode(piece)
    except FileNotFoundError:
        raise click.UsageError(_("The output of {id} is no longer kept in a file.").format(id=chosen.id)) from None


def _here(workspace: Path) -> list[NotedCommand]:
    place = os.path.realpath(workspace)
    return [one for one in noted_commands(data_folder() / "shells") if one.workspace == place]


def _find(commands: list[NotedCommand], wanted: str) -> NotedCommand:
    found = [one for one in commands if wanted in (one.id, one.id.partition(".")[2])]
    if len(found) == 1:
        return found[0]
    there = ", ".join(one.id for one in found or commands) or _("none")
    words = _("Several commands are called {id}: {there}") if found else _("There is no command {id}. Running: {there}")
    raise click.UsageError(words.format(id=wanted, there=there))


def _document(one: NotedCommand) -> dict[str, Any]:
    return {
        "id": one.id,
        "process": one.program.pid,
        "command": one.command,
        "status": one.status,
        "exit_code": one.exit_code,
        "began": one.began,
        "output_file": str(one.output) if one.output else None,
    }


def _state(one: NotedCommand) -> str:
    return one.status if one.exit_code is None else f"{one.status} ({one.exit_code})"


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
