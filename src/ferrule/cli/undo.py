"""`ferrule undo`: take back what tools changed; refuses where a file changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferrule.cli.options import json_option, workspace_option
from ferrule.cli.past import end_with, history_of
from ferrule.cli.words import _

if TYPE_CHECKING:
    from pathlib import Path


@click.command("undo", help=_("Take back the newest change, or all changes after number N."))
@click.option("--to", type=click.IntRange(min=0), metavar="N", help=_("Undo everything after change N; 0 undoes all."))
@click.option("--call", help=_("Undo what this call changed."))
@json_option
@workspace_option
def command(to: int | None, call: str | None, as_json: bool, workspace: Path) -> None:
    history = history_of(workspace)
    end_with(history.undo(to=to, call=call), history, workspace, as_json=as_json)
