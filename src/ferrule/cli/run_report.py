"""What `ferrule run` writes of a turn: its answer in words, one JSON document, or one JSON line for each event."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from ferrule._version import __version__
from ferrule.agent.agent_events import VERSION, Answered, CallAsked, Compacted, Noted, TurnEnded, call_form, to_form
from ferrule.cli.attachment_words import attachment_words
from ferrule.cli.options import warn
from ferrule.cli.output import write, write_json, write_json_line
from ferrule.cli.words import _, as_error, localised
from ferrule.core.errors import ErrorKind
from ferrule.core.events import Done, Pending
from ferrule.core.model import Preparing, Retrying
from ferrule.core.phrases import joined

if TYPE_CHECKING:
    from ferrule.agent.agent import Agent
    from ferrule.agent.agent_events import AgentEvent
    from ferrule.cli.status_line import CallStatus


class RunReport(Protocol):
    """Sees every event of a turn."""

    def begin(self, agent: Agent) -> None: ...

    def show(self, event: AgentEvent) -> None: ...


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
            self._doing[event.call.id] = said(event)
            self._status.begin(event)
        elif isinstance(event, Done):
            if doing := self._doing.pop(event.call_id, None):
                mark = "✓" if event.result.success else "✗"
                came_of_it = localised(event.result.display_content)
                write(f"{mark} " + _("{what}: {why}").format(what=doing, why=came_of_it), err=True)
                for line in attachment_words(event.result.attachments):
                    write(f"  {line}", err=True)
        elif isinstance(event, Retrying):
            write(
                _("trying again in {seconds} s: {why}").format(
                    seconds=f"{event.seconds:.0f}", why=localised(event.why)
                ),
                err=True,
            )
        elif isinstance(event, Compacted):
            write(_("the conversation was made shorter"), err=True)
        elif isinstance(event, Preparing):
            write(localised(event.text), err=True)
        elif isinstance(event, Noted):
            warn(localised(event.text))
        elif isinstance(event, Answered) and event.message.calls and event.message.text.strip():
            write(event.message.text.strip(), err=True)

    def _end(self, event: TurnEnded) -> None:
        if event.text.strip():
            write(event.text.strip())
        if event.problem:
            write(as_error(localised(joined(" ", [event.problem, event.suggestion]))), err=True)


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
        elif isinstance(event, Noted):
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
            "session_id": agent.session.id,
            "model": agent.model.name,
            "turn": agent.conversation.turn,
            "steps": event.steps,
            "usage": asdict(event.usage),
            "calls": list(self._calls.values()),
            "notes": self._notes,
        }


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


def said(event: CallAsked) -> str:
    """What a call does, in the person's language."""
    return _(event.pattern).format(**event.values) if event.pattern else event.doing
