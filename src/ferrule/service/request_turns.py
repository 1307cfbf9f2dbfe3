"""Turns of requests in the store: every step is kept, so that a request waits without memory and outlives its instance.

The entries of a turn (`ferrule.agent.turn_log`) are rows. Only the instance that the call's line in `work` names adds
any: one that was taken for dead keeps nothing more, and so begins no call that must not run twice. A turn that waits
has no instance. Each approval that it waits for is a row whose id follows from the call and from what was shown, so
the same question is never stored twice; results that come from elsewhere become an entry.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from contextlib import suppress
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy import func, insert, select, update

from ferrule.agent.turn_log import ConversationJournal, TurnStateError, WaitingCall
from ferrule.service.approvals import cancel_stored, end_pending, end_pending_of, summary_of
from ferrule.service.database import DatabaseProblem
from ferrule.service.documents import json_text
from ferrule.service.tables import approvals, calls, events, turn_entries, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sqlalchemy import ColumnElement, Connection, Row

    from ferrule.agent.turn_log import Entry
    from ferrule.service.approvals import CallApprovals
    from ferrule.service.database import Database
    from ferrule.service.feed import EventFeed
    from ferrule.service.live import LiveCall, Pause
    from ferrule.service.stored_calls import CallNews
    from ferrule.service.writer import GroupWriter

logger = logging.getLogger("ferrule.service")

T = TypeVar("T")

_STORE_AGAIN = 1.0
_NEVER = 1e12
"""When somebody looks after a turn that waits for results alone."""
_GONE_ON = "The request goes on with another instance of the service."


class RequestJournal(ConversationJournal):
    """Keeps the turn of a request, for as long as it is this instance's."""

    def __init__(self, writer: GroupWriter, row: Mapping[str, Any], owner: str, kept: int) -> None:
        self._writer = writer
        self._tenant, self._call, self._owner = row["tenant"], row["id"], owner
        self._kept = kept
        """How many entries there are in the store."""
        self._queue: list[str] = []
        self._writing: asyncio.Task[None] | None = None
        self._failed = self._left = self._closed = False

    def write(self, entry: Entry) -> None:
        """Keep an entry soon; raises `TurnStateError` once one could not be kept."""
        if self._failed or (self._left and entry["type"] == "began"):
            raise TurnStateError(_GONE_ON)
        # The end of a turn is that of its call: one whose end is not stored gives its last answer again.
        if self._closed or entry["type"] == "turn":
            return
        self._queue.append(json_text(entry))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._store())

    async def settled(self) -> None:
        if self._writing is not None:
            await asyncio.wait({self._writing})
        if self._failed:
            raise TurnStateError(_GONE_ON)

    def leave(self) -> None:
        """No call begins here any more, either."""
        self._left = self._closed = True

    def close(self) -> None:
        """Keep nothing more: the call ends, or waits."""
        if not self._closed:
            self._closed = True
            self._queue.clear()

    async def _store(self) -> None:
        while texts := list(self._queue):
            try:
                if not await self._writer.change(self._tenant, partial(self._add, texts=texts)):
                    self._failed = True
                    return
            except DatabaseProblem as problem:
                logger.error("Steps of call %s are not stored yet: %s", self._call, problem)  # noqa: TRY400
                await asyncio.sleep(_STORE_AGAIN)
                continue
            except Exception:  # whatever it is, the turn must not go on without them
                logger.exception("Steps of call %s could not be stored", self._call)
                self._failed = True
                return
            self._kept += len(texts)
            del self._queue[: len(texts)]

    def _add(self, connection: Connection, texts: list[str]) -> bool:
        """Store entries; False where the turn is another instance's, or has ended."""
        if not holds(connection, self._tenant, self._call, self._owner):
            return False
        there = _count(connection, self._tenant, self._call)
        if there == self._kept:
            _insert(connection, self._tenant, self._call, there, texts)
            return True
        return there == self._kept + len(texts)  # they were stored, and the answer to that was lost


def holds(connection: Connection, tenant: str, call: str, owner: str) -> bool:
    """Whether a call is this instance's, to the end of the transaction."""
    line = select(work.c.call).where(work.c.tenant == tenant, work.c.call == call, work.c.owner == owner)
    return connection.execute(line.with_for_update()).first() is not None


def _of(tenant: str, call: str) -> ColumnElement[bool]:
    return (turn_entries.c.tenant == tenant) & (turn_entries.c.call == call)


def _count(connection: Connection, tenant: str, call: str) -> int:
    last = connection.execute(select(func.max(turn_entries.c.number)).where(_of(tenant, call))).scalar()
    return 0 if last is None else last + 1


def _insert(connection: Connection, tenant: str, call: str, first: int, texts: Iterable[str]) -> None:
    rows = [
        {"tenant": tenant, "call": call, "number": number, "text": text} for number, text in enumerate(texts, first)
    ]
    connection.execute(insert(turn_entries), rows)


