"""What happens in a tenant, as it happens: `GET /v1/events`.

Events are kept in memory, the last few hundred of each tenant that somebody watches, and of no other: calls of tenants
that nobody watches cost nothing. Instances on one PostgreSQL pass on what others want to hear. Whenever something may
have been missed, whatever the reason, the reader is told `reset`: fetch again what you keep.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections import Counter
from contextlib import suppress
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from ferrule.service.documents import new_id, shown_time
from ferrule.service.limits import LimitReached
from ferrule.service.writer import StoreChange

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from ferrule.service.access import Access, Allowed
    from ferrule.service.database import Database
    from ferrule.service.directory import Principal
    from ferrule.service.writer import GroupWriter

logger = logging.getLogger("ferrule.service")

MOST_EVENTS = 512
"""Events of a tenant that are kept for readers that are slow or come back."""
_MOST_STREAMS, _MOST_OF_TENANT = 2_000, 100
_KEEP_SECONDS = 120.0
"""How long events are kept for a tenant that nobody watches any more."""
_RENEW_SECONDS = 10.0
_WATCHED_SECONDS = 35.0
"""After how long another instance that is silent no longer watches a tenant."""
_CHECK_SECONDS = 15.0
"""How often a stream without news looks whether its credential is still good."""
_MOST_SUMMARY = 300
POSITION = re.compile(r"[A-Za-z0-9-]{1,64}\.[0-9a-f]{8}")


class _Ring:
    """The last events of one tenant; readers have a number of their own, and hold nothing."""

    __slots__ = ("_events", "_numbers", "end", "id", "news", "watched_elsewhere", "watched_here")

    def __init__(self) -> None:
        self.id = new_id()
        self._events: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}
        self.news = asyncio.Event()
        self.end = 0
        """How many events there have been."""
        self.watched_here = self.watched_elsewhere = -float("inf")

    def add(self, event: dict[str, Any]) -> None:
        self._events.append(event)
        self.end += 1
        self._numbers[event["id"]] = self.end
        if len(self._events) >= 2 * MOST_EVENTS:  # half of them at once, so that it costs little
            for old in self._events[:-MOST_EVENTS]:
                self._numbers.pop(old["id"], None)
            del self._events[:-MOST_EVENTS]
        self.stir()

    def stir(self) -> None:
        """Wake all readers."""
        self.news.set()
        self.news = asyncio.Event()

    def after(self, number: int) -> dict[str, Any] | None:
        """The event behind a number, where it is still kept."""
        at = number - (self.end - len(self._events))
        return self._events[at] if 0 <= at < len(self._events) else None

    def number_of(self, event: str) -> int | None:
        """Where a reader was that saw this event last."""
        return 0 if event == self.id and self.end == len(self._events) else self._numbers.get(event)

    @property
    def last_id(self) -> str:
        return self._events[-1]["id"] if self._events else self.id


class EventFeed:
    """Tells readers what happens in their tenants, on this instance and on others."""

    def __init__(self, database: Database, writer: GroupWriter) -> None:
        self._database = database
        self._writer = writer
        self._instance = new_id()
        self.rings: dict[str, _Ring] = {}
        """What has happened lately in each tenant that somebody watches."""
        self._streams: Counter[str] = Counter()
        self._renewed = 0.0
        self._closed = False
        self._tools_changed = 0

    # Telling

    def tell(self, row: Mapping[str, Any], kind: str, data: Mapping[str, Any] | None = None) -> None:
        """Something happened to a call or its approval; for whoever watches the tenant, if anybody does."""
        ring = self.rings.get(row["tenant"])
        if ring is None:
            return
        said = {"tool": row["tool"], "session": row["session"], "batch": row["batch"], **(data or {})}
        self._add(row["tenant"], ring, kind, row["id"], row["user"], said)

    def _add(
        self, tenant: str, ring: _Ring, kind: str, call: str | None, user: str | None, data: dict[str, Any]
    ) -> None:
        if (summary := data.get("summary")) is not None:
            data["summary"] = summary[:_MOST_SUMMARY]
        event = {"id": new_id(), "type": kind, "call": call, "user": user, "at": shown_time(time()), "data": data}
        ring.add(event)
        if ring.watched_elsewhere > monotonic():
            self._notify(tenant, f"feed:{self._instance}:{json.dumps([tenant, event])}")

    def _notify(self, tenant: str, news: str) -> None:
        self._writer.put(StoreChange(tenant, lambda connection: self._database.notify(connection, news)))

    def tools_changed(self) -> None:
        """The registry, or somebody's rights, changed: every reader looks whether that concerns them."""
        self._tools_changed += 1
        for ring in self.rings.values():
            ring.stir()

    # Other instances

    def hear(self, news: str) -> None:
        """What another instance passed on (`feed:`), or wants to hear (`watch:`)."""
        kind, instance, rest = news.split(":", 2)
        if instance == self._instance:
            return
        if kind == "watch":
            ring = self.rings.setdefault(rest, _Ring())
            began = ring.watched_elsewhere <= monotonic()
            ring.watched_elsewhere = monotonic() + _WATCHED_SECONDS
            if began:  # what happened here until now was not passed on
                self._add(rest, ring, "reset", None, None, {"detail": _MISSED})
            return
        tenant, event = json.loads(rest)
        if (ring := self.rings.get(tenant)) is not None:
            ring.add(event)

    def missed(self) -> None:
        """Nothing was heard of other instances for a while."""
        for ring in self.rings.values():
            ring.add({**_made("reset", "", "", {"detail": _MISSED}), "id": new_id()})

    def renew(self) -> None:
        """Say again what is watched here, and forget what nobody watches; called every second or so."""
        now = monotonic()
        for tenant, ring in list(self.rings.items()):
            if not self._streams[tenant] and max(ring.watched_here + _KEEP_SECONDS, ring.watched_elsewhere) < now:
                del self.rings[tenant]
        if now - self._renewed < _RENEW_SECONDS:
            return
        self._renewed = now
        for tenant, ring in self.rings.items():
            if self._streams[tenant] or ring.watched_here + _KEEP_SECONDS > now:
                self._watch(tenant)

    def _watch(self, tenant: str) -> None:
        if not self._database.is_sqlite:
            self._notify(tenant, f"watch:{self._instance}:{tenant}")

    # Reading

    async def follow(
        self,
        principal: Principal,
        access: Access,
        last: str | None,
        identify: Callable[[], Awaitable[Principal | None]],
    ) -> AsyncIterator[dict[str, Any]]:
        """What the caller may see from now on, or after the position where they were.

        `identify` says who they are by now; where it gives nobody, the stream ends.
        """
        tenant, tools = principal.tenant, _tools_of(access.of(principal))
        ring = self._open(tenant)
        try:
            at = ring.end
            if last is not None:
                seen, _, seen_tools = last.partition(".")
                number = ring.number_of(seen)
                at = ring.end if number is None else number
                if number is None:
                    yield _made("reset", ring.last_id, tools, {"detail": _MISSED})
                elif seen_tools != tools:
                    yield _made("tools.changed", seen, tools)
            else:
                yield {"id": f"{ring.last_id}.{tools}", "type": ""}
            while not self._closed:
                news, changed = ring.news, self._tools_changed
                found = await identify()
                if found is None:
                    return
                principal, allowed = found, access.of(found)
                if at < ring.end and ring.after(at) is None:
                    at = ring.end
                    yield _made("reset", ring.last_id, tools, {"detail": _MISSED})
                while (event := ring.after(at)) is not None:
                    at += 1
                    if _sees(principal, allowed, event):
                        yield {**event, "id": f"{event['id']}.{tools}"}
                        break  # it may have taken long to send: look again who reads
                if event is not None:
                    continue
                if (now := _tools_of(allowed)) != tools:
                    tools = now
                    if "tools" in principal.scopes:
                        yield _made("tools.changed", ring.last_id, tools)
                if at == ring.end and changed == self._tools_changed and not self._closed:
                    await event_within(news, _CHECK_SECONDS)
        finally:
            self._streams[tenant] -= 1
            ring.watched_here = monotonic()

    def check_room(self, tenant: str) -> None:
        """Raises `LimitReached` where no more streams may be opened."""
        for most, there, whose in (
            (_MOST_OF_TENANT, self._streams[tenant], "tenant"),
            (_MOST_STREAMS, self._streams.total(), "service"),
        ):
            if there >= most:
                raise LimitReached("streams", whose, most, 5.0, f"{there} event streams of this {whose} are open.")

    def _open(self, tenant: str) -> _Ring:
        ring = self.rings.get(tenant)
        if ring is None:
            ring = self.rings[tenant] = _Ring()
        if not self._streams[tenant]:
            self._watch(tenant)
        self._streams[tenant] += 1
        return ring

    def close(self) -> None:
        """End all streams: the instance is about to stop."""
        self._closed = True
        for ring in self.rings.values():
            ring.stir()


_MISSED = "Something may have been missed. Fetch again what you keep."


def _made(kind: str, last: str, tools: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An event for one reader alone; it leaves them where they were."""
    moment = shown_time(time())
    return {"id": f"{last}.{tools}", "type": kind, "call": None, "user": None, "at": moment, "data": dict(data or {})}


def _tools_of(allowed: Allowed) -> str:
    """A short hash of the tools that somebody may use: it is part of each position, so that none is missed."""
    named = "\n".join(sorted(f"{tool.name} {tool.version}" for tool in allowed.tools.tools()))
    return hashlib.sha256(named.encode()).hexdigest()[:8]


def _sees(principal: Principal, allowed: Allowed, event: Mapping[str, Any]) -> bool:
    kind: str = event["type"]
    if kind == "reset":
        return True
    own = event["user"] == principal.user
    if kind.startswith("approval.") or kind == "call.awaiting_approval":
        return "approvals" in principal.scopes and (own or allowed.may("approve others") or allowed.may("calls"))
    return "calls" in principal.scopes and (own or allowed.may("calls"))


async def event_within(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, for so many seconds at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
