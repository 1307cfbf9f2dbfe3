"""Questions that wait for a person, in the store: they outlive requests, connections and instances.

A call that asks before it starts is stored with its question in one transaction, and nobody holds it in memory;
whichever instance looks first after the decision runs it. A question in the middle of a call (what a tried command did,
a tool that calls tools, a batch) is stored the same way, and the instance that runs the call waits for the answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from dataclasses import dataclass
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import delete, insert, select, update

from ferrule.core.errors import ErrorKind
from ferrule.core.shown_text import cut_counted
from ferrule.pipeline.cleaning import clean_text, relative_paths
from ferrule.pipeline.confirm import Answer, Choice, warning_of
from ferrule.plugins.drafts import DRAFT_TOOL
from ferrule.records.redact import redact_text
from ferrule.records.row import content_of
from ferrule.service.database import DatabaseProblem
from ferrule.service.directory import change_user, find_user, note_change
from ferrule.service.documents import cancelled_text, end_record, kept_arguments, new_id, storable, without_secrets
from ferrule.service.messages import UserChange
from ferrule.service.tables import approvals, calls, events, work
from ferrule.service.vocabulary import FINISHED
from ferrule.service.writer import append_audit, count_cost

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from sqlalchemy import Connection, Row, Select

    from ferrule.core.call import Effects
    from ferrule.core.context import Session
    from ferrule.core.events import Question
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.authorise import Decision
    from ferrule.policy import RulePolicy
    from ferrule.service.access import Allowed
    from ferrule.service.database import Database
    from ferrule.service.directory import Directory, Principal
    from ferrule.service.feed import EventFeed
    from ferrule.service.live import LiveCall
    from ferrule.service.messages import DecisionRequest
    from ferrule.service.outgoing import Webhooks
    from ferrule.service.vocabulary import ApprovalDecision, ApprovalScope
    from ferrule.service.writer import GroupWriter

logger = logging.getLogger("ferrule.service")

_MOST_PREVIEW = 50_000
_LOOK_AGAIN = 1.0
"""After how many seconds a missed notification of a decision is healed."""


class ApprovalProblem(Exception):  # noqa: N818 - reads as what it says
    """A decision that cannot be taken."""

    def __init__(self, kind: Literal["not_found", "conflict", "forbidden"], code: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.message = message


def hash_arguments(invocation: Invocation) -> str:
    """What a decision is bound to: the validated arguments, to the byte."""
    return hashlib.sha256(invocation.tool.params.dump(invocation.params)).hexdigest()


@dataclass(eq=False)
class CallApprovals:
    """Stores questions, takes decisions, and wakes those who wait for one."""

    database: Database
    writer: GroupWriter
    seconds: float
    directory: Directory
    feed: EventFeed
    webhooks: Webhooks

    def __post_init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._closing = False

    def close(self) -> None:
        """Let others take over what waits before it has begun: the instance is about to stop."""
        self._closing = True
        self.wake_all()

    # Asking

    def new_row(
        self, call: Mapping[str, Any], invocation: Invocation, question: Mapping[str, Any], *, held: bool = False
    ) -> dict[str, Any]:
        """A pending approval. `held`: its call has begun already, and only the instance that runs it can go on."""
        now = time()
        return {
            "tenant": call["tenant"], "id": new_id(), "call": call["id"], "user": call["user"],
            "tool": storable(invocation.tool.name), "tool_version": invocation.tool.version,
            "arguments": json.dumps(json.loads(invocation.tool.params.dump(invocation.params))),
            "args_hash": hash_arguments(invocation), "question": json.dumps(question), "status": "pending",
            "held": held, "scope": None, "decided_by": None, "decision_reason": None, "created": now,
            "expires": now + self.seconds, "decided": None,
        }  # fmt: skip

    def row_of(self, call: Mapping[str, Any], question: Question, *, held: bool = False) -> dict[str, Any]:
        """The pending approval that a question of the pipeline becomes."""
        invocation = question.invocation
        effects = _all_effects(question.effects) if question.effects is not None else None
        assert invocation.session is not None  # noqa: S101 - it is about to run in it
        asked = said_in_question(
            invocation.session.workspace,
            question.summary,
            question.reason,
            question.warning,
            (question.rule, question.rules, question.covers, question.not_covers),
            effects,
            question.preview,
        )
        return self.new_row(call, invocation, asked, held=held)

    async def ask(self, live: LiveCall, question: Question) -> Answer:
        """Put a question in the middle of a call, and wait for its answer or its end."""
        invocation = question.invocation
        own = invocation.call_id == live.id and question.effects is None
        if live.answer is not None and own and live.answer_for == hash_arguments(invocation):
            answer, live.answer = live.answer, None
            return answer
        row = self.row_of(live.row, question, held=not own)
        before = live.row["status"]
        values: dict[str, Any] = {"status": "awaiting_approval", "approval": row["id"]}
        if own:  # what was asked about is what runs, also on another instance: references are resolved by now
            values["arguments"] = row["arguments"]
        live.row.update(values)
        # Whoever goes on with it counts its events from there.
        told = {name: live.row[name] for name in ("started", "started_seq")} | {"last_seq": live.row["last_seq"] + 1}

        def store(connection: Connection) -> None:
            self.store(connection, row)
            mine = (calls.c.tenant == live.tenant) & (calls.c.id == live.id)
            connection.execute(update(calls).where(mine).values(**values, **told))

        await self.writer.change(live.tenant, store)
        live.say("call.awaiting_approval", {"approval": row["id"], "summary": self.announce(live.row, row)})
        answer, kind = await self._answer_to(live, row)
        if not kind:
            return answer
        if answer.choice is not Choice.NO and await self.directory.of_call(live.row) is None:
            answer = Answer(Choice.NO, "its API key is revoked or expired, or its user is switched off")
        live.row["status"] = before
        mine = (calls.c.tenant == live.tenant) & (calls.c.id == live.id)
        await self.writer.execute(live.tenant, update(calls).where(mine).values(status=before))
        decision = "approve" if answer.choice is not Choice.NO else "deny"
        live.say(kind, {"approval": row["id"], "decision": decision})
        said = {"decision": decision} if kind == "approval.decided" else {}
        self.feed.tell(live.row, kind, {"approval": row["id"], **said})
        return answer

    def store(self, connection: Connection, row: Mapping[str, Any]) -> None:
        """Store an approval, and that the tenant's webhook is to be told of it."""
        connection.execute(insert(approvals).values(**row))
        self.webhooks.store(connection, row["tenant"], row["id"])

    def announce(self, call: Mapping[str, Any], row: Mapping[str, Any]) -> str:
        """Tell those who watch, and the tenant's webhook, of an approval that was stored just now; gives the summary
        that they are told.
        """
        summary = summary_of(row)
        self.feed.tell(call, "call.awaiting_approval", {"approval": row["id"], "summary": summary})
        self.webhooks.look_now()
        return summary

    async def _answer_to(self, live: LiveCall, row: Mapping[str, Any]) -> tuple[Answer, str]:
        """The answer, and what is said of it; nothing where the call waits on without this instance."""
        until = monotonic() + self.seconds
        mine = (approvals.c.tenant == live.tenant) & (approvals.c.id == row["id"])
        settled = False
        try:
            while monotonic() < until:
                self._waiting[row["id"]] = future = asyncio.get_running_loop().create_future()
                await asyncio.wait({future}, timeout=_LOOK_AGAIN)
                if live.cancelled:
                    return Answer(Choice.NO, "the call was cancelled"), "approval.expired"
                try:
                    found = await self.database.read(
                        live.tenant, lambda connection: connection.execute(select(approvals).where(mine)).one()
                    )
                except DatabaseProblem as problem:
                    logger.warning("An approval could not be looked up: %s", problem)
                    continue
                if settled := found.status != "pending":
                    return answer_of(found), "approval.decided"
                if self._closing and not row["held"]:
                    settled = await self.writer.change(live.tenant, lambda connection: _hand_on(connection, row))
                    if settled:
                        return Answer(Choice.NO, "the service stops, and the call waits on without it"), ""
            settled = True
            found = await self.writer.change(
                live.tenant, lambda connection: end_pending(connection, row["tenant"], row["id"], "expired")
            )
            return answer_of(found), "approval.expired" if found.status == "expired" else "approval.decided"
        finally:
            self._waiting.pop(row["id"], None)
            if not settled:
                status = "cancelled" if live.cancelled else "expired"
                await self.writer.change(
                    live.tenant, lambda connection: end_pending(connection, row["tenant"], row["id"], status)
                )

    def wake(self, approval: str) -> None:
        """Look at an approval now: somebody decided it, here or elsewhere."""
        future = self._waiting.get(approval)
        if future is not None and not future.done():
            future.set_result(None)

    def wake_all(self) -> None:
        for approval in list(self._waiting):
            self.wake(approval)

    # Deciding

    async def decide(self, principal: Principal, allowed: Allowed, approval: str, said: DecisionRequest) -> Row[Any]:
        """Decide a pending approval, once: one update of a pending row, whoever else tries at the same time."""
        decided = await self.writer.change(
            principal.tenant,
            lambda connection: decide_approval(
                connection, self.database, principal, allowed, approval, **said.model_dump()
            ),
        )
        self.wake(approval)
        return decided

    # Looking

    async def pending(
        self, principal: Principal, allowed: Allowed, *, status: str = "pending", most: int = 100
    ) -> list[Row[Any]]:
        """The approvals that this user may see: their own calls', and others' where they may decide them."""
        tenant, user = principal.tenant, None if _may_see(allowed) else principal.user
        return await self.database.read(
            tenant, lambda connection: list_approvals(connection, tenant, status=status, user=user, most=most)
        )

    async def find(self, principal: Principal, allowed: Allowed, approval: str) -> Row[Any] | None:
        tenant = principal.tenant
        found = await self.database.read(tenant, lambda connection: find_approval(connection, tenant, approval))
        return found if found is not None and (found.user == principal.user or _may_see(allowed)) else None


