"""The user's leave, asked for through the client: a form with exactly what will run, or a refusal that helps on."""

from __future__ import annotations

import asyncio
import secrets
import shlex
from abc import ABC, abstractmethod
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import uuid4

from mcp import types
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import is_version_at_least
from pydantic import BaseModel, ValidationError

from ferrule.core.elicitation import Elicited
from ferrule.core.errors import ErrorKind, Stage, StoppedError, ToolError
from ferrule.core.loops import elsewhere, start_task
from ferrule.core.shown_text import cut_counted, shown, shown_row
from ferrule.core.tool import Kind
from ferrule.pipeline.confirm import Answer, Choice

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from mcp.server.context import ServerRequestContext

    from ferrule.core.call import RawCall
    from ferrule.core.events import Question
    from ferrule.core.result import ToolResult
    from ferrule.mcp_server.shown_tools import OutputCheck


# One call in a task of its own, which can outlive the request that began it.


_GATHER_SECONDS = 0.02
"""After a question, how long to wait for the next of the same moment; the tool may be on a loop of its own."""


class OpenQuestion:
    """A request to the client that waits for its answer; `read` turns the answer into what the asker wants."""

    def __init__(self, request: dict[str, Any], read: Callable[[Any], Any]) -> None:
        self.request = request
        self.read = read
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class RunningCall:
    """A call, the questions that it has open, and the request that waits for it now, if one does."""

    def __init__(self, call: RawCall, answers: Mapping[str, Any] | None = None) -> None:
        self.call = call
        self.questions: dict[str, OpenQuestion] = {}
        self.attended_by: ServerRequestContext[Any, Any] | None = None
        self.fits: OutputCheck | None = None
        """What its structured content must fit, if its tool promised any."""
        self.taken_back = False
        """Whether the client wants it no longer, and not just this server."""
        self._given = dict(answers or {})
        self._numbered = 0
        self._used: set[str] = set()
        self._task: asyncio.Task[ToolResult] | None = None
        self._news: asyncio.Future[None] | None = None
        self._giving_up: asyncio.TimerHandle | None = None

    @cached_property
    def id(self) -> str:
        """What nobody can guess; few calls ever need it."""
        return secrets.token_urlsafe(18)

    # Running

    def start(
        self, work: Coroutine[Any, Any, ToolResult], ended: Callable[[RunningCall], None], *, at_once: bool = False
    ) -> None:
        """Begin it. `at_once` runs it up to its first wait, before anybody can listen to what it reports."""
        loop = asyncio.get_running_loop()
        self._task = start_task(work, loop) if at_once else loop.create_task(work)
        self._task.add_done_callback(lambda _: (ended(self), self._wake()))

    @property
    def done(self) -> bool:
        return self._task is not None and self._task.done()

    @property
    def result(self) -> ToolResult | None:
        """What it gave; None where it was stopped. Only when done."""
        task = self._task
        return task.result() if task is not None and task.done() and not task.cancelled() else None

    async def wait(self, seconds: float | None = None) -> None:
        """Until it is done or has a question open, at most so long."""
        loop = asyncio.get_running_loop()
        ends = None if seconds is None else loop.time() + seconds
        while not self.done and not self.questions:
            self._news = loop.create_future()
            if ends is not None and loop.time() >= ends:
                return
            timer = None if ends is None else loop.call_at(ends, self._wake)
            try:
                await self._news
            finally:
                if timer is not None:
                    timer.cancel()
        gathered = 0
        while len(self.questions) > gathered:  # what is asked together goes to the client together
            gathered = len(self.questions)
            await asyncio.sleep(_GATHER_SECONDS)

    async def stop(self) -> None:
        """Cancel it, and wait until it has stopped."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))

    # Questions

    async def ask(self, request: dict[str, Any], read: Callable[[Any], Any], key: str | None = None) -> Any:
        """Open a question and wait for its answer. No key ever stands for two questions of one call."""
        if key is None or key in self._used:
            self._numbered += 1
            key = f"{key or 'question'}_{self._numbered}"
        elif key in self._given:  # a client that kept nothing sends what it was asked along with the call
            with suppress(ValueError):  # what is no answer to this is as if it had not been sent: it is asked
                return read(self._given.pop(key))
        self._used.add(key)
        question = self.questions[key] = OpenQuestion(request, read)
        self._wake()
        try:
            return await question.answer
        finally:
            self.questions.pop(key, None)

    def answer(self, answers: Mapping[str, Any]) -> None:
        """Take what the client sent. What answers nothing that is open is ignored; what cannot be read stays open."""
        for key, given in answers.items():
            question = self.questions.get(key)
            if question is None or question.answer.done():
                continue
            try:
                question.answer.set_result(question.read(given))
            except ValueError:
                continue
            del self.questions[key]

    def give_up_after(self, seconds: float) -> None:
        """Stop it unless somebody takes it up again within that time."""
        self.keep()
        if self._task is not None:
            self._giving_up = asyncio.get_running_loop().call_later(seconds, self._task.cancel)

    def keep(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


# The client at the other end, as a tool or the asker reaches it in the middle of a call, in either era.


R = TypeVar("R", bound=BaseModel)
LACKING = "requiredCapabilities"
"""In an error's details: what the client would have to be able to do."""
Capability = Literal["elicitation", "sampling", "roots"]

