"""The caller's side of a call on another machine: hands it over, hears of it, and always ends it with one result."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from fnmatch import fnmatchcase
from heapq import nsmallest
from operator import attrgetter
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pydantic_core import to_json

from ferrule.core.phrases import phrase, said_by
from ferrule.core.tool import Kind, Tool
from ferrule.remote import link, wire
from ferrule.remote.flight import (
    Flight,
    fell_silent,
    granted,
    names_left,
    not_run,
    small_values,
    trace_context,
    value_of,
)
from ferrule.remote.link import Claim, NotReachedError
from ferrule.remote.roster import Announcement, Roster, near, pool_counts, real_path
from ferrule.remote.wire import Nkey, RemoteCall, RemoteError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ferrule.core.context import Session
    from ferrule.pipeline.stages import Call

logger = logging.getLogger("ferrule.remote")

_AT_ONCE = 0.2
"""Seconds in which a free worker takes a call; where none does, it is made sure that the server has it."""
_CHECKS_AT_ONCE = 64
_SENDING = 128
"""Calls that are handed over at once; more would only wait for each other's acknowledgements."""
_CHECKS_A_ROUND = 2000
_IDLE_CHECKS_A_ROUND = 200
"""Of calls that only wait for a worker: the server tells when one takes them, so the more there are, the less each."""
_FAILED_SECONDS = 2.0
_DEFERRED = 3
"""How often a silent call is waited for once more because the server takes no changes."""
_PINNED = 10_000
"""Sessions of which it is remembered on which worker they are."""
_PLACES = ("path", "shell", "command")
"""Resources of a workspace: a call that touches one runs where that workspace is."""


