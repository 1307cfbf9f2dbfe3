"""Who is there: workers announce themselves and their tools, and are forgotten when they fall silent."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from ferrule.remote.link import NatsLink, NotReachedError
from ferrule.remote.wire import calls_stream, claims_bucket, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Announcement:
    """What a worker says of itself, every quarter of a lease."""

    pool: str
    worker: str
    tools: dict[str, dict[str, str]]
    """By name and digest, the version."""
    workspace: str
    tenants: list[str] | None
    concurrency: int
    running: int
    leaving: bool = False

    def pack(self) -> bytes:
        return to_json({name: getattr(self, name) for name in self.__slots__})


class Roster:
    def __init__(self, link: NatsLink, left: Callable[[Announcement], None] = lambda _: None) -> None:
        self._link = link
        self._left = left
        self._pools: dict[str, dict[str, tuple[Announcement, float]]] = {}
        self._subscriptions: list[Any] = []
        self._changed = asyncio.Event()
        self._watched: set[str] = set()
        self._lock = asyncio.Lock()
        self.heard: Callable[[Announcement], None] = lambda _: None

    async def watch(self, pool: str) -> None:
        """Hear of a pool's workers from now on."""
        if pool in self._watched:
            return
        async with self._lock:
            if pool in self._watched:
                return
            self._subscriptions.append(await self._link.connection.subscribe(f"here.{pool}.*", cb=self._take))
            await self._link.tell(f"who.{pool}", b"")
            self._watched.add(pool)

    async def ask_again(self) -> None:
        for pool in self._watched:
            await self._link.tell(f"who.{pool}", b"")

    async def _take(self, message: Any) -> None:
        if self._link.key.verify(message.data) is None:
            return
        try:
            said = Announcement(**from_json(unsigned(message.data)))
        except (TypeError, ValueError):
            return  # of another version
        if message.subject != f"here.{said.pool}.{said.worker}":
            return
        workers = self._pools.setdefault(said.pool, {})
        if said.leaving:
            if workers.pop(said.worker, None) is not None:
                self._left(said)
        else:
            workers[said.worker] = said, monotonic()
        self.heard(said)
        self._changed.set()
        self._changed = asyncio.Event()

    def prune(self) -> None:
        """Forget those who have said nothing for two leases."""
        before = monotonic() - 2 * self._link.lease
        for workers in self._pools.values():
            for name in [name for name, (_, heard) in workers.items() if heard < before]:
                self._left(workers.pop(name)[0])

    def workers(self, pool: str) -> list[Announcement]:
        return [said for said, _ in self._pools.get(pool, {}).values()]

    def knows(self, pool: str, worker: str) -> bool:
        return worker in self._pools.get(pool, {})

    def offering(self, pool: str, tool: str, digest: str, tenant: str) -> list[Announcement]:
        """The workers that have this very definition of a tool, for this tenant."""
        return [
            one
            for one in self.workers(pool)
            if digest in one.tools.get(tool, {}) and (one.tenants is None or tenant in one.tenants)
        ]

    async def await_change(self, until: float) -> bool:
        """Wait until somebody was heard; False when it is time to give up."""
        left = until - monotonic()
        if left <= 0:
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), min(left, self._link.lease / 4))
        return True


def near(workers: list[Announcement], workspace: str) -> list[Announcement]:
    """Those who have a workspace: it is theirs, or lies in what is theirs; the closest first."""
    having = [one for one in workers if one.workspace and holds(one.workspace, workspace)]
    return sorted(having, key=lambda one: (-len(one.workspace), one.worker))


def real_path(folder: str | os.PathLike[str]) -> str:
    return os.path.realpath(folder)


def holds(folder: str, workspace: str) -> bool:
    return os.path.commonpath([folder, workspace]) == folder if os.path.isabs(workspace) else False  # noqa: PTH117


async def pools_on(link: NatsLink) -> list[str]:
    """The pools that the server has calls of, where this key may list them."""
    prefix = calls_stream("")
    with suppress(NotReachedError):
        told = await link.api("STREAM.NAMES", {"offset": 0}, timeout=1)
        return sorted(name.removeprefix(prefix) for name in told.get("streams") or () if name.startswith(prefix))
    return []


async def pool_counts(link: NatsLink, pool: str) -> dict[str, int]:
    """The calls of a pool that wait, that run, and that were lost within the last hour: what to scale by."""
    bucket = claims_bucket(pool)
    told = await link.api(f"STREAM.INFO.{calls_stream(pool)}")
    running = 0
    with suppress(NotReachedError):
        listed = await link.api(f"CONSUMER.LIST.{calls_stream(pool)}", {"offset": 0}, timeout=1)
        running = sum(one.get("num_ack_pending", 0) for one in listed.get("consumers") or ())
    lost = await link.api(f"STREAM.INFO.KV_{bucket}", {"subjects_filter": f"$KV.{bucket}._lost.>"})
    kept = told.get("state", {}).get("messages", 0)
    found: dict[str, int] = lost.get("state", {}).get("subjects") or {}
    return {"pending": max(0, kept - running), "in_flight": running, "lost": len(found)}