def has_turn(connection: Connection, tenant: str, call: str) -> bool:
    return _count(connection, tenant, call) > 0


def read_turn(connection: Connection, tenant: str, call: str) -> list[Entry]:
    """All entries of a call's turn, in their order."""
    query = select(turn_entries.c.text).where(_of(tenant, call)).order_by(turn_entries.c.number)
    return [json.loads(text) for text in connection.execute(query).scalars()]


def read_waiting(connection: Connection, tenant: str, call: str) -> tuple[list[WaitingCall], set[str]]:
    """What a turn that is paused waits for, and the calls whose results came since then."""
    given: set[str] = set()
    for number in range(_count(connection, tenant, call) - 1, -1, -1):
        query = select(turn_entries.c.text).where(_of(tenant, call), turn_entries.c.number == number)
        entry = json.loads(connection.execute(query).scalar_one())
        if entry["type"] == "paused" and not entry.get("in"):
            return [WaitingCall(**one) for one in entry["waiting"] if one["id"] not in given], given
        if entry["type"] != "resumed":
            break
        given |= entry["results"].keys()
    return [], given


# Pausing


def approval_id(call: str, waiting: WaitingCall) -> str:
    """The approval that a call in a turn waits for."""
    return hashlib.sha256(f"{call}\n{waiting.id}\n{waiting.bound_to}".encode()).hexdigest()[:32]


def _asked(call: str, waiting: Iterable[WaitingCall]) -> dict[str, WaitingCall]:
    return {approval_id(call, one): one for one in waiting if one.kind == "approval"}


class CallsOfInstance(Protocol):
    """The calls of this instance, as far as a turn that waits needs them."""

    live: dict[str, LiveCall]
    approvals: CallApprovals
    feed: EventFeed
    writer: GroupWriter
    database: Database
    owner: str
    news: CallNews


async def pause_request(calls_: CallsOfInstance, live: LiveCall, pause: Pause) -> None:
    """Store what a request waits for; from then on no instance has it in memory."""
    stored = await _surely(calls_, live, lambda connection: _store_pause(connection, calls_, live, pause))
    if stored is None:
        logger.warning("Call %s waits after its lease was lost; what it waits for is dropped", live.id)
    else:
        made, values = stored
        live.row.update(values)
        for approval in made:
            calls_.approvals.announce(live.row, approval)
    if live.row["status"] == "awaiting_result":
        calls_.feed.tell(live.row, "call.awaiting_result")
    _forget(calls_, live)
    if live.cancelled and not live.left:  # in this very moment
        await _surely(calls_, live, lambda connection: cancel_stored(connection, calls_.database, live.row))


async def leave_request(calls_: CallsOfInstance, live: LiveCall) -> None:
    """Have any other instance, or the next start, go on with a request from its last step."""
    values = {name: live.row[name] for name in ("last_seq", "started", "started_seq")}
    values |= {"status": "queued", "cost": live.spent}

    def leave(connection: Connection) -> None:
        if holds(connection, live.tenant, live.id, calls_.owner):
            _queue(connection, live.tenant, live.id, values)

    if live.journal is not None:
        with suppress(TurnStateError):
            await live.journal.settled()
    await _surely(calls_, live, leave)
    live.row.update(values)
    _forget(calls_, live)


def _forget(calls_: CallsOfInstance, live: LiveCall) -> None:
    live.paused = True
    calls_.live.pop(live.id, None)
    live.tell()
    calls_.news.wake(live.id)


async def end_approvals(calls_: CallsOfInstance, live: LiveCall) -> None:
    """Nobody need decide any more what a request that ends has asked for."""

    def end(connection: Connection) -> None:
        if holds(connection, live.tenant, live.id, calls_.owner):
            end_pending_of(connection, live.tenant, live.id)

    await _surely(calls_, live, end)


async def _surely(calls_: CallsOfInstance, live: LiveCall, make: Callable[[Connection], T]) -> T:
    while True:
        try:
            return await calls_.writer.change(live.tenant, make)
        except DatabaseProblem as problem:
            logger.error("What became of call %s is not stored yet: %s", live.id, problem)  # noqa: TRY400
            await asyncio.sleep(_STORE_AGAIN)


