"""`ferrule audit` and `ferrule stats`: the record of every call, seen, checked, exported and counted."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ferrule.app.settings import audit_path
from ferrule.cli.options import SINCE, json_option, settings_for, warn
from ferrule.cli.output import show_list, write, write_json
from ferrule.cli.words import _
from ferrule.core.phrases import said_by
from ferrule.core.shown_text import cut_columns, flattened
from ferrule.workspace.data_folder import data_folder

if TYPE_CHECKING:
    from ferrule.records.reader import AuditReader
    from ferrule.records.row import AuditRow
    from ferrule.records.verification import Gap, Head, Verification


def what_is_wrong(found: Verification) -> str:
    """Why the log does not hold, with the first row that is to blame."""
    if found.first_bad_seq is None:
        return found.why
    return _("row {seq}: {why}").format(seq=found.first_bad_seq, why=found.why)


def gap_words(gap: Gap) -> str:
    """Rows that are missing without anybody having tampered with those that are there."""
    words = _(
        "Gap at row {seq} ({time}): the log was removed or replaced while Ferrule was running. It ended at row "
        "{ended_at}, and the one in its place at row {found}."
    )
    moment = datetime.fromtimestamp(gap.time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return words.format(seq=gap.seq, time=moment, ended_at=gap.ended_at, found=gap.found)


_ARGUMENTS_COLUMNS = 80  # `show`, `export` and --json have the rest


@click.group(
    "audit",
    invoke_without_command=True,
    help=_("See, check and export the record of every call. Without a command: list the newest."),
)
@click.option(
    "--file", type=click.Path(path_type=Path), help=_("Read this audit log instead of the one in the settings.")
)
@click.pass_context
def audit_command(context: click.Context, file: Path | None) -> None:
    context.obj = file
    if context.invoked_subcommand is None:
        context.invoke(list_rows)


@audit_command.command("list", help=_("The newest calls, newest first."))
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help=_("How many."))
@click.option("--tool", help=_("Only calls of this tool."))
@click.option("--outcome", help=_("Only this outcome: success, failure, or an error type."))
@click.option("--session", help=_("Only calls of this session."))
@click.option("--since", type=SINCE, help=_("Only calls since then: 2h, 3d, or 2026-01-31."))
@json_option
@click.pass_obj
def list_rows(
    file: Path | None,
    limit: int = 20,
    tool: str | None = None,
    outcome: str | None = None,
    session: str | None = None,
    since: float | None = None,
    as_json: bool = False,
) -> None:
    rows = _reader(file).list(limit=limit, tool=tool, outcome=outcome, session=session, since=since)
    headers = ["SEQ", _("TIME"), _("TOOL"), _("OUTCOME"), _("DECISION"), _("DURATION"), _("ARGUMENTS")]
    show_list([row.to_dict() for row in rows], as_json, _("No calls are on record."), headers, map(_line, rows))


@audit_command.command("show", help=_("One call in full, by its number or its call id."))
@click.argument("which")
@json_option
@click.pass_obj
def show(file: Path | None, which: str, as_json: bool) -> None:
    row = _reader(file).show(int(which) if which.isdigit() else which)
    if row is None:
        raise click.UsageError(_("No call {which} is on record.").format(which=which))
    if as_json:
        write_json(row.to_dict())
        return
    for key, value in row.to_dict().items():
        if value not in (None, "", False):
            write(f"{key:18}{_in_full(key, value)}")


@audit_command.command("verify", help=_("Check that no record was changed, removed or reordered."))
@click.option("--head", help=_("A head noted earlier (`SEQ:HASH`); proves that nothing was cut off since."))
@click.option(
    "--since-last",
    is_flag=True,
    help=_("Go on where the last check with this option ended or was interrupted, and trust what it read."),
)
@json_option
@click.pass_obj
def verify_log(file: Path | None, head: str | None, since_last: bool, as_json: bool) -> None:
    from ferrule.records.verification import verify
    from ferrule.records.verified_mark import VerifiedMark

    path = _log(file)
    mark = VerifiedMark(path, data_folder() / "verified") if since_last else None
    unkept: set[str] = set()

    def keep(head: Head) -> None:
        if mark is not None:
            try:
                mark.write(head)
            except OSError as error:
                unkept.add(said_by(error))

    try:
        since = mark.read() if mark is not None else None
        found = verify(path, expected_head=head, since=since, processes=os.cpu_count() or 1, progress=keep)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if found.head is not None:
        keep(found.head)
    for why in unkept:
        warn(_("How far the log was verified could not be kept for --since-last: {why}").format(why=why))
    if as_json:
        document: dict[str, Any] = {
            **found._asdict(),
            "head": str(found.head) if found.head else None,
            "gaps": [gap._asdict() for gap in found.gaps],
        }
        write_json(document)
    elif found.ok:
        write(_("Records verified: {rows}. Head: {head}").format(rows=found.rows, head=found.head))
    else:
        write(_("Audit log verification failed: {why}").format(why=what_is_wrong(found)), err=True)
    if not as_json:
        for gap in found.gaps:
            write(gap_words(gap))
    sys.exit(0 if found.ok else 1)


@audit_command.command("export", help=_("Every record, oldest first, as JSON lines or CSV."))
@click.option("--format", "form", type=click.Choice(("jsonl", "csv")), default="jsonl", show_default=True)
@click.option("--since", type=SINCE, help=_("Only calls since then: 2h, 3d, or 2026-01-31."))
@click.option("--after", type=click.IntRange(min=0), default=0, help=_("Go on after this row, its SEQ."))
@click.option(
    "--output",
    type=click.File("w", encoding="utf-8", atomic=True),
    default="-",
    help=_("The file to write; stdout by default."),
)
@click.pass_obj
def export(file: Path | None, form: Any, since: float | None, after: int, output: Any) -> None:
    for lines in _reader(file).export(form, since=since, after=after, processes=os.cpu_count() or 1):
        output.write(lines)


def _log(file: Path | None) -> Path:
    return file or audit_path(settings_for(Path()).settings)


def _existing_log(file: Path | None) -> Path:
    path = _log(file)
    if not path.exists():
        raise click.UsageError(_("There is no audit log at {path} yet; the first call creates it.").format(path=path))
    return path


def _reader(file: Path | None) -> AuditReader:
    from ferrule.records.reader import AuditReader

    return AuditReader(_existing_log(file))


def _line(row: AuditRow) -> list[str]:
    decision = f"{row.verdict} ({row.answer})" if row.answer else row.verdict
    return [
        str(row.seq),
        _clock(row.time),
        str(row.tool),
        str(row.outcome),
        decision,
        _milliseconds(row.duration),
        cut_columns(flattened(str(row.arguments)), _ARGUMENTS_COLUMNS),
    ]


def _in_full(key: str, value: Any) -> Any:
    if key == "time" and (moment := _moment(value)) is not None:
        return moment.isoformat(timespec="milliseconds")
    return _milliseconds(value) if key in ("duration", "waited", "queued") else value


def _milliseconds(seconds: Any) -> str:
    return f"{seconds * 1000:.1f} ms" if isinstance(seconds, float | int) else str(seconds)


def _moment(seconds: Any) -> datetime | None:
    """None for what is no time: somebody may have tampered with the log, and wants to see how."""
    try:
        return datetime.fromtimestamp(seconds).astimezone()
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _clock(seconds: Any) -> str:
    moment = _moment(seconds)
    if moment is None:
        return str(seconds)
    today = time.strftime("%Y-%m-%d") == moment.strftime("%Y-%m-%d")
    return moment.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")


@click.command("stats", help=_("Show how often each tool ran, failed and was refused, and how long it took."))
@click.option("--since", type=SINCE, help=_("Only calls since then: 2h, 3d, or 2026-01-31."))
@click.option(
    "--file", type=click.Path(path_type=Path), help=_("Read this audit log instead of the one in the settings.")
)
@json_option
def stats_command(since: float | None, file: Path | None, as_json: bool) -> None:
    from ferrule.records.statistics import statistics_of

    path = _existing_log(file)
    usages = statistics_of(path) if since is None else statistics_of(path, since=since)
    rows = (
        [one.tool, *map(str, (one.count, one.success, one.failure, one.denied)), _ms(one.p50), _ms(one.p95),
         str(one.asked), _seconds(one.wait_p50)]
        for one in usages
    )  # fmt: skip
    headers = [
        _("TOOL"), _("CALLS"), _("DONE"), _("FAILED"), _("REFUSED"), "P50", "P95", _("ASKED"), _("ANSWER P50"),
    ]  # fmt: skip
    show_list([asdict(usage) for usage in usages], as_json, _("No calls are on record."), headers, rows)


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f} ms"


def _seconds(seconds: float | None) -> str:
    """What a user took, which is seldom a matter of milliseconds."""
    return "-" if seconds is None else f"{seconds:.1f} s"
