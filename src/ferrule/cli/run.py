"""`ferrule run`: one request to the assistant, for scripts. The same agent as in `ferrule chat`, without the talk."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ferrule._version import __version__
from ferrule.agent.agent_events import (
    VERSION,
    AgentNotice,
    Answered,
    CallAsked,
    Compacted,
    TurnEnded,
    call_form,
    to_form,
)
from ferrule.app.build import App
from ferrule.cli.ask import asker
from ferrule.cli.chatting.call_view import doing
from ferrule.cli.models import model_words
from ferrule.cli.options import (
    SignalExit,
    assistant_options,
    code_option,
    json_option,
    permission_options,
    piped_context,
    promise,
    recorded_code,
    report_broken,
    resumed_session,
    sandbox_options,
    settings_for,
    warn,
    warn_of_freedom,
    whole_input,
    with_context,
    workspace_option,
    yes_option,
)
from ferrule.cli.output import attachment_words, write, write_json, write_json_error, write_json_line
from ferrule.cli.server_talk.questions import TerminalPlace, terminal_ports
from ferrule.cli.status_line import CallStatus, StatusLine
from ferrule.cli.words import _, as_error, localised, said_of, why_ended
from ferrule.core.errors import ErrorKind
from ferrule.core.events import Done, Pending
from ferrule.core.loops import on_signal
from ferrule.core.model import Preparing, Retrying

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from ferrule.agent.agent import Agent
    from ferrule.agent.agent_events import AgentEvent
    from ferrule.app.assistant import Resumed
    from ferrule.core.model import Model
    from ferrule.core.result import ToolResult


EXIT_CODES = {"done": 0, "failed": 1, "loop": 1, "denied": 3, "limit": 4, "paused": 6, "interrupted": 130}
EXIT_USAGE = 2
EXIT_REFUSED = 3


@click.command(
    "run",
    help=_("Give the assistant a REQUEST and print its answer; `-` reads the request from stdin.")
    + " "
    + _("With --continue or --resume and no REQUEST, a turn that was cut off goes on."),
    epilog=_("Piped input is context for the request. Calls are shown on stderr; stdout has only the answer.")
    + "\n\n"
    + _(
        "Exit codes: 0 done, 1 failed, 2 usage, 3 it gave up after a refusal, 4 a limit was reached, "
        "5 done but not on record, 6 it waits for the result of a deferred tool, 130 interrupted, 143 ended by SIGTERM."
    ),
)
@click.argument("request", default="")
@assistant_options
@workspace_option
@permission_options
@sandbox_options
@code_option
@yes_option
@click.option("--quiet", "-q", is_flag=True, help=_("Do not show calls."))
@click.option(
    "--stream-json", is_flag=True, is_eager=True, callback=promise, help=_("Print each event as a line of JSON.")
)
@json_option
def run_command(
    request: str,
    model: str,
    go_on: bool,
    resume: str | None,
    workspace: Path,
    yes: bool,
    quiet: bool,
    stream_json: bool,
    as_json: bool,
) -> None:
    from ferrule.app.assistant import model_for
    from ferrule.core.model import ModelError

    if as_json and stream_json:
        raise click.UsageError(_("Use either --json or --stream-json, not both."))
    text = whole_input() if request == "-" else with_context(request, piped_context())
    if not text.strip() and not (go_on or resume):
        raise click.UsageError(_("The request is empty."))
    settings = settings_for(workspace).settings
    warn_of_freedom(settings)
    stopping = _Stopping()
    resumed = resumed_session(workspace.resolve(), go_on, resume)
    if not text.strip() and (resumed is None or resumed.conversation.open is None):
        raise click.UsageError(_("The request is empty, and no turn was cut off that could go on."))
    try:  # before servers are waited for: a wrong name is told at once
        chosen = model_for(model or (resumed.saved.model if resumed is not None else ""), settings)
    except ModelError as error:
        if not write_json_error("model_error", str(error)):
            write(as_error(model_words(error)), err=True)
        sys.exit(EXIT_USAGE)
    line = StatusLine()
    place = TerminalPlace(line)
    who = asker(yes, stopping.note_sigterm)
    try:
        app = App(
            settings,
            workspace.resolve(),
            ask=place.sharing(who) if who is not None else None,
            ports=lambda: terminal_ports(place),
        )
    except (ValueError, OSError) as error:
        raise click.UsageError(said_of(error)) from None
    status = CallStatus(app.tools)
    report = JsonReport() if as_json else StreamReport() if stream_json else TextReport(status, quiet=quiet)
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
    stopping: _Stopping,
    status: CallStatus,
    *,
    asks: bool,
) -> int:
    from ferrule.app.assistant import build_assistant

    stopping.watch_all()
    async with app:
        report_broken(app.tools)
        for note in app.notes:
            warn(note)
        if app.tools.servers is not None:
            from ferrule.cli.mcp_servers import say_problems

            say_problems(app.tools.servers)
        status.turn_begins()
        assistant = build_assistant(app, model, resumed=resumed, asks=asks)
        stopping.agent = agent = assistant.agent
        last, ended = LastCalls(), None
        report.begin(agent)
        try:
            happening = agent.run(text) if text.strip() else agent.resume_run()
            async with aclosing(happening) as events:
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
    if ended is None:
        return 1
    return EXIT_REFUSED if last.refused and ended.ending == "done" else EXIT_CODES[ended.ending]


class _Stopping(SignalExit):
    """Ctrl-C and signals stop the turn, so that calls end, are recorded, and the answer so far is printed.

    A second Ctrl-C does not wait for that, and while there is no turn yet there is nothing to wait for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = False
        self.agent: Agent | None = None

    def watch_all(self) -> None:
        task = asyncio.current_task()

        def stop() -> None:
            if task is not None and (self.asked or self.agent is None):
                task.cancel()
            self.asked = True
            if self.agent is not None:
                self.agent.interrupt()

        on_signal("SIGINT", stop)
        self.watch(stop)


