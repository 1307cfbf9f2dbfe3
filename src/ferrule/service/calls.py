"""Calls over HTTP: each is stored, outlives its connection, and ends once.

A call is a row, a task of this instance while it runs, and a line in `work` that says by when somebody else must look
after it. `Upkeep` is that somebody.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass
from time import monotonic, time
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import select, update

from ferrule.core.call import RawCall
from ferrule.core.errors import DefinitionError, StoppedError
from ferrule.core.events import Done, Pending
from ferrule.core.loops import LateTimers
from ferrule.core.tool import Invocation
from ferrule.pipeline.authorise import Verdict, decide
from ferrule.pipeline.confirm import Answer, Choice, foreseen
from ferrule.service.approvals import cancel_stored, hash_arguments, question_of
from ferrule.service.database import DatabaseProblem
from ferrule.service.directory import current_call
from ferrule.service.documents import CANCELLED, cancelled_text, new_id
from ferrule.service.intent_handlers import renamed
from ferrule.service.limits import LimitReached
from ferrule.service.live import LiveCall, can_speak, events_of
from ferrule.service.request_turns import end_approvals, leave_request, pause_request
from ferrule.service.stored_calls import CallNews, StoredCalls, new_call_row
from ferrule.service.tables import calls, work
from ferrule.service.vocabulary import FINISHED
from ferrule.service.writer import SOON_WRITTEN, Along, FinishCall, InsertCalls, UsedKey, find_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence

    from sqlalchemy import Connection

    from ferrule.core.events import CallEvent, Question
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool
    from ferrule.pipeline.authorise import Decision
    from ferrule.service.access import Access, Allowed
    from ferrule.service.approvals import CallApprovals
    from ferrule.service.database import Database
    from ferrule.service.directory import Directory, Principal
    from ferrule.service.feed import EventFeed
    from ferrule.service.limits import Admitted, CallLimits, FairGate, GateTurn
    from ferrule.service.messages import BatchCall, BatchRequest, CallRequest
    from ferrule.service.sessions import Seat, UserSessions
    from ferrule.service.telemetry import ServiceTelemetry
    from ferrule.service.writer import GroupWriter

logger = logging.getLogger("ferrule.service")

_STORE_AGAIN = 1.0
_ANSWERED = FINISHED | {"awaiting_result"}
"""When nobody need wait for a call any longer."""
_EVENTS_AT_ONCE = 8
"""How many a reader holds: one that does not read must not hold all that a call has said."""


class CallProblem(Exception):  # noqa: N818 - reads as what it says
    """A request about calls that cannot be taken; `code` says why to programs."""

    def __init__(self, code: str, message: str, *, call: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.call = call


@dataclass(slots=True)
class Started:
    """Calls that a request made, or that the same request made before."""

    ids: tuple[str, ...]
    batch: str | None = None
    replayed: bool = False
    row: dict[str, Any] | None = None
    """Of a single call that has run to its end meanwhile."""


@dataclass(eq=False)
class Calls:
    """All calls of this instance, and the rows of all others."""

    database: Database
    writer: GroupWriter
    access: Access
    directory: Directory
    sessions: UserSessions
    limits: CallLimits
    gate: FairGate
    approvals: CallApprovals
    lease: float
    feed: EventFeed
    telemetry: ServiceTelemetry | None = None

    def __post_init__(self) -> None:
        self.stored = StoredCalls(self.database)
        self.owner = new_id()
        """This instance, among those that share the database."""
        self.live: dict[str, LiveCall] = {}
        self.draining = False
        self.news = CallNews(self.stored)
        self._timers = LateTimers()

    # Starting

    async def start(
        self, principal: Principal, request: CallRequest, *, request_id: str = "", key: str | None = None,
        told: bool = True, sent: CallRequest | None = None, along: Along = (),
    ) -> Started:  # fmt: skip
        """Take a call; it runs from then on, whatever becomes of the request. `told`: somebody may hear of it before
        its end, and must find it then, also after a crash. `sent` is what the caller sent, where that is not all, and
        `along` what is stored with the call.
        """
        taken = await self._take(principal, request, request_id, key, told=told, sent=sent, along=along)
        if isinstance(taken, Started):
            return taken
        live, running = taken
        self._begin(live, asyncio.get_running_loop().create_task(running))
        return Started((live.id,))

    async def run(
        self, principal: Principal, request: CallRequest, *, request_id: str = "", key: str | None = None,
        wait: float, late: Callable[[dict[str, Any]], None],
    ) -> Started:  # fmt: skip
        """Take a call and run it to its end in the task that asks, which is cheaper than a task of its own. Where it
        takes longer than `wait`, `late` hears of it meanwhile.
        """
        taken = await self._take(principal, request, request_id, key, told=wait < SOON_WRITTEN)
        if isinstance(taken, Started):
            return taken
        live, running = taken
        self._begin(live, cast("asyncio.Task[None]", asyncio.current_task()))
        live.attached = 1

        def wait_no_longer() -> None:
            live.attached -= 1
            live.outlived = True
            late(live.row)

        timer = self._timers.start(wait, wait_no_longer)
        try:
            await running
        finally:
            timer.cancel()
        return Started((live.id,), row=live.row)

    def _begin(self, live: LiveCall, task: asyncio.Task[None]) -> None:
        self.live[live.id] = live
        live.task = task
        self.news.wake(live.id)  # those who waited for it follow it here from now on

    async def _take(
        self,
        principal: Principal,
        request: CallRequest,
        request_id: str,
        key: str | None,
        *,
        told: bool,
        sent: CallRequest | None = None,
        along: Along = (),
    ) -> Started | tuple[LiveCall, Coroutine[Any, Any, None]]:
        """Let a call in, and store it where that must come first; gives what is left to do, or what there was."""
        self._check_open()
        generation = self.directory.generation
        allowed = self.access.of(principal)
        entry = allowed.tools.entry(request.tool, request.version)
        tool = entry.tool if entry is not None else None
        repeatable = tool is not None and tool.repeatable
        row = new_call_row(
            principal, tool.name if tool else request.tool, request.arguments, request_id,
            version=tool.version if tool else None, pinned=request.version, repeatable=repeatable,
            session=request.session, timeout=request.timeout,
            metadata=json.dumps(request.metadata) if request.metadata else "{}",
            trace=self.telemetry.carried() if self.telemetry is not None else None,
        )  # fmt: skip
        bounds = self.limits.bounds(principal, row["tool"])
        _check_size(row, bounds.argument_bytes)
        live = LiveCall(row, self.writer, bounds.result_bytes)
        fingerprint = _fingerprint(sent or request) if key is not None else ""
        try:
            live.subjects = await self.limits.admit(principal, {row["tool"]: 1})
        except LimitReached:
            if (used := await self._used(principal, key)) is None:
                raise
            return self._replay(used, fingerprint)
        try:
            live.turn = await self.gate.turn(principal.tenant)
            if (now := await self._now(principal, generation, row)) is not principal:
                self.limits.take_back(live.subjects)
                live.leave()
                live.subjects = ()
                return await self._take(now, request, request_id, key, told=told, sent=sent, along=along)
            seat = await self.sessions.seat(principal, allowed, request.session, live.id, allowed.role_for(tool))
        except BaseException:
            self.limits.take_back(live.subjects)
            live.leave()
            raise
        begun = stored = False
        try:
            self._check_open()  # it may have waited for its turn
            call, prepared = self._prepare(live, allowed, seat, tool)
            approval = decision = None
            if isinstance(prepared, Invocation):
                try:
                    if prepared.tool.has_ready:
                        await prepared.ready(seat.session)
                    decision = allowed.policy.decide(prepared, seat.session)
                except (DefinitionError, StoppedError):
                    decision = None  # the pipeline meets what goes wrong here again, and words it
                if decision is not None and decision.verdict is Verdict.ASK and decision.tried != "first":
                    approval = await self._question(live, allowed, seat, prepared, decision)
            inserting = InsertCalls(
                principal.tenant, [row], self.owner, time() + self.lease, key=key, fingerprint=fingerprint, along=along
            )
            if approval is not None:
                row["status"], row["approval"], row["last_seq"] = "awaiting_approval", approval["id"], 2
                inserting.owner, inserting.due = "", approval["expires"]
                inserting.along = (*along, lambda connection: self.approvals.store(connection, approval))
            if key is None and repeatable and not inserting.along and not told:
                self.writer.hold(inserting)
            else:
                used = await self.writer.write(inserting)
                if isinstance(used, UsedKey):
                    return self._replay(used, fingerprint)
            stored = True
            if self.feed.rings:
                self.feed.tell(row, "call.created")
            if approval is not None:
                summary = self.approvals.announce(row, approval)
                row["last_seq"] = 1
                live.say("call.awaiting_approval", {"approval": approval["id"], "summary": summary})
                return Started((live.id,))
            begun = True
            return live, self._run(live, seat, call, prepared, decision)
        finally:
            if not begun:
                (self.limits.release if stored else self.limits.take_back)(live.subjects)
                live.leave()
                await seat.leave()

    async def _now(self, principal: Principal, generation: int, row: Mapping[str, Any]) -> Principal:
        """The caller of such a call as they are by now: it may have waited for its turn. Raises `CallProblem` where
        their credential is none any more.
        """
        if not self.directory.is_outdated(principal, generation):
            return principal
        expires = principal.expires
        found = await self.directory.of_call(row) if expires is None or expires > time() else None
        if found is None:
            raise CallProblem("bad_key", "This credential was revoked or has expired while the call waited.")
        return found if found != principal else principal

    def close(self) -> None:
        """Take no new calls, and keep nobody waiting for what this instance does not run."""
        self.draining = True
        self.approvals.close()
        self.news.wake_all()

    def _check_open(self) -> None:
        if self.draining:
            raise CallProblem("draining", "This instance is about to stop and takes no new calls.")

    def _prepare(
        self, live: LiveCall, allowed: Allowed, seat: Seat, tool: Tool[Any] | None
    ) -> tuple[RawCall, Invocation | StoppedError | None]:
        """The first two stages, so that what asks can be stored before anything runs."""
        row = live.row
        if live.answer is None and tool is not None and not self.sessions.has_hooks and not can_speak(tool):
            live.runtime = seat.view  # it says nothing and asks nothing while it runs
        else:
            live.runtime = seat.runtime.with_tools(
                allowed.tools, ask=lambda question: self.approvals.ask(live, question), listener=live.hear
            )
        call = raw_call(row)
        try:
            prepared = live.runtime.build(call)
        except StoppedError as stopped:
            return call, stopped
        except Exception:  # noqa: BLE001 - a tool's own fault, which the pipeline meets again and words
            return call, None
        prepared.session = seat.session
        return call, prepared

    async def _question(
        self, live: LiveCall, allowed: Allowed, seat: Seat, prepared: Invocation, decision: Decision
    ) -> dict[str, Any] | None:
        """The approval that such a call needs before it starts; None where it will be refused, or asks later."""
        try:
            if decide(allowed.policy, prepared, seat.session, decision)[1] is not None:
                return None
            if prepared.info.asks_always and prepared.tool.has_preview:  # it is tried first, and asks with the outcome
                return None
            preview = await foreseen(prepared, seat.session)
            question = question_of(prepared, decision, allowed.policy, seat.session, preview)
        except (DefinitionError, StoppedError):  # the pipeline meets it again and words it: nobody is asked in vain
            return None
        return self.approvals.new_row(live.row, prepared, question)

    async def _used(self, principal: Principal, key: str | None) -> UsedKey | None:
        """What a key was used for; a limit that the first request has reached does not keep its answer from anybody."""
        if key is None:
            return None
        tenant, user = principal.tenant, principal.user
        return await self.database.read(tenant, lambda connection: find_key(connection, tenant, user, key))

    async def replayed(self, principal: Principal, sent: CallRequest, key: str | None) -> Started | None:
        """What there was, for a key that was used before."""
        used = await self._used(principal, key)
        return self._replay(used, _fingerprint(sent)) if used is not None else None

    def _replay(self, used: UsedKey, fingerprint: str) -> Started:
        if used.fingerprint != fingerprint:
            raise CallProblem("key_reused", "This Idempotency-Key was used for another request in the last 24 hours.")
        ids = () if used.batch else (used.call,)
        live = self.live.get(used.call)
        if live is not None and live.attached:
            raise CallProblem("key_in_flight", "The first request with this key is still open.", call=used.call)
        return Started(ids, used.call if used.batch else None, replayed=True)

    # Running

    async def _run(
        self, live: LiveCall, seat: Seat, call: RawCall, prepared: Invocation | StoppedError | None,
        decision: Decision | None = None, final: str | None = None,
    ) -> None:  # fmt: skip
        """Take a call to its end. `decision` is what was decided about it just now; `final` is how it ends if that is
        known already, as when its approval expired.
        """
        runtime = live.runtime
        assert runtime is not None  # noqa: S101 - it was prepared
        current_call.set(live.row)
        live.begin()
        if self.feed.rings:
            self.feed.tell(live.row, "call.started")
        try:
            if live.cancelled:
                raise asyncio.CancelledError
            seconds: float | None = live.row["timeout"]
            if isinstance(prepared, Invocation):
                result = await runtime.execute(
                    prepared, call=call, session=seat.session, timeout=seconds, decision=decision
                )
            elif prepared is not None:
                result = await runtime.refuse(call, prepared, session=seat.session)
            else:
                result = await runtime.run(call, session=seat.session, timeout=seconds)
            if live.pause is not None and live.cancelled:
                raise asyncio.CancelledError
            text, status = live.stored_form(result)
            status = final or status
        except asyncio.CancelledError:
            live.pause = None
            text, status = cancelled_text(live.row, live.why_stopped), "cancelled"
        except Exception as error:  # noqa: BLE001 - logged, and told as the failure of the call
            text, status = live.without_result(error)
        finally:
            live.ending = True
            self.limits.release(live.subjects)
            await seat.leave()
        try:
            if live.pause is not None:
                await pause_request(self, live, live.pause)
                return
            if live.left and status == "cancelled":
                await leave_request(self, live)
                return
            if live.resumed and live.journal is not None:
                await end_approvals(self, live)
            await self.finish(live, status, text)
        finally:
            live.leave()

    async def finish(self, live: LiveCall, status: str, text: str) -> None:
        """Store how a call ended, then tell those who wait; what is not stored is not told."""
        row = live.row
        values: dict[str, Any] = {
            "status": status, "result": text, "arguments": row["arguments"],
            "version": row["version"], "approval": row["approval"], "started": row["started"], "finished": time(),
            "started_seq": row["started_seq"], "last_seq": row["last_seq"] + 1, "cost": row["cost"],
        }  # fmt: skip
        paid_by = None
        if row["cost"]:
            paid_by = row["user"], row["key"], row["tool"]
            self.limits.charge(live.subjects, row["tool"], row["cost"])
        ending = FinishCall(live.tenant, live.id, self.owner, values, news=live.outlived, paid_by=paid_by)
        while True:
            try:
                mine = await self.writer.write(ending)
                break
            except DatabaseProblem as problem:
                logger.error("The end of call %s is not stored yet: %s", live.id, problem)  # noqa: TRY400
                await asyncio.sleep(_STORE_AGAIN)
        if mine:
            row.update(values)
            if self.feed.rings:
                self.feed.tell(row, f"call.{status}")
        else:
            found = await self.stored.row(live.tenant, live.id)
            row.update(found or {})
        live.stored = True
        self.live.pop(live.id, None)
        if not mine:
            logger.warning("Call %s ended after its lease was lost; its result is dropped", live.id)
        live.tell()
        self.news.wake(live.id)

    # Batches

    async def start_batch(
        self, principal: Principal, request: BatchRequest, *, request_id: str = "", key: str | None = None
    ) -> Started:
        """Take many calls that may use each other's results; those that do not collide run together."""
        self._check_open()
        generation = self.directory.generation
        allowed = self.access.of(principal)
        batch = new_id()
        tools = [allowed.tools.get(one.tool, one.version) for one in request.calls]
        rows = [
            new_call_row(
                principal, tool.name if tool else one.tool, one.arguments, request_id,
                version=tool.version if tool else None, pinned=one.version, session=request.session, batch=batch,
                position=at, status="queued",
            )
            for at, (one, tool) in enumerate(zip(request.calls, tools, strict=True))
        ]  # fmt: skip
        bounds = [self.limits.bounds(principal, row["tool"]) for row in rows]
        for row, bound in zip(rows, bounds, strict=True):
            _check_size(row, bound.argument_bytes)
        fingerprint = _fingerprint(request) if key is not None else ""
        try:
            subjects = await self.limits.admit(principal, Counter(row["tool"] for row in rows))
        except LimitReached:
            if (used := await self._used(principal, key)) is None:
                raise
            return self._replay(used, fingerprint)
        turn: GateTurn | None = None
        try:
            turn = await self.gate.turn(principal.tenant)
            if (now := await self._now(principal, generation, rows[0])) is not principal:
                self.limits.take_back(subjects)
                turn.release()
                subjects, turn = (), None
                return await self.start_batch(now, request, request_id=request_id, key=key)
            _name_references(request.calls, rows)
            seat = await self.sessions.seat(principal, allowed, request.session, batch, allowed.role_for(None))
        except BaseException:
            self.limits.take_back(subjects)
            if turn is not None:
                turn.release()
            raise
        begun = False
        try:
            self._check_open()  # it may have waited for its turn
            inserting = InsertCalls(
                principal.tenant, rows, self.owner, time() + self.lease, key=key, fingerprint=fingerprint
            )
            used = await self.writer.write(inserting)
            if isinstance(used, UsedKey):
                return self._replay(used, fingerprint)
            lives = [LiveCall(row, self.writer, most.result_bytes) for row, most in zip(rows, bounds, strict=True)]
            for live in lives:
                live.subjects = subjects
            task = asyncio.get_running_loop().create_task(self._run_batch(lives, allowed, seat, subjects))
            task.add_done_callback(lambda _: turn.release())
            for live in lives:
                self.live[live.id] = live
                live.task = task
                self.feed.tell(live.row, "call.created")
            begun = True
            return Started(tuple(live.id for live in lives), batch)
        finally:
            if not begun:
                self.limits.take_back(subjects)
                turn.release()
                await seat.leave()

    async def _run_batch(self, lives: list[LiveCall], allowed: Allowed, seat: Seat, subjects: tuple[Any, ...]) -> None:
        current_call.set(lives[0].row)
        by_id = {live.id: live for live in lives}
        within = dict(by_id)
        finishing: list[asyncio.Task[None]] = []

        def hear(event: CallEvent) -> None:
            live = by_id.get(event.call_id)
            if live is None:  # a call that one of them makes, or one that that makes
                if isinstance(event, Pending) and (made := within.get(event.parent_id or "")) is not None:
                    within[event.call_id] = made
                elif (made := within.get(event.call_id)) is not None:
                    made.hear(event)
            elif isinstance(event, Pending):
                live.begin()
                self.feed.tell(live.row, "call.started")
            elif isinstance(event, Done):
                finishing.append(asyncio.get_running_loop().create_task(self._finish_one(live, event.result)))
            else:
                live.hear(event)

        async def ask(question: Question) -> Answer:
            """Of a call of the batch, or of one that a tool of it makes."""
            asking = by_id.get(question.call_id) or lives[0]
            return await self.approvals.ask(asking, question)

        runtime = seat.runtime.with_tools(allowed.tools, ask=ask, listener=hear)
        for live in lives:
            live.runtime = runtime
        raw = [raw_call(live.row) for live in lives]
        try:
            await runtime.batch(raw, session=seat.session)
        except asyncio.CancelledError:
            pass
        finally:
            runtime.unwanted.difference_update(by_id)
            self.limits.release(subjects)
            await seat.leave()
        await asyncio.gather(*finishing)
        for live in lives:
            if not live.stored:
                await self.finish(live, "cancelled", cancelled_text(live.row, live.why_stopped))

    async def _finish_one(self, live: LiveCall, result: ToolResult) -> None:
        try:
            text, status = live.stored_form(result)
        except Exception as error:  # noqa: BLE001 - logged, and told as the failure of the call
            text, status = live.without_result(error)
        await self.finish(live, status, text)

    # Going on after a decision or a crash

    async def resume(
        self, row: dict[str, Any], principal: Principal, answer: Answer | None, answer_for: str,
        final: str | None = None, admitted: Admitted = (),
    ) -> None:  # fmt: skip
        """Run a stored call that is this instance's by now, as if it had just come in; rights are those of today."""
        try:
            allowed = self.access.of(principal)
            live = LiveCall(row, self.writer, self.limits.bounds(principal, row["tool"]).result_bytes)
            live.subjects = admitted
            live.answer, live.answer_for = answer, answer_for
            tool = allowed.tools.get(row["tool"], row["pinned"])
            seat = await self.sessions.seat(principal, allowed, row["session"], live.id, allowed.role_for(tool))
            live.take_up(await self.stored.events(live.tenant, live.id, 0))
            call, prepared = self._prepare(live, allowed, seat, tool)
            has_begun = answer is None and row["started"] is not None and not row["repeatable"]
            if has_begun and isinstance(
                prepared, Invocation
            ):  # a request: where it asks itself, it was approved before
                live.answer, live.answer_for = Answer(Choice.ONCE), hash_arguments(prepared)
            if answer is not None and isinstance(prepared, Invocation) and hash_arguments(prepared) != answer_for:
                live.answer = Answer(Choice.NO, "what it would do now is not what was approved")
                live.answer_for = hash_arguments(prepared)
            if not row["repeatable"] and not await self._store_start(live):
                self.limits.release(admitted)  # another instance has it by now
                await seat.leave()
                return
            with self.telemetry.resumed(row["trace"]) if self.telemetry is not None else nullcontext():
                running = self._run(live, seat, call, prepared, final=final)
                self._begin(live, asyncio.get_running_loop().create_task(running))
        except BaseException:
            self.limits.release(admitted)
            raise

    async def _store_start(self, live: LiveCall) -> bool:
        """Have it on disk that a call begins, where it is still ours: nobody who takes it over begins it again."""
        live.begin()
        row, owner = live.row, self.owner
        values = {name: row[name] for name in ("status", "started", "started_seq", "last_seq")}
        mine = (calls.c.tenant == live.tenant) & (calls.c.id == live.id)
        line = (work.c.tenant == live.tenant) & (work.c.call == live.id) & (work.c.owner == owner)

        def store(connection: Connection) -> bool:
            if connection.execute(select(work.c.call).where(line).with_for_update()).first() is None:
                return False
            connection.execute(update(calls).where(mine).values(**values))
            return True

        return await self.writer.change(live.tenant, store)

    # Waiting and looking

    async def _wait(self, tenant: str, call: str, seconds: float) -> dict[str, Any] | None:
        """The call once it has ended or wants a result, or as it is after so many seconds."""
        until = monotonic() + seconds
        live = self.live.get(call)
        if live is not None:
            live.attached += 1
            try:
                if not await live.ended(seconds):
                    live.outlived = True
            finally:
                live.attached -= 1
            if not live.paused:
                return live.row
        while True:
            row = await self.stored.row(tenant, call)
            left = until - monotonic()
            if row is None or row["status"] in _ANSWERED or left <= 0 or self.draining:
                return row
            live = self.live.get(call)
            if live is not None:
                return await self._wait(tenant, call, left)
            await self.news.wait(row, left)

    async def find(self, principal: Principal, call: str, seconds: float = 0.0) -> dict[str, Any]:
        """A call that this user may see, after waiting for its end; others do not exist."""
        live = self.live.get(call)
        row = live.row if live is not None else await self.stored.row(principal.tenant, call)
        if row is None or row["tenant"] != principal.tenant or not self._sees(principal, row["user"]):
            raise CallProblem("not_found", f"There is no call `{call}`.")
        if seconds <= 0 or row["status"] in FINISHED:
            return row
        return await self._wait(principal.tenant, call, seconds) or row

    def _sees(self, principal: Principal, user: str) -> bool:
        return user == principal.user or self.access.of(principal).may("calls")

    async def batch(self, principal: Principal, batch: str, seconds: float = 0.0) -> list[dict[str, Any]]:
        """The calls of a batch in their order, once all have ended or so many seconds are over."""
        ids = await self.stored.of_batch(principal.tenant, batch)
        if not ids:
            raise CallProblem("not_found", f"There is no batch `{batch}`.")
        return await self.ended(principal, ids, seconds)

    async def ended(self, principal: Principal, ids: Sequence[str], seconds: float) -> list[dict[str, Any]]:
        until = monotonic() + seconds
        return [await self.find(principal, call, max(0.0, until - monotonic())) for call in ids]

    async def page(
        self, principal: Principal, *, filters: Mapping[str, str], cursor: str | None, most: int
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Calls that this user may see, newest first, and where to read on."""
        user = None if self.access.of(principal).may("calls") else principal.user
        found, following = await self.stored.page(
            principal.tenant, user=user, filters=filters, cursor=cursor, most=most
        )
        # The store does not hear when a call of a batch begins; whoever runs it knows.
        rows = [live.row if (live := self.live.get(row["id"])) is not None else row for row in found]
        return [row for row in rows if filters.get("status") in (None, row["status"])], following

    async def follow(self, principal: Principal, call: str, after: int) -> AsyncIterator[dict[str, Any]]:
        """Events of a call after a number until its end, wherever it runs."""
        row = await self.find(principal, call)
        while True:
            live = self.live.get(call)
            if live is not None:
                async for event in live.follow(after):
                    after = event["id"]
                    yield event
                if not live.paused:
                    return
            row = await self.stored.row(principal.tenant, call) or row
            stored = await self.stored.events(principal.tenant, call, after, _EVENTS_AT_ONCE)
            has_more = len(stored) == _EVENTS_AT_ONCE
            for event in events_of(row, stored, after):
                if has_more and event["id"] > stored[-1]["id"]:
                    break  # it comes after others that are not read yet
                after = event["id"]
                yield event
            if has_more:
                continue
            if row["status"] in FINISHED or self.draining:  # the reader goes on with another instance
                return
            await self.news.wait(row, None, max(after, 1))

    # Cancelling

    async def cancel(self, principal: Principal, call: str) -> dict[str, Any]:
        """Stop a call, wherever it runs; one that has ended is a conflict."""
        row = await self.find(principal, call)
        if row["status"] in FINISHED:
            raise CallProblem("finished", f"The call has {row['status']} already.")
        if (live := self.live.get(call)) is not None:
            self.stop(live)
            return row
        await self.writer.change(principal.tenant, lambda connection: cancel_stored(connection, self.database, row))
        self.news.wake(call)
        row = await self.stored.row(principal.tenant, call) or row
        if row["status"] == "cancelled":
            self.feed.tell(row, "call.cancelled")
        return row

    def stop(self, live: LiveCall, why: str = CANCELLED, *, leave: bool = False) -> None:
        """Stop a call that runs here; its end is stored as that of any other. `leave` has requests whose steps are
        kept go on elsewhere instead.
        """
        live.left = leave and live.journal is not None and not live.cancelled
        if live.left and live.journal is not None:
            live.journal.leave()
        live.cancelled, live.why_stopped = True, why
        if live.row["status"] == "awaiting_approval" and live.row["approval"]:
            self.approvals.wake(live.row["approval"])
        if live.runtime is not None and live.runtime.cancel(live.id):
            return
        if live.row["batch"] and live.runtime is not None:
            live.runtime.unwanted.add(live.id)  # the others go on
        elif live.task is not None and not live.ending:
            live.task.cancel()


def raw_call(row: Mapping[str, Any]) -> RawCall:
    """A stored call as the pipeline takes it: arguments as JSON text, which it reads fastest."""
    text = row["arguments"]
    arguments = text if text.startswith("{") else json.loads(text)
    return RawCall(row["tool"], arguments, id=row["id"], version=row["pinned"])


def _check_size(row: Mapping[str, Any], most: int) -> None:
    """Arguments may be smaller for one tool than the whole body of a request."""
    if most and len(row["arguments"]) > most:
        said = f"The arguments of `{row['tool']}` have {len(row['arguments']):,} bytes, and {most:,} are allowed."
        raise CallProblem("too_large", said)


def _fingerprint(request: CallRequest | BatchRequest) -> str:
    """The same for the same request, however its JSON is laid out."""
    plain = json.dumps([type(request).__name__, request.model_dump()], sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def _name_references(given: Sequence[BatchCall], rows: list[dict[str, Any]]) -> None:
    """Have `{"$ref": "ID.path"}` name the call that was given that id."""
    ids: dict[str, str] = {}
    for one, row in zip(given, rows, strict=True):
        if one.id is not None:
            if one.id in ids:
                raise CallProblem("duplicate_id", f"Two calls of the batch have the id `{one.id}`.")
            ids[one.id] = row["id"]
    if not ids:
        return
    for row in rows:
        row["arguments"] = json.dumps(renamed(json.loads(row["arguments"]), ids))
