"""One call on its worker: runs the tool, keeps the lease, carries what the tool says and asks, and ends once."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import contextmanager, nullcontext, suppress
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from ferrule.core.call import Approval, Effects, RawCall
from ferrule.core.context import Caller, Session, ToolContext
from ferrule.core.elicitation import Elicited, set_elicitor
from ferrule.core.errors import ErrorKind, Stage, StoppedError, ToolError
from ferrule.core.events import CallEvent, PartialOutput, Progress
from ferrule.core.loops import start_task
from ferrule.core.phrases import phrase
from ferrule.pipeline.format import format_stopped
from ferrule.pipeline.record import EventQueue
from ferrule.pipeline.stages import Call, Decision, Verdict
from ferrule.remote import wire
from ferrule.remote.link import CLAIM_SECONDS, DONE, NatsLink, NotReachedError
from ferrule.remote.wire import RemoteError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Mapping, Sequence

    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.authorise import Policy
    from ferrule.pipeline.run import Runtime

logger = logging.getLogger("ferrule.remote")

_MOST_STATE = 65_536
_SOON = 0.05
_MOST_ASKED = 1_000_000
"""Questions of one start: those of the next have other numbers, so that none gets an answer to another."""


class RemoteJob:
    def __init__(
        self, link: NatsLink, worker: str, sessions: WorkerSessions, call: wire.RemoteCall, message: Any
    ) -> None:
        self.link, self.worker, self.sessions, self.call, self.message = link, worker, sessions, call, message
        self.nonce = os.urandom(16).hex()
        self.claim = b""
        self.revision = 0
        """Our claim, and which revision it is."""
        self._task: asyncio.Task[ToolResult] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopped = ""
        self._began = 0.0
        self.tries = 1
        """Which start of the call this is."""
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = 0
        self._events = 0

    # From the claim to the end

    async def run(self) -> None:
        """Run the tool and report its result, unless the call has become somebody else's meanwhile."""
        call = self.call
        kept, session = await self.sessions.enter(self)
        before = {**session.state, **deepcopy(call.state)}  # a tool may change what is in a value
        loop = asyncio.get_running_loop()
        self._task = start_task(self._carry_out(session), loop)
        self._began = monotonic()

        def keep_lease() -> None:  # most calls have ended by then, and need none
            self._keeper = asyncio.create_task(self._keep_lease())

        begin = loop.call_later(min(_SOON, self.link.lease / 4), keep_lease)
        try:
            if self._stopped:
                self._task.cancel()
            result = await self._task
        except asyncio.CancelledError:
            if not self._stopped:
                raise
            why = phrase("`{name}` did not finish: {why}.", name=call.tool, why=self._stopped)
            kind = ErrorKind.CANCELLED if self._stopped == _CANCELLED else ErrorKind.EXECUTION
            result = self._ended(why, kind=kind)
        except RemoteError as problem:
            result = self._ended(str(problem))
        finally:
            begin.cancel()
            if self._keeper is not None:
                self._keeper.cancel()
            for waiting in self._asked.values():
                waiting.cancel()
            self.sessions.leave(kept, self)
        changed = _changes(before, session.state)
        if changed is not None:
            kept.shared.update(changed["set"])
        await self._finish(self._packed(result, changed))

    def _packed(self, result: ToolResult, changed: dict[str, Any] | None = None) -> bytes:
        """The end of the call as it is sent; where JSON cannot hold the result, that is what it comes to."""
        try:
            told: dict[str, Any] = {"kind": "done", "result": wire.pack_result(result)}
            return wire.seal(self.call.secret, {**told, "state": changed} if changed else told)
        except (ValueError, RecursionError) as error:  # nested too deeply, say
            return self._packed(self._unsent(f"`{self.call.tool}` ran, but its result could not be sent back.", error))

    async def give_up(self, tries: int) -> None:
        """End a call that ended each worker that began it."""
        name = self.call.tool
        why = phrase("`{name}` was given up: each of {tries} workers that began it died.", name=name, tries=tries)
        look = phrase("Do not try the same call again; look at what the workers' logs say of it.")
        await self._finish(self._packed(self._ended(why, look)))

    def _ended(
        self,
        why: str,
        suggestion: str | None = None,
        stage: Stage = Stage.EXECUTE,
        kind: ErrorKind = ErrorKind.EXECUTION,
    ) -> ToolResult:
        return format_stopped(self.call.call_id, self.call.tool, StoppedError(stage, kind, why, suggestion))

    async def _carry_out(self, session: Session) -> ToolResult:
        """The stages on this side: our own policy may still refuse, and what runs is on our record too."""
        call, link = self.call, self.link
        arguments: Any = call.arguments
        if call.parked:
            where = f"{self.call.key}.a"  # one that is run again needs them again
            arguments = await link.fetch(call.pool, where, call.parked, call.hashed, keep=call.idempotent)
        raw = RawCall(call.tool, arguments, id=call.call_id, version=call.version)
        events, listener = None, None
        if call.watched:
            queue = EventQueue["CallEvent"]({call.call_id})
            events, listener = asyncio.create_task(self._send_events(queue)), queue.put
        runtime = self.sessions.runtime
        view = runtime.for_remote_call(_CallersWord(runtime.policy, call), _CallsBack(self), self._approve, listener)
        set_elicitor(self)
        try:
            with _traced(call.trace):
                return await view.run(raw, session=session, timeout=call.seconds)
        finally:
            if events is not None:
                queue.close()  # pyright: ignore[reportPossiblyUnboundVariable]
                with suppress(asyncio.CancelledError):
                    await events

    async def _finish(self, payload: bytes) -> None:
        """Make the result the one outcome of the call: where the claim takes it, the server tells the caller."""
        link, call = self.link, self.call
        if len(payload) > wire.PIECE:
            try:
                if len(payload) > wire.LARGEST:
                    raise RemoteError("too large")
                at = "r" if self.tries == 1 else f"r{self.tries}"  # an earlier start may still be writing its own
                pieces = await link.park(call.pool, f"{self.call.key}.{at}", payload)
                payload = wire.seal(
                    call.secret, {"kind": "done", "parked": pieces, "hash": wire.hash_of(payload), "at": at}
                )
            except RemoteError as problem:
                told = phrase(
                    "`{tool}` ran, but its result of {size} bytes could not be sent back; the limit is {most}.",
                    tool=self.call.tool,
                    size=f"{len(payload):,}",
                    most=f"{wire.LARGEST:,}",
                )
                payload = self._packed(self._unsent(told, problem))
        try:
            revision = await self._settle(DONE + payload)
        except NotReachedError:
            logger.warning("The result of call %s of %s could not be reported", call.call_id, call.tool)
            return
        if revision is None:
            logger.warning("Call %s of %s ended after it was given up; its result is dropped", call.call_id, call.tool)
        if call.idempotent:
            await link.tell(self.message.reply, b"+ACK")
            if revision is not None:
                await link.remove(call.pool, f"{self.call.key}.a", call.parked)

    async def _settle(self, value: bytes) -> int | None:
        """End the claim. That takes a while where the servers choose a leader; the caller hears that we are there."""
        link, call = self.link, self.call
        # Nobody else may run a call that is not idempotent, whatever becomes of this. So both messages go in one, and
        # first the one that somebody waits for.
        along = (self.message.reply, b"+ACK") if not call.idempotent else None

        async def beat() -> None:
            while True:
                await self._caller_listens()
                await asyncio.sleep(link.lease / 4)

        try:
            return await link.set_claim(call.pool, call.key, value, self.revision, along=along)
        except NotReachedError:
            beating = asyncio.create_task(beat())
        try:
            return await link.settle_claim(call.pool, call.key, value, self.revision, monotonic() + 4 * link.lease)
        finally:
            beating.cancel()

    def _unsent(self, told: str, problem: Exception) -> ToolResult:
        call = self.call
        logger.warning("The result of call %s of %s could not be sent: %s", call.call_id, call.tool, problem)
        again = phrase("It has already taken effect; calling it again would repeat it.")
        return self._ended(told, again, Stage.FORMAT)

    # The lease

    async def _keep_lease(self) -> None:
        """Confirm every quarter of the lease that the call runs; stop it when the server or the caller is gone."""
        lease, link = self.link.lease, self.link
        confirmed = caller = renewed = self._began
        while True:
            await asyncio.sleep(lease / 4)
            if monotonic() - confirmed > lease:  # we stood still; another worker may have the call by now
                self.stop(phrase("its worker stood still for {seconds} s", seconds=f"{monotonic() - confirmed:.1f}"))
                return
            try:
                await link.ask(self.message.reply, b"+WPI", timeout=lease / 5)
                confirmed = monotonic()
            except NotReachedError:
                if monotonic() - confirmed > lease * 0.6:
                    self.stop(phrase("its worker lost the connection to the NATS server"))
                    return
                continue
            if monotonic() - renewed > CLAIM_SECONDS / 4:  # the claim must not grow too old while it is in use
                try:
                    revision = await link.settle_claim(
                        self.call.pool, self.call.key, self.claim, self.revision, monotonic() + lease / 4
                    )
                except NotReachedError:
                    continue
                if revision is None:
                    self.stop(phrase("the call was given up"))
                    return
                self.revision, renewed = revision, monotonic()
            if await self._caller_listens():
                caller = monotonic()
            elif monotonic() - caller > lease:
                self.stop(phrase("its caller is gone"))
                return

    async def _caller_listens(self) -> bool:
        beat = wire.seal(self.call.secret, {"kind": "beat", "worker": self.worker})
        try:
            return (await self.link.ask(self.call.reply, beat, timeout=self.link.lease / 5)).data == b"ok"
        except NotReachedError:
            return False

    def stop(self, why: str) -> None:
        """Stop the tool; the call ends with that reason."""
        if not self._stopped:
            self._stopped = why
            if self._task is not None:
                self._task.cancel()

    # What goes to the caller and comes from it

    async def tell(self, told: dict[str, Any]) -> None:
        await self.link.tell(self.call.reply, wire.seal(self.call.secret, told))

    def hear(self, data: bytes) -> None:
        told = wire.unseal(self.call.secret, data)
        if told is None:
            return
        if told["kind"] == "cancel":
            self.stop(_CANCELLED)
        elif told["kind"] == "answer" and (waiting := self._asked.get(told["number"])) and not waiting.done():
            waiting.set_result(told)

    async def ask(self, what: str, given: Any) -> Any:
        """Have the caller do something for the tool, once, however often the message has to be sent."""
        self._numbers += 1
        number, call, link = self._numbers + (self.tries - 1) * _MOST_ASKED, self.call, self.link
        self._asked[number] = waiting = asyncio.get_running_loop().create_future()
        asked = {"kind": "ask", "worker": self.worker, "number": number, "settled": min(self._asked)}
        try:
            if len(payload := wire.seal(call.secret, {**asked, "what": what, "with": given})) > wire.PIECE:
                parked = await link.park(call.pool, f"{self.call.key}.q{number}", payload)
                payload = wire.seal(call.secret, {**asked, "parked": parked, "hash": wire.hash_of(payload)})
            while not waiting.done():
                await link.tell(call.reply, payload)
                await asyncio.wait({waiting}, timeout=link.lease / 2)
            answer = waiting.result()
            if "parked" in answer:
                data = await link.fetch(call.pool, f"{self.call.key}.w{number}", answer["parked"], answer["hash"])
                answer = wire.unseal(call.secret, data) or {"error": "what came is not what was sent"}
        except RemoteError as problem:
            answer = {"error": str(problem)}
        finally:
            del self._asked[number]
        if "error" in answer:
            raise ToolError(phrase("The caller could not be asked: {why}.", why=answer["error"].rstrip(".")))
        return answer["value"]

    async def _approve(self, call: Call, effects: Effects) -> Approval:
        """Whoever stands at the caller decides about what a tried call did; that time is not the call's."""
        context = call.context
        with context.asking_person() if context is not None else nullcontext():
            return Approval(**await self.ask("approve", wire.plain(effects)))

    async def elicit(self, message: str, schema: Mapping[str, Any], *, server: str = "", url: str = "") -> Elicited:
        return Elicited(**await self.ask("elicit", {"message": message, "schema": dict(schema), "url": url}))

    async def _send_events(self, queue: EventQueue[CallEvent]) -> None:
        step = wire.PIECE // 8
        while (event := await queue.next()) is not None:
            shown: list[dict[str, Any]] = []
            if isinstance(event, Progress):
                shown = [{"done": event.done, "total": event.total, "message": event.message}]
            elif isinstance(event, PartialOutput) and isinstance(content := event.content, str):
                shown = [{"content": content[start : start + step]} for start in range(0, max(len(content), 1), step)]
            elif isinstance(event, PartialOutput):
                shown = [{"content": wire.plain(event.content)}]
            for one in shown:
                self._events += 1
                sealed = wire.seal(self.call.secret, {"kind": "event", "number": self._events, **one})
                if len(sealed) <= 2 * wire.PIECE:
                    await self.link.tell(self.call.reply, sealed)


