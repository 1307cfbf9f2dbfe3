"""`/mcp`: the same tools for MCP clients, in both eras, under the same keys, roles, limits, approvals and records.

Each credential has an MCP server of its own, which ends with it, so a session can never be used with another one. What
clients call becomes a call of the service like any other. One that needs an approval asks through the client where the
client can and the user may approve it, and waits for somebody else where not. When that takes long, the client is told,
and the same call made again waits on; nothing runs twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import uuid
from contextlib import nullcontext, suppress
from dataclasses import replace
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import ValidationError
from sqlalchemy import delete, insert, select

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.events import PartialOutput, Progress, disguised_in
from ferrule.core.result import ErrorInfo, ToolResult
from ferrule.core.shown_text import shown
from ferrule.mcp_server.asking import (
    MOST_SHOWN,
    QUESTION_SECONDS,
    ShownQuestion,
    ask_in_form,
    change_lines,
    current_peer,
    message_of,
    understood,
)
from ferrule.mcp_server.http import IDLE_SECONDS, RequestBodies
from ferrule.mcp_server.server import McpServer
from ferrule.mcp_server.sessions import ClientSession, follows_tasks
from ferrule.pipeline.confirm import Choice
from ferrule.registry.registry import View
from ferrule.service.approvals import ApprovalProblem, why_not_decide
from ferrule.service.calls import CallProblem
from ferrule.service.database import DatabaseProblem
from ferrule.service.documents import result_of
from ferrule.service.http import Forwarded, RequestProblem
from ferrule.service.limits import LimitReached
from ferrule.service.messages import CallRequest, DecisionRequest
from ferrule.service.sessions import TooManySessions
from ferrule.service.tables import idempotency_keys
from ferrule.service.vocabulary import FINISHED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sqlalchemy import Connection, Row
    from starlette.types import Receive, Scope, Send

    from ferrule.core.events import CallEvent
    from ferrule.mcp_server.asking import Peer, RunningCall
    from ferrule.registry.registry import ToolSource
    from ferrule.service.access import Allowed
    from ferrule.service.directory import Principal
    from ferrule.service.http import ServiceRequest
    from ferrule.service.service import Service

logger = logging.getLogger("ferrule.service")

MOST_CREDENTIALS = 1_000
MOST_SESSIONS = 1_000
"""Of all credentials together; each takes about 50 kB."""
_MOST_OF_ONE = 100
_LOOK_SECONDS = 1.0
_NEEDED = frozenset({"tools", "calls"})
_SILENT = 3
"""Events of a call that said nothing: it was created, started and ended."""
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_INSTRUCTIONS = (
    "Tools that run under the rules of this service. Paths are relative to your workspace there. "
    "Read a file before you edit it. A call may need an approval: where nobody has decided yet, the result says so, "
    "and repeating the same call waits for the decision. Do not work around it."
)


class CredentialEnded(Exception):  # noqa: N818 - reads as what it says
    """The credential of a session is not good any more."""


class ServedTools(View):
    """The tools that a credential shows now, whatever becomes of the rights behind it."""

    def __init__(self, allowed: Allowed) -> None:
        super().__init__(allowed.tools)
        self._changes = 0

    @property
    def revision(self) -> int:
        return (self._changes << 40) + self.source.revision

    def show(self, tools: ToolSource) -> None:
        if self.source is not tools:
            self.source = tools
            self._changes += 1

    def entry(self, name: str, version: str | None = None) -> Any:
        return self.source.entry(name, version)

    def entries(self) -> Any:
        return self.source.entries()


class CredentialServer:
    """The MCP server of one credential, and the tasks of its sessions."""

    def __init__(self, service: Service, principal: Principal, allowed: Allowed) -> None:
        self.service = service
        self.principal = principal
        self.allowed = allowed
        self.requests = 0
        """Those that are being answered."""
        self.used = monotonic()
        self.closing = asyncio.Event()
        self._generation = -1
        self._tools = ServedTools(allowed)
        shown: ToolSource = self._tools
        if service.in_code_mode:
            from ferrule.code.run_code import only_code

            shown = only_code(shown)
        self._server = McpServer(shown, instructions=_INSTRUCTIONS, open_session=lambda: ServiceSession(self))
        self._server.sessions.idle_seconds = IDLE_SECONDS
        most = service.settings.body_bytes
        self._manager = StreamableHTTPSessionManager(
            self._server.sdk, session_idle_timeout=IDLE_SECONDS, max_request_body_size=most, max_sessions=_MOST_OF_ONE
        )
        self._app = RequestBodies(self._manager.handle_request, most)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._serve(started))
        await asyncio.wait({self._task, started}, return_when=asyncio.FIRST_COMPLETED)

    async def _serve(self, started: asyncio.Future[None]) -> None:
        async with self._manager.run():
            started.set_result(None)
            await self.closing.wait()

    @property
    def open_sessions(self) -> int:
        return len(self._manager._server_instances)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self.requests -= 1
            self.used = monotonic()

    def live_as_long_as(self, principal: Principal) -> None:
        """Take the end of a newer token of the same user."""
        mine, theirs = self.principal.expires, principal.expires
        if mine is not None and (theirs is None or theirs > mine):
            self.principal = replace(self.principal, expires=theirs)

    async def current(self) -> Principal:
        """Who the credential speaks for at this moment, with the rights of this moment."""
        directory = self.service.directory
        directory.look_for_changes()
        if self.principal.expires is not None and self.principal.expires <= time():
            raise CredentialEnded
        while self._generation != directory.generation:
            generation = directory.generation
            found = await directory.renewed(self.principal)
            if found is None:
                raise CredentialEnded
            if generation == directory.generation:
                self.principal, self._generation = found, generation
                self.allowed = self.service.access.of(found)
                self._tools.show(self.allowed.tools)
                self._server.changes.look()
        return self.principal

    async def close(self) -> None:
        self.closing.set()
        if self._task is not None:
            await asyncio.wait({self._task})
            if not self._task.cancelled() and (error := self._task.exception()) is not None:
                logger.error("The MCP sessions of a key did not end well", exc_info=error)


class McpEndpoint:
    """The servers of all credentials that use `/mcp` on this instance."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._servers: dict[tuple[str, str, str, frozenset[str]], CredentialServer] = {}
        self._opening = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    async def answer(self, request: ServiceRequest) -> Forwarded:
        """What answers a request of an admitted caller."""
        principal = request.principal
        if missing := sorted(_NEEDED - principal.scopes):
            raise RequestProblem(403, "scope", f"This API key is not for `{missing[0]}`.")
        _refuse_pages(request)
        server = await self._server_of(principal, request.allowed)
        try:
            await server.current()
        except CredentialEnded:
            raise RequestProblem(401, "bad_key", "This API key is unknown, expired or revoked.") from None
        request.scope["ferrule.request_id"] = request.request_id
        return Forwarded(server.answer)

    async def _server_of(self, principal: Principal, allowed: Allowed) -> CredentialServer:
        key = principal.tenant, principal.user, principal.key, principal.scopes
        async with self._opening:
            if self._closed:
                raise RequestProblem(503, "draining", "This instance is about to stop.", headers={"Retry-After": "1"})
            found = self._servers.pop(key, None)
            if found is None:
                await self._make_room()
                found = CredentialServer(self._service, principal, allowed)
                await found.start()
            found.live_as_long_as(principal)
            self._servers[key] = found  # the last used stands last
            if self._looking is None:
                self._looking = asyncio.get_running_loop().create_task(self._look_after())
            return found

    async def _make_room(self) -> None:
        if len(self._servers) >= MOST_CREDENTIALS:
            resting = next((key for key, one in self._servers.items() if not one.requests), None)
            if resting is None:
                raise RequestProblem(503, "sessions", "Too many clients are connected.", headers={"Retry-After": "5"})
            await self._servers.pop(resting).close()
        if sum(one.open_sessions for one in self._servers.values()) >= MOST_SESSIONS:
            raise RequestProblem(503, "sessions", "Too many MCP sessions are open.", headers={"Retry-After": "5"})

    async def _look_after(self) -> None:
        """End servers whose credential is not good any more, or that nobody uses; others learn of new rights."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for key, server in list(self._servers.items()):
                try:
                    await server.current()
                    unused = not server.requests and monotonic() - server.used > IDLE_SECONDS
                except CredentialEnded:
                    unused = True
                except DatabaseProblem as problem:
                    logger.warning("%s", problem)
                    break
                if unused and self._servers.get(key) is server:
                    del self._servers[key]
                    await server.close()

    async def close(self) -> None:
        """End every session; calls that wait for an approval go on waiting in the store."""
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
        servers, self._servers = list(self._servers.values()), {}
        await asyncio.gather(*(server.close() for server in servers))


def _refuse_pages(request: ServiceRequest) -> None:
    """No page of another site speaks for somebody, not even with a key that it has got hold of."""
    origin = request.header(b"origin")
    if origin is None:
        return
    host = origin.partition("://")[2]
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name not in _LOCAL:
        raise RequestProblem(403, "origin", "Requests from web pages are not accepted.")


# A client's calls


class ServiceSession(ClientSession):
    """One client, whose calls are calls of the service."""

    def __init__(self, server: CredentialServer) -> None:
        super().__init__()
        self._server = server
        self._service = server.service
        self._name = f"mcp-{uuid.uuid4().hex}"
        self._listeners: list[Callable[[CallEvent], None]] = []

    def subscribe(self, listener: Callable[[CallEvent], None]) -> Callable[[], None]:
        self._listeners.append(listener)

        def unsubscribe() -> None:
            with suppress(ValueError):
                self._listeners.remove(listener)

        return unsubscribe

    async def end(self) -> None:
        who = self._server.principal
        await self._service.sessions.close_named(who.tenant, who.user, self._name)

    async def run(self, running: RunningCall) -> ToolResult:
        try:
            principal = await self._server.current()
            mark = _mark(principal, running)
            call = await self._left_waiting(principal, mark)
            joined = call is not None
            if call is None:
                starting = asyncio.ensure_future(self._start(running, await self._server.current()))
                try:
                    call = await asyncio.shield(starting)
                except asyncio.CancelledError:  # it is stored by now, or will be
                    await asyncio.shield(self._leave_started(running, principal, mark, starting))
                    raise
        except (CredentialEnded, LimitReached, CallProblem, TooManySessions, DatabaseProblem, ValidationError) as error:
            return _refused(running, error)
        try:
            result = await self._followed(running, principal, call, joined=joined)
        except asyncio.CancelledError:
            await asyncio.shield(self._leave(running, principal, mark, call))
            raise
        except (CallProblem, DatabaseProblem) as error:
            return _refused(running, error)
        if result is None:
            await self._keep_waiting(principal, mark, call)
            return _pending(running, call)
        await self._forget_waiting(principal, mark)
        return result

    async def _start(self, running: RunningCall, principal: Principal) -> str:
        wanted = running.call
        arguments: Any = wanted.arguments
        most = self._service.limits.bounds(principal).argument_bytes
        if most and len(json.dumps(arguments)) > most:
            raise CallProblem("too_large", f"The arguments have more than {most:,} bytes, which this caller may send.")
        request = CallRequest(tool=wanted.name, arguments=arguments, session=self._name)
        peer = current_peer()
        # The task that serves a session is not the one that took the request; and a message may name its own trace.
        scope: Mapping[str, Any] = getattr(peer.context.request, "scope", {}) if peer is not None else {}
        has_trace = peer is not None and "traceparent" in (peer.context.meta or {})
        telemetry = self._service.telemetry
        with telemetry.within(scope) if telemetry is not None and not has_trace else nullcontext():
            started = await self._service.calls.start(
                principal, request, request_id=scope.get("ferrule.request_id", ""), told=False
            )
        return started.ids[0]

    # Until there is something to tell the client

    async def _followed(
        self, running: RunningCall, principal: Principal, call: str, *, joined: bool
    ) -> ToolResult | None:
        """The result of a call; None where it waits for an approval for longer than the client shall. Of one that it
        `joined` the client is told what comes from now on, of its own all.
        """
        calls = self._service.calls
        row = await calls.find(principal, call)
        if row["status"] in FINISHED and (joined or row["last_seq"] <= _SILENT):
            return result_of(json.loads(row["result"]), running.call.id)
        events = calls.follow(principal, call, row["last_seq"] if joined else 1)
        following = _Following(self, running, events)
        if row["status"] == "awaiting_approval" and row["approval"]:
            following.await_approval(row["approval"])
        try:
            return await following.result()
        finally:
            await following.close()

    def tell(self, running: RunningCall, event: Mapping[str, Any]) -> None:
        """Pass on what a call reports."""
        if not self._listeners:
            return
        data, name = event["data"], running.call.name
        if event["type"] == "call.progress":
            told: CallEvent = Progress(running.call.id, name, data["done"], data["total"], data["message"] or "")
        else:
            told = PartialOutput(running.call.id, name, data["content"])
        for listener in list(self._listeners):
            listener(told)

    @property
    def patience(self) -> float:
        """How many seconds a client waits for an approval by somebody else."""
        return self._service.settings.wait

    def may_be_asked(self, peer: Peer | None) -> bool:
        """Whether the user at the other end may approve their own calls, with this key and this client."""
        principal = self._server.principal
        if peer is None or not peer.can_elicit or "approvals" not in principal.scopes:
            return False
        return self._server.allowed.may("approve own")

    async def ask(self, peer: Peer, approval: str) -> None:
        """Have the user decide through the client; where they do not, the approval just stays open."""
        approvals = self._service.approvals
        principal = await self._server.current()
        found = await approvals.find(principal, self._server.allowed, approval)
        if found is None or found.status != "pending" or why_not_decide(found, principal, self._server.allowed):
            return
        question = _shown_question(json.loads(found.question))
        message = message_of(question, _argument_lines(found))
        if len(message) > MOST_SHOWN:
            return
        async with asyncio.timeout(QUESTION_SECONDS):
            said = await ask_in_form(peer, question, message)
        answer = understood(said, question.rule)
        if said.action == "cancel" or answer is None:
            return
        principal = await self._server.current()
        decision = DecisionRequest(
            decision="deny" if answer.choice is Choice.NO else "approve", args_hash=found.args_hash,
            scope="always" if answer.choice is Choice.ALWAYS else "once", reason=answer.reason,
        )  # fmt: skip
        await approvals.decide(principal, self._server.allowed, approval, decision)
        self._service.upkeep.look_now()

    # Calls that clients left while they waited for an approval

    async def _leave_started(
        self, running: RunningCall, principal: Principal, mark: str, starting: asyncio.Future[str]
    ) -> None:
        """The client is gone while its call was about to begin."""
        with suppress(CredentialEnded, LimitReached, CallProblem, TooManySessions, DatabaseProblem, ValidationError):
            await self._leave(running, principal, mark, await starting)

    async def _leave(self, running: RunningCall, principal: Principal, mark: str, call: str) -> None:
        """The client is gone: what it took back is stopped, what waits for an approval may be asked for again."""
        calls = self._service.calls
        ending = self.closed or self._server.closing.is_set() or calls.draining
        with suppress(CallProblem, DatabaseProblem):
            row = await calls.find(principal, call)
            if row["status"] in ("awaiting_approval", "awaiting_result") and (ending or not running.taken_back):
                await self._keep_waiting(principal, mark, call)
            elif row["status"] not in FINISHED:
                await calls.cancel(principal, call)

    async def _left_waiting(self, principal: Principal, mark: str) -> str | None:
        """The call that an identical one has left waiting."""
        query = select(idempotency_keys.c.call).where(*_kept(principal, mark))
        return await self._service.database.read(
            principal.tenant, lambda connection: connection.execute(query).scalar_one_or_none()
        )

    async def _keep_waiting(self, principal: Principal, mark: str, call: str) -> None:
        def keep(connection: Connection) -> None:
            connection.execute(delete(idempotency_keys).where(*_kept(principal, mark)))
            connection.execute(
                insert(idempotency_keys).values(
                    tenant=principal.tenant, user=principal.user, key=_key(mark), fingerprint=mark, call=call,
                    batch=False, created=time(),
                )
            )  # fmt: skip

        await self._service.writer.change(principal.tenant, keep)

    async def _forget_waiting(self, principal: Principal, mark: str) -> None:
        if await self._left_waiting(principal, mark) is not None:
            mine = delete(idempotency_keys).where(*_kept(principal, mark))
            await self._service.writer.execute(principal.tenant, mine)


class _Following:
    """Reads a call's events, and asks for its approval meanwhile."""

    def __init__(self, session: ServiceSession, running: RunningCall, events: AsyncIterator[dict[str, Any]]) -> None:
        self._session = session
        self._running = running
        self._events = events
        self._peer = current_peer()
        self._coming: asyncio.Future[dict[str, Any]] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._until: float | None = None
        self._approval = ""

    async def result(self) -> ToolResult | None:
        while True:
            if self._coming is None:
                self._coming = asyncio.ensure_future(anext(self._events))
            waiting = {self._coming} if self._asking is None else {self._coming, self._asking}
            left = None if self._until is None else max(0.0, self._until - monotonic())
            done, _ = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if self._asking is not None and self._asking in done:
                self._asked()
            if self._coming in done:
                event, self._coming = self._coming.result(), None
                if (result := self._heard(event)) is not None:
                    return result
            elif not done:
                return None

    def _heard(self, event: dict[str, Any]) -> ToolResult | None:
        kind = event["type"]
        if kind == "call.awaiting_approval":
            self.await_approval(event["data"]["approval"])
        elif kind == "call.awaiting_result":
            self._wait_for_others()
        elif kind in ("call.progress", "call.output"):
            self._session.tell(self._running, event)
        elif kind.removeprefix("call.") in FINISHED:
            return result_of(event["data"]["result"], self._running.call.id)
        elif kind in ("approval.decided", "approval.expired", "call.started"):
            self._until = None
            if self._asking is not None:
                self._asking.cancel()
                self._asking = None
        return None

    def await_approval(self, approval: str) -> None:
        if approval == self._approval:
            return
        self._approval = approval
        peer = self._peer
        if peer is not None and self._session.may_be_asked(peer):
            self._asking = asyncio.get_running_loop().create_task(self._session.ask(peer, approval))
        else:
            self._wait_for_others()

    def _asked(self) -> None:
        """The client was asked; where that decided nothing, somebody else may."""
        asking, self._asking = self._asking, None
        error = asking.exception() if asking is not None and not asking.cancelled() else None
        if error is not None and not isinstance(error, (TimeoutError, ToolError, ApprovalProblem, CredentialEnded)):
            logger.error("A client could not be asked for an approval", exc_info=error)
        self._wait_for_others()

    def _wait_for_others(self) -> None:
        if self._peer is None or not follows_tasks(self._peer.context):  # a task may take as long as it likes
            self._until = monotonic() + self._session.patience

    async def close(self) -> None:
        left = {one for one in (self._coming, self._asking) if one is not None}
        for one in left:
            one.cancel()
        if left:
            await asyncio.wait(left)
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()


