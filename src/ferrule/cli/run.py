"""`ferrule run`: one request to the assistant, for scripts. The same agent as in `ferrule chat`, without the talk."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click

from ferrule.app.build import App
from ferrule.cli.ask import asker
from ferrule.cli.models import model_words
from ferrule.cli.options import (
    json_option,
    permission_flags,
    permission_options,
    promise,
    recorded_code,
    report_broken,
    sandbox_flags,
    sandbox_options,
    settings_for,
    warn,
    workspace_option,
)
from ferrule.cli.output import write, write_json_error
from ferrule.cli.piped_input import piped_context, whole_input, with_context
from ferrule.cli.server_talk.questions import TerminalPlace, terminal_ports
from ferrule.cli.since import SECONDS
from ferrule.cli.status_line import CallStatus, StatusLine
from ferrule.cli.words import _, as_error, said_of
from ferrule.process.signals import no_more_on_signal, on_signal

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from ferrule.agent.agent import Agent
    from ferrule.agent.agent_events import TurnEnded
    from ferrule.app.assistant import Resumed
    from ferrule.app.settings import Settings
    from ferrule.cli.run_report import RunReport
    from ferrule.core.model import Model

EXIT_CODES = {"done": 0, "failed": 1, "loop": 1, "limit": 4, "interrupted": 130}
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_TERMINATED, EXIT_HUNG_UP = 143, 129


def assistant_options(command: Any) -> Any:
    """--model, the limits of a turn, --continue and --resume."""
    for option in (
        click.option("--resume", metavar="ID", help=_("Go on with this session.")),
        click.option("--continue", "go_on", is_flag=True, help=_("Go on with the last session of this folder.")),
        click.option("--timeout", type=SECONDS, help=_("Seconds the turn may take, with all its calls.")),
        click.option(
            "--max-cost", type=click.FloatRange(min=0, min_open=True), help=_("US dollars the turn may cost.")
        ),
        click.option("--max-tokens", type=click.IntRange(min=1), help=_("Tokens the turn may use.")),
        click.option("--max-steps", type=click.IntRange(min=1), help=_("Answers of the model the turn may have.")),
        click.option("--model", default="", metavar="NAME", help=_("The model, as provider/name.")),
    ):
        command = option(command)
    return command


def assistant_flags(
    max_steps: int | None, max_tokens: int | None, max_cost: float | None, timeout: float | None
) -> dict[str, Any]:
    """The flags in the settings' own form."""
    given = {"max_steps": max_steps, "max_tokens": max_tokens, "max_cost": max_cost, "max_seconds": timeout}
    flags = {key: value for key, value in given.items() if value is not None}
    return {"assistant": flags} if flags else {}


@click.command(
    "run",
    help=_("Give the assistant a REQUEST and print its answer; `-` reads the request from stdin."),
    epilog=_("What is piped in is context for the request. Calls are shown on stderr; stdout has the answer alone.")
    + "\n\n"
    + _(
        "Exit codes: 0 done, 1 failed, 2 usage, 3 it gave up after a refusal, 4 a limit was reached, "
        "5 done but not on record, 130 interrupted, 143 ended by SIGTERM."
    ),
)
@click.argument("request")
@assistant_options
@workspace_option
@permission_options
@sandbox_options
@click.option("--yes", is_flag=True, help=_("Answer every question with yes; what is denied stays denied."))
@click.option("--quiet", "-q", is_flag=True, help=_("Do not show calls."))
@click.option(
    "--stream-json", is_flag=True, is_eager=True, callback=promise, help=_("Print each event as a line of JSON.")
)
@json_option
def command(
    request: str,
    model: str,
    max_steps: int | None,
    max_tokens: int | None,
    max_cost: float | None,
    timeout: float | None,
    go_on: bool,
    resume: str | None,
    workspace: Path,
    mode: str | None,
    allow: tuple[str, ...],
    ask: tuple[str, ...],
    deny: tuple[str, ...],
    no_sandbox: bool,
    allow_host: tuple[str, ...],
    yes: bool,
    quiet: bool,
    stream_json: bool,
    as_json: bool,
) -> None:
    from ferrule.app.assistant import model_for
    from ferrule.core.model import ModelError

    if as_json and stream_json:
        raise click.UsageError(_("--json and --stream-json exclude each other."))
    text = whole_input() if request == "-" else with_context(request, piped_context())
    if not text.strip():
        raise click.UsageError(_("The request is empty."))
    flags = {
        **permission_flags(mode, allow, ask, deny),
        **sandbox_flags(no_sandbox, allow_host),
        **assistant_flags(max_steps, max_tokens, max_cost, timeout),
    }
    settings = settings_for(workspace, flags).settings
    warn_of_freedom(settings)
    stopping = Stopping()
    resumed = resumed_session(workspace.resolve(), go_on, resume)
    try:  # before servers are waited for: a wrong name is told at once
        chosen = model_for(model or (resumed.saved.model if resumed is not None else ""), settings)
    except ModelError as error:
        if not write_json_error("model_error", str(error)):
            write(as_error(model_words(error)), err=True)
        sys.exit(EXIT_USAGE)
    line = StatusLine()
    place = TerminalPlace(line)
    who = place.sharing(asker(yes, stopping.note_sigterm))
    try:
        app = App(settings, workspace.resolve(), ask=who, ports=terminal_ports(place))
    except (ValueError, OSError) as error:
        raise click.UsageError(said_of(error)) from None
    status = CallStatus(app.tools.servers)
    report = _report(as_json, stream_json, quiet, status)
    work = _run(app, chosen, text, resumed, report, stopping, status, asks=who is not None)
    try:
        code = asyncio.run(work if quiet else _shown(line, status, work))
    except asyncio.CancelledError:
        code = 130
    code = recorded_code(app, code)
    sys.exit(code if stopping.code is None else stopping.code)