_CANCELLED = phrase("it was cancelled")


@lru_cache(100)
def _authorised(reason: str) -> str:
    return phrase("the caller authorised it: {reason}", reason=reason)


class _CallersWord:
    """What our own policy denies is denied; about the rest the caller's stages have decided."""

    def __init__(self, own: Policy, call: wire.RemoteCall) -> None:
        self._own, self._call = own, call

    def decide(self, invocation: Invocation, session: Session) -> Decision:
        decision = self._own.decide(invocation, session)
        if decision.verdict == Verdict.DENY:
            return decision
        return Decision(Verdict.ALLOW, _authorised(self._call.reason), decision.rule, tentative=self._call.tentative)

    def remember(self, invocation: Invocation, session: Session) -> None:
        """What is always allowed the caller knows."""


class _CallsBack:
    """What a tool calls goes to where its own call was made: through the stages there, and on the record there."""

    def __init__(self, job: RemoteJob) -> None:
        self._job = job

    async def run(
        self, call: RawCall, *, session: Session | None = None, parent: ToolContext | None = None
    ) -> ToolResult:
        told = await self._job.ask("call", _asked_for(call))
        return wire.read_result(told, call.id, call.name)

    async def batch(
        self,
        calls: Sequence[RawCall],
        *,
        session: Session | None = None,
        parent: ToolContext | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> list[ToolResult]:
        asked = {"calls": [_asked_for(one) for one in calls], "given": wire.plain(dict(given or {}))}
        told: list[dict[str, Any]] = await self._job.ask("batch", asked)
        return [wire.read_result(one, one["id"], one["tool"]) for one in told]

    def run_sync(
        self, call: RawCall, *, session: Session | None = None, parent: ToolContext | None = None
    ) -> ToolResult:
        from ferrule.pipeline.tool_loops import run_and_wait

        def start() -> Coroutine[Any, Any, ToolResult]:
            return self.run(call, session=session, parent=parent)

        return run_and_wait(start, "call_sync", parent)


def _asked_for(call: RawCall) -> dict[str, Any]:
    arguments = call.arguments.decode() if isinstance(call.arguments, bytes) else wire.plain(call.arguments)
    return {"name": call.name, "arguments": arguments, "id": call.id, "version": call.version}


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any] | None:
    """What a tool changed of the session's state, where that can travel."""
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    removed = [name for name in before if name not in after]
    if not changed and not removed:
        return None
    told = {"set": wire.plain(changed), "removed": removed}
    return told if len(wire.seal("", told)) <= _MOST_STATE else None