def _shown_question(question: Mapping[str, Any]) -> ShownQuestion:
    effects: Mapping[str, Any] = question["effects"] or {}
    files = effects.get("files", [])
    every = [
        *effects.get("git", []),
        *(" ".join(filter(None, (one["action"], one["path"], one.get("detail")))) for one in files),
    ]
    return ShownQuestion(
        question["summary"], question["reason"], question["rule"], question["warning"] or None,
        effects=tuple(effects.get("lines", every)), every_line=tuple(every) if effects.get("folded") else (),
        disguised=tuple(disguised_in(question["summary"], (one["path"] for one in files))),
        keeps=bool(effects) and not effects.get("kept_from"), lasting="for you, from now on",
    )  # fmt: skip


def _argument_lines(row: Row[Any]) -> list[str]:
    """All that will run, where the summary does not hold it; indented, so that no line can pass for ours."""
    if preview := json.loads(row.question).get("preview"):
        return change_lines(preview)
    arguments: dict[str, Any] = json.loads(row.arguments)
    if json.dumps(arguments, ensure_ascii=False, separators=(",", ":")) in json.loads(row.question)["summary"]:
        return []
    lines: list[str] = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *more = shown(text).split("\n")
        lines += [f"    {shown(name)}: {first}", *(f"      {line}" for line in more)]
    return lines


