"""What the service asks of other servers: the keys of an issuer, and webhooks about approvals.

Neither holds a call up. A webhook is signed as Standard Webhooks describes (https://www.standardwebhooks.com): an HMAC
with SHA-256 over the id, the moment and the body, so that a receiver can tell who sent it, and when.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
import os
import random
import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sqlalchemy import delete, insert, select, update

from ferrule.core.http_fetch import Fetched, FetchError, fetch
from ferrule.process.references import MissingValueError, read_reference
from ferrule.service.database import DatabaseProblem
from ferrule.service.documents import approval_document
from ferrule.service.feed import event_within
from ferrule.service.tables import approvals, deliveries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx2
    from sqlalchemy import Connection, Row

    from ferrule.app.service_settings import WebhookSettings
    from ferrule.service.database import Database
    from ferrule.service.writer import GroupWriter

logger = logging.getLogger("ferrule.service")

_SECONDS = 10.0
_MOST_DOCUMENT = 500_000
_AT_ONCE = 4
"""How many webhooks of one tenant an instance tells at once."""
_TRIES = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 600.0
"""Seconds before the second attempt; every further one waits twice as long, for about half an hour in all."""
_LOOK_SECONDS = 1.0
_CLAIM_SECONDS = 60.0
"""After how long another instance tells what one has begun to tell; longer than an attempt can take."""
SECRET_SECONDS = 10.0
"""How long a secret may take to be read, as from a program that asks somebody."""
_ALL_TENANTS = "*"


class FetchProblem(Exception):  # noqa: N818 - reads as what it says
    """A document that could not be fetched; says why."""


def _client() -> httpx2.AsyncClient:
    import httpx2

    return httpx2.AsyncClient(
        timeout=_SECONDS,
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
    )


async def fetch_json(url: str, form: Mapping[str, str] | None = None) -> Any:
    """A JSON document of another server, within bounds; with a `form` the answer to that. Raises `FetchProblem`."""
    async with _client() as client:
        found = await _asked(client, "GET" if form is None else "POST", url, status=200, data=form)
    if found.status != 200:
        raise FetchProblem(f"{_shown(url)} answered with {found.status}")
    try:
        return json.loads(found.body)
    except (ValueError, RecursionError):
        raise FetchProblem(f"{_shown(url)} sent something that is not JSON") from None


async def _asked(client: httpx2.AsyncClient, method: str, url: str, **request: Any) -> Fetched:
    import httpx2

    try:
        return await fetch(client, method, url, most=_MOST_DOCUMENT, seconds=_SECONDS, **request)
    except FetchError as error:
        raise FetchProblem(f"{_shown(url)} sent {error}") from None
    except TimeoutError:
        raise FetchProblem(f"{_shown(url)} did not answer within {_SECONDS:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise FetchProblem(f"{_shown(url)} cannot be reached: {error or type(error).__name__}") from None


def _shown(url: str) -> str:
    """A URL as a log may hold it: what stands behind the path may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def sign(secret: bytes, message_id: str, moment: int, body: bytes) -> str:
    """The signature of a webhook: of its id, its moment and its body."""
    key = secret
    if secret.startswith(b"whsec_"):
        try:
            key = base64.b64decode(secret.removeprefix(b"whsec_"), validate=True)
        except binascii.Error:
            raise FetchProblem("a secret that begins with `whsec_` must go on in base64") from None
    signed = b".".join((message_id.encode(), str(moment).encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


@dataclass(eq=False)
class Webhooks:
    """Tells each tenant's receiver of new approvals; one that does not answer is told again while the approval waits.

    What is to be told is stored with the approval, and any instance tells it: one that ends leaves it to the others. A
    receiver may hear of an approval twice, with the same message id.
    """

    settings: Mapping[str, WebhookSettings]
    public_url: str
    database: Database
    writer: GroupWriter

    def __post_init__(self) -> None:
        self._telling: dict[str, set[str]] = {}
        """By tenant, the approvals that this instance is telling of."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._http: httpx2.AsyncClient | None = None

    def start(self) -> None:
        if self.settings:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    def store(self, connection: Connection, tenant: str, approval: str) -> None:
        """Have it told of an approval that is stored in the same transaction."""
        if self._receiver(tenant) is not None:
            message = f"msg_{secrets.token_hex(12)}"
            connection.execute(
                insert(deliveries).values(tenant=tenant, approval=approval, message=message, tries=0, due=time())
            )

    def look_now(self) -> None:
        """There may be something to tell; never waits."""
        self._news.set()

    def _receiver(self, tenant: str) -> WebhookSettings | None:
        return self.settings.get(tenant) or self.settings.get(_ALL_TENANTS)

    async def _look(self) -> None:
        while True:
            self._news.clear()
            try:
                await self._tell_all()
            except DatabaseProblem as problem:
                logger.warning("Webhooks have to wait: %s", problem)
            except Exception:
                logger.exception("Webhooks could not be looked after")
            await event_within(self._news, _LOOK_SECONDS)

    async def _tell_all(self) -> None:
        """Begin to tell what is due: of each tenant a few at a time, so that no receiver holds up another."""
        query = select(deliveries.c.tenant).where(deliveries.c.due <= time()).distinct()
        for tenant in await self.database.read(None, lambda connection: connection.execute(query).scalars().all()):
            telling = self._telling.setdefault(tenant, set())
            if (room := _AT_ONCE - len(telling)) <= 0:
                continue
            for one in await self.writer.change(tenant, partial(_claim, tenant=tenant, most=room)):
                telling.add(one.approval)
                task = asyncio.get_running_loop().create_task(self._tell(one))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _tell(self, one: Row[Any]) -> None:
        """Tell it once, and note what came of it; where that cannot be noted, it is told again."""
        try:
            found = await self.database.read(one.tenant, lambda connection: _find(connection, one))
            receiver = self._receiver(one.tenant)
            why = ""
            if found is not None and receiver is not None:
                try:
                    why = await self._send(receiver, one.message, self._body(found))
                except (FetchProblem, MissingValueError) as problem:
                    why = str(problem)
            pause = 0.0
            if why and one.tries + 1 >= _TRIES:
                logger.warning("The webhook of tenant %s was not told of an approval: %s", one.tenant, why)
            elif why:
                pause = min(_FIRST_PAUSE * 2**one.tries, _LONGEST_PAUSE) * random.uniform(0.8, 1.2)  # noqa: S311 - a pause
                asyncio.get_running_loop().call_later(pause, self.look_now)
            ended = not why or one.tries + 1 >= _TRIES
            await self.writer.change(one.tenant, partial(_note, one=one, due=None if ended else time() + pause))
        except DatabaseProblem as problem:
            logger.warning("A webhook is told again: %s", problem)
        finally:
            self._telling[one.tenant].discard(one.approval)
            self.look_now()  # others may wait for this place

    def _body(self, approval: Row[Any]) -> bytes:
        """The same for every attempt: a pending approval does not change."""
        shown = approval_document(approval, redacted=True)
        message = {
            "type": "approval.created", "tenant": approval.tenant, "timestamp": shown["created_at"],
            "url": f"{self.public_url}/v1/approvals/{approval.id}", "data": shown,
        }  # fmt: skip
        return json.dumps(message).encode()

    async def _send(self, receiver: WebhookSettings, message_id: str, body: bytes) -> str:
        """Send it once; gives why that failed, or nothing."""
        secret, moment = await read_reference(receiver.secret, os.environ, SECRET_SECONDS), int(time())
        headers = {
            "Content-Type": "application/json", "User-Agent": "ferrule", "webhook-id": message_id,
            "webhook-timestamp": str(moment),
            "webhook-signature": sign(secret.encode(), message_id, moment, body),
        }  # fmt: skip
        if self._http is None:
            self._http = _client()
        # Only the status counts: no status is 0, so that no body is read.
        status = (await _asked(self._http, "POST", receiver.url, status=0, content=body, headers=headers)).status
        return "" if 200 <= status < 300 else f"{_shown(receiver.url)} answered with {status}"

    async def close(self) -> None:
        """Stop telling; what is not told by now is left to other instances, or to the next start."""
        tasks = [*self._tasks, *([self._looking] if self._looking is not None else [])]
        left = [(tenant, approval) for tenant, telling in self._telling.items() for approval in telling]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        with suppress(DatabaseProblem):
            for tenant, approval in left:
                mine = (deliveries.c.tenant == tenant) & (deliveries.c.approval == approval)
                await self.writer.execute(tenant, update(deliveries).where(mine).values(due=time()))
        if self._http is not None:
            await self._http.aclose()


def _claim(connection: Connection, tenant: str, most: int) -> Sequence[Row[Any]]:
    """Take what is due; nobody else tells it before this instance must have ended."""
    found = connection.execute(
        select(deliveries)
        .where(deliveries.c.tenant == tenant, deliveries.c.due <= time())
        .order_by(deliveries.c.due)
        .limit(most)
        .with_for_update(skip_locked=True)
    ).all()
    for one in found:
        mine = (deliveries.c.tenant == tenant) & (deliveries.c.approval == one.approval)
        connection.execute(update(deliveries).where(mine).values(due=time() + _CLAIM_SECONDS))
    return found


def _find(connection: Connection, one: Row[Any]) -> Row[Any] | None:
    """The approval, where it still waits for somebody."""
    mine = (approvals.c.tenant == one.tenant) & (approvals.c.id == one.approval)
    waits = (approvals.c.status == "pending") & (approvals.c.expires > time())
    return connection.execute(select(approvals).where(mine, waits)).first()


def _note(connection: Connection, one: Row[Any], due: float | None) -> None:
    """How an attempt ended: nothing is left to do, or it is tried again."""
    mine = (deliveries.c.tenant == one.tenant) & (deliveries.c.approval == one.approval)
    if due is None:
        connection.execute(delete(deliveries).where(mine))
    else:
        connection.execute(update(deliveries).where(mine).values(tries=one.tries + 1, due=due))
