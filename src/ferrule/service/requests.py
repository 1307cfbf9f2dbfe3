"""Requests: an explicit intent, a question answered before, or the model with the caller's tools and intents.

Each request is a call: of the intent's tool, or of `answer_request`, which asks the cache and then the model. So it is
stored, outlives its connection, can be followed, cancelled and repeated safely, and all that it does on its way is
decided and recorded call by call.
"""

from __future__ import annotations

import json
import logging
from asyncio import Lock
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import delete, insert, select

from ferrule.agent.limits import running
from ferrule.agent.turn_log import TurnStateError, shown_hash, to_form
from ferrule.app.settings import SettingsError
from ferrule.core.access import NOTHING
from ferrule.core.call import CallInfo
from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.events import Done
from ferrule.core.model import AssistantMessage, ModelError, TextDelta, ToolResults, UserMessage
from ferrule.core.nearest import nearest
from ferrule.core.result import Output
from ferrule.core.secrets import redact_value
from ferrule.core.tool import Kind, Tool
from ferrule.pipeline.confirm import Answer, Choice
from ferrule.service.answer_cache import may_keep
from ferrule.service.approvals import answer_of
from ferrule.service.calls import CallProblem
from ferrule.service.directory import CALLER_GONE
from ferrule.service.documents import shown_time
from ferrule.service.intents import PREFIX, IntentTool, tool_name
from ferrule.service.live import Pause
from ferrule.service.messages import CallRequest, TimeZone
from ferrule.service.request_turns import (
    RequestJournal,
    add_results,
    approval_id,
    holds,
    read_turn,
    read_waiting,
    take_answers,
)
from ferrule.service.tables import intent_forms, work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from ferrule.agent.agent_events import TurnEnded
    from ferrule.agent.conversation import Conversation
    from ferrule.agent.turn_log import Entry, OpenTurn, WaitingCall
    from ferrule.app.settings import Settings
    from ferrule.core.context import Session, ToolContext
    from ferrule.core.model import Model
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.confirm import Question
    from ferrule.registry.registry import ToolSource
    from ferrule.service.access import Allowed
    from ferrule.service.answer_cache import AnswerCache, KeptAnswer
    from ferrule.service.calls import Calls, Started
    from ferrule.service.directory import Directory, Principal
    from ferrule.service.live import LiveCall
    from ferrule.service.messages import RequestBody

logger = logging.getLogger("ferrule.service")

ANSWER = "answer_request"
FORM_SECONDS = 24 * 3600.0
_LOOK_AGAIN = 0.3
_MISSING_MODEL = "No model is configured, so only explicit intents and answers from before are available."


class AnswerModel:
    """The model that requests in words are answered with, opened when it is first asked."""

    def __init__(self, settings: Settings, model: Model | None = None) -> None:
        self._settings = settings
        self._model = model
        self._given = model is not None

    @property
    def is_set(self) -> bool:
        """Whether there may be one. Without one nothing is answered, nor kept."""
        return self._given or bool(self._settings.service.answers.model or self._settings.model)

    def get(self) -> Model | None:
        """None where none is set; raises `ToolError` where the one that is set cannot be had."""
        if self._model is None:
            from ferrule.app.assistant import NoModelChosen, model_for

            try:
                self._model = model_for(self._settings.service.answers.model, self._settings)
            except NoModelChosen:
                return None
            except (ModelError, SettingsError) as error:
                logger.warning("The model cannot be used: %s", error)
                raise ToolError(
                    "The model of this service cannot be used.",
                    suggestion="Its operator finds the reason in the log. Explicit intents still work.",
                ) from None
        return self._model

    async def close(self) -> None:
        if self._model is not None and not self._given:
            await self._model.close()


SYSTEM = """\
You answer requests of the users of a business system. Today is {today} ({zone}).

- Use the tools to look things up and to do what is asked. Tools named `intent__…` are the ways that this business \
handles a request: prefer one that fits.
- If a tool says that more is needed, ask the user for exactly that.
- Never make up data. If the tools do not give the answer, say so.
- Report what you did and found, briefly and in plain words.{language}"""


