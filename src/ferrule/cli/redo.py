"""`ferrule redo`: make again what was undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferrule.cli.options import json_option, workspace_option
from ferrule.cli.past import end_with, history_of
from ferrule.cli.words import _

if TYPE_CHECKING:
    from pathlib import Path


@click.command("redo", help=_("Make the change again that was undone last, or all up to number N."))
@click.option("--to", type=click.IntRange(min=1), metavar="N", help=_("Redo everything up to change N."))
@click.option("--call", help=_("Redo what this call changed."))
@json_option
@workspace_option
def command(to: int | None, call: str | None, as_json: bool, workspace: Path) -> None:
    history = history_of(workspace)
    end_with(history.redo(to=to, call=call), history, workspace, as_json=as_json)
