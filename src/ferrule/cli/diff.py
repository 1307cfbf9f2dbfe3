"""`ferrule diff`: what a change did, or everything since one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ferrule.cli.options import warn, workspace_option
from ferrule.cli.output import write
from ferrule.cli.past import history_of, say_where_changes_are
from ferrule.cli.words import _

if TYPE_CHECKING:
    from pathlib import Path


@click.command("diff", help=_("Show what change N did; without N, the newest change."))
@click.argument("first", required=False, type=click.IntRange(min=1), metavar="[N]")
@click.argument("last", required=False, type=click.IntRange(min=1), metavar="[LAST]")
@workspace_option
def command(first: int | None, last: int | None, workspace: Path) -> None:
    history = history_of(workspace, warn)
    if first is None:
        newest = history.recent(1)
        if not newest:
            click.echo(_("No changes are on record."), err=True)
            say_where_changes_are(workspace)
            return
        first = newest[0].number
    text = history.diff(first, last)
    write(text.removesuffix("\n"))
