"""`ferrule stats`: how each tool was used, from the audit log."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from ferrule.app.settings import audit_path
from ferrule.cli.options import json_option, settings_for
from ferrule.cli.output import write_json
from ferrule.cli.since import SINCE
from ferrule.cli.table import print_table
from ferrule.cli.words import _


@click.command("stats", help=_("Show how often each tool ran, failed and was refused, and how long it took."))
@click.option("--since", type=SINCE, help=_("Only calls since then: 2h, 3d, or 2026-01-31."))
@click.option("--file", type=click.Path(path_type=Path), help=_("Another audit log than the one in the settings."))
@json_option
def command(since: float | None, file: Path | None, as_json: bool) -> None:
    from ferrule.records.statistics import statistics_of

    path = file or audit_path(settings_for(Path()).settings)
    if not path.exists():
        raise click.UsageError(_("There is no audit log at {path} yet; the first call makes it.").format(path=path))
    usages = statistics_of(path) if since is None else statistics_of(path, since=since)
    if as_json:
        write_json([asdict(usage) for usage in usages])
        return
    if not usages:
        click.echo(_("No calls are on record."), err=True)
        return
    print_table(
        [_("TOOL"), _("CALLS"), _("DONE"), _("FAILED"), _("REFUSED"), "P50", "P95", _("ASKED"), _("ANSWER P50")],
        [
            [
                one.tool,
                *map(str, (one.count, one.success, one.failure, one.denied)),
                _ms(one.p50),
                _ms(one.p95),
                str(one.asked),
                _seconds(one.wait_p50),
            ]
            for one in usages
        ],
    )


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f} ms"


def _seconds(seconds: float | None) -> str:
    """What a user took, which is seldom a matter of milliseconds."""
    return "-" if seconds is None else f"{seconds:.1f} s"