def _store_pause(
    connection: Connection, calls_: CallsOfInstance, live: LiveCall, pause: Pause
) -> tuple[list[Mapping[str, Any]], dict[str, Any]] | None:
    """Leave a call to what it waits for; gives its new approvals and what its row has by then, or None where it is
    another instance's.
    """
    tenant, call, row = live.tenant, live.id, live.row
    if not holds(connection, tenant, call, calls_.owner):
        return None
    asked = _asked(call, pause.waiting)
    end_pending_of(connection, tenant, call, keep=asked)
    known = _locked(connection, tenant, asked)
    made: list[Mapping[str, Any]] = [
        {**pause.questions[one.bound_to], "id": name}
        for name, one in asked.items()
        if name not in known or known[name]["status"] == "cancelled"  # it asked for something else meanwhile
    ]
    said: list[tuple[str, dict[str, Any]]] = []
    for approval in made:
        if known.pop(approval["id"], None) is None:
            calls_.approvals.store(connection, approval)
        else:
            mine = (approvals.c.tenant == tenant) & (approvals.c.id == approval["id"])
            connection.execute(update(approvals).where(mine).values(**approval))
        said.append(("call.awaiting_approval", {"approval": approval["id"], "summary": summary_of(approval)}))
    told = {name for event in live.events if event["type"] == "call.awaiting_result" for name in event["data"]["calls"]}
    if new := [one.id for one in pause.waiting if one.kind == "result" and one.id not in told]:
        said.append(("call.awaiting_result", {"calls": new}))
    for seq, (kind, data) in enumerate(said, row["last_seq"] + 1):
        event = {"tenant": tenant, "call": call, "seq": seq, "type": kind, "data": json.dumps(data), "at": time()}
        connection.execute(insert(events).values(**event))
    pending = [one for one in (*known.values(), *made) if one["status"] == "pending"]
    values = {
        "status": "awaiting_approval" if asked else "awaiting_result", "last_seq": row["last_seq"] + len(said),
        "approval": pending[0]["id"] if pending else next(iter(asked), None), "started": row["started"],
        "started_seq": row["started_seq"], "cost": live.spent,
    }  # fmt: skip
    mine = (calls.c.tenant == tenant) & (calls.c.id == call)
    connection.execute(update(calls).where(mine).values(**values))
    goes_on = len(pending) < len(asked) or connection.execute(select(calls.c.cancelling).where(mine)).scalar_one()
    _leave(connection, tenant, call, 0.0 if goes_on else min((one["expires"] for one in pending), default=_NEVER))
    return made, values


def _locked(connection: Connection, tenant: str, ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    query = select(approvals).where(approvals.c.tenant == tenant, approvals.c.id.in_(list(ids)))
    found = connection.execute(query.order_by(approvals.c.id).with_for_update()).mappings()
    return {one["id"]: dict(one) for one in found}


def _leave(connection: Connection, tenant: str, call: str, due: float) -> None:
    """Have a call wait without an instance, until that moment at most."""
    line = (work.c.tenant == tenant) & (work.c.call == call)
    connection.execute(update(work).where(line).values(owner="", due=due))


# Going on


def goes_on(connection: Connection, row: Mapping[str, Any]) -> bool:
    """Whether there is anything that a paused turn can go on with; it waits on otherwise."""
    tenant, call = row["tenant"], row["id"]
    waiting, given = read_waiting(connection, tenant, call)
    asked, now = _asked(call, waiting), time()
    found = _locked(connection, tenant, asked).values()
    pending = [one["expires"] for one in found if one["status"] == "pending" and one["expires"] > now]
    if given or not waiting or row["cancelling"] or len(pending) < len(asked):
        return True
    _leave(connection, tenant, call, min(pending, default=_NEVER))
    return False


def take_answers(
    connection: Connection, row: Mapping[str, Any], owner: str
) -> tuple[tuple[WaitingCall, ...], dict[str, Row[Any]]]:
    """What a turn waits for, and the approvals that it goes on with, by the calls that they are about; those that
    nobody decided in time have expired.
    """
    tenant, call = row["tenant"], row["id"]
    if not holds(connection, tenant, call, owner):
        raise TurnStateError(_GONE_ON)
    end_pending_of(connection, tenant, call, held=True)  # whoever asked is gone
    waiting = read_waiting(connection, tenant, call)[0]
    asked = _asked(call, waiting)
    for name, found in _locked(connection, tenant, asked).items():
        if found["status"] == "pending" and found["expires"] <= time():
            end_pending(connection, tenant, name, "expired")
    decided = (approvals.c.tenant == tenant) & approvals.c.id.in_(list(asked)) & (approvals.c.status != "pending")
    return tuple(waiting), {asked[one.id].id: one for one in connection.execute(select(approvals).where(decided))}


def add_results(connection: Connection, tenant: str, call: str, results: Mapping[str, Any]) -> None:
    """Keep results of calls that a paused turn waits for, and have any instance go on with it."""
    entry: Entry = {"type": "resumed", "answers": {}, "results": results}
    _insert(connection, tenant, call, _count(connection, tenant, call), [json_text(entry)])
    _queue(connection, tenant, call, {"status": "queued"})


def _queue(connection: Connection, tenant: str, call: str, values: Mapping[str, Any]) -> None:
    mine = (calls.c.tenant == tenant) & (calls.c.id == call)
    connection.execute(update(calls).where(mine).values(**values))
    _leave(connection, tenant, call, 0.0)