def decide_approval(
    connection: Connection,
    database: Database,
    principal: Principal,
    allowed: Allowed,
    approval: str,
    *,
    decision: ApprovalDecision,
    args_hash: str | None,
    scope: ApprovalScope = "once",
    reason: str = "",
) -> Row[Any]:
    """Decide a pending approval in the tenant's transaction; raises `ApprovalProblem`.

    `args_hash` is that of the arguments which were shown; None for a caller that reads them in this transaction.
    """
    tenant = principal.tenant
    mine = (approvals.c.tenant == tenant) & (approvals.c.id == approval)
    found = connection.execute(select(approvals).where(mine).with_for_update()).first()
    if found is None or not (found.user == principal.user or _may_see(allowed)):
        raise ApprovalProblem("not_found", "not_found", f"There is no approval `{approval}`.")
    if why := why_not_decide(found, principal, allowed):
        raise ApprovalProblem("forbidden", "forbidden", why)
    if found.status == "expired" or (found.status == "pending" and found.expires <= time()):
        raise ApprovalProblem("conflict", "expired", "Nobody decided in time; the call has expired.")
    if found.status != "pending":
        by = f", by {found.decided_by}" if found.decided_by else ""
        raise ApprovalProblem("conflict", "decided", f"This was {found.status} already{by}.")
    if args_hash is not None and found.args_hash != args_hash:
        raise ApprovalProblem(
            "conflict", "other_arguments", "`args_hash` is not that of this approval's arguments. Read it again."
        )
    rules = json.loads(found.question)["rules"]
    given = "always" if scope == "always" and rules and decision == "approve" else "once"
    status = "approved" if decision == "approve" else "denied"
    values: dict[str, Any] = {
        "status": status, "scope": given, "decided_by": principal.user, "decision_reason": storable(reason),
        "decided": time(), **without_secrets(found.arguments, found.question),
    }  # fmt: skip
    connection.execute(update(approvals).where(mine).values(**values))
    if given == "always":
        person = find_user(connection, tenant, found.user)
        kept = dict.fromkeys([*json.loads(person.allow), *rules])
        change_user(connection, tenant, found.user, UserChange(allow=list(kept)))
        note_change(connection, database)
    _set_going(connection, database, tenant, found.call, approval, decision)
    return connection.execute(select(approvals).where(mine)).one()