async def _shown(line: StatusLine, status: CallStatus, work: Coroutine[Any, Any, int]) -> int:
    async with line.showing(status):
        return await work


async def _run(
    app: App,
    model: Model,
    text: str,
    resumed: Resumed | None,
    report: RunReport,
    stopping: Stopping,
    status: CallStatus,
    *,
    asks: bool,
) -> int:
    from ferrule.agent.agent_events import TurnEnded
    from ferrule.app.assistant import build_assistant
    from ferrule.cli.run_report import LastCalls

    stopping.watch()
    async with app:
        report_broken(app.tools)
        for note in app.notes:
            warn(note)
        if app.tools.servers is not None:
            from ferrule.cli.mcp_state import say_problems

            say_problems(app.tools.servers)
        status.turn_begins()
        assistant = build_assistant(app, model, resumed=resumed, asks=asks)
        stopping.agent = agent = assistant.agent
        last, ended = LastCalls(), None
        report.begin(agent)
        try:
            async with aclosing(agent.run(text)) as events:
                async for event in events:
                    if stopping.asked:  # before there was a turn to stop
                        agent.interrupt()
                    last.show(event)
                    report.show(event)
                    if isinstance(event, TurnEnded):
                        ended = event
        finally:
            await assistant.close()
        if assistant.saved is not None and assistant.saved.problem:
            warn(_("The session could not be saved: {why}").format(why=assistant.saved.problem))
    return _exit_code(ended, last.refused)


def _exit_code(ended: TurnEnded | None, refused: bool) -> int:
    if ended is None:
        return 1
    return EXIT_REFUSED if refused and ended.ending == "done" else EXIT_CODES[ended.ending]


class Stopping:
    """Ctrl-C, SIGTERM and a closed terminal stop the turn, so that calls end, are recorded, and the answer so far is
    printed.

    A second Ctrl-C does not wait for that, and while there is no turn yet there is nothing to wait for.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        """What the program ends with, where a signal ended it."""
        self.asked = False
        self.agent: Agent | None = None

    def note_sigterm(self) -> None:
        self.code = EXIT_TERMINATED

    def watch(self) -> None:
        task = asyncio.current_task()

        def stop() -> None:
            if task is not None and (self.asked or self.agent is None):
                task.cancel()
            self.asked = True
            if self.agent is not None:
                self.agent.interrupt()

        def terminate() -> None:
            self.note_sigterm()
            no_more_on_signal("SIGTERM")  # a second one ends the program at once
            stop()

        def hung_up() -> None:
            if self.code is None:  # the kernel and the shell both say it
                self.code = EXIT_HUNG_UP
                stop()

        on_signal("SIGINT", stop)
        on_signal("SIGTERM", terminate)
        on_signal("SIGHUP", hung_up)


def resumed_session(workspace: Path, go_on: bool, resume: str | None) -> Resumed | None:
    """The session that the flags name; a usage error where there is none."""
    if not go_on and resume is None:
        return None
    if go_on and resume is not None:
        raise click.UsageError(_("--continue and --resume exclude each other."))
    from ferrule.agent.saved_sessions import SessionProblem
    from ferrule.app.assistant import resume as resume_session

    try:
        resumed = resume_session(workspace, resume)
    except SessionProblem as problem:
        raise click.UsageError(said_of(problem)) from None
    if resumed is None:
        raise click.UsageError(_("There is no session of this folder to go on with."))
    return resumed


def warn_of_freedom(settings: Settings) -> None:
    """Say it when nothing holds the assistant back."""
    if settings.permissions.mode == "bypass":
        warn(_("Mode bypass: all that is not denied runs without asking, but for dangerous commands and ask rules."))
    if not settings.sandbox.enabled:
        warn(_("The sandbox is off: commands run unconfined, with all your rights, your network and your secrets."))


def _report(as_json: bool, stream_json: bool, quiet: bool, status: CallStatus) -> RunReport:
    from ferrule.cli.run_report import JsonReport, StreamReport, TextReport

    return JsonReport() if as_json else StreamReport() if stream_json else TextReport(status, quiet=quiet)
