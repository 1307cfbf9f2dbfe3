"""Looks after what nobody holds: leases, calls whose instance died, decided and expired approvals, and old rows.

Every unfinished call has a line in `work` with the moment by which somebody must look at it. An instance moves that
moment on for the calls that it runs; whoever finds it passed takes the call over.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, select, update

from ferrule.core.errors import ErrorKind
from ferrule.pipeline.confirm import Answer, Choice
from ferrule.service.approvals import answer_of, end_pending, end_pending_of
from ferrule.service.call_sums import CallSums, remove_left_sums
from ferrule.service.database import DatabaseProblem
from ferrule.service.directory import CALLER_GONE, read_changes
from ferrule.service.documents import end_record, error_text
from ferrule.service.feed import event_within
from ferrule.service.limits import LimitReached
from ferrule.service.live import LiveCall
from ferrule.service.request_turns import goes_on, has_turn
from ferrule.service.tables import approvals, calls, events, idempotency_keys, tenants, turn_entries, work
from ferrule.service.tenant_records import MOST_REMOVED, remove_old_audit
from ferrule.service.vocabulary import FINISHED
from ferrule.service.writer import IDEMPOTENCY_SECONDS, AddAudit

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from ferrule.service.calls import Calls
    from ferrule.service.directory import Directory, Principal
    from ferrule.service.limits import Admitted

logger = logging.getLogger("ferrule.service")

_ROUND_SECONDS = 1.0
_MOST_AT_ONCE = 50
_MOST_ATTEMPTS = 3
"""How often a call that may be repeated is started; one that ends its instance each time must not end all of them."""
_CLEAN_SECONDS = 3600.0
_AGAIN_SECONDS = 5.0
_PLACE_SECONDS = 0.5
"""How long an approved call waits before it looks again for a free place."""
_PAUSED = ("awaiting_approval", "awaiting_result", "queued")
"""How a request stands that waits without an instance, or whose results have come."""
_NOBODY = ""
_LOST = "The service stopped while `{tool}` ran, so it is not known how far it came. It was not run again."


class Upkeep:
    """One task of each instance. Instances never take the same call: a line is claimed in the database."""

    def __init__(self, calls_: Calls, directory: Directory, *, keep_days: float, audit_days: float) -> None:
        self._calls = calls_
        self._directory = directory
        self._keep_days = keep_days
        self._audit_days = audit_days
        self.sums = CallSums(calls_.database, calls_.writer)
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._renewed = 0.0
        self._unknown: set[str] = set()
        """Calls that are this instance's by the store, and that it did not know when it last looked."""
        self._cleaned = monotonic()
        self._checked = directory.generation
        """The generation of rights for which running calls were checked."""

    async def start(self) -> None:
        if self._calls.database.is_sqlite:
            # There is one instance: whatever runs by the store was left by one that ended.
            left = update(work).where(work.c.owner != _NOBODY).values(owner="gone", due=0.0)
            await self._calls.writer.execute("", left)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def hear(self, news: str) -> None:
        """What any instance told; called on the event loop."""
        kind, _, rest = news.partition(":")
        if kind == "changed":
            self._directory.forget()
            self._news.set()
        elif kind == "call":
            self._calls.news.wake(rest)
        elif kind == "cancel" and (live := self._calls.live.get(rest)) is not None:
            self._calls.stop(live)
        elif kind == "approval":
            approval, _, call = rest.partition(":")
            self._calls.approvals.wake(approval)
            self._calls.news.wake(call)
            self._news.set()
        elif kind in ("feed", "watch"):
            self._calls.feed.hear(news)
        elif not news:  # the connection is new: anything may have been missed
            self._calls.feed.missed()
            self._directory.forget()
            self._calls.approvals.wake_all()
            self._news.set()

    def look_now(self) -> None:
        """There is something to take over."""
        self._news.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._round()
            except DatabaseProblem as problem:
                logger.warning("Looking after calls has to wait: %s", problem)
            except Exception:
                logger.exception("Looking after calls failed")
            self._news.clear()
            await event_within(self._news, _ROUND_SECONDS)

    async def _round(self) -> None:
        now = monotonic()
        if now - self._renewed >= self._calls.lease / 3:
            self._renewed = now
            self._unknown = await self._calls.writer.change("", partial(self._renew, known=set(self._calls.live)))
            await self._look_for_cancelled()
        self._directory.noticed(await self._calls.database.read(None, read_changes))
        if self._checked != (generation := self._directory.generation):
            for live in list(self._calls.live.values()):
                if not live.cancelled and await self._directory.of_call(live.row) is None:
                    self._calls.stop(live, CALLER_GONE)
            await self._calls.sessions.close_gone(self._directory)
            self._checked = generation
        while not self._calls.draining:
            claimed = await self._calls.writer.change("", self._claim)
            for tenant, call in claimed:
                try:
                    await self._take_over(tenant, call)
                except Exception:
                    logger.exception("Call %s could not be resumed here; it is tried again", call)
                    later = time() + _AGAIN_SECONDS
                    await self._calls.writer.change(
                        tenant, partial(_set_line, tenant=tenant, call=call, owner="gone", due=later)
                    )
            if len(claimed) < _MOST_AT_ONCE:
                break
        self._calls.feed.renew()
        await self._calls.sessions.close_idle()
        await self.sums.keep_up()
        if now - self._cleaned >= _CLEAN_SECONDS:
            self._cleaned = now
            await self.clean()

    def _renew(self, connection: Connection, known: set[str]) -> set[str]:
        """Keep the calls of this instance, and let go of those that it has not known twice now: they were stored, and
        the answer to that was lost for good, so that whoever made them was told that they are not.
        """
        mine = work.c.owner == self._calls.owner
        lines = set(connection.execute(select(work.c.call).where(mine)).scalars())
        unknown = lines - known
        connection.execute(update(work).where(mine).values(due=time() + self._calls.lease))
        if gone := unknown & self._unknown:
            connection.execute(update(work).where(mine, work.c.call.in_(gone)).values(owner="gone", due=0.0))
        return unknown - gone

    def _claim(self, connection: Connection) -> list[tuple[str, str]]:
        """Take over lines whose moment has passed; those that another instance is taking are skipped."""
        found = connection.execute(
            select(work.c.tenant, work.c.call)
            .where(work.c.due < time(), work.c.owner != self._calls.owner)
            .order_by(work.c.due)
            .limit(_MOST_AT_ONCE)
            .with_for_update(skip_locked=True)
        ).all()
        for tenant, call in found:
            _set_line(connection, tenant, call, self._calls.owner, time() + self._calls.lease)
        return [(tenant, call) for tenant, call in found]

    async def _look_for_cancelled(self) -> None:
        """Heal a notification to cancel that was missed."""
        by_tenant: dict[str, list[str]] = {}
        for live in self._calls.live.values():
            by_tenant.setdefault(live.tenant, []).append(live.id)
        for tenant, ids in by_tenant.items():
            query = select(calls.c.id).where(calls.c.tenant == tenant, calls.c.id.in_(ids), calls.c.cancelling)
            for call in await self._calls.database.read(
                tenant, lambda connection, query=query: connection.execute(query).scalars().all()
            ):
                if (live := self._calls.live.get(call)) is not None and not live.cancelled:
                    self._calls.stop(live)

    # A call that is this instance's by now

    async def _take_over(self, tenant: str, call: str) -> None:
        row, approval, is_turn = await self._calls.database.read(
            tenant, lambda connection: _read(connection, tenant, call)
        )
        if row is None or row["status"] in FINISHED:
            await self._calls.writer.execute(tenant, delete(work).where(work.c.tenant == tenant, work.c.call == call))
            return
        principal = await self._directory.of_call(row)
        if row["cancelling"] or principal is None:
            why = "It was cancelled." if row["cancelling"] else CALLER_GONE
            status = "cancelled" if row["cancelling"] else "failed"
            kind = ErrorKind.CANCELLED if row["cancelling"] else ErrorKind.PERMISSION
            await self._end(row, status, kind, f"`{row['tool']}` did not finish. {why}")
        elif is_turn and row["status"] in _PAUSED and (approval is None or not approval.held):
            if not await self._calls.writer.change(tenant, lambda connection: goes_on(connection, row)):
                return
            if (admitted := await self._let_in(row, principal, "was ready to go on")) is not None:
                await self._calls.resume(row, principal, None, "", admitted=admitted)
        elif not is_turn and row["status"] == "awaiting_approval" and approval is not None and not approval.held:
            await self._go_on(row, principal, approval)
        elif (row["repeatable"] or is_turn) and row["attempts"] < _MOST_ATTEMPTS:
            row["attempts"] += 1
            mine = update(calls).where(calls.c.tenant == tenant, calls.c.id == call)
            await self._calls.writer.execute(tenant, mine.values(attempts=calls.c.attempts + 1))
            admitted = await self._calls.limits.admit_again(principal, row["tool"], begun=True)
            await self._calls.resume(row, principal, None, "", admitted=admitted)
        else:
            # Said once: nobody knows what became of it.
            logger.warning("toolName=%s, toolCallId=%s, tenant=%s: lost", row["tool"], row["id"], tenant)
            suggestion = "Look at what it may have changed before you call it again."
            await self._end(row, "lost", ErrorKind.UNKNOWN, _LOST.format(tool=row["tool"]), suggestion)

    async def _go_on(self, row: dict[str, Any], principal: Principal, approval: Row[Any]) -> None:
        """After a decision, or when nobody took one in time."""
        tenant = row["tenant"]
        if approval.status == "pending" and approval.expires > time():
            await self._calls.writer.change(tenant, lambda connection: _release(connection, approval))
            return
        if approval.status == "pending":  # somebody may decide it in this very moment
            approval = await self._calls.writer.change(
                tenant, lambda connection: end_pending(connection, tenant, approval.id, "expired")
            )
        answer, final = answer_of(approval), "expired" if approval.status == "expired" else None
        admitted: Admitted | None = ()
        if approval.status == "approved":
            tool = self._calls.access.of(principal).tools.get(row["tool"], row["pinned"])
            if tool is not None and tool.version != approval.tool_version:
                answer = Answer(Choice.NO, "the tool is another version than the one that was approved")
            elif (admitted := await self._let_in(row, principal)) is None:
                return
        if final is not None:
            self._calls.feed.tell(row, "approval.expired", {"approval": approval.id})
        else:
            decision = "approve" if approval.status == "approved" else "deny"
            self._calls.feed.tell(row, "approval.decided", {"approval": approval.id, "decision": decision})
        await self._calls.resume(row, principal, answer, approval.args_hash, final, admitted)

    async def _let_in(self, row: dict[str, Any], principal: Principal, ready: str = "was approved") -> Admitted | None:
        """Count an approved call that starts now. Where all places are taken it waits for one, wherever that comes free
        first; money that is spent ends it.
        """
        try:
            return await self._calls.limits.admit_again(principal, row["tool"])
        except LimitReached as reached:
            if reached.limit == "concurrency":  # on any instance, unless it is cancelled meanwhile
                waits = partial(
                    _set_line, tenant=row["tenant"], call=row["id"], owner=_NOBODY, due=time() + _PLACE_SECONDS
                )
                await self._calls.writer.change(row["tenant"], waits)
            else:
                message = f"`{row['tool']}` {ready} and did not start. {reached}"
                await self._end(row, "failed", ErrorKind.PERMISSION, message, "Ask for a higher limit, or try later.")
            return None

    async def _end(
        self, row: dict[str, Any], status: str, kind: ErrorKind, message: str, suggestion: str | None = None
    ) -> None:
        live = LiveCall(row, self._calls.writer)
        live.outlived = True
        tenant, call = row["tenant"], row["id"]
        await self._calls.writer.change(tenant, lambda connection: end_pending_of(connection, tenant, call))
        self._calls.writer.put(AddAudit(tenant, end_record(row, kind, message)))
        await self._calls.finish(live, status, error_text(row, kind.value, message, suggestion))

    async def clean(self) -> None:
        """Remove what is kept for a while alone: idempotency keys, ended calls with their events, old audit rows."""
        found = await self._calls.database.read(
            None, lambda connection: connection.execute(select(tenants.c.tenant, tenants.c.audit_days)).all()
        )
        for tenant, days in found:
            await self._calls.writer.change(tenant, lambda connection, tenant=tenant: self._clean(connection, tenant))
            kept = self._audit_days if days is None else days
            gone = MOST_REMOVED if kept else 0
            while gone >= MOST_REMOVED:
                gone = await self._calls.writer.change(tenant, partial(remove_old_audit, tenant=tenant, days=kept))

    def _clean(self, connection: Connection, tenant: str) -> None:
        now = time()
        old_key = idempotency_keys.c.created < now - IDEMPOTENCY_SECONDS
        connection.execute(delete(idempotency_keys).where(idempotency_keys.c.tenant == tenant, old_key))
        remove_left_sums(connection, tenant)
        if not self._keep_days:
            return
        before = now - self._keep_days * 86_400
        old = select(calls.c.id).where(calls.c.tenant == tenant, calls.c.finished < before)
        for table in (events, approvals, turn_entries):
            connection.execute(delete(table).where(table.c.tenant == tenant, table.c.call.in_(old)))
        connection.execute(delete(calls).where(calls.c.tenant == tenant, calls.c.finished < before))