def why_not_decide(found: Row[Any], principal: Principal, allowed: Allowed) -> str:
    """Why a user may not decide an approval, whatever its state; empty where they may."""
    own = found.user == principal.user
    if not allowed.may("approve own" if own else "approve others"):
        return f"Your roles do not let you approve {'your own calls' if own else 'calls of others'}."
    if found.tool == DRAFT_TOOL and not allowed.may("drafts"):  # it would be a tool of everyone in the tenant
        return "Your roles do not let you accept drafts: that needs `Admin(drafts)`."
    return ""


def _set_going(
    connection: Connection, database: Database, tenant: str, call: str, approval: str, decision: str
) -> None:
    """Have any instance go on with a call that none holds, and tell all of them."""
    unheld = (work.c.tenant == tenant) & (work.c.call == call) & (work.c.owner == "")
    if connection.execute(update(work).where(unheld).values(due=0.0)).rowcount:
        mine = (calls.c.tenant == tenant) & (calls.c.id == call)
        seq = connection.execute(select(calls.c.last_seq).where(mine)).scalar_one() + 1
        connection.execute(update(calls).where(mine).values(last_seq=seq))
        data = json.dumps({"approval": approval, "decision": decision})
        connection.execute(
            insert(events).values(tenant=tenant, call=call, seq=seq, type="approval.decided", data=data, at=time())
        )
    database.notify(connection, f"approval:{approval}:{call}")