class TextReport:
    """Only the answer goes to stdout; what happens on the way to stderr, a line for each call."""

    def __init__(self, status: CallStatus, *, quiet: bool = False) -> None:
        self._status = status
        self._quiet = quiet
        self._doing: dict[str, str] = {}

    def begin(self, agent: Agent) -> None:
        """Nothing is said before something happens."""

    def show(self, event: AgentEvent) -> None:
        if isinstance(event, TurnEnded):
            self._end(event)
        elif self._quiet:
            return
        self._status.hear(event)
        if isinstance(event, CallAsked):
            self._doing[event.call.id] = doing(event)
            self._status.begin(event)
        elif isinstance(event, Done):
            if what := self._doing.pop(event.call_id, None):
                mark = "✓" if event.result.success else "✗"
                write(f"{mark} " + _("{what}: {why}").format(what=what, why=_outcome(event.result)), err=True)
                for line in attachment_words(event.result.attachments):
                    write(f"  {line}", err=True)
        elif isinstance(event, Retrying):
            write(
                _("retrying in {seconds} s: {why}").format(seconds=f"{event.seconds:.0f}", why=localised(event.why)),
                err=True,
            )
        elif isinstance(event, Compacted):
            write(_("the conversation was shortened"), err=True)
        elif isinstance(event, Preparing):
            write(localised(event.text), err=True)
        elif isinstance(event, AgentNotice):
            warn(localised(event.text))
        elif isinstance(event, Answered) and event.message.calls and event.message.text.strip():
            write(event.message.text.strip(), err=True)

    def _end(self, event: TurnEnded) -> None:
        if event.text.strip():
            write(event.text.strip(), exact=True)
        if event.problem:
            write(as_error(why_ended(event)), err=True)


def _outcome(result: ToolResult) -> str:
    """What came of a call, in a row; of wrong arguments the first problem, whole."""
    if result.error is None or result.error.kind is not ErrorKind.VALIDATION:
        return localised(result.display_content)
    head, *problems = localised(result.error.message).splitlines()
    return " ".join([head, *(problem.removeprefix("- ") for problem in problems[:1])])


class StreamReport:
    """Each event as a line of JSON, after a first line that says which form the others have."""

    def begin(self, agent: Agent) -> None:
        write_json_line(
            {
                "type": "start",
                "version": VERSION,
                "ferrule": __version__,
                "session_id": agent.session.id,
                "model": agent.model.name,
                "mode": str(getattr(agent.runtime.policy, "mode", "default")),
                "workspace": str(agent.session.workspace),
                "tools": agent.tools.names(),
            }
        )

    def show(self, event: AgentEvent) -> None:
        write_json_line(to_form(event), last=isinstance(event, TurnEnded))


class JsonReport:
    """One document when the turn is over."""

    def begin(self, agent: Agent) -> None:
        self._agent = agent
        self._calls: dict[str, dict[str, Any]] = {}
        self._notes: list[str] = []

    def show(self, event: AgentEvent) -> None:
        if isinstance(event, CallAsked):
            self._calls[event.call.id] = {**call_form(event.call), "parent_id": None, "result": None}
        elif isinstance(event, Pending) and event.call_id not in self._calls:
            call = {"call_id": event.call_id, "tool": event.tool, "arguments": None, "parent_id": event.parent_id}
            self._calls[event.call_id] = {**call, "result": None}
        elif isinstance(event, Done):
            self._calls[event.call_id]["result"] = event.result.to_dict()
        elif isinstance(event, AgentNotice):
            self._notes.append(event.text)
        elif isinstance(event, TurnEnded):
            write_json(self._document(event))

    def _document(self, event: TurnEnded) -> dict[str, Any]:
        agent = self._agent
        return {
            "ending": event.ending.value,
            "text": event.text,
            "problem": event.problem or None,
            "suggestion": event.suggestion or None,
            "limit": event.limit or None,
            "session_id": agent.session.id,
            "model": agent.model.name,
            "turn": agent.conversation.turn,
            "steps": event.steps,
            "usage": asdict(event.usage),
            "calls": list(self._calls.values()),
            "notes": self._notes,
        }


RunReport: TypeAlias = TextReport | StreamReport | JsonReport
"""Sees every event of a turn."""


class LastCalls:
    """Whether the model's last words came right after a refusal: then the work is likely not done."""

    def __init__(self) -> None:
        self._asked: set[str] = set()
        self.refused = False

    def show(self, event: AgentEvent) -> None:
        if isinstance(event, Answered) and event.message.calls:
            self._asked = {call.id for call in event.message.calls}
            self.refused = False
        elif isinstance(event, Done) and event.call_id in self._asked:
            error = event.result.error
            self.refused = self.refused or (error is not None and error.kind is ErrorKind.PERMISSION)