@contextmanager
def _traced(carrier: dict[str, str]) -> Generator[None]:
    """Spans of the worker are below those of the caller."""
    token = None
    with suppress(ModuleNotFoundError):
        if carrier:
            from opentelemetry import context, propagate

            token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        if token is not None:
            context.detach(token)  # pyright: ignore[reportPossiblyUnboundVariable]


# The sessions of a worker: calls of one conversation find its shells, and what it has read, as they left them


_MOST_SESSIONS = 500
_IDLE_SECONDS = 1800.0
SessionKey = tuple[str | None, str | None, str, str]


@dataclass(slots=True)
class KeptSession:
    """A session, and the calls that use it."""

    session: Session
    jobs: list[RemoteJob] = field(default_factory=list[Any])
    shared: set[str] = field(default_factory=set[str])
    """Names in its state that the caller has too."""
    last: float = field(default_factory=monotonic)

    async def complete(self, prompt: str) -> str:
        """Ask the model of the caller; any call of the session knows the way."""
        if not self.jobs:
            raise ToolError(phrase("The call has ended; the model can no longer be asked."))
        return await self.jobs[-1].ask("complete", prompt)


class WorkerSessions:
    """Kept for as long as they are used, and for a while after that; so many at most."""

    def __init__(self, runtime: Runtime, workspace: str) -> None:
        self.runtime = runtime
        self._workspace = Path(workspace) if workspace else runtime.session.workspace
        self._kept: dict[SessionKey, KeptSession] = {}

    async def enter(self, job: RemoteJob) -> tuple[KeptSession, Session]:
        """The session of a call, which must be left again."""
        call = job.call
        workspace = Path(call.workspace) if call.bound else self._workspace
        caller = Caller(call.tenant, call.user, call.role)
        key = call.tenant, call.user, call.session, str(workspace)
        if key not in self._kept:
            await self._make_room()
        kept = self._kept.get(key)
        if kept is None:
            own = self.runtime.session
            session = Session(workspace=workspace, caller=caller, environment=own.environment, id=call.session)
            kept = self._kept[key] = KeptSession(session)
        session = kept.session
        if call.unsent is not None and not kept.jobs:
            for name in kept.shared.difference(call.state, call.unsent):  # the caller has removed it
                session.state.pop(name, None)
            kept.shared.clear()
        kept.shared.update(call.state)
        kept.jobs.append(job)
        session.config = {**self.runtime.session.config, **call.config}  # these may change between two calls
        session.model, session.model_adapter = call.model, kept if call.asks_model else None
        if session.caller != caller:
            session = copy(session)  # the same state under another of the user's roles
            session.caller = caller
        if call.bound and call.directory != call.workspace:
            session.working_directory = Path(call.directory)
        session.state.update(call.state)
        return kept, session

    def leave(self, kept: KeptSession, job: RemoteJob) -> None:
        kept.jobs.remove(job)
        kept.last = monotonic()

    async def _make_room(self) -> None:
        now = monotonic()
        resting = [(key, kept) for key, kept in self._kept.items() if not kept.jobs]
        resting.sort(key=lambda one: one[1].last)
        most = len(self._kept) - _MOST_SESSIONS + 1
        gone = [key for number, (key, kept) in enumerate(resting) if number < most or now - kept.last > _IDLE_SECONDS]
        for session in [self._kept.pop(key).session for key in gone]:
            await _close(session)

    async def close(self) -> None:
        while self._kept:
            await _close(self._kept.popitem()[1].session)


async def _close(session: Session) -> None:
    try:
        await session.close()
    except Exception:
        logger.exception("A session could not be closed")
