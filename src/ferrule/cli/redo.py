"""`ferrule redo`: make again what was undone."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from ferrule.cli.options import json_option, workspace_option
from ferrule.cli.past import history_of, report_document
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
    report = history.redo(to=to, call=call)
    click.echo(json.dumps(report_document(report, history), ensure_ascii=False, indent=2) if as_json else str(report))
    sys.exit(1 if report.refused is not None else 0)
