"""`ferrule call`: one call through the whole pipeline, from the shell."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from ferrule.app.build import App
from ferrule.cli.ask import asker
from ferrule.cli.attachment_words import attachment_words
from ferrule.cli.options import (
    json_option,
    permission_flags,
    permission_options,
    recorded_code,
    report_broken,
    sandbox_flags,
    sandbox_options,
    settings_for,
    warn,
    workspace_option,
)
from ferrule.cli.output import write, write_json
from ferrule.cli.piped_input import given_arguments
from ferrule.cli.server_talk.questions import TerminalPlace, terminal_ports
from ferrule.cli.since import SECONDS
from ferrule.cli.status_line import CallStatus, StatusLine
from ferrule.cli.words import _, as_error, result_text, said_of
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.core.phrases import phrase, said_by
from ferrule.pipeline.format import format_stopped
from ferrule.process.signals import no_more_on_signal, on_signal

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.result import ToolResult

EXIT_CODES = {
    ErrorKind.PERMISSION: 3,
    ErrorKind.TIMEOUT: 4,
    ErrorKind.CANCELLED: 130,
}
EXIT_TERMINATED, EXIT_HUNG_UP = 143, 129


@click.command(
    "call",
    help=_("Call TOOL with ARGUMENTS, a JSON object; `-` reads it from stdin."),
    epilog=_("`ferrule tools TOOL` shows what a tool takes.")
    + "\n\n"
    + _(
        "Exit codes: 0 done, 1 the tool failed, 2 usage, 3 refused, 4 time-out, 5 done but not on record, "
        "130 interrupted, 143 ended by SIGTERM."
    ),
)
@click.argument("tool")
@click.argument("arguments", required=False)
@workspace_option
@permission_options
@sandbox_options
@click.option("--yes", is_flag=True, help=_("Answer every question with yes; what is denied stays denied."))
@click.option("--timeout", type=SECONDS, help=_("Seconds the call may run."))
@json_option
def command(
    tool: str,
    arguments: str | None,
    workspace: Path,
    mode: str | None,
    allow: tuple[str, ...],
    ask: tuple[str, ...],
    deny: tuple[str, ...],
    no_sandbox: bool,
    allow_host: tuple[str, ...],
    yes: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    flags = {**permission_flags(mode, allow, ask, deny), **sandbox_flags(no_sandbox, allow_host)}
    loaded = settings_for(workspace, flags)
    if loaded.settings.permissions.mode == "bypass":
        warn(_("Mode bypass: all that is not denied runs without asking, but for dangerous commands and ask rules."))
    if not loaded.settings.sandbox.enabled:
        warn(_("The sandbox is off: commands run unconfined, with all your rights, your network and your secrets."))
    text = given_arguments(arguments, loaded.settings.limits.argument_bytes)
    line = StatusLine()
    call, ending, place = RawCall(tool, text), _Ending(), TerminalPlace(line)
    try:
        app = App(
            loaded.settings,
            workspace.resolve(),
            ask=place.sharing(asker(yes, ending.note)),
            single_call=True,
            ports=terminal_ports(place),
        )
    except (ValueError, OSError) as error:
        raise click.UsageError(said_of(error)) from None
    except Exception as error:
        if type(error).__name__ != "AuditError":  # its module is not imported when nothing is recorded
            raise
        _show(_without_record(call, error), as_json)
        sys.exit(2)
    try:
        result = asyncio.run(_call(app, call, timeout, ending, line))
    except asyncio.CancelledError:  # before the call, or after it
        sys.exit(ending.code or EXIT_TERMINATED)
    if app.unrecorded:
        result.metadata.setdefault("unrecorded", str(app.unrecorded))
    _show(result, as_json)
    code = recorded_code(app, 0 if result.error is None else EXIT_CODES.get(result.error.kind, 1))
    sys.exit(code if ending.code is None else ending.code)


class _Ending:
    """Whether SIGTERM came, or the terminal is gone: the call is cancelled as by Ctrl-C, so that the tool is stopped
    and the call recorded.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        """What the program ends with then."""

    def note(self) -> None:
        self.code = EXIT_TERMINATED

    def watch(self) -> None:
        task = asyncio.current_task()

        def cancel() -> None:
            if task is not None:
                task.cancel()

        def end() -> None:
            self.note()
            no_more_on_signal("SIGTERM")  # a second one ends the program at once
            cancel()

        def hung_up() -> None:
            if self.code is None:  # the kernel and the shell both say it
                self.code = EXIT_HUNG_UP
                cancel()

        on_signal("SIGTERM", end)
        on_signal("SIGHUP", hung_up)


def _without_record(call: RawCall, error: Exception) -> ToolResult:
    """A call that did not run because it could not have been recorded."""
    hint = _(
        "Name a place that can be written with FERRULE_DATA or the setting `audit.path`, "
        "or switch the log off: FERRULE_AUDIT_ENABLED=false."
    )
    stopped = Stopped(Stage.RECORD, ErrorKind.UNKNOWN, said_by(error), hint)
    result = format_stopped(call.id, call.name, stopped)
    return replace(result, llm_content=as_error(f"{said_of(error)} {hint}"))


async def _call(app: App, call: RawCall, timeout: float | None, ending: _Ending, line: StatusLine) -> ToolResult:
    ending.watch()
    async with app:
        report_broken(app.tools)
        for note in app.notes:
            warn(note)
        status = CallStatus(app.tools.servers)
        if line.live:
            from ferrule.agent.agent_events import CallAsked

            status.begin(CallAsked(call, ""))
            app.runtime.subscribe(status.hear)
        async with line.showing(status):
            return await _run(app, call, timeout)


async def _run(app: App, call: RawCall, timeout: float | None) -> ToolResult:
    if app.tools.servers is not None:
        from ferrule.cli.mcp_state import say_problems

        await app.tools.servers.start_for(call.name)
        say_problems(app.tools.servers)
    _warm_up(app, call)
    try:
        return await app.runtime.run(call, timeout=timeout)
    except asyncio.CancelledError:  # Ctrl-C: the tool has been stopped, and the call recorded
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        stopped = Stopped(Stage.EXECUTE, ErrorKind.CANCELLED, phrase("`{name}` was interrupted.", name=call.name))
        return format_stopped(call.id, call.name, stopped)


def _warm_up(app: App, call: RawCall) -> None:
    """Compile the tool first, so that the record shows how long the call took and not the start of the program."""
    tool = app.runtime.tools.get(call.name)
    if tool is not None:
        with suppress(TypeError):  # a wrong definition is the call's own error, and is worded there
            _compiled = tool.params


def _show(result: ToolResult, as_json: bool) -> None:
    if as_json:
        write_json(result.to_dict())
    else:
        write(result_text(result), err=not result.success)
        for words in attachment_words(result.attachments):
            write(words, err=True)
