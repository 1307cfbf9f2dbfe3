"""`ferrule panel`: the record of your own calls in a browser, on this machine alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ferrule.app.settings import audit_path
from ferrule.cli.options import PlainError, settings_for
from ferrule.cli.output import write
from ferrule.cli.serve import missing_service
from ferrule.cli.words import _, said_of
from ferrule.records.database import AuditError


@click.command(
    "panel",
    help=_("Look at the record of your own calls, and manage plugins, in a browser on this machine alone."),
    epilog=_("`ferrule serve` has a panel for many users, at its own address."),
)
@click.option(
    "--file", type=click.Path(path_type=Path), help=_("Read this audit log instead of the one in the settings.")
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help=_("The port to listen on; a free one by default.")
)
def panel_command(file: Path | None, port: int) -> None:
    path = file if file is not None else audit_path(settings_for(Path()).settings)
    try:
        from ferrule.panel.local import local_panel, serve_local
        from ferrule.records.reader import AuditReader
    except ModuleNotFoundError as error:
        raise missing_service(error) from None
    if not path.exists():
        raise click.UsageError(_("There is no audit log at {path} yet; the first call creates it.").format(path=path))
    try:
        AuditReader(path)
        panel, sign_in = local_panel(path, Path().resolve())

        def greet(url: str) -> None:
            write(_("Open {url} (Ctrl-C stops it)").format(url=f"{url}/open/{sign_in.token}"))
            write(_("The address works once, and on this machine alone."), err=True)

        asyncio.run(serve_local(panel, port, greet))
    except (AuditError, ValueError) as error:
        raise PlainError(said_of(error)) from None
    write(_("Stopped."), err=True)
