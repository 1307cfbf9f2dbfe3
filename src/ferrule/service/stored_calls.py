"""Calls as the store has them: of this instance and of all others, running or ended."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from ferrule.service.call_sums import LAST_ID, SpanPiece, cover, may_match
from ferrule.service.database import DatabaseProblem
from ferrule.service.documents import json_text, new_id, storable, stored_event
from ferrule.service.tables import ENDED_BADLY, SUM_STEPS, calls, events, work
from ferrule.service.vocabulary import FINISHED, TOKEN_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from ferrule.service.database import Database
    from ferrule.service.directory import Principal

logger = logging.getLogger("ferrule.service")

_MOST_NAME = 256
_MOST_IDS = 500
"""Of one query."""
_LOOK_ELSEWHERE = 0.3
_LOOK_AT_MOST = 20
"""Between two looks passes at least so many times the time that one takes."""


def new_call_row(
    principal: Principal, tool: str, arguments: Any, request_id: str, *, version: str | None = None,
    pinned: str | None = None, status: str = "running", repeatable: bool = False, session: str | None = None,
    timeout: float | None = None, batch: str | None = None, position: int = 0, metadata: str = "{}",
    trace: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Every column of a call that has just come in."""
    return {
        "tenant": principal.tenant, "id": new_id(), "user": principal.user, "key": principal.key,
        "tool": storable(tool)[:_MOST_NAME], "version": version, "pinned": pinned,
        "arguments": json_text(arguments), "status": status, "repeatable": repeatable, "attempts": 1,
        "session": session, "timeout": timeout, "batch": batch, "position": position, "approval": None,
        "metadata": metadata, "request": request_id, "result": None, "cost": 0.0, "started_seq": 0, "last_seq": 1,
        "cancelling": False, "created": time(), "started": None, "finished": None, "trace": trace,
        "scopes": " ".join(sorted(principal.scopes)) if principal.key == TOKEN_KEY else None,
    }  # fmt: skip


class StoredCalls:
    """Reads the rows of calls, their events and the idempotency keys that made them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def row(self, tenant: str, call: str) -> dict[str, Any] | None:
        query = select(calls).where(calls.c.tenant == tenant, calls.c.id == call)
        found = await self._database.read(tenant, lambda connection: connection.execute(query).mappings().first())
        return dict(found) if found is not None else None

    async def of_batch(self, tenant: str, batch: str) -> Sequence[str]:
        """The ids of its calls, in their order."""
        query = select(calls.c.id).where(calls.c.tenant == tenant, calls.c.batch == batch).order_by(calls.c.position)
        return await self._database.read(tenant, lambda connection: connection.execute(query).scalars().all())

    async def page(
        self, tenant: str, *, user: str | None, filters: Mapping[str, str], cursor: str | None, most: int
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Calls of a tenant, or of one of its users, newest first; and where to read on."""
        wanted = {**filters, "user": user} if user is not None else dict(filters)
        if user is not None and filters.get("user") not in (None, user):
            return [], None
        query = select(calls).where(calls.c.tenant == tenant).order_by(calls.c.id.desc())
        for name, value in wanted.items():
            begun = (name, value) == ("status", "running")  # those of a batch stay queued in the store until they end
            query = query.where(calls.c[name].in_(("running", "queued")) if begun else calls.c[name] == value)
        end, status = cursor or LAST_ID, wanted.get("status")
        has_index = bool({"session", "batch"} & wanted.keys())
        if status is not None and status not in FINISHED:
            query, has_index = query.where(calls.c.id.in_(select(work.c.call).where(work.c.tenant == tenant))), True
        elif status not in (None, "succeeded") and not has_index and not {"tool", "user"} & wanted.keys():
            query, has_index = query.where(ENDED_BADLY), True

        def read(connection: Connection) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            match = None if has_index or not wanted else may_match(wanted)
            pieces = (
                [SpanPiece("", end, None)] if match is None else cover(connection, tenant, "", end, SUM_STEPS, match)
            )
            for piece in pieces:
                within = query.where(calls.c.id >= piece.begins, calls.c.id < piece.ends).limit(most + 1 - len(found))
                found += [dict(row) for row in connection.execute(within).mappings()]
                if len(found) > most:
                    break
            return found

        found = await self._database.read(tenant, read)
        return found[:most], found[most - 1]["id"] if len(found) > most else None

    async def events(self, tenant: str, call: str, after: int, most: int | None = None) -> list[dict[str, Any]]:
        query = select(events).where(events.c.tenant == tenant, events.c.call == call, events.c.seq > after)
        query = query.order_by(events.c.seq).limit(most)
        found = await self._database.read(tenant, lambda connection: connection.execute(query).all())
        return [stored_event(row) for row in found]

    async def states(self, tenant: str, ids: Sequence[str]) -> dict[str, tuple[str, int]]:
        """The status of each call, and the number of its last stored event."""
        last = select(func.max(events.c.seq)).where(events.c.tenant == tenant, events.c.call == calls.c.id)
        query = select(calls.c.id, calls.c.status, last.scalar_subquery()).where(calls.c.tenant == tenant)
        pieces = [query.where(calls.c.id.in_(ids[at : at + _MOST_IDS])) for at in range(0, len(ids), _MOST_IDS)]

        def read(connection: Connection) -> dict[str, tuple[str, int]]:
            rows = [row for piece in pieces for row in connection.execute(piece)]
            return {call: (status, seq or 0) for call, status, seq in rows}

        return await self._database.read(tenant, read)