def list_approvals(
    connection: Connection, tenant: str, *, status: str = "pending", user: str | None = None, most: int = 100
) -> list[Row[Any]]:
    """A tenant's approvals, newest first; of one user's calls alone where given."""
    query = select(approvals).where(approvals.c.tenant == tenant, approvals.c.status == status)
    if user is not None:
        query = query.where(approvals.c.user == user)
    return list(connection.execute(query.order_by(approvals.c.created.desc()).limit(most)))


def find_approval(connection: Connection, tenant: str, approval: str) -> Row[Any] | None:
    return connection.execute(select(approvals).where(approvals.c.tenant == tenant, approvals.c.id == approval)).first()


def _may_see(allowed: Allowed) -> bool:
    return allowed.may("approve others") or allowed.may("calls")


def _hand_on(connection: Connection, row: Mapping[str, Any]) -> bool:
    """Leave a call that waits and has not begun to whoever looks after its decision; False where that is there."""
    if lock_approval(connection, row["tenant"], row["id"]).status != "pending":
        return False
    line = (work.c.tenant == row["tenant"]) & (work.c.call == row["call"])
    connection.execute(update(work).where(line).values(owner="", due=row["expires"]))
    return True


def lock_approval(connection: Connection, tenant: str, approval: str) -> Row[Any]:
    mine = (approvals.c.tenant == tenant) & (approvals.c.id == approval)
    return connection.execute(select(approvals).where(mine).with_for_update()).one()


def end_pending(
    connection: Connection, tenant: str, approval: str, status: Literal["cancelled", "expired"]
) -> Row[Any]:
    """End an approval that nobody has decided; gives what holds of it, which may be a decision of the same moment."""
    mine = (approvals.c.tenant == tenant) & (approvals.c.id == approval)
    found = lock_approval(connection, tenant, approval)
    if found.status != "pending":
        return found
    connection.execute(
        update(approvals).where(mine).values(status=status, **without_secrets(found.arguments, found.question))
    )
    return connection.execute(select(approvals).where(mine)).one()


def end_pending_of(
    connection: Connection, tenant: str, call: str, *, keep: Collection[str] = (), held: bool = False
) -> None:
    """Cancel the approvals of a call that nobody has decided, but for some; or those alone that an instance `held`."""
    pending = _pending_of(tenant, call)
    query = pending.where(approvals.c.held) if held else pending
    for approval in connection.execute(query).scalars().all():
        if approval not in keep:
            end_pending(connection, tenant, approval, "cancelled")