def _read(connection: Connection, tenant: str, call: str) -> tuple[dict[str, Any] | None, Row[Any] | None, bool]:
    """A call, the approval that it waits for, and whether it is a request whose steps are kept."""
    found = connection.execute(select(calls).where(calls.c.tenant == tenant, calls.c.id == call)).mappings().first()
    if found is None:
        return None, None, False
    mine = (approvals.c.tenant == tenant) & (approvals.c.id == found["approval"])
    approval = connection.execute(select(approvals).where(mine)).first()
    return dict(found), approval, has_turn(connection, tenant, call)


def _set_line(connection: Connection, tenant: str, call: str, owner: str, due: float) -> None:
    """Whose a call is from now on, and when somebody looks after it at the latest."""
    mine = (work.c.tenant == tenant) & (work.c.call == call)
    connection.execute(update(work).where(mine).values(owner=owner, due=due))


def _release(connection: Connection, approval: Row[Any]) -> None:
    """Let a call wait for its decision again; one that was taken just now is not overlooked."""
    mine = (approvals.c.tenant == approval.tenant) & (approvals.c.id == approval.id)
    status = connection.execute(select(approvals.c.status).where(mine).with_for_update()).scalar_one()
    _set_line(connection, approval.tenant, approval.call, _NOBODY, approval.expires if status == "pending" else 0.0)
