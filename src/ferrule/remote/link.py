"""A connection to the NATS server: clear words when there is none, its clock, and the bucket of claims.

A claim is one key for each call, changed only by compare-and-set. Whoever changes it decides: a worker that it runs the
call, a worker that the call has ended, a caller that nobody will start it any more, or that it is lost. So there is one
outcome, whatever messages are dropped, doubled or late.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json, to_json

from ferrule.core.errors import MissingExtraError
from ferrule.core.phrases import phrase
from ferrule.remote.wire import LARGEST, PIECE, Nkey, RemoteError, calls_stream, claims_bucket, hash_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context
    from pathlib import Path


logger = logging.getLogger("ferrule.remote")

RUNNING, DONE, LOST, GIVEN_UP = b"R", b"D", b"L", b"G"
"""What the first byte of a claim says."""
CLAIM_SECONDS = 3600
"""How long a claim is kept: longer than a signed call can be valid, so that none can be started a second time."""
LONGEST_VALID = 1200.0
_CONNECT_SECONDS = 5.0
_PATIENCE = 5.0
_CLOCK_SECONDS = 60.0
_BEHIND = 30
NOBODY = "503"
"""What the server answers where nobody listens."""
_SAME_KEY = ".".join(f"{{{{wildcard({number})}}}}" for number in (1, 2, 3, 4))
_WRONG_REVISION = (10071, 10164)
_IN_PROCESS = 10158
"""An earlier copy of the same message is being stored, or was lost with the leader that had it."""


class NotReachedError(RemoteError):
    """The server did not answer in time."""


class RunningTasks(set[asyncio.Task[Any]]):
    """Tasks that are kept until they end; what one of them fails with is logged."""

    def __init__(self, failed: str) -> None:
        super().__init__()
        self._failed = failed

    def spawn(self, work: Coroutine[Any, Any, Any], around: Context | None = None) -> asyncio.Task[Any]:
        return self.keep(asyncio.create_task(work, context=around))

    def keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s", self._failed, exc_info=error)


@dataclass(slots=True, frozen=True)
class Claim:
    state: bytes
    data: bytes
    revision: int

    @property
    def told(self) -> dict[str, Any]:
        return from_json(self.data)

    @classmethod
    def of(cls, message: Any) -> Claim | None:
        """The claim in a message of the bucket's; None where it is none."""
        headers: dict[str, str] = message.headers or {}
        revision = headers.get("Nats-Sequence")
        return cls(message.data[:1], message.data[1:], int(revision)) if revision is not None else None