def _pending_of(tenant: str, call: str) -> Select[Any]:
    mine = (approvals.c.tenant == tenant) & (approvals.c.status == "pending") & (approvals.c.call == call)
    return select(approvals.c.id).where(mine).order_by(approvals.c.id)


def summary_of(row: Mapping[str, Any]) -> str:
    """What those who watch are told of an approval."""
    return redact_text(json.loads(row["question"])["summary"])


def cancel_stored(connection: Connection, database: Database, row: Mapping[str, Any]) -> None:
    """Cancel a call that is not run here: at once where it waits without an instance, else by whoever runs it."""
    tenant, call = row["tenant"], row["id"]
    mine = (calls.c.tenant == tenant) & (calls.c.id == call)
    unheld = (work.c.tenant == tenant) & (work.c.call == call) & (work.c.owner == "")
    # First, as whoever decides them does: nobody waits for each other in a circle.
    connection.execute(_pending_of(tenant, call).with_for_update()).all()
    if not connection.execute(delete(work).where(unheld)).rowcount:
        connection.execute(update(calls).where(mine, calls.c.status.notin_(FINISHED)).values(cancelling=True))
        database.notify(connection, f"cancel:{call}")
        return
    seq, cost = connection.execute(select(calls.c.last_seq, calls.c.cost).where(mine)).one()
    values = {"status": "cancelled", "result": cancelled_text(row), "finished": time(), "last_seq": seq + 1}
    connection.execute(update(calls).where(mine).values(**values, arguments=kept_arguments(row["arguments"])))
    if cost:
        count_cost(connection, row, cost)
    end_pending_of(connection, tenant, call)
    stage, become = ("execute", "finish") if row["started"] is not None else ("confirm", "start")
    said = f"`{row['tool']}` did not {become}. It was cancelled."
    append_audit(connection, tenant, [content_of(end_record(row, ErrorKind.CANCELLED, said, stage=stage))])
    database.notify(connection, f"call:{call}")


def answer_of(row: Row[Any]) -> Answer:
    """The answer that a decision gives to the question of the pipeline."""
    if row.status == "approved":
        return Answer(Choice.ONCE)
    if row.status == "denied":
        return Answer(Choice.NO, row.decision_reason or "")
    if row.status == "cancelled":
        return Answer(Choice.NO, "the call was cancelled")
    return Answer(Choice.NO, "nobody decided in time")


def _all_effects(effects: Effects) -> dict[str, Any]:
    """All that an approval would apply: in a few lines, and every file of it."""
    return {**effects.as_data(most=None), "lines": effects.lines(), "folded": effects.folded()}


def said_in_question(
    workspace: Path, summary: str, reason: str, warning: str | None, always: tuple[str, tuple[str, ...], str, str],
    effects: Any, preview: str,
) -> dict[str, Any]:  # fmt: skip
    """What a person is shown before they decide: paths as they are in the user's folder, not on this machine.

    `always` is what "always" would add: the rule, what is kept of it, a call that it covers and one that it does not.
    """
    rule, rules, covers, not_covers = always

    def relative(text: str) -> str:
        """A rule about a path in the workspace, written from there."""
        return text.replace(f"(/{workspace.resolve()}/", "(/").replace(f"(/{workspace}/", "(/")

    return {
        "summary": clean_text(summary, workspace), "reason": clean_text(reason, workspace),
        "warning": clean_text(warning, workspace) if warning else None, "rule": relative(rule),
        "rules": [relative(one) for one in rules], "covers": clean_text(covers, workspace),
        "not_covers": clean_text(not_covers, workspace), "effects": effects,
        "preview": cut_counted(relative_paths(preview, workspace), _MOST_PREVIEW),
    }  # fmt: skip


def question_of(
    invocation: Invocation, decision: Decision, policy: RulePolicy, session: Session, preview: str
) -> dict[str, Any]:
    """The question of a call that has not begun."""
    offer = policy.offer(invocation, session)
    warning = warning_of(invocation, decision)
    always = (offer.rule, offer.rules, offer.covers, offer.not_covers) if offer is not None else ("", (), "", "")
    return said_in_question(session.workspace, invocation.summary, decision.reason, warning, always, None, preview)
