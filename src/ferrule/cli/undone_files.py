"""What an undo or a redo did to each file, a row for each, for the commands and for the chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.cli.words import _
from ferrule.workspace.names import one_line
from ferrule.workspace.snapshots.changes import Operation

if TYPE_CHECKING:
    from ferrule.workspace.snapshots.history import History
    from ferrule.workspace.snapshots.undo_report import Report

MOST_FILES = 20


def undone_files(report: Report, history: History) -> list[str]:
    """Each file and what became of it; of many, the first ones and how many more there are."""
    changes = report.changes
    rows = [
        f"  {one_line(history.show(one.path))} — {_now(one.operation, undone=report.undo)}"
        for one in changes[:MOST_FILES]
    ]
    if len(changes) > MOST_FILES:
        rows.append(_("  … and {n} more").format(n=f"{len(changes) - MOST_FILES:,}"))
    return rows


def _now(operation: Operation, *, undone: bool) -> str:
    if operation is Operation.CREATE:
        return _("removed") if undone else _("there again")
    if operation is Operation.DELETE:
        return _("there again") if undone else _("removed")
    return _("as before") if undone else _("changed again")