def today(zone: str) -> str:
    """The date that the answers of a request are about."""
    from zoneinfo import ZoneInfo

    return datetime.now(UTC if zone == "UTC" else ZoneInfo(zone)).date().isoformat()


def system_words(locale: str, zone: str) -> str:
    """What the model is told before everything else."""
    language = f"\n- Answer in this language: {locale}." if locale else "\n- Answer in the language of the request."
    return SYSTEM.format(today=today(zone), zone=zone, language=language)


class AnswerParams(BaseModel):
    """A request in words."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=20_000, description="The request.")
    locale: str = Field("", max_length=35, description="The language to answer in, such as `en` or `zh-CN`.")
    time_zone: TimeZone = Field("UTC", description="Where the user is, such as `Europe/Berlin`; a day begins there.")
    cache: bool = Field(True, description="Whether an answer from before will do.")


class _Talk:
    """What was said in a named session; one request of it at a time. One that waits is no part of it yet."""

    def __init__(self) -> None:
        from ferrule.agent.conversation import Conversation

        self.conversation = Conversation()
        self.lock = Lock()

    def ended(self, conversation: Conversation, text: str, answer: str) -> None:
        """Add a request that has ended. Of one that others of the session overtook, what was asked and answered."""
        if self.conversation.turn in (0, conversation.turn - 1):
            conversation.journal = None
            self.conversation = conversation
        else:
            self.conversation.turn += 1
            self.conversation.messages += [
                UserMessage(text, turn=self.conversation.turn), AssistantMessage(answer or "(no words)")
            ]  # fmt: skip


class AnswerRequest(Tool[AnswerParams]):
    """Answer a request in words, with the tools and intents of the caller."""

    name = ANSWER
    category = "intents"
    kind = Kind.READONLY  # what it calls is decided call by call
    needs = frozenset({"tenant", "user"})
    may_block = False
    grace = 30.0
    calls_tools = True
    """It is not run again after a crash: its turn goes on from its last step."""

    calls: Calls
    """Set by whoever opens the service, before any call."""

    def __init__(self, directory: Directory, cache: AnswerCache, model: AnswerModel, settings: Settings) -> None:
        super().__init__(timeout=settings.service.answers.seconds)
        self._directory = directory
        self._cache = cache
        self._model = model
        self._settings = settings

    def describe(self, params: AnswerParams, session: Session) -> CallInfo:
        return CallInfo(NOTHING, summary=f"Answer: {params.text}")

    async def run(self, params: AnswerParams, context: ToolContext) -> Output[Any]:
        live = self.calls.live.get(context.call_id)
        if live is None or live.runtime is None:
            raise ToolError("A request cannot be made from within another call.", suggestion="Send it by itself.")
        principal = await self._directory.of_call(live.row)
        if principal is None:
            raise ToolError(CALLER_GONE, kind=ErrorKind.PERMISSION)
        allowed = self.calls.access.of(principal)
        try:
            if live.row["session"] is None:
                return await self._answer_once(params, context, live, principal, allowed)
            talk = context.session.part(_Talk, _Talk)
            async with talk.lock:
                conversation = await self._begin(live, talk.conversation)
                turns = conversation.turn - (conversation.open is not None)
                said = ""
                try:
                    answer, _ = await self._ask(params, context, live, allowed, conversation)
                    said = answer["answer"]
                finally:
                    if live.pause is None and conversation.turn > turns:
                        talk.ended(conversation, params.text, said)
            return _output(answer)
        except TurnStateError as error:
            raise ToolError(error.message) from None
        finally:
            if live.journal is not None:
                live.journal.close()

    async def _begin(self, live: LiveCall, before: Conversation | None = None) -> Conversation:
        """The conversation that a request belongs to, or as far as the request itself has come."""
        from ferrule.agent.conversation import Conversation

        entries: list[Entry] = []
        if live.resumed:
            tenant, call = live.tenant, live.id
            entries = await self.calls.database.read(tenant, lambda connection: read_turn(connection, tenant, call))
        conversation = Conversation(before.messages, turn=before.turn) if before is not None else Conversation()
        if live.row["batch"] is not None:  # its calls have one task, which holds what they wait for
            return conversation
        if entries:
            conversation = Conversation.replay(entries)
        live.journal = conversation.journal = RequestJournal(
            self.calls.writer, live.row, self.calls.owner, len(entries)
        )
        if not entries:
            live.journal.write({"type": "compacted", "messages": [to_form(one) for one in conversation.messages]})
        return conversation

    async def _answer_once(
        self, params: AnswerParams, context: ToolContext, live: LiveCall, principal: Principal, allowed: Allowed
    ) -> Output[Any]:
        """Without a session a question means the same whenever it is asked, so an answer from before may do."""
        conversation = await self._begin(live)
        if conversation.open is not None:
            return _output((await self._ask(params, context, live, allowed, conversation))[0])
        cache, tenant = self._cache, principal.tenant
        scope = await cache.scope(principal, allowed, params.locale, f"{today(params.time_zone)} {params.time_zone}")
        candidate: KeptAnswer | None = None
        if params.cache:
            if (found := await cache.exact(tenant, scope, params.text)) is not None:
                return _output({**found.answer, "route": "cache", "calls": [], "cache": found.document("exact")})
            candidate = await cache.candidate(tenant, scope, params.text)
        model = self._model.get()
        if candidate is not None and model is not None and await cache.confirmed(model, params.text, candidate):
            return _output(
                {**candidate.answer, "route": "cache", "calls": [], "cache": candidate.document("confirmed")}
            )
        similar = candidate.document("similar") if candidate is not None else None
        answer, may_be_kept = await self._ask(params, context, live, allowed, conversation, similar)
        if may_be_kept:
            await cache.put(principal, scope, params.text, answer)
        return _output({**answer, "similar": similar})

    async def _ask(
        self, params: AnswerParams, context: ToolContext, live: LiveCall, allowed: Allowed,
        conversation: Conversation, similar: Mapping[str, Any] | None = None,
    ) -> tuple[dict[str, Any], bool]:  # fmt: skip
        """The model's answer after all its calls, and whether it may be used again. Where a call has to wait, so does
        the request.
        """
        model = self._model.get()
        if model is None:
            raise ToolError(
                _MISSING_MODEL, suggestion="Set `model` in ferrule.toml, or name an `intent`.",
                details={"similar": similar} if similar is not None else None,
            )  # fmt: skip
        from ferrule.agent.agent import Agent
        from ferrule.agent.agent_events import Ending, TurnEnded
        from ferrule.agent.calling import TurnModel
        from ferrule.agent.limits import Meter
        from ferrule.app.assistant import limits_of, tool_search
        from ferrule.app.build import shown_to_models
        from ferrule.builtin.all_tools import TWINS

        questions: dict[str, dict[str, Any]] = {}
        runtime = live.runtime
        assert runtime is not None  # noqa: S101 - it was looked at
        if live.journal is not None:
            runtime = runtime.with_tools(runtime.tools, ask=lambda question: self._ask_later(live, question, questions))
        tools = shown_to_models(self._settings, allowed.tools.filtered(lambda tool: tool.name not in TWINS))
        agent = Agent(
            model, tools, runtime=runtime,
            system=system_words(params.locale, params.time_zone),
            limits=limits_of(self._settings.assistant), conversation=conversation, parent=context,
            search=tool_search(self._settings),
        )  # fmt: skip
        session = context.session
        session.model, session.model_adapter = model.name, TurnModel(model, Meter(agent.limits))
        before = _calls_of(conversation)
        stream = agent.run(params.text)
        if conversation.open is not None:
            stream = agent.resume_run(answers=await self._answers(live, conversation.open))
        done: list[Done] = []
        ended: TurnEnded | None = None
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    context.partial(event.text)
                elif isinstance(event, Done):
                    done.append(event)
                elif isinstance(event, TurnEnded):
                    ended = event
        if ended is not None and ended.ending is Ending.PAUSED and live.journal is not None:
            await live.journal.settled()
            live.pause = Pause(ended.waiting, questions)
            raise ToolError(ended.problem, kind=ErrorKind.DEFERRED)
        if ended is None or ended.ending is not Ending.DONE:
            raise _unfinished(ended)
        calls = before + [{"id": one.call_id, "tool": one.tool, "success": one.result.success} for one in done]
        used = [allowed.everything.get(one.tool) for one in done]
        kept = not before and all(may_keep(tool) for tool in used) and all(one.result.success for one in done)
        return {"answer": ended.text, "route": _route(calls), "calls": calls}, bool(done) and kept

    async def _ask_later(self, live: LiveCall, question: Question, questions: dict[str, dict[str, Any]]) -> Answer:
        """Have the turn wait for an approval of one of its calls. This instance waits where the call could not be made
        from what is kept: a call that a tool makes, one that was tried, and one whose arguments hold a secret.
        """
        turn = running.get()
        calling = turn.calling if turn is not None else None
        row = self.calls.approvals.row_of(live.row, question)
        arguments = json.loads(row["arguments"])
        is_own = calling is not None and question.invocation.call_id in calling.ids
        if not is_own or question.effects is not None or redact_value(arguments) != arguments:
            return await self.calls.approvals.ask(live, question)
        questions[shown_hash(question)] = row
        return Answer(Choice.LATER)

    async def _answers(self, live: LiveCall, turn: OpenTurn) -> dict[str, Answer]:
        """What was decided about the calls that a turn waits for."""
        row, owner = live.row, self.calls.owner
        turn.waiting, decided = await self.calls.writer.change(
            live.tenant, lambda connection: take_answers(connection, row, owner)
        )
        told = {event["data"].get("approval") for event in live.events if event["type"].startswith("approval.")}
        for approval in decided.values():
            said: dict[str, Any] = {"approval": approval.id}
            kind = "approval.expired" if approval.status == "expired" else "approval.decided"
            if approval.status != "expired":
                said["decision"] = "approve" if approval.status == "approved" else "deny"
            if approval.id not in told:
                live.say(kind, said)
            self.calls.feed.tell(row, kind, said)
        return {call: answer_of(approval) for call, approval in decided.items()}


def _calls_of(conversation: Conversation) -> list[dict[str, Any]]:
    """The calls that a turn had made before it went on."""
    if conversation.open is None:
        return []
    results: list[ToolResult] = []
    for message in conversation.messages:
        if isinstance(message, UserMessage) and message.turn == conversation.turn:
            results = []
        elif isinstance(message, ToolResults):
            results += message.results
    results += conversation.open.done.values()
    return [{"id": one.call_id, "tool": one.tool, "success": one.success} for one in results]


def _route(calls: list[dict[str, Any]]) -> str:
    if any(one["tool"].startswith(PREFIX) for one in calls):
        return "intent"
    return "tool" if calls else "words"


def _unfinished(ended: TurnEnded | None) -> ToolError:
    from ferrule.agent.agent_events import Ending

    if ended is None or ended.ending is Ending.INTERRUPTED:
        return ToolError("The request was cancelled.", kind=ErrorKind.CANCELLED)
    said = f"The request was not finished: {ended.problem}"
    helps = "Try again later." if ended.ending is Ending.FAILED else "Ask for less at once."
    return ToolError(said, suggestion=helps, details={"answer": ended.text} if ended.text else None)


def _output(answer: dict[str, Any]) -> Output[Any]:
    return Output(data=answer, llm_content=answer["answer"] or "(no words)")


async def start_request(
    calls: Calls, principal: Principal, body: RequestBody, *, request_id: str, key: str | None
) -> Started:
    """Take a request; it goes on from then, whatever becomes of the connection."""
    if body.intent is None:
        arguments = body.model_dump(include={"text", "locale", "time_zone", "cache"})
        request = CallRequest(tool=ANSWER, arguments=arguments, session=body.session)
    else:
        tool = calls.access.of(principal).tools.get(tool_name(body.intent))
        request = CallRequest(tool=tool_name(body.intent), arguments=body.inputs, session=body.session)
        if body.session is not None and isinstance(tool, IntentTool) and tool.is_form:
            sent = request
            if (replayed := await calls.replayed(principal, sent, key)) is not None:
                return replayed
            while True:
                inputs, store = await _continued(calls, principal, body.session, tool, body.inputs)
                request = CallRequest(tool=sent.tool, arguments=inputs, session=body.session)
                try:
                    return await calls.start(
                        principal, request, request_id=request_id, key=key, sent=sent, along=(store,)
                    )
                except _FormChanged:
                    continue
    return await calls.start(principal, request, request_id=request_id, key=key)


class _FormChanged(Exception):  # noqa: N818 - reads as what it says
    """A form was told something else in the same moment."""


async def _continued(
    calls: Calls, principal: Principal, session: str, tool: IntentTool, given: dict[str, Any]
) -> tuple[dict[str, Any], Callable[[Connection], None]]:
    """What a form has been told in this session so far, and what stores it together with the call that it is told by: a
    call that is not taken changes nothing. It is forgotten once it is complete, and after a day.
    """
    table, now = intent_forms, time()
    mine = (
        (table.c.tenant == principal.tenant) & (table.c.user == principal.user) & (table.c.session == session)
        & (table.c.code == tool.code)
    )  # fmt: skip

    so_far = select(table.c.inputs).where(mine, table.c.updated >= now - FORM_SECONDS)
    found = await calls.database.read(principal.tenant, lambda connection: connection.execute(so_far).scalar())
    inputs: dict[str, Any] = {**(json.loads(found) if found is not None else {}), **given}

    def store(connection: Connection) -> None:
        if connection.execute(so_far.with_for_update()).scalar() != found:
            raise _FormChanged
        if not tool.accepts(inputs):
            return  # the pipeline refuses it, and says why; what was told before still counts
        old = (table.c.tenant == principal.tenant) & (table.c.updated < now - FORM_SECONDS)
        connection.execute(delete(table).where(old | mine))
        if tool.missing(inputs):
            connection.execute(
                insert(table).values(
                    tenant=principal.tenant, user=principal.user, session=session, code=tool.code,
                    inputs=json.dumps(inputs), updated=now,
                )
            )  # fmt: skip

    return inputs, store


def is_request(row: Mapping[str, Any]) -> bool:
    """Whether a call is a request of these."""
    return row["tool"] == ANSWER or row["tool"].startswith(PREFIX)


async def give_results(
    calls: Calls, principal: Principal, call: str, results: Mapping[str, Any], seconds: float
) -> None:
    """Go on with a request that waits for what some of its calls gave; raises `CallProblem`."""
    row = await calls.find(principal, call)
    if not is_request(row):
        raise CallProblem("not_found", f"There is no request `{call}`.")
    if row["user"] != principal.user:
        raise CallProblem("forbidden", "Only the user who made a request can give it results.")
    tenant, until = principal.tenant, monotonic() + seconds
    while True:
        owner, waiting, given = await calls.database.read(tenant, lambda connection: _idle(connection, tenant, call))
        if owner is None:
            raise CallProblem("finished", "The request has ended already.")
        if not owner:
            forms = _checked(call, waiting, given, results, calls.access.of(principal).tools)
            store = partial(_take_results, tenant=tenant, call=call, results=forms)
            if await calls.writer.change(tenant, store):
                return
        # It goes on with other results or with a decision, and waits again soon.
        if monotonic() >= until or calls.draining:
            raise CallProblem("running", "The request is running. Send the results again once it waits for them.")
        await calls.news.wait(row, _LOOK_AGAIN)


def _idle(connection: Connection, tenant: str, call: str) -> tuple[str | None, list[WaitingCall], set[str]]:
    """Which instance works on a request, if one does, and what it waits for."""
    line = select(work.c.owner).where(work.c.tenant == tenant, work.c.call == call)
    return connection.execute(line).scalar(), *read_waiting(connection, tenant, call)


def _checked(
    call: str, waiting: Sequence[WaitingCall], given: set[str], results: Mapping[str, Any], tools: ToolSource
) -> dict[str, Any]:
    """Results as they are kept; raises `CallProblem` for what the request does not wait for."""
    from ferrule.agent.resuming import checked

    by_id = {one.id: one for one in waiting}
    for name in results:
        if name in given:
            raise CallProblem("given", f"The result of `{name}` was given already.")
        if name not in by_id:
            close = nearest(name, by_id, most=1)
            meant = f" Did you mean `{close[0]}`?" if close else ""
            raise CallProblem("unknown_call", f"The request does not wait for a call `{name}`.{meant}")
        if by_id[name].kind == "approval":
            said = f"`{name}` waits for an approval, not for a result: decide `{approval_id(call, by_id[name])}`."
            raise CallProblem("unknown_call", said)
    try:
        return checked(waiting, {}, results, tools)[1]
    except ValueError as error:
        raise CallProblem("result", str(error)) from None


def _take_results(connection: Connection, tenant: str, call: str, results: Mapping[str, Any]) -> bool:
    """Keep the results; False where an instance works on the request now, or others were given in this moment."""
    if not holds(connection, tenant, call, ""):
        return False
    waiting, _ = read_waiting(connection, tenant, call)
    if not results.keys() <= {one.id for one in waiting}:
        return False
    add_results(connection, tenant, call, results)
    return True


async def waiting_of(calls: Calls, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls that a request waits for."""
    tenant, call = row["tenant"], row["id"]
    if row["tool"] != ANSWER or row["status"] not in ("awaiting_approval", "awaiting_result"):
        return []
    waiting, _ = await calls.database.read(tenant, lambda connection: read_waiting(connection, tenant, call))
    return [
        {
            "id": one.id, "tool": one.tool, "arguments": one.arguments, "kind": one.kind, "summary": one.summary,
            "reason": one.reason, "details": one.details,
            "approval": approval_id(call, one) if one.kind == "approval" else None,
        }
        for one in waiting
    ]  # fmt: skip