_current: ContextVar[Peer | None] = ContextVar("ferrule.mcp_peer", default=None)


def current_peer() -> Peer | None:
    """The client whose call is running; None outside of one."""
    return _current.get()


def set_peer(peer: Peer) -> None:
    _current.set(peer)


class Peer(ABC):
    """What the client can be asked. An `Elicitor` for whoever only wants that."""

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self.context = context
        self._loop = asyncio.get_running_loop()

    @property
    def capabilities(self) -> types.ClientCapabilities:
        return self.context.session.client_capabilities or types.ClientCapabilities()

    @property
    def can_elicit(self) -> bool:
        """Whether it can show the user a form; one that says neither form nor URL means a form."""
        able = self.capabilities.elicitation
        return able is not None and (able.form is not None or able.url is None)

    @property
    def can_open(self) -> bool:
        """Whether it can show the user an address to open."""
        able = self.capabilities.elicitation
        return able is not None and able.url is not None

    async def elicit(
        self, message: str, schema: Mapping[str, Any], key: str | None = None, *, server: str = "", url: str = ""
    ) -> Elicited:
        """Show the user a message and a form; an address as such where the client can show it so."""
        if server:
            message = f"The MCP server {server} asks: {message}"
        params: types.ElicitRequestParams
        if url and self.can_open:
            params = types.ElicitRequestURLParams(message=message, url=url, elicitation_id=uuid4().hex)
        else:
            self.must(self.can_elicit, "elicitation")
            if url:
                message += f"\nOpen this address only if you expect it: {url}"
                schema = {"type": "object", "properties": {}}
            params = types.ElicitRequestFormParams(message=message, requested_schema=dict(schema))
        said = await self.request(types.ElicitRequest(params=params), types.ElicitResult, key)
        return Elicited(said.action, said.content or {})

    async def request(self, request: Any, answer: type[R], key: str | None) -> R:
        """Send a request and read its answer; also for a tool that runs on another loop than the server."""
        sending = self._send(request, answer, key)
        return await (sending if asyncio.get_running_loop() is self._loop else elsewhere(sending, self._loop))

    @abstractmethod
    async def _send(self, request: Any, answer: type[R], key: str | None) -> R: ...

    def must(self, able: bool, what: Capability) -> None:
        """Raise an error that names the capability, where the client lacks it."""
        if not able:
            raise ToolError(
                f"The client cannot do this: it has no `{what}`.",
                suggestion="Use a client that declares this capability, or try another approach.",
                details={LACKING: {what: {}}},
            )


class HandshakePeer(Peer):
    """Asked with a request of our own, which travels beside the call (revisions up to 2025-11-25)."""

    async def _send(self, request: Any, answer: type[R], key: str | None) -> R:
        related = ServerMessageMetadata(related_request_id=self.context.request_id)
        try:
            return await self.context.session.send_request(request, answer, metadata=related)
        except (MCPError, NoBackChannelError) as error:
            raise ToolError(f"The client could not be asked: {error}") from None
        except ValidationError:
            raise ToolError("The client gave an answer that does not fit the question.") from None