def _mark(principal: Principal, running: RunningCall) -> str:
    """The same for the same call of the same credential."""
    call: Any = running.call
    plain = json.dumps([principal.key, call.name, call.arguments], sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def _kept(principal: Principal, mark: str) -> tuple[Any, ...]:
    table = idempotency_keys.c
    return table.tenant == principal.tenant, table.user == principal.user, table.key == _key(mark)


def _key(mark: str) -> str:
    """With a space, which no `Idempotency-Key` of HTTP has: nobody can put another call in its place."""
    return f"mcp {mark}"


def _refused(running: RunningCall, error: Exception) -> ToolResult:
    """A call that was not taken: nothing has run, and nothing is on record."""
    suggestion: str | None = None
    match error:
        case LimitReached():
            said, suggestion = str(error), f"Try again in {max(1, round(error.retry_after))} s."
        case CallProblem():
            said = error.message
        case CredentialEnded():
            said = "The API key of this session is expired or revoked."
        case TooManySessions():
            said, suggestion = "Every session is in use.", "Try again later."
        case ValidationError():
            said = "The name of a tool has 1 to 256 characters."
        case _:
            logger.warning("A call over MCP: %s", error)
            said, suggestion = "The store cannot be reached.", "Try again."
    return _failed(running, ErrorInfo(ErrorKind.EXECUTION, said, suggestion=suggestion))


def _pending(running: RunningCall, call: str) -> ToolResult:
    said = f"`{running.call.name}` has not run yet: it waits for an approval, and nobody has decided so far."
    suggestion = "Repeat the same call to wait for the decision; it runs once at most. Do not work around it."
    return _failed(running, ErrorInfo(ErrorKind.PERMISSION, said, {"call": call}, suggestion))


def _failed(running: RunningCall, error: ErrorInfo) -> ToolResult:
    return ToolResult(running.call.id, running.call.name, False, error.words, error.message, error=error)
