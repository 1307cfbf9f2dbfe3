"""`ferrule call`: one call through the whole pipeline, from the shell."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

import click

from ferrule.app.build import App
from ferrule.cli.completion import complete_tools
from ferrule.cli.options import (
    EXIT_TERMINATED,
    SECONDS,
    SignalExit,
    code_option,
    given_arguments,
    json_option,
    permission_options,
    recorded_code,
    report_broken,
    sandbox_options,
    settings_for,
    warn,
    warn_of_freedom,
    workspace_option,
    yes_option,
)
from ferrule.cli.output import at_a_terminal, attachment_words, write, write_json
from ferrule.cli.status_line import CallStatus, StatusLine
from ferrule.cli.words import _, as_error, result_text, said_of
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.phrases import phrase, said_by
from ferrule.pipeline.format import format_stopped

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from ferrule.cli.server_talk.questions import TerminalPlace
    from ferrule.core.events import Question
    from ferrule.core.result import ToolResult
    from ferrule.mcp_client.server_config import Ports
    from ferrule.pipeline.confirm import Answer

EXIT_CODES = {
    ErrorKind.PERMISSION: 3,
    ErrorKind.TIMEOUT: 4,
    ErrorKind.CANCELLED: 130,
}


@click.command(
    "call",
    help=_("Call TOOL with ARGUMENTS, a JSON object; `-` reads it from stdin."),
    epilog=_("`ferrule tools TOOL` shows what a tool takes.")
    + "\n\n"
    + _(
        "Exit codes: 0 done, 1 the tool failed, 2 usage, 3 refused, 4 timed out, 5 done but not on record, "
        "130 interrupted, 143 ended by SIGTERM."
    ),
)
@click.argument("tool", shell_complete=complete_tools)
@click.argument("arguments", required=False)
@workspace_option
@permission_options
@sandbox_options
@code_option
@yes_option
@click.option("--timeout", type=SECONDS, help=_("Seconds the call may run."))
@click.option("--pool", metavar="NAME", help=_("Run it on a worker of this pool."))
@json_option
def call_command(
    tool: str,
    arguments: str | None,
    workspace: Path,
    yes: bool,
    timeout: float | None,
    pool: str | None,
    as_json: bool,
) -> None:
    settings = settings_for(workspace, {"remote": {"pools": {pool: [tool]}}} if pool else None).settings
    if pool and not settings.remote.url:
        from ferrule.cli.remote import DEV_SECONDS, await_dev_server

        asyncio.run(await_dev_server(settings))
        settings = replace(settings, remote=replace(settings.remote, wait=max(settings.remote.wait, DEV_SECONDS)))
    warn_of_freedom(settings)
    text = given_arguments(arguments, settings.limits.argument_bytes)
    for needed in ("ferrule.pipeline.run", "ferrule.core.function_params"):
        import_module(needed)
    gc.freeze()  # modules and classes alone; looking for garbage among them took a sixth of a call, at its end
    line = StatusLine()
    call, ending = RawCall(tool, text), SignalExit()

    @cache
    def place() -> TerminalPlace:
        """Where something is asked, imported when something is."""
        from ferrule.cli.server_talk.questions import TerminalPlace

        return TerminalPlace(line)

    def ports() -> Ports:
        from ferrule.cli.server_talk.questions import terminal_ports

        return terminal_ports(place())

    def ask(question: Question) -> Awaitable[Answer | str] | Answer | str:
        from ferrule.cli.ask import TerminalAsker, say_yes

        return place().sharing(say_yes if yes else TerminalAsker(ending.note_sigterm))(question)

    try:
        app = App(
            settings,
            workspace.resolve(),
            ask=ask if yes or at_a_terminal() else None,
            single_call=True,
            ports=ports,
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


def _without_record(call: RawCall, error: Exception) -> ToolResult:
    """A call that did not run because it could not have been recorded."""
    hint = _(
        "Set FERRULE_DATA or the setting `audit.path` to a place that can be written, or turn the "
        "log off: FERRULE_AUDIT_ENABLED=false."
    )
    stopped = StoppedError(Stage.RECORD, ErrorKind.UNKNOWN, said_by(error), hint)
    result = format_stopped(call.id, call.name, stopped)
    return replace(result, llm_content=as_error(f"{said_of(error)} {hint}"))


async def _call(app: App, call: RawCall, timeout: float | None, ending: SignalExit, line: StatusLine) -> ToolResult:
    task = asyncio.current_task()
    ending.watch(lambda: task and task.cancel())
    async with app:
        report_broken(app.tools)
        for note in app.notes:
            warn(note)
        status = CallStatus(app.tools)
        if line.live:
            from ferrule.agent.agent_events import CallAsked
            from ferrule.agent.calling import doing

            status.begin(CallAsked(call, *doing(app.runtime.tools.get(call.name), call)))
            app.runtime.subscribe(status.hear)
        async with line.showing(status):
            return await _run(app, call, timeout)


async def _run(app: App, call: RawCall, timeout: float | None) -> ToolResult:
    if app.tools.servers is not None:
        from ferrule.cli.mcp_servers import say_problems

        await app.tools.servers.start_for(call.name)
        say_problems(app.tools.servers)
    # Compile the tool first, so that the record shows how long the call took and not the start of the program.
    tool = app.runtime.tools.get(call.name)
    if tool is not None:
        with suppress(TypeError):  # a wrong definition is the call's own error, and is worded there
            _compiled = tool.params
    try:
        return await app.runtime.run(call, timeout=timeout)
    except asyncio.CancelledError:  # Ctrl-C: the tool has been stopped, and the call recorded
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        stopped = StoppedError(Stage.EXECUTE, ErrorKind.CANCELLED, phrase("`{name}` was interrupted.", name=call.name))
        return format_stopped(call.id, call.name, stopped)


def _show(result: ToolResult, as_json: bool) -> None:
    if as_json:
        write_json(result.to_dict())
    else:
        write(result_text(result), err=not result.success, exact=result.success)
        for words in attachment_words(result.attachments):
            write(words, err=True)
