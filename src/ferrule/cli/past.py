"""The history of a workspace, for the commands that show it and go back in it."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from ferrule.app.settings import added_folders, load_settings
from ferrule.cli.options import warn
from ferrule.cli.output import write, write_json
from ferrule.cli.undone_files import undone_files
from ferrule.cli.words import _, localised
from ferrule.workspace.files import history_folder
from ferrule.workspace.paths import Paths
from ferrule.workspace.snapshots.history import History

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ferrule.workspace.snapshots.changes import Group
    from ferrule.workspace.snapshots.undo_report import Report


def history_of(workspace: Path, tell: Callable[[str], None] | None = None) -> History:
    """The history of a workspace and of the folders added to it. `tell` hears what is wrong with the history itself,
    which the report of an undo says anyway.
    """
    workspace = workspace.resolve()
    paths = Paths([workspace, *added_folders(load_settings(workspace).settings, workspace)])
    return History(history_folder(paths.roots[0].path), paths, tell=tell)


def say_where_changes_are(workspace: Path) -> None:
    """Where a folder has no changes, and one that it lies in has: a history belongs to the folder it was made from."""
    for folder in workspace.resolve().parents:
        store = history_folder(folder)
        if store.is_dir() and History(store, Paths([folder]), tell=warn).recent(1):
            words = _("There are changes on record for {folder}; go there, or add: --workspace {typed}")
            write(words.format(folder=folder, typed=shlex.quote(str(folder))), err=True)
            return


def group_document(group: Group, history: History) -> dict[str, Any]:
    """A group of changes as JSON."""
    return {
        "number": group.number,
        "time": group.time,
        "tool": group.origin.tool,
        "call_id": group.origin.call,
        "session": group.origin.session,
        "may_be_of": [other.call for other in group.others],
        "state": str(group.phase),
        "changes": [
            {
                "path": history.show(change.path),
                "operation": str(change.operation),
                "other": history.show(change.other) if change.other else None,
                "covered": change.covered,
            }
            for change in group.changes
        ],
    }


def end_with(report: Report, history: History, workspace: Path, *, as_json: bool) -> NoReturn:
    """Say what came of an undo or redo, and end; a refusal is a failure."""
    if as_json:
        write_json(report_document(report, history))
    else:
        write(_in_words(report, history))
        if not history.recent(1):
            say_where_changes_are(workspace)
    sys.exit(1 if report.refused is not None else 0)


def _in_words(report: Report, history: History) -> str:
    groups = [group for group in report.groups if group.changes != group.uncovered]
    if not groups:
        return localised(report.words)
    if len(groups) > 1:
        head = _("{n} changes undone:") if report.undo else _("{n} changes redone:")
        head = head.format(n=f"{len(groups):,}")
    else:
        head = _("Change {n} undone:") if report.undo else _("Change {n} redone:")
        head = head.format(n=groups[0].number)
    return "\n".join([head, *undone_files(report, history), *([localised(report.trouble)] if report.trouble else [])])


def report_document(report: Report, history: History) -> dict[str, Any]:
    """What came of an undo or redo as JSON."""
    return {
        "done": [group_document(group, history) for group in report.groups],
        "refused": None
        if report.refused is None
        else {
            "group": group_document(report.refused.group, history),
            "conflicts": [
                {"why": str(one.why), "path": one.name, "message": one.text, "diff": one.diff}
                for one in report.refused.conflicts
            ],
        },
        "message": str(report),
    }