class NatsLink:
    """One connection, for one event loop."""

    def __init__(self, key: Nkey, lease: float) -> None:
        self.key = key
        self.lease = lease
        self.connection: Any = None
        self._errors: type[Exception] = OSError
        self._inbox = ""
        self._asked = 0
        self._answers: dict[str, asyncio.Future[Any]] = {}
        """Of the requests that wait, by number."""
        self._patience = min(_PATIENCE, lease / 2)
        """Seconds that an answer may take: a busy program reads it late, and one that got lost is asked for again."""
        self._clock: tuple[float, float] | None = None
        self.last_error = ""
        """What the connection complained about last."""

    async def open(
        self,
        urls: list[str],
        name: str,
        *,
        ca: Path | None = None,
        reconnected: Callable[[], object] = lambda: None,
    ) -> None:
        """Connect; raises `RemoteError` with what to do when that does not work."""
        try:
            from nats.aio.client import Client
            from nats.errors import Error
        except ModuleNotFoundError:
            raise MissingExtraError("Calling tools on other machines", "remote") from None
        self._errors = Error
        logging.getLogger("nats").setLevel(logging.CRITICAL)  # each problem is told once, here
        problems: list[Exception] = []

        async def failed(error: Exception) -> None:
            problems[:] = [*problems[-9:], error]
            self.last_error = f"{type(error).__name__}: {error}"
            logger.info("NATS: %s: %s", type(error).__name__, error)

        async def again() -> None:
            self._clock = None
            reconnected()

        self.connection = connection = Client()
        secure = any(url.startswith("tls://") for url in urls)
        options: dict[str, Any] = {"reconnect_time_wait": 0.1}
        if ca is not None or secure:
            options["tls"] = _trusting(ca)
        connecting = asyncio.create_task(
            connection.connect(
                servers=urls,
                name=name,
                nkeys_seed_str=self.key.seed,
                inbox_prefix=f"_INBOX.{self.key.public}",
                error_cb=failed,
                reconnected_cb=again,
                connect_timeout=2,
                max_reconnect_attempts=-1,
                ping_interval=max(1, int(self.lease / 4)),
                max_outstanding_pings=2,
                **options,
            )
        )
        try:
            until = monotonic() + _CONNECT_SECONDS
            while not connecting.done() and monotonic() < until and not _is_refused(problems):
                await asyncio.wait({connecting}, timeout=0.1)
            if connecting.done() and connecting.result() is None and (not secure or self._is_encrypted()):
                self._inbox = f"_INBOX.{self.key.public}.{os.urandom(12).hex()}"
                await self.connection.subscribe(
                    f"{self._inbox}.*", cb=self._answered, pending_msgs_limit=-1, pending_bytes_limit=-1
                )
                return
            problems.append(TimeoutError("no answer") if not connecting.done() else Error("tls is not offered"))
        except (OSError, Error, ValueError) as error:
            problems.append(error)
        finally:  # also when whoever waits is cancelled
            if not connecting.done() or problems:
                connecting.cancel()
                await self._let_go(connecting)
        raise _unreached(urls, problems, self.key)

    def _is_encrypted(self) -> bool:
        """Whether TLS was really used: the client is content with a server that does not offer it."""
        writer: Any = getattr(getattr(self.connection, "_transport", None), "_io_writer", None)
        return writer is not None and writer.get_extra_info("ssl_object") is not None

    async def _let_go(self, connecting: asyncio.Task[None]) -> None:
        """End an attempt to connect; the client may take its time for that, and nobody waits long."""
        closing = asyncio.create_task(self.connection.close())
        _, left = await asyncio.wait({connecting, closing}, timeout=1.0)
        for task in left:
            task.cancel()
        for task in {connecting, closing} - left:
            if not task.cancelled():
                task.exception()  # seen, so that asyncio does not report it

    async def close(self) -> None:
        if self.connection is not None and not self.connection.is_closed:
            with suppress(Exception):  # what cannot be said any more need not be
                await asyncio.wait_for(self.connection.flush(timeout=1), 1.5)
            with suppress(Exception):
                await asyncio.wait_for(self.connection.close(), 2)

    @property
    def is_closed(self) -> bool:
        """Whether it was open, and is over for good."""
        return self.connection is not None and self.connection.is_closed

    @property
    def is_connected(self) -> bool:
        return self.connection is not None and self.connection.is_connected

    # Asking the server

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        headers: dict[str, str] | None = None,
        timeout: float = 0.0,
        along: tuple[str, bytes] | None = None,
    ) -> Any:
        """A request; raises `NotReachedError` when nobody answers in time. `along` is a message that goes with it.

        The client's own `request` does the same in twice the time, and a call waits for three of them.
        """
        self._asked += 1
        number, loop = str(self._asked), asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._answers[number] = answer
        patience = timeout or self._patience
        timer = loop.call_later(patience, _time_is_up, answer, loop.time() + patience, patience)
        try:
            await self.connection.publish(subject, payload, reply=f"{self._inbox}.{number}", headers=headers)
            if along is not None:
                await self.connection.publish(*along)
            message = await answer
        except (self._errors, OSError) as error:
            raise NotReachedError(f"{type(error).__name__}: {error}") from None
        finally:
            timer.cancel()
            del self._answers[number]
        if message is None or (message.headers and message.headers.get("Status") == NOBODY):
            raise NotReachedError("no answer" if message is None else "nobody is there to answer")
        return message

    async def _answered(self, message: Any) -> None:
        answer = self._answers.get(message.subject.rpartition(".")[2])
        if answer is not None and not answer.done():
            answer.set_result(message)

    async def tell(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None, *, reply: str = ""
    ) -> None:
        """A message that may get lost."""
        with suppress(self._errors, OSError):
            await self.connection.publish(subject, payload, reply=reply, headers=headers)

    async def api(self, what: str, body: dict[str, Any] | None = None, timeout: float = 0.0) -> dict[str, Any]:
        """One request of JetStream's interface; an error is in the answer."""
        payload = to_json(body) if body is not None else b""
        return from_json((await self.ask(f"$JS.API.{what}", payload, timeout=timeout)).data)

    async def now(self, pool: str) -> float:
        """The server's time. Ours may be wrong by hours, and nobody's clock but the server's is looked at."""
        if self._clock is None or monotonic() - self._clock[1] > _CLOCK_SECONDS:
            began = monotonic()
            told = await self.api(f"STREAM.INFO.{calls_stream(pool)}")
            if "ts" not in told:
                raise RemoteError(no_stream(pool))
            stamp = datetime.fromisoformat(told["ts"][:26].rstrip("Z") + "+00:00").timestamp()
            self._clock = stamp - (monotonic() - began) / 2, began
        stamp, at = self._clock
        return stamp + monotonic() - at

    async def send_call(self, subject: str, uid: str, payload: bytes) -> None:
        """Hand a signed call over. Sending it again changes nothing: the server knows its id, and the claim does."""
        told = from_json((await self.ask(subject, payload, {"Nats-Msg-Id": uid})).data)
        if (error := told.get("error")) is not None:
            raise (NotReachedError if error.get("err_code") == _IN_PROCESS else RemoteError)(_refused(error))

    # Claims

    async def claim(self, pool: str, key: str) -> Claim | None:
        """What the bucket has of a call; it may be a moment old, which a compare-and-set then shows."""
        bucket = claims_bucket(pool)
        message = await self.ask(f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{key}")
        found, headers = Claim.of(message), cast("dict[str, str]", message.headers or {})
        if found is None and headers.get("Status", "404") != "404":
            raise NotReachedError(f"the bucket answered {headers['Status']}")
        return found

    async def set_claim(
        self, pool: str, key: str, value: bytes, last: int, along: tuple[str, bytes] | None = None
    ) -> int | None:
        """Change a claim that is still at revision `last` (0: that is not there), and give its new revision.

        None where somebody else changed it. An answer that got lost is asked for again: the value says whose it is.
        """
        bucket = claims_bucket(pool)
        headers = {"Nats-Expected-Last-Subject-Sequence": str(last)}
        told = from_json((await self.ask(f"$KV.{bucket}.{key}", value, headers, along=along)).data)
        if (error := told.get("error")) is None:
            return told["seq"]
        if error.get("err_code") not in _WRONG_REVISION:
            raise NotReachedError(_refused(error))
        found = await self.known_claim(pool, key)
        return found.revision if found is not None and found.state + found.data == value else None

    async def known_claim(self, pool: str, key: str) -> Claim | None:
        """A claim that is certainly there: one server of a cluster may be behind the others for a moment."""
        for _ in range(_BEHIND):
            if (found := await self.claim(pool, key)) is not None:
                return found
            await asyncio.sleep(0.1)
        return None

    async def settle_claim(self, pool: str, key: str, value: bytes, last: int, until: float) -> int | None:
        """The same, tried again while the server cannot be reached; raises `NotReachedError` when the time is over."""
        while True:
            try:
                return await self.set_claim(pool, key, value, last)
            except NotReachedError:
                if monotonic() >= until:
                    raise
                await asyncio.sleep(0.1)

    async def park(self, pool: str, key: str, data: bytes) -> int:
        """Leave what is too long for a message, in pieces; gives their number."""
        if len(data) > LARGEST:
            raise RemoteError(
                phrase("{size} bytes are too many to send; the limit is {most}.", size=len(data), most=LARGEST)
            )
        bucket = claims_bucket(pool)
        pieces = range(0, len(data), PIECE)
        for number, start in enumerate(pieces):
            answer = await self.ask(f"$KV.{bucket}.{key}.{number}", data[start : start + PIECE], timeout=10)
            if "error" in (told := from_json(answer.data)):
                raise RemoteError(_refused(told["error"]))
        return len(pieces)

    async def fetch(self, pool: str, key: str, pieces: int, hashed: str, *, keep: bool = False) -> bytes:
        """What was parked; the pieces are removed, unless somebody may have to read them again."""
        found = [await self._piece(pool, f"{key}.{number}") for number in range(pieces)]
        if hash_of(data := b"".join(found)) != hashed:
            raise RemoteError("what came is not what was sent")
        if not keep:
            await self.remove(pool, key, pieces)
        return data

    async def remove(self, pool: str, key: str, pieces: int) -> None:
        """Make room of what was parked."""
        purge = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
        for number in range(pieces):
            await self.tell(f"$KV.{claims_bucket(pool)}.{key}.{number}", b"", purge)

    async def _piece(self, pool: str, key: str) -> bytes:
        bucket = claims_bucket(pool)
        for _ in range(20):  # a replica may be a moment behind
            message = await self.ask(f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{key}", timeout=10)
            if not message.headers or "Status" not in message.headers:
                return message.data
            await asyncio.sleep(0.1)
        raise RemoteError("a piece of it is not there")

    # Streams and buckets

    async def prepare(self, pool: str, replicas: int = 1, *, look_at_claims: bool = True) -> None:
        """Make what a pool needs on the server, where it is not there yet.

        Whoever may look at the bucket of claims sees the keys of all tenants; a worker of one does not.
        """
        stream, bucket = calls_stream(pool), claims_bucket(pool)
        wanted: list[dict[str, Any]] = [
            {
                "name": stream,
                "subjects": [f"call.{pool}.>", f"near.{pool}.>"],
                "retention": "workqueue",
                "discard": "new",
                "max_age": int((LONGEST_VALID + 60) * 1e9),
                "max_msgs": 2_000_000,
                "max_msg_size": 1_000_000,
                "duplicate_window": 120_000_000_000,
            },
            {
                "name": f"KV_{bucket}",
                "subjects": [f"$KV.{bucket}.>"],
                "retention": "limits",
                "discard": "new",
                "max_age": CLAIM_SECONDS * 1_000_000_000,
                "max_msgs": 20_000_000,
                "max_msgs_per_subject": 1,
                "allow_direct": True,
                "allow_rollup_hdrs": True,
                "deny_delete": True,
                "duplicate_window": 120_000_000_000,
                # A claim that was changed is told to its caller at once, by the server, which knows that it was.
                "republish": {"src": f"$KV.{bucket}.*.*.*.*", "dest": f"reply.{pool}.{_SAME_KEY}"},
            },
        ]
        for config in wanted:
            try:
                told = await self.api(f"STREAM.INFO.{config['name']}")
                if "error" not in told and not look_at_claims:
                    return
                if "error" in told:
                    settings = {**config, "storage": "file", "num_replicas": replicas}
                    told = await self.api(f"STREAM.CREATE.{config['name']}", settings, timeout=10)
            except NotReachedError:
                raise RemoteError(no_stream(pool)) from None
            if "error" in told:
                raise RemoteError(_refused(told["error"]))


def _time_is_up(answer: asyncio.Future[Any], due: float, patience: float) -> None:
    if answer.done():
        return
    loop = answer.get_loop()
    if loop.time() - due > patience / 2:  # the program stood still, and the answer may lie there unread
        loop.call_later(patience / 2, _time_is_up, answer, inf, patience)  # this once
    else:
        answer.set_result(None)


def _trusting(ca: Path | None) -> Any:
    import ssl

    try:
        return ssl.create_default_context(cafile=str(ca) if ca is not None else None)
    except OSError as error:
        raise RemoteError(
            phrase("`remote.ca`: {file} could not be read: {why}.", file=ca, why=error.strerror or error)
        ) from None


def _is_refused(problems: list[Exception]) -> bool:
    told = " ".join(f"{type(error).__name__}: {error}" for error in problems).lower()
    return "authorization" in told or "authentication" in told


def _unreached(urls: list[str], problems: list[Exception], key: Nkey) -> RemoteError:
    """What the last problems come to; the server says what it is about, and then others follow from that."""
    where = ", ".join(urls)
    told = " ".join(f"{type(error).__name__}: {error}" for error in problems).lower()
    if _is_refused(problems):
        return RemoteError(
            phrase(
                "The NATS server at {where} does not accept this key ({public}). Add that public key to the server's "
                "configuration (`ferrule remote config` prints one), or use another: `remote.key`.",
                where=where,
                public=key.public,
            )
        )
    if "ssl" in told or "tls" in told or "certificate" in told or "secure" in told:
        return RemoteError(
            phrase(
                "No secure connection to {where}: {why}. See `remote.ca`.",
                where=where,
                why=str(problems[0]).rstrip("."),
            )
        )
    return RemoteError(
        phrase(
            "No NATS server answers at {where}. Start one (`ferrule remote dev` runs one on this machine), or set "
            "`remote.url` to where it is.",
            where=where,
        )
    )


def no_stream(pool: str) -> str:
    return phrase(
        "The server has no queue for the pool `{pool}` yet, and this key may not create one. Run `ferrule remote setup "
        "{pool}` with the admin key.",
        pool=pool,
    )


def _refused(error: dict[str, Any]) -> str:
    return phrase("The NATS server refused it: {why}.", why=str(error.get("description", error)).rstrip("."))