class StatelessPeer(Peer):
    """Asked by ending the request, and answered with the next one (2026-07-28)."""

    def __init__(self, context: ServerRequestContext[Any, Any], running: RunningCall) -> None:
        super().__init__(context)
        self._running = running

    async def _send(self, request: Any, answer: type[R], key: str | None) -> R:
        form: dict[str, Any] = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        if request.method == "roots/list":
            form.setdefault("params", {})

        def read(given: Any) -> R:
            plain = given.model_dump(by_alias=True, exclude_none=True) if isinstance(given, BaseModel) else given
            return answer.model_validate(plain, by_name=False)

        return await self._running.ask(form, read, key)


QUESTION_SECONDS = 600.0
"""How long a question may stay unanswered; then the call is refused."""
MOST_SHOWN = 20_000
"""Characters of a question; a client could not show more of it."""
_LONGEST_ROW = 500
_MOST_REASON = 2000
_TITLED = "2025-11-25"
_FILES = "files"


@dataclass(slots=True, frozen=True)
class ShownQuestion:
    """What a form shows of a question, whether a call waits for its answer here or in a store."""

    summary: str
    reason: str
    rule: str
    warning: str | None = None
    covers: str = ""
    not_covers: str = ""
    effects: tuple[str, ...] = ()
    """What the call did when it was tried, a line each."""
    every_line: tuple[str, ...] = ()
    """A line for every file, where `effects` does not name them all: the user can ask for these."""
    disguised: tuple[str, ...] = ()
    """What in it is not what it looks like."""
    keeps: bool = False
    """Whether a yes keeps what was tried, and nothing runs again."""
    lasting: str = "in this session"
    """For how long "always" holds."""

    @classmethod
    def of(cls, question: Question) -> ShownQuestion:
        effects = question.effects
        return cls(
            question.summary,
            question.reason,
            question.rule,
            question.warning,
            question.covers,
            question.not_covers,
            tuple(effects.lines()) if effects is not None else (),
            tuple(effects.every_line) if effects is not None and effects.folded() else (),
            tuple(question.disguises),
            keeps=effects is not None and not effects.barriers,
        )


async def ask_through_client(question: Question) -> Answer:
    """The asker of every session: puts the question to whoever is at the other end of the call that asks."""
    peer = current_peer()
    if peer is None or not peer.can_elicit:
        raise refusal(question, "this client cannot ask the user (it has no form elicitation)")
    shown_question = ShownQuestion.of(question)
    message = message_of(shown_question, change_lines(question.preview))
    if len(message) > MOST_SHOWN:
        raise refusal(question, f"it is too long to be shown to the user in full ({len(message):,} characters)")
    try:
        async with asyncio.timeout(QUESTION_SECONDS):
            said = await ask_in_form(peer, shown_question, message)
    except TimeoutError:
        raise refusal(question, f"the user did not answer within {QUESTION_SECONDS:.0f} seconds") from None
    except ToolError as error:
        raise refusal(question, f"the user could not be asked. {error.message.rstrip('.')}") from None
    if said.action == "cancel":
        raise refusal(question, "the question was closed without an answer")
    if said.action == "decline":
        raise declined(question)
    answer = understood(said, question.rule)
    if answer is None:
        raise refusal(question, "the client's form came back without a valid `answer`")
    return answer


async def ask_in_form(peer: Peer, question: ShownQuestion, message: str) -> Elicited:
    """Ask with a form; a user who wants to see every file is shown them, page by page, and asked again."""
    form, at = form_of(question, peer.context.protocol_version), 0
    while True:
        said = await peer.elicit(message, form)
        if said.action != "accept" or not question.every_line or said.content.get("answer") != _FILES:
            return said
        page, first = [f"{shown(question.reason)}:"], at
        while at < len(question.every_line) and sum(map(len, page)) < MOST_SHOWN // 2:
            page.append(f"  - {cut_counted(shown_row(question.every_line[at]), MOST_SHOWN // 4)}")
            at += 1
        rest = len(question.every_line) - at
        page.append(f"{first + 1:,} to {at:,} of {len(question.every_line):,}{'; the rest follows' if rest else ''}")
        message, at = "\n".join(page), at if rest else 0


