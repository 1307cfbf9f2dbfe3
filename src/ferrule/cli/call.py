"""`ferrule call`: one call through the whole pipeline, from the shell."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from ferrule.app.build import App
from ferrule.cli.ask import TerminalAsker, say_yes
from ferrule.cli.options import (
    json_option,
    permission_flags,
    permission_options,
    report_broken,
    settings_for,
    workspace_option,
)
from ferrule.cli.words import _
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.pipeline.format import format_stopped

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.result import ToolResult
    from ferrule.pipeline.confirm import Asker

EXIT_CODES = {
    ErrorKind.PERMISSION: 3,
    ErrorKind.TIMEOUT: 4,
    ErrorKind.CANCELLED: 130,
}


@click.command(
    "call",
    help=_("Call TOOL with ARGUMENTS, a JSON object; `-` reads it from stdin."),
    epilog=_("Exit codes: 0 done, 1 the tool failed, 2 usage, 3 refused, 4 time-out, 130 interrupted."),
)
@click.argument("tool")
@click.argument("arguments", required=False)
@workspace_option
@permission_options
@click.option("--yes", is_flag=True, help=_("Answer every question with yes; what is denied stays denied."))
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help=_("Seconds the call may run."))
@json_option
def command(
    tool: str,
    arguments: str | None,
    workspace: Path,
    mode: str | None,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    yes: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    loaded = settings_for(workspace, permission_flags(mode, allow, deny))
    if loaded.settings.permissions.mode == "bypass":
        click.echo(_("Mode bypass: everything that is not denied runs without asking."), err=True)
    text = _read_stdin(loaded.settings.limits.argument_bytes) if arguments == "-" else arguments
    try:
        app = App(loaded.settings, workspace.resolve(), ask=_asker(yes), single_call=True)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from None
    result = asyncio.run(_call(app, RawCall(tool, text), timeout))
    _show(result, as_json)
    sys.exit(0 if result.error is None else EXIT_CODES.get(result.error.kind, 1))


async def _call(app: App, call: RawCall, timeout: float | None) -> ToolResult:
    async with app:
        report_broken(app.tools)
        _warm_up(app, call)
        try:
            return await app.runtime.run(call, timeout=timeout)
        except asyncio.CancelledError:  # Ctrl-C: the tool has been stopped, and the call recorded
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            stopped = Stopped(Stage.EXECUTE, ErrorKind.CANCELLED, f"`{call.name}` was interrupted.")
            return format_stopped(call.id, call.name, stopped)


def _warm_up(app: App, call: RawCall) -> None:
    """Compile the tool first, so that the record shows how long the call took and not the start of the program."""
    tool = app.runtime.tools.get(call.name)
    if tool is not None:
        with suppress(TypeError):  # a wrong definition is the call's own error, and is worded there
            _compiled = tool.params


def _show(result: ToolResult, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result.to_dict(), ensure_ascii=False, indent=2))
    elif result.success:
        click.echo(result.llm_content)
    else:
        click.echo(result.llm_content, err=True)


def _asker(yes: bool) -> Asker | None:
    if yes:
        return say_yes
    # A confirmation is never taken from a pipe: whoever fills it is not the person.
    return TerminalAsker() if sys.stdin.isatty() and sys.stderr.isatty() else None


def _read_stdin(most: int) -> Any:
    return sys.stdin.buffer.read(most + 1)
