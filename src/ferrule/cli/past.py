"""`ferrule undo`, `redo`, `diff` and `history`: what tools changed in a workspace, shown and undone."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ferrule.app.settings import added_folders, load_settings
from ferrule.cli.options import json_option, warn, workspace_option
from ferrule.cli.output import print_table, write, write_json
from ferrule.cli.words import _, localised
from ferrule.workspace.files import history_folder
from ferrule.workspace.names import one_line
from ferrule.workspace.paths import Paths
from ferrule.workspace.snapshots.changes import Operation
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
        "repositories": sorted({history.show(one.repository) for one in group.git if one.repository}),
    }


def end_with(report: Report, history: History, workspace: Path, *, as_json: bool) -> NoReturn:
    """Say what came of an undo or redo, and end; a refusal is a failure."""
    if as_json:
        write_json(report_document(report, history))
    else:
        write(_in_words(report, history))
        if not history.recent(1):
            say_where_changes_are(workspace)
    sys.exit(1 if report.refused is not None or report.incomplete else 0)


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
    rest = [localised(one) for one in (report.in_git, report.trouble) if one]
    return "\n".join([head, *undone_files(report, history), *rest])


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
        "put_back": [str(one) for one in report.put_back],
        "stays": [str(one) for one in report.stays],
        "message": str(report),
    }


MOST_FILES = 20


def undone_files(report: Report, history: History) -> list[str]:
    """Each file and what became of it; of many, the first ones and how many more there are."""
    goes = Operation.CREATE if report.undo else Operation.DELETE
    # A folder with a git directory in it stays, whatever else is removed.
    changes = [one for one in report.changes if not (one.of_folders and one.operation is goes and one.path.is_dir())]
    rows = [
        f"  {one_line(history.show(one.path))} — {_now(one.operation, undone=report.undo)}"
        for one in changes[:MOST_FILES]
    ]
    if len(changes) > MOST_FILES:
        rows.append(_("  … and {n} more").format(n=f"{len(changes) - MOST_FILES:,}"))
    return rows


def _now(operation: Operation, *, undone: bool) -> str:
    if operation is Operation.CREATE:
        return _("removed") if undone else _("restored")
    if operation is Operation.DELETE:
        return _("restored") if undone else _("removed")
    return _("as before") if undone else _("changed again")


def _count_argument(command: Any) -> Any:
    return click.argument("count", required=False, type=click.IntRange(min=1), metavar="[COUNT]")(command)


@click.command("undo", help=_("Undo the newest change, or the newest COUNT changes."))
@_count_argument
@click.option("--to", type=click.IntRange(min=0), metavar="N", help=_("Undo everything after change N; 0 undoes all."))
@click.option("--call", help=_("Undo what this call changed."))
@json_option
@workspace_option
def undo_command(count: int | None, to: int | None, call: str | None, as_json: bool, workspace: Path) -> None:
    history = history_of(workspace)
    _require_change(history, count, to, call)
    end_with(history.undo(to=to, call=call, most=count or 1), history, workspace, as_json=as_json)


@click.command("redo", help=_("Redo the change that was undone last, or the last COUNT of them."))
@_count_argument
@click.option("--to", type=click.IntRange(min=1), metavar="N", help=_("Redo everything up to change N."))
@click.option("--call", help=_("Redo what this call changed."))
@json_option
@workspace_option
def redo_command(count: int | None, to: int | None, call: str | None, as_json: bool, workspace: Path) -> None:
    history = history_of(workspace)
    _require_change(history, count, to, call)
    end_with(history.redo(to=to, call=call, most=count or 1), history, workspace, as_json=as_json)


def _require_change(history: History, count: int | None, number: int | None, call: str | None) -> None:
    """Say one thing at a time, and no number that no change has: that is a slip, and not a wish to change nothing."""
    if count is not None and (number is not None or call is not None):
        raise click.UsageError(_("Use only one of COUNT, --to and --call."))
    newest = history.recent(1)
    last = newest[0].number if newest else 0
    if number is not None and number > last:
        raise click.BadParameter(
            _("There is no change {number}; the newest is {last}.").format(number=number, last=last)
            if last
            else _("There is no change {number}; none is on record.").format(number=number),
            param_hint="'--to'",
        )


@click.command("diff", help=_("Show what change N did; without N, the newest change."))
@click.argument("first", required=False, type=click.IntRange(min=1), metavar="[N]")
@click.argument("last", required=False, type=click.IntRange(min=1), metavar="[LAST]")
@workspace_option
def diff_command(first: int | None, last: int | None, workspace: Path) -> None:
    history = history_of(workspace, warn)
    if first is None:
        newest = history.recent(1)
        if not newest:
            click.echo(_("No changes are on record."), err=True)
            say_where_changes_are(workspace)
            return
        first = newest[0].number
    text = history.diff(first, last)
    write(text.removesuffix("\n"), exact=True)


@click.command("history", help=_("List the changes that tools made in the workspace, newest first."))
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help=_("How many."))
@json_option
@workspace_option
def history_command(limit: int, as_json: bool, workspace: Path) -> None:
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
    repositories = dict.fromkeys(one.repository for one in group.git if one.repository is not None)
    named = [f"{change.operation} {history.show(change.path)}" for change in group.changes[:5]]
    changes = ", ".join([*named, *(f"git {history.show(one)}" for one in repositories)])
    more = f", … ({len(group.changes)})" if len(group.changes) > 5 else ""
    if group.others:
        more += " " + _("(or by {calls})").format(calls=", ".join(one_line(other.call) for other in group.others))
    return [str(group.number), moment, group.origin.tool, str(group.phase), changes + more]