def change_lines(preview: str) -> list[str]:
    """What the call would change; nothing for a call of which that cannot be told."""
    if not preview:
        return []
    lines = [f"    {cut_counted(shown(row), _LONGEST_ROW)}" for row in preview.rstrip("\n").split("\n")]
    whole = len(lines)
    while sum(map(len, lines)) > MOST_SHOWN // 2:  # a change must not be too long to be asked about
        del lines[len(lines) // 2 :]
    return [*lines, "    … the rest of the change is not shown here"] if len(lines) < whole else lines


def message_of(question: ShownQuestion, change: Sequence[str] = ()) -> str:
    """Everything the user needs to decide. A call's lines are indented: none can pass for ours."""
    lines = [f"{shown(question.reason)}:", *(f"  {line}" for line in shown(question.summary).split("\n"))]
    lines += [f"  - {shown_row(line)}" for line in question.effects]
    lines += change
    if question.disguised:
        lines.append(f"Warning: it contains {', '.join(question.disguised)}")
    if question.warning:
        lines.append(f"Warning: {shown(question.warning)}")
    if question.rule:
        lines.append(f'"Always" would mean, {question.lasting}: {shown_row(question.rule)}')
        lines += [f"  it covers: {shown_row(question.covers)}"] if question.covers else []
        lines += [f"  it does not cover: {shown_row(question.not_covers)}"] if question.not_covers else []
    return "\n".join(lines)


def form_of(question: ShownQuestion, revision: str) -> dict[str, Any]:
    """One choice, and why not. "Always" is offered only where a rule could be remembered, and the list of every file
    only where the question has not named them all.
    """
    choices = {"once": "Run it once", "no": "Do not run it"}
    if question.keeps:
        choices = {"once": "Keep these changes", "no": "Drop them"}
    if question.rule:
        choices = {"once": choices["once"], "always": f"Always: {shown_row(question.rule)}", "no": choices["no"]}
    if question.every_line:
        choices = {**choices, _FILES: "List every file first"}
    answer: dict[str, Any] = {"type": "string", "title": "Keep these changes?" if question.keeps else "Run it?"}
    if is_version_at_least(revision, _TITLED):
        answer["oneOf"] = [{"const": word, "title": title} for word, title in choices.items()]
    else:
        answer |= {"enum": list(choices), "enumNames": list(choices.values())}
    reason = {"type": "string", "title": "If not: why?", "description": "Sent to the model."}
    return {"type": "object", "properties": {"answer": answer, "reason": reason}, "required": ["answer"]}


def understood(said: Elicited, rule: str) -> Answer | None:
    """What the form says; None for a form whose answer is none of those that were offered."""
    if said.action != "accept":
        return Answer(Choice.NO)
    word = said.content.get("answer")
    if word == "once":
        return Answer(Choice.ONCE)
    if word == "always" and rule:
        return Answer(Choice.ALWAYS)
    if word != "no":
        return None
    reason = said.content.get("reason")
    return Answer(Choice.NO, reason.strip()[:_MOST_REASON] if isinstance(reason, str) else "")


def refusal(question: Question, why: str) -> StoppedError:
    """A call that would ask, where nobody can be asked: what the user can do so that it runs."""
    return _stopped(question, why, _what_allows(question))


def declined(question: Question) -> StoppedError:
    """A no to the whole form. Agents that run without a user say it by themselves, so it may be nobody's."""
    why = "the answer was no, from the user or from a client that runs without one"
    helps = f"Do not try the same call again; try another approach. If the user was not asked: {_what_allows(question)}"
    return _stopped(question, why, helps)


def _stopped(question: Question, why: str, helps: str) -> StoppedError:
    words = f"`{question.invocation.tool.name}` was not run: {question.reason}, and {why}."
    return StoppedError(Stage.CONFIRM, ErrorKind.PERMISSION, words, helps)


def _what_allows(question: Question) -> str:
    rules = question.exact or question.rules or ((question.rule,) if question.rule else ())
    if not rules:
        return "No rule can pre-approve this. Try another approach, or ask the user to run it themselves."
    flags = " ".join(f"--allow {shlex.quote(rule)}" for rule in rules)
    helps = f"The user can allow it where Ferrule is started: `ferrule mcp {flags}`, or with the same in settings."
    if question.invocation.tool.kind is Kind.WRITE:
        helps += " `--mode accept-edits` lets every edit inside the workspace run."
    return helps