class RemoteCalls:
    """Runs tools on the workers of pools: `Runtime(tools, remote=RemoteCalls("nats://…", key, pools={"gpu": ["*"]}))`.

    `pools` says which tools run where: names with `*`, `tag:…` or `kind:…`; a tool may also name its pool itself.
    `wait` is how many seconds a call waits for a worker that has its tool, and `queue` for one that is free. A worker
    that says nothing for two leases is taken for dead.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        key: Nkey | None,
        *,
        pools: Mapping[str, Sequence[str]] | None = None,
        lease: float = 10.0,
        wait: float = 10.0,
        queue: float = 300.0,
        ca: Path | None = None,
    ) -> None:
        if not 0 < queue <= link.LONGEST_VALID:
            raise ValueError(f"`queue` is more than 0 and at most {link.LONGEST_VALID:g} seconds, not {queue:g}.")
        if not 0.4 <= lease <= 300:
            raise ValueError(f"`lease` is from 0.4 to 300 seconds, not {lease:g}.")
        self.urls = [url] if isinstance(url, str) else list(url)
        if key is None and self.urls:
            raise ValueError("A key is needed to log in to the server: read_key(Path(…)).")
        self.key, self.lease, self.wait, self.queue, self.ca = key, lease, wait, queue, ca
        self.pools = {wire.require_pool(name): tuple(patterns) for name, patterns in (pools or {}).items()}
        for one in (one for patterns in self.pools.values() for one in patterns if one.startswith("kind:")):
            if one.removeprefix("kind:") not in list(Kind):
                raise ValueError(phrase("`{one}` is no kind of tools; kinds are {all}", one=one, all=", ".join(Kind)))
        self.longest_wait = wait + queue + 4 * lease + 30
        self._desks: WeakKeyDictionary[asyncio.AbstractEventLoop, Desk] = WeakKeyDictionary()

    def pool_of(self, tool: Tool[Any]) -> str | None:
        for pool, patterns in self.pools.items():
            if any(_is_meant(pattern, tool) for pattern in patterns):
                return pool
        return tool.remote or None

    async def desk(self) -> Desk:
        """What belongs to the running loop: the connection, and the calls that were made on it."""
        if self.key is None:
            raise RemoteError(
                phrase("There is no NATS server to connect to. Set `remote.url`, or start `ferrule remote dev`.")
            )
        loop = asyncio.get_running_loop()
        desk = self._desks.get(loop)
        if desk is None or desk.link.is_closed:
            desk = self._desks[loop] = Desk(self, self.key)
        if not desk.is_open:
            await desk.open()
        return desk

    async def pool_counts(self) -> dict[str, dict[str, int]]:
        """Of each pool its workers, and the calls that wait, run or were lost; nothing of one that cannot be asked."""
        counts: dict[str, dict[str, int]] = {}
        with suppress(RemoteError):
            desk = await self.desk()
            for pool in self.pools:
                counts[pool] = {"workers": len(desk.roster.workers(pool)), **await pool_counts(desk.link, pool)}
        return counts

    async def perform(self, call: Call, pool: str) -> Any:
        """The result of a call that ran on a worker; raises `StoppedError` where it failed or is lost."""
        name = call.invocation.tool.name
        try:
            desk = await self.desk()
            flight = await desk.launch(call, wire.require_pool(pool))
        except RemoteError as problem:
            raise not_run(name, said_by(problem)) from None
        try:
            told = await desk.outcome(flight)
        finally:
            desk.land(flight)
        return value_of(call, flight, told)

    async def close(self) -> None:
        """End the connection of the running loop."""
        desk = self._desks.pop(asyncio.get_running_loop(), None)
        if desk is not None:
            await desk.close()


class Desk:
    """The connection of one event loop, and the calls that were made on it."""

    def __init__(self, owner: RemoteCalls, key: Nkey) -> None:
        self.owner, self._key = owner, key
        self.link = link.NatsLink(key, owner.lease)
        self.roster = Roster(self.link, left=self._worker_left)
        self.flights: dict[str, Flight] = {}
        self._instance = os.urandom(6).hex()
        self._opening = asyncio.Lock()
        self._sending = asyncio.Semaphore(_SENDING)
        self._failed: tuple[float, RemoteError] | None = None
        """When the server could not be reached last, and why."""
        self._round: asyncio.Task[None] | None = None
        self.tasks = link.RunningTasks("A part of a remote call failed")
        self._unreached_since: float | None = None
        self._hinted: dict[tuple[str, str], float] = {}
        self._pins: dict[tuple[str, str], str] = {}
        self._untaken: set[str] = set()
        """Calls that no worker is known to have."""
        self._away = 0.0
        """When the connection was last away: what the server told before that may not have come."""
        self._suspect = False
        """Whether silent calls shall be looked at now: a worker left, or the connection was away."""

    @property
    def is_open(self) -> bool:
        return self._round is not None

    async def open(self) -> None:
        async with self._opening:
            if self.is_open:
                return
            owner = self.owner
            if self._failed is not None and monotonic() - self._failed[0] < _FAILED_SECONDS:
                raise RemoteError(*self._failed[1].args)  # calls that waited for the same attempt
            try:
                await self.link.open(owner.urls, "ferrule caller", ca=owner.ca, reconnected=self._reconnected)
            except RemoteError as problem:
                self._failed = monotonic(), problem
                raise
            subject = f"reply.*.*.{self._key.public}.{self._instance}.*"
            await self.link.connection.subscribe(subject, cb=self._take)
            for pool in owner.pools:
                await self.roster.watch(pool)
            self._round = asyncio.create_task(self._look_after())

    async def close(self) -> None:
        if self._round is not None:
            self._round.cancel()
        for task in list(self.tasks):
            task.cancel()
        for flight in list(self.flights.values()):
            flight.end({"lost": phrase("the connection to the NATS server was closed.")})
        await self.link.close()

    # Handing a call over

    async def launch(self, call: Call, pool: str) -> Flight:
        """Hand a call to the workers of a pool; raises `RemoteError` where it certainly was not started."""
        owner, invocation, session = self.owner, call.invocation, call.session
        tool, caller = invocation.tool, session.caller
        tenant, digest = wire.subject_token(caller.tenant), wire.digest_of(tool)
        await self.roster.watch(pool)
        # Whether it works on the files or shells of its session's workspace.
        bound = tool.has_touches and any(one.resource.partition(":")[0] in _PLACES for one in invocation.touches)
        worker = await self._worker_for(tool, pool, digest, tenant, session, bound=bound)
        uid, named = os.urandom(16).hex(), wire.subject_token(tool.name)
        # A call that needs the workspace of one worker goes there alone.
        subject = f"near.{pool}.{tenant}.{worker}.{named}" if worker else f"call.{pool}.{tenant}.{named}"
        arguments = tool.params.dump(invocation.params)
        context, state = call.context, small_values(session.state)
        remote = RemoteCall(
            uid=uid,
            call_id=invocation.call_id,
            tool=tool.name,
            version=tool.version,
            digest=digest,
            subject=subject,
            reply=f"reply.{pool}.{tenant}.{self._key.public}.{self._instance}.{uid}",
            secret=os.urandom(16).hex(),
            pool=pool,
            issued=0.0,
            valid=owner.queue,
            seconds=call.seconds,
            idempotent=tool.idempotent,
            tenant=caller.tenant,
            user=caller.user,
            role=caller.role,
            session=session.id,
            workspace=str(session.workspace),
            directory=str(session.directory),
            bound=bound,
            tentative=call.decision.tentative or bool(call.decision.tried),
            reason=call.decision.reason,
            watched=context is not None and context.watched,
            model=session.model,
            asks_model=session.model_adapter is not None,
            config=small_values(session.config),
            state=state,
            unsent=names_left(session.state, state),
            trace=trace_context(),
        )
        if len(arguments) > wire.PIECE:
            remote.parked, remote.hashed = (
                await self.link.park(pool, f"{remote.key}.a", arguments),
                wire.hash_of(arguments),
            )
        else:
            remote.arguments = arguments.decode()
        flight = Flight(remote, context, asyncio.get_running_loop())
        self.flights[uid] = flight
        try:
            async with self._sending:
                remote.issued = await self._server_time(pool)
                flight.heard = flight.sent = monotonic()
                await self._send(flight, tenant)
        except BaseException:
            self.land(flight)
            raise
        return flight

    async def _server_time(self, pool: str) -> float:
        until = monotonic() + 2 * self.link.lease
        while True:
            try:
                return await self.link.now(pool)
            except NotReachedError:
                if monotonic() > until:
                    raise RemoteError(_unreachable(self.owner)) from None
                await asyncio.sleep(0.1)

    async def _send(self, flight: Flight, tenant: str) -> None:
        """Publish a call. Where no other waits, no acknowledgement is asked for: the claim comes as soon."""
        call, payload = flight.call, self._key.sign(flight.call.pack())
        await self._hint(call.pool, tenant)
        self._untaken.add(call.uid)
        if len(self._untaken) > 1:
            return await self._hand_over(flight, payload)

        def make_sure() -> None:
            if call.uid in self._untaken and flight.told is None:
                self.tasks.spawn(self._hand_over_later(flight, payload))

        await self.link.tell(call.subject, payload, {"Nats-Msg-Id": call.uid})
        asyncio.get_running_loop().call_later(_AT_ONCE, make_sure)
        return None

    async def _hand_over_later(self, flight: Flight, payload: bytes) -> None:
        try:
            await self._hand_over(flight, payload)
        except RemoteError as problem:
            flight.end({"refused": said_by(problem)})

    async def _hand_over(self, flight: Flight, payload: bytes) -> None:
        """Publish until the server has it. Where that stays unknown, the claim decides what became of it."""
        call, until = flight.call, monotonic() + 2 * self.link.lease
        try:
            while True:
                try:
                    return await self.link.send_call(call.subject, call.uid, payload)
                except NotReachedError:
                    if monotonic() < until:
                        await asyncio.sleep(0.1)
                        continue
                except RemoteError:  # refused: it is not there
                    await self._give_up(flight)
                    raise
                if await self._give_up(flight):
                    raise RemoteError(_unreachable(self.owner))
                flight.end({"lost": _unreachable(self.owner)})
                return None
        except asyncio.CancelledError:
            self.tasks.spawn(self._abandon(flight))  # it may be on its way
            raise

    async def _hint(self, pool: str, tenant: str) -> None:
        """Let workers know that this tenant has calls; they find out by themselves, but later."""
        if monotonic() - self._hinted.get((pool, tenant), -1e9) > 2 * self.link.lease:
            self._hinted[pool, tenant] = monotonic()
            await self.link.tell(f"hint.{pool}.{tenant}", b"")

    async def _worker_for(
        self, tool: Tool[Any], pool: str, digest: str, tenant: str, session: Session, *, bound: bool
    ) -> str:
        """Wait until there is somebody for the call; the name of the worker, where only one will do."""
        until = monotonic() + self.owner.wait
        workspace = real_path(session.workspace) if bound else ""
        while True:
            offering = self.roster.offering(pool, tool.name, digest, tenant)
            if offering and not bound:
                return ""
            having = near(offering, workspace)
            if having:
                # Stay with the worker that has the session's shells and the files it has read.
                key = pool, session.id
                names = [one.worker for one in having]
                if (worker := self._pins.get(key)) not in names:
                    least = min(having, key=lambda one: (-len(one.workspace), one.running / one.concurrency))
                    worker = least.worker
                    while len(self._pins) >= _PINNED:
                        self._pins.pop(next(iter(self._pins)))
                    self._pins[key] = worker
                return worker or names[0]
            if not await self.roster.await_change(until):
                raise RemoteError(self._nobody(tool, pool, workspace if offering else "", tenant))

    def _nobody(self, tool: Tool[Any], pool: str, workspace: str, tenant: str) -> str:
        seconds, there = f"{self.owner.wait:g}", self.roster.workers(pool)
        if workspace:
            return phrase(
                "No worker of the pool `{pool}` has the workspace {workspace}. Start one there: `ferrule worker --pool "
                "{pool} --workspace {workspace}`.",
                pool=pool,
                workspace=workspace,
            )
        if not there:
            return phrase(
                "The pool `{pool}` has no workers (waited {seconds} s). Start one: `ferrule worker --pool {pool}`.",
                pool=pool,
                seconds=seconds,
            )
        versions = sorted({version for one in there for version in one.tools.get(tool.name, {}).values()})
        if versions and any(one.tenants is None or tenant in one.tenants for one in there):
            return phrase(
                "The workers of the pool `{pool}` offer a different definition of `{tool}` (version {theirs}; here it "
                "is {ours}). Install the same version on both.",
                pool=pool,
                tool=tool.name,
                theirs=", ".join(versions),
                ours=tool.version,
            )
        return phrase(
            "None of the {count} workers of the pool `{pool}` offers the tool `{tool}` to this caller (waited "
            "{seconds} s).",
            count=len(there),
            pool=pool,
            tool=tool.name,
            seconds=seconds,
        )

    # Until it has ended

    async def outcome(self, flight: Flight) -> dict[str, Any]:
        """What the call came to. Cancelling stops it where it runs, and waits for that."""
        try:
            return await flight.done
        except asyncio.CancelledError:
            flight.done = asyncio.get_running_loop().create_future()  # the other was cancelled with whoever waited
            told = await self._recall(flight)
            if told is None or "result" not in told or not told["result"]["success"]:
                raise
            return told  # it had done its work before it could be stopped

    def land(self, flight: Flight) -> None:
        self.flights.pop(flight.call.uid, None)
        self._untaken.discard(flight.call.uid)
        for task in flight.asked.values():
            task.cancel()

    async def _recall(self, flight: Flight) -> dict[str, Any] | None:
        """Stop a call: keep it from being started, or have its worker stop it."""
        try:
            while flight.told is None:
                if flight.worker is None and await self._give_up(flight):
                    return None
                await self._control(flight, {"kind": "cancel"})
                await asyncio.wait({flight.done}, timeout=0.25)
        except asyncio.CancelledError:  # it was waited for long enough
            known = flight.worker is not None
            self.tasks.spawn(self._declare_lost(flight, flight.revision) if known else self._abandon(flight))
            raise
        return flight.told

    async def _abandon(self, flight: Flight) -> None:
        """Stop a call that nobody waits for any more, as soon as the server can be told."""
        while not await self._give_up(flight):
            if flight.worker is not None or flight.told is not None:
                await self._control(flight, {"kind": "cancel"})
                return
            if monotonic() - flight.sent > flight.call.valid:
                return
            await asyncio.sleep(0.1)

    async def _give_up(self, flight: Flight) -> bool:
        """See to it that nobody starts the call; False where somebody has, or where that cannot be known."""
        try:
            if await self.link.set_claim(flight.call.pool, flight.call.key, link.GIVEN_UP + b"{}", 0) is not None:
                return True
            found = await self.link.claim(flight.call.pool, flight.call.key)
        except NotReachedError:
            return False
        if found is not None:
            await self._learn(flight, found)
        return False

    async def _control(self, flight: Flight, told: dict[str, Any]) -> None:
        if flight.worker is not None:
            call = flight.call
            subject = f"ctl.{call.pool}.{wire.subject_token(call.tenant)}.{flight.worker}.{call.uid}"
            await self.link.tell(subject, wire.seal(call.secret, told))

    # What workers say

    async def _take(self, message: Any) -> None:
        uid = message.subject.rpartition(".")[2]
        flight = self.flights.get(uid)
        if flight is not None and (claim := Claim.of(message)) is not None:
            return await self._changed(flight, claim)
        if flight is None or (told := wire.unseal(flight.call.secret, message.data)) is None:
            if message.reply:
                await self.link.tell(message.reply, b"ok" if uid == "_" else b"unknown")
            return None
        flight.heard = monotonic()
        match told["kind"]:
            case "beat":
                flight.worker = told["worker"]
                await self.link.tell(message.reply, b"ok")
            case "event":
                self._show(flight, told)
            case "refused":
                self.tasks.spawn(self._refuse(flight, told["message"]))
            case "claimed":  # somebody had it before; what became of it the claim says
                flight.worker, flight.heard, self._suspect = told["worker"], flight.sent, True
            case "ask":
                flight.worker = told["worker"]  # it may ask before it has said that it began
                self._asked(flight, told)
            case _:
                logger.warning("A worker said %r, which this version does not know", told["kind"])
        return None

    async def _changed(self, flight: Flight, claim: Claim) -> None:
        """The server says that a worker has changed the claim of a call. What we changed ourselves we know."""
        self._untaken.discard(flight.call.uid)
        if claim.state == link.RUNNING:
            await self._learn(flight, claim)
        elif claim.state == link.DONE:
            told = wire.unseal(flight.call.secret, claim.data)
            if told is None:
                self._suspect = True  # no worker of ours said that; the bucket knows
            elif "parked" in told:
                self.tasks.spawn(self._finish(flight, told))
            else:
                flight.end(told)

    def _show(self, flight: Flight, told: dict[str, Any]) -> None:
        context = flight.context
        if context is None or flight.told is not None or told["number"] <= flight.seen_events:
            return
        flight.seen_events = told["number"]
        if "done" in told:
            context.progress(told["done"], told["total"], told["message"])
        else:
            context.partial(told["content"])

    async def _finish(self, flight: Flight, told: dict[str, Any]) -> None:
        """Deliver a result, which may lie in pieces."""
        if "parked" in told:
            try:
                where = f"{flight.call.key}.{told.get('at', 'r')}"
                data = await self.link.fetch(flight.call.pool, where, told["parked"], told["hash"])
            except RemoteError as problem:
                flight.end({"lost": phrase("Its result did not arrive: {why}.", why=said_by(problem).rstrip("."))})
                return
            if (told := wire.unseal(flight.call.secret, data) or {}) == {}:
                flight.end({"lost": phrase("Its result did not come from its worker.")})
                return
        flight.end(told)

    async def _refuse(self, flight: Flight, message: str) -> None:
        if await self._give_up(flight):
            flight.end({"refused": message})

    # What a tool asks for while it runs: what it calls goes through our stages, on our record

    def _asked(self, flight: Flight, told: dict[str, Any]) -> None:
        for number in [number for number in flight.asked if number < told["settled"]]:
            flight.asked.pop(number).cancel()  # nobody waits for it any more
        number = told["number"]
        known = flight.asked.get(number)
        if known is None:
            flight.asked[number] = self.tasks.spawn(self._answer(flight, told), flight.around)
        elif known.done():  # the answer did not arrive
            answered = not known.cancelled() and known.exception() is None
            self.tasks.spawn(self._control(flight, known.result() if answered else {"kind": "nothing"}))

    async def _answer(self, flight: Flight, told: dict[str, Any]) -> dict[str, Any]:
        call, number = flight.call, told["number"]
        try:
            if "parked" in told:
                data = await self.link.fetch(call.pool, f"{flight.call.key}.q{number}", told["parked"], told["hash"])
                told = wire.unseal(call.secret, data) or {}
            value = await granted(flight, told["what"], told["with"])
            answer: dict[str, Any] = {"kind": "answer", "number": number, "value": value}
            if len(data := wire.seal(call.secret, answer)) > wire.PIECE:
                parked = await self.link.park(call.pool, f"{flight.call.key}.w{number}", data)
                answer = {"kind": "answer", "number": number, "parked": parked, "hash": wire.hash_of(data)}
        except RemoteError as problem:
            answer = {"kind": "answer", "number": number, "error": said_by(problem)}
        await self._control(flight, answer)
        return answer

    # Silence

    def _reconnected(self) -> None:
        self._suspect, self._away = True, monotonic()
        self._hinted.clear()
        self.tasks.spawn(self.roster.ask_again())

    def _worker_left(self, _: Announcement) -> None:
        self._suspect = True

    async def _look_after(self) -> None:
        """Look at calls of which nothing was heard for a while."""
        lease = self.link.lease
        while True:
            for _ in range(5):
                await asyncio.sleep(lease / 20)
                if self._suspect:
                    break
            try:
                await self._look()
            except Exception:  # whoever waits for a call must not wait for ever
                logger.exception("Remote calls could not be looked after")

    async def _look(self) -> None:
        lease = self.link.lease
        self.roster.prune()
        quiet = lease / 4 if self._suspect else lease
        self._suspect = False
        now = monotonic()
        flights = (one for one in self.flights.values() if one.told is None)
        silent = [one for one in flights if min(now - one.heard, now - one.checked) > quiet]
        urgent = [one for one in silent if self._is_urgent(one, now)]
        chosen = nsmallest(_CHECKS_A_ROUND, urgent, key=attrgetter("checked"))
        if len(chosen) < len(silent):
            waiting = [one for one in silent if not self._is_urgent(one, now)]
            chosen += nsmallest(_IDLE_CHECKS_A_ROUND, waiting, key=attrgetter("checked"))
        for start in range(0, len(chosen), _CHECKS_AT_ONCE):
            checks = (self._check(one) for one in chosen[start : start + _CHECKS_AT_ONCE])
            for problem in await asyncio.gather(*checks, return_exceptions=True):
                if isinstance(problem, Exception):
                    logger.error("A remote call could not be looked at", exc_info=problem)

    def _is_urgent(self, flight: Flight, now: float) -> bool:
        """Whether it runs, is for one worker alone, has waited too long, or may have been told while we were away."""
        call = flight.call
        return (
            flight.worker is not None
            or call.subject.startswith("near.")
            or now - flight.sent > call.valid
            or flight.checked < self._away
        )

    async def _check(self, flight: Flight) -> None:
        """Learn from its claim what became of a silent call, and end it where nothing more will be heard."""
        flight.checked = now = monotonic()
        lease, call = self.link.lease, flight.call
        try:
            found = await self.link.claim(call.pool, flight.call.key)
        except NotReachedError:
            self._unreached_since = self._unreached_since or now
            if now - self._unreached_since > 2 * lease and now - flight.heard > 2 * lease:
                flight.end({"lost": _unreachable(self.owner)})
            return None
        self._unreached_since = None
        if found is not None:
            return await self._learn(flight, found)
        await self._hint(call.pool, wire.subject_token(call.tenant))
        gone = call.subject.startswith("near.") and not self.roster.knows(call.pool, call.subject.split(".")[3])
        late = now - flight.sent > call.valid
        if (late or gone) and await self._give_up(flight):
            flight.end({"unstarted": "gone" if gone else "late"})
        return None

    async def _learn(self, flight: Flight, found: Claim) -> None:
        match found.state:
            case b"D":
                told = wire.unseal(flight.call.secret, found.data)
                await self._finish(flight, told or {"lost": phrase("Its result did not come from its worker.")})
            case b"R":
                if flight.revision != found.revision:  # claimed, or claimed anew, and nothing was heard of it yet
                    flight.revision, flight.worker = found.revision, found.told["worker"]
                    flight.heard = monotonic()
                elif monotonic() - flight.heard >= 2 * self.link.lease and not self._is_run_again(flight):
                    await self._declare_lost(flight, found.revision)
            case b"L":
                flight.end({"lost": fell_silent(flight)})
            case _:
                flight.end({"unstarted": "late"})

    def _is_run_again(self, flight: Flight) -> bool:
        """Whether another worker will run a call anew, when it has a place free."""
        call = flight.call
        if not call.idempotent or call.subject.startswith("near.") or monotonic() - flight.sent > call.valid:
            return False
        offering = self.roster.offering(call.pool, call.tool, call.digest, wire.subject_token(call.tenant))
        return any(one.worker != flight.worker for one in offering)

    async def _declare_lost(self, flight: Flight, revision: int) -> None:
        """From here on its worker cannot report a result any more."""
        told = to_json({"worker": flight.worker, "tool": flight.call.tool, "call": flight.call.call_id})
        try:
            if await self.link.set_claim(flight.call.pool, flight.call.key, link.LOST + told, revision) is None:
                return
            lost = f"_lost.{flight.call.uid}"
            await self.link.set_claim(flight.call.pool, lost, link.LOST + told, 0)
        except NotReachedError:
            flight.deferred += 1
            if flight.deferred > _DEFERRED:
                flight.end({"lost": _unreachable(self.owner)})
            flight.heard = monotonic() - self.link.lease  # nor can its worker report anything now; both get a lease
            return
        await self._control(flight, {"kind": "cancel"})
        flight.end({"lost": fell_silent(flight)})


def _unreachable(owner: RemoteCalls) -> str:
    return phrase("the NATS server at {where} does not answer.", where=", ".join(owner.urls))


def _is_meant(pattern: str, tool: Tool[Any]) -> bool:
    what, colon, name = pattern.partition(":")
    if colon and what == "tag":
        return any(fnmatchcase(tag, name) for tag in tool.tags)
    if colon and what == "kind":
        return tool.kind == name
    return fnmatchcase(tool.name, pattern)
