"""`ferrule history`: what the tools changed in a workspace, newest first."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from ferrule.cli.options import json_option, warn, workspace_option
from ferrule.cli.output import write_json
from ferrule.cli.past import group_document, history_of, say_where_changes_are
from ferrule.cli.table import print_table
from ferrule.cli.words import _
from ferrule.workspace.names import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.workspace.snapshots.changes import Group
    from ferrule.workspace.snapshots.history import History


@click.command("history", help=_("List the changes that tools made in the workspace, newest first."))
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help=_("How many."))
@json_option
@workspace_option
def command(limit: int, as_json: bool, workspace: Path) -> None:
    history = history_of(workspace, warn)
    groups = history.recent(limit)
    if as_json:
        write_json([group_document(group, history) for group in groups])
    elif not groups:
        click.echo(_("No changes are on record."), err=True)
        say_where_changes_are(workspace)
    else:
        print_table(["N", _("TIME"), _("TOOL"), _("STATE"), _("CHANGES")], [_line(group, history) for group in groups])


def _line(group: Group, history: History) -> list[str]:
    moment = datetime.fromtimestamp(group.time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    changes = ", ".join(f"{change.operation} {history.show(change.path)}" for change in group.changes[:5])
    more = f", … ({len(group.changes)})" if len(group.changes) > 5 else ""
    if group.others:
        more += " " + _("(or by {calls})").format(calls=", ".join(one_line(other.call) for other in group.others))
    return [str(group.number), moment, group.origin.tool, str(group.phase), changes + more]