def request_document(row: Mapping[str, Any], waiting: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A request as its caller sees it, from its call and what that waits for."""
    result: dict[str, Any] = json.loads(row["result"]) if row["result"] else {}
    intent = row["tool"].removeprefix(PREFIX) if row["tool"].startswith(PREFIX) else None
    data: Any = result.get("data")
    error: dict[str, Any] | None = result.get("error")
    document: dict[str, Any] = {
        "id": row["id"], "status": row["status"], "route": None, "intent": intent, "answer": "", "data": None,
        "missing": [], "cache": None, "similar": None, "calls": [], "waiting": list(waiting),
        "approval": row["approval"], "error": error,
        "created_at": shown_time(row["created"]), "finished_at": shown_time(row["finished"]),
    }  # fmt: skip
    if intent is not None:
        document["route"] = "intent"
        if error is not None and error["type"] == ErrorKind.NOT_FOUND and row["tool"] in error["message"]:
            document["error"] = {**error, "message": f"There is no intent `{intent}`.", "suggestion": _LIST}
        elif row["status"] == "succeeded":
            document |= {"answer": result["llm_content"], "data": data}
            if isinstance(data, dict) and set(data) == {"missing", "inputs"}:  # pyright: ignore[reportUnknownArgumentType]
                document |= {"status": "needs_input", "missing": data["missing"], "data": {"inputs": data["inputs"]}}
        return document
    if row["status"] == "succeeded" and isinstance(data, dict):
        return document | data
    if error is not None and isinstance(details := error.get("details"), dict):
        document |= {name: value for name, value in details.items() if name in ("similar", "answer")}  # pyright: ignore[reportUnknownVariableType]
    return document


_LIST = "GET /v1/intents lists those you may use."
