"""A worker: takes calls of a pool, claims each before it runs it, keeps its lease, and ends it by compare-and-set."""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from ferrule.core.loops import start_task
from ferrule.core.phrases import phrase
from ferrule.remote.job import RemoteJob, WorkerSessions
from ferrule.remote.link import CLAIM_SECONDS, NOBODY, RUNNING, NotReachedError, RunningTasks, no_stream
from ferrule.remote.offers import definition_of
from ferrule.remote.roster import Announcement, holds, real_path
from ferrule.remote.wire import RemoteError, calls_stream, digest_of, read_call, seal, subject_token, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path

    from ferrule.core.tool import Tool
    from ferrule.pipeline.run import Runtime
    from ferrule.pipeline.stages import Call
    from ferrule.remote.link import Claim, NatsLink
    from ferrule.remote.wire import RemoteCall

logger = logging.getLogger("ferrule.remote")

MOST_TRIES = 3
"""How often a call is begun that may be run again: one that ends its worker each time is given up then."""
_PULL_SECONDS = 20.0
_HELD_SECONDS = 0.5
"""How long a call is kept that came when no place was free, before another worker may have it."""
_FUTURE_SECONDS = 60.0
_SKIP_SECONDS = 0.3
_FIND_SECONDS = 2.0
_GONE_SECONDS = 1.0
_NOT_FOUND = 404
_STOP_SECONDS = 5.0
_IDLE_SECONDS = 600.0


@dataclass(slots=True)
class Taken:
    """A message with a call, not begun yet."""

    message: Any
    source: CallSource
    since: float


@dataclass(slots=True)
class CallSource:
    """One tenant's calls, or those for this worker alone. Each has its turn, however many calls the others have."""

    consumer: str
    subject: str
    made: bool = False
    """Whether the server has its consumer, as far as we know."""
    gone: float = 0.0
    """Since when nobody answers for its consumer: it was deleted, or the servers choose a leader for it."""
    expected: int = 0
    """Messages that were asked for and have not come."""
    until: float = 0.0
    last: float = field(default_factory=monotonic)
    """When a call of it came last."""
    served: int = 0
    """When it was served last, as a number that counts up."""


@dataclass(slots=True)
class WorkerOptions:
    pool: str
    name: str = field(default_factory=lambda: f"{_host()}-{uuid.uuid4().hex[:8]}")
    tools: Sequence[str] = ()
    """Names with `*`; all where there are none."""
    concurrency: int = 8
    workspace: Path | None = None
    tenants: Sequence[str] = ()
    drain: float = 30.0
    """Seconds that running calls have to end when the worker is told to stop."""
    replicas: int = 1


class _Here:
    """For a worker's own runtime: whatever pool a tool names, it runs here."""

    longest_wait = 0.0

    def pool_of(self, tool: Tool[Any]) -> str | None:
        return None

    def perform(self, call: Call, pool: str) -> Coroutine[Any, Any, Any]:
        raise NotImplementedError


HERE = _Here()