@dataclass(slots=True, eq=False)
class _Waiter:
    """Someone who waits for news of a call that does not run here, and what they know of it."""

    tenant: str
    status: str
    last_event: int | None
    """None if they wait for its status alone."""
    news: asyncio.Future[None]


class CallNews:
    """Wakes those who wait for calls that run elsewhere, or not yet."""

    def __init__(self, stored: StoredCalls) -> None:
        self._stored = stored
        self._waiting: dict[str, list[_Waiter]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def wait(self, row: Mapping[str, Any], seconds: float | None, last_event: int | None = None) -> None:
        """Wait until a call that does not run here has another status than `row`, or an event after `last_event`."""
        loop, call = asyncio.get_running_loop(), row["id"]
        waiter = _Waiter(row["tenant"], row["status"], last_event, loop.create_future())
        self._waiting.setdefault(call, []).append(waiter)
        if self._looking is None or self._looking.done():
            self._looking = loop.create_task(self._look_elsewhere())
        try:
            await asyncio.wait({waiter.news}, timeout=seconds)
        finally:
            if waiting := self._waiting.get(call):
                with suppress(ValueError):
                    waiting.remove(waiter)
                if not waiting:
                    del self._waiting[call]

    async def _look_elsewhere(self) -> None:
        """Look in the store for what other instances do, once for all who wait: their number costs nothing."""
        pause = _LOOK_ELSEWHERE
        while self._waiting:
            await asyncio.sleep(pause)
            began = monotonic()
            by_tenant: dict[str, list[str]] = {}
            for call, waiting in self._waiting.items():
                by_tenant.setdefault(waiting[0].tenant, []).append(call)
            for tenant, ids in by_tenant.items():
                try:
                    found = await self._stored.states(tenant, ids)
                except DatabaseProblem as problem:
                    logger.warning("News of calls have to wait: %s", problem)
                    break
                for call in ids:
                    status, last = found.get(call, ("", 0))
                    for waiter in self._waiting.get(call, ()):
                        is_new = waiter.status != status or (waiter.last_event or last) < last
                        if is_new and not waiter.news.done():
                            waiter.news.set_result(None)
            pause = max(_LOOK_ELSEWHERE, _LOOK_AT_MOST * (monotonic() - began))

    def wake(self, call: str) -> None:
        """There is news of a call that may be waited for here."""
        for waiter in self._waiting.pop(call, ()):
            if not waiter.news.done():
                waiter.news.set_result(None)

    def wake_all(self) -> None:
        for call in list(self._waiting):
            self.wake(call)