class PoolWorker:
    def __init__(self, link: NatsLink, runtime: Runtime, tools: Sequence[Tool[Any]], options: WorkerOptions) -> None:
        self.link, self.options = link, options
        self.pool, self.name = options.pool, options.name
        self.offered = {(tool.name, digest_of(tool)): tool for tool in tools}
        self.workspace = real_path(options.workspace) if options.workspace is not None else ""
        self.sessions = WorkerSessions(runtime, self.workspace)
        self.tenants = [subject_token(one) for one in options.tenants] or None
        self.running: dict[str, RemoteJob] = {}
        self._starting = 0
        self._held: list[Taken] = []
        self._sources: dict[str, CallSource] = {}
        self._count = 0
        self._draining = False
        self._inbox = f"_INBOX.{link.key.public}.{uuid.uuid4().hex}"
        self._callers: dict[str, float] = {}
        """When callers were last known to be there."""
        self.tasks = RunningTasks("A part of a worker failed")
        self._wake = asyncio.Event()

    # From the start to the end

    async def serve(self, stop: asyncio.Event, ready: Callable[[], None] = lambda: None) -> None:
        """Take calls until `stop` is set; then let the running ones end, and leave."""
        link, pool = self.link, self.pool
        await link.prepare(pool, self.options.replicas, look_at_claims=self.tenants is None)
        await link.now(pool)
        subscribe = link.connection.subscribe
        await subscribe(f"{self._inbox}.*", cb=self._take, pending_msgs_limit=-1, pending_bytes_limit=-1)
        for tenant in self.tenants or ["*"]:
            await subscribe(f"ctl.{pool}.{tenant}.{self.name}.*", cb=self._control)
            await subscribe(f"hint.{pool}.{tenant}", cb=self._hinted)
        await subscribe(f"who.{pool}", cb=self._announce_to)
        await subscribe(f"define.{pool}.{self.name}", cb=self._define)
        for tenant in self.tenants or []:
            await self._add_tenant(tenant)
        if self.workspace:
            for tenant in self.tenants or ["*"]:
                await self._add_source(self._near(tenant), f"near.{pool}.{tenant}.{self.name}.>")
        await self._find_calls()
        loops = [asyncio.create_task(one) for one in (self._announce_often(), self._find_often(), self._tick())]
        try:
            await self._announce()
            ready()
            self._fill()
            stopping = asyncio.create_task(stop.wait())
            done, _ = await asyncio.wait({stopping, *loops}, return_when=asyncio.FIRST_COMPLETED)
            if stopping not in done:  # one of ours has failed: better to end, and be started again, than to idle
                stopping.cancel()
                done.pop().result()
            # Accept no more calls, let running ones finish, and stop those that do not.
            self._draining = True
            await self._announce(leaving=True)
            for taken in self._held:
                await self._give_back(taken.message)
            self._held.clear()
            await self._emptied(self.options.drain)
            for job in list(self.running.values()):
                job.stop(phrase("the worker was told to stop"))
            await self._emptied(_STOP_SECONDS)
        finally:
            for task in (*loops, *self.tasks):
                task.cancel()
            await asyncio.gather(*loops, *self.tasks, return_exceptions=True)
            await self.sessions.close()

    async def _emptied(self, seconds: float) -> None:
        until = monotonic() + seconds
        while (self.running or self._starting) and (left := until - monotonic()) > 0:
            self._wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), left)

    def reconnected(self) -> None:
        """What was asked for before is forgotten by the server."""
        for source in self._sources.values():
            source.expected = 0
        self._fill()

    # Who we are

    async def _announce(self, *, leaving: bool = False) -> None:
        tools: dict[str, dict[str, str]] = {}
        for (name, digest), tool in self.offered.items():
            tools.setdefault(name, {})[digest] = tool.version
        running, most = len(self.running), self.options.concurrency
        said = Announcement(self.pool, self.name, tools, self.workspace, self.tenants, most, running, leaving)
        await self.link.tell(f"here.{self.pool}.{self.name}", self.link.key.sign(said.pack()))

    async def _announce_to(self, _asking: Any = None) -> None:
        if not self._draining:
            await self._announce()

    async def _announce_often(self) -> None:
        while True:
            await asyncio.sleep(self.link.lease / 4)
            await self._announce_to()

    async def _define(self, message: Any) -> None:
        """Describe a tool to a caller that does not have it."""
        for (name, digest), tool in self.offered.items():
            if f"{name} {digest}".encode() == message.data:
                await self.link.tell(message.reply, self.link.key.sign(definition_of(tool)))

    # Where calls come from

    async def _add_tenant(self, tenant: str) -> None:
        await self._add_source(f"t-{tenant}", f"call.{self.pool}.{tenant}.>")

    async def _add_source(self, consumer: str, subject: str) -> None:
        if consumer not in self._sources:
            self._sources[consumer] = source = CallSource(consumer, subject)
            if why := await self._make_consumer(source):
                logger.warning("Calls at %s cannot be taken yet: %s", subject, why)

    async def _make_consumer(self, source: CallSource) -> str:
        """Have the server make what is pulled from, and say why not. Where it is there already, nothing changes."""
        stream, consumer = calls_stream(self.pool), source.consumer
        config: dict[str, Any] = {
            "durable_name": consumer,
            "name": consumer,
            "filter_subject": source.subject,
            "ack_policy": "explicit",
            "ack_wait": int(self.link.lease * 1e9),
            "max_deliver": -1,
            "max_ack_pending": 20_000,
            "max_waiting": 5_000,
            "inactive_threshold": CLAIM_SECONDS * 1_000_000_000,
        }
        body = {"stream_name": stream, "config": config, "action": ""}
        try:
            told = await self.link.api(f"CONSUMER.CREATE.{stream}.{consumer}.{source.subject}", body, timeout=5)
        except NotReachedError:
            told = {"error": {"description": "no answer"}}
        if "error" in told:
            return str(told["error"].get("description"))
        source.made, source.served, source.expected = True, self._count, 0
        self._fill()
        return ""

    def _near(self, tenant: str) -> str:
        """The source of calls for this worker alone."""
        return f"w-{self.name}-{tenant if self.tenants else 'all'}"

    async def _hinted(self, message: Any) -> None:
        tenant = message.subject.rpartition(".")[2]
        if f"t-{tenant}" not in self._sources:
            self.tasks.spawn(self._add_tenant(tenant))

    async def _find_often(self) -> None:
        missing = 0
        while True:
            await asyncio.sleep(_FIND_SECONDS)
            missing = 0 if await self._find_calls() else missing + 1
            if missing > 1:  # better to end, and be started again, than to wait for what nobody can send
                raise RemoteError(no_stream(self.pool))
            for source in [one for one in self._sources.values() if not one.made]:
                await self._make_consumer(source)

    async def _find_calls(self) -> bool:
        """Find tenants that have calls here, also where their hint was not heard; False where there is no queue."""
        with suppress(NotReachedError):
            told = await self.link.api(
                f"STREAM.INFO.{calls_stream(self.pool)}", {"subjects_filter": f"call.{self.pool}.>"}
            )
            if told.get("error", {}).get("code") == _NOT_FOUND:
                return False
            subjects: dict[str, int] = told.get("state", {}).get("subjects") or {}
            if self.tenants is None:
                for tenant in {subject.split(".")[2] for subject in subjects}:
                    await self._add_tenant(tenant)
        return True

    # Taking calls in turn

    @property
    def free(self) -> int:
        return self.options.concurrency - len(self.running) - self._starting

    def _fill(self) -> None:
        """Begin what is held, and ask for as many calls as there are free places: of each tenant a share."""
        if self._draining:
            return
        while self._held and self.free > 0:
            taken = min(self._held, key=lambda one: one.source.served)
            self._held.remove(taken)
            self._begin(taken)
        sources = [one for one in self._sources.values() if one.made]
        if self._held or self.free <= 0 or not sources or not self.link.is_connected:
            return
        share, now = max(1, self.free // len(sources)), monotonic()
        for source in sources:
            if source.expected <= 0 or now > source.until:
                source.expected, source.until = share, now + _PULL_SECONDS + 1
                subject = f"$JS.API.CONSUMER.MSG.NEXT.{calls_stream(self.pool)}.{source.consumer}"
                body = to_json({"batch": share, "expires": int(_PULL_SECONDS * 1e9)})
                self.tasks.spawn(self.link.tell(subject, body, reply=f"{self._inbox}.{source.consumer}"))

    async def _take(self, message: Any) -> None:
        headers: dict[str, str] = message.headers or {}
        if "Status" in headers and message.subject.startswith(self._inbox):
            source = self._sources.get(message.subject.rpartition(".")[2])
            if source is not None and headers["Status"] != "100":
                source.expected = 0
                gone = headers["Status"] == NOBODY or "Consumer" in headers.get("Description", "")
                source.gone = (source.gone or monotonic()) if gone else 0.0
                if headers["Status"] not in ("404", "408"):
                    logger.info("Pull of %s: %s", source.consumer, headers.get("Description", headers["Status"]))
                asyncio.get_running_loop().call_later(0.1 if gone else 0.01, self._fill)
            return
        parts = message.subject.split(".")
        source = self._sources.get(f"t-{parts[2]}" if parts[0] == "call" else self._near(parts[2]))
        if source is None:
            await self._give_back(message)
            return
        source.expected -= 1
        source.gone, source.last = 0.0, monotonic()
        taken = Taken(message, source, monotonic())
        if self._draining:
            await self._give_back(message)
        elif self.free > 0 and not self._held:
            self._begin(taken)
        else:
            self._held.append(taken)
        self._fill()

    def _begin(self, taken: Taken) -> None:
        self._count += 1
        taken.source.served = self._count
        self._starting += 1
        # At once: a turn of the loop takes as long.
        self.tasks.keep(start_task(self._handle(taken), asyncio.get_running_loop()))

    async def _tick(self) -> None:
        """Give back what was held too long, and ask again for what did not come."""
        while True:
            await asyncio.sleep(0.25)
            now = monotonic()
            for taken in [one for one in self._held if now - one.since > _HELD_SECONDS]:
                self._held.remove(taken)
                await self._give_back(taken.message)
            for name in [name for name, one in self._sources.items() if now - one.last > _IDLE_SECONDS]:
                if self.tenants is None and not name.startswith("w-"):
                    del self._sources[name]  # its next call is hinted at, or found
            for source in self._sources.values():
                if source.gone and now - source.gone > _GONE_SECONDS:
                    source.gone, source.made = 0.0, False
                    self.tasks.spawn(self._make_consumer(source))
            if self.link.is_closed:
                raise RemoteError(phrase("The NATS server closed the connection: {why}.", why=self.link.last_error))
            self._fill()

    async def _give_back(self, message: Any, delay: float = 0.0) -> None:
        body = b"-NAK" + (b' {"delay": %d}' % int(delay * 1e9) if delay else b"")
        await self.link.tell(message.reply, body)

    # One call

    async def _handle(self, taken: Taken) -> None:
        message = taken.message
        job: RemoteJob | None = None
        try:
            job = await self._claimed(message)
        except NotReachedError:
            logger.info("A call could not be claimed; the server gives it to somebody again")
        except RemoteError as problem:
            logger.warning("A call was refused: %s", problem)
            await self.link.tell(message.reply, b"+TERM")
            with suppress(ValueError):
                call = read_call(unsigned(message.data))
                if call.reply.startswith(f"reply.{self.pool}."):
                    told = {"kind": "refused", "message": str(problem), "worker": self.name}
                    await self.link.tell(call.reply, seal(call.secret, told))
        finally:
            self._starting -= 1
        if job is not None:
            self.running[job.call.uid] = job
            try:
                await job.run()
            finally:
                del self.running[job.call.uid]
        self._wake.set()
        self._fill()

    async def _claimed(self, message: Any) -> RemoteJob | None:
        """The call with its claim, ready to run; None where it is not ours to run. Raises `RemoteError` to refuse."""
        call = await self._verified(message)
        if call is None:
            return None
        if (call.tool, call.digest) not in self.offered:  # another worker of the pool has it
            await self._give_back(message, _SKIP_SECONDS)
            return None
        if call.bound and not (self.workspace and holds(self.workspace, real_path(call.workspace))):
            raise RemoteError(f"This worker does not have the workspace {call.workspace}.")
        if not await self._is_there(call):
            await self._give_back(message, self.link.lease / 2)  # until it is too old
            return None
        job = RemoteJob(self.link, self.name, self.sessions, call, message)
        lease = self.link.lease
        job.claim = self._claim(job.nonce, 1)
        began = monotonic()
        # Asked for until it is known: a claim that was made, and whose answer got lost, would keep all from the call.
        revision = await self.link.settle_claim(self.pool, job.call.key, job.claim, 0, began + 2 * lease)
        if revision is None:
            found = await self.link.known_claim(self.pool, job.call.key)
            revision = await self._again(job, found) if found is not None else None
            if revision is None:
                return None
        if monotonic() - began > lease / 4:  # the caller may have given it up meanwhile
            revision = await self.link.settle_claim(self.pool, job.call.key, job.claim, revision, monotonic() + lease)
            if revision is None:
                return None
        job.revision = revision
        return job

    def _claim(self, nonce: str, tries: int) -> bytes:
        return RUNNING + to_json({"worker": self.name, "nonce": nonce, "tries": tries})

    async def _again(self, job: RemoteJob, found: Claim) -> int | None:
        """What to do with a call that was claimed before: the revision of our claim where it is run again."""
        call = job.call
        if found.state == RUNNING:
            told = found.told
            if told["worker"] == self.name and call.uid in self.running:
                return None  # it came twice, and runs
            if not call.idempotent:
                await job.tell({"kind": "claimed", "worker": told["worker"]})
            elif told["tries"] < MOST_TRIES:
                job.tries = told["tries"] + 1
                job.claim = self._claim(job.nonce, job.tries)
                return await self.link.set_claim(self.pool, job.call.key, job.claim, found.revision)
            else:
                job.revision = found.revision
                await job.give_up(told["tries"])
                return None
        await self.link.tell(job.message.reply, b"+ACK")
        return None

    async def _verified(self, message: Any) -> RemoteCall | None:
        """The call, where it is one that we may run: signed by somebody we trust, for us, and not too old."""
        try:
            call = read_call(unsigned(message.data))
        except ValueError as error:
            await self.link.tell(message.reply, b"+TERM")
            logger.warning("A message that is no call was dropped: %s", error)
            return None
        if (who := self.link.key.verify(message.data)) is None:
            raise RemoteError("Its caller's key is not among those that the worker trusts (`remote.trusted`).")
        place, answers = [self.pool, subject_token(call.tenant)], call.reply.split(".")
        if call.subject != message.subject or call.pool != self.pool or message.subject.split(".")[1:3] != place:
            raise RemoteError("It was sent to a place that it was not signed for.")
        if answers != ["reply", *place, who, *answers[4:5], call.uid] or not (answers[4] + call.uid).isalnum():
            raise RemoteError("It wants its answers at a place that is not its caller's.")
        age = await self.link.now(self.pool) - call.issued
        if not -_FUTURE_SECONDS < age <= call.valid:
            raise RemoteError("It is too old, or from the future.")
        return call

    async def _is_there(self, call: RemoteCall) -> bool:
        """Whether somebody still waits for the call: nothing is begun for a caller that has died."""
        caller = call.reply.rpartition(".")[0]
        now = monotonic()
        if now - self._callers.get(caller, -1e9) < self.link.lease / 4:
            return True
        try:
            await self.link.ask(f"{caller}._", b"?", timeout=self.link.lease / 4)
        except NotReachedError:
            return False
        if len(self._callers) > 1000:
            self._callers.clear()
        self._callers[caller] = now
        return True

    async def _control(self, message: Any) -> None:
        """What a caller says to a call that runs here."""
        job = self.running.get(message.subject.rpartition(".")[2])
        if job is not None:
            job.hear(message.data)


def _host() -> str:
    return "".join(one if one.isalnum() else "-" for one in socket.gethostname())[:32] or "worker"
