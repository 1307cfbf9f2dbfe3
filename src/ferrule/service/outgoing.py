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
import shlex
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

    from ferrule.app.settings import WebhookSettings

logger = logging.getLogger("ferrule.service")

_SECONDS = 10.0
_MOST_DOCUMENT = 500_000
_MOST_WAITING = 200
_AT_ONCE = 4
"""How many webhooks of one tenant wait to be told, and how many are told at once."""
_TRIES = 6
_FIRST_PAUSE = 1.0
"""Seconds before the second attempt; every further one waits twice as long."""
_SECRET_SECONDS = 10.0
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


async def fetch_json(url: str) -> Any:
    """A JSON document of another server, within bounds; raises `FetchProblem`."""
    import httpx2

    shown = _shown(url)
    try:
        async with asyncio.timeout(_SECONDS), _client() as client, client.stream("GET", url) as response:
            if response.status_code != 200:
                raise FetchProblem(f"{shown} answered with {response.status_code}")
            content = bytearray()
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > _MOST_DOCUMENT:
                    raise FetchProblem(f"{shown} sent more than {_MOST_DOCUMENT:,} bytes")
    except TimeoutError:
        raise FetchProblem(f"{shown} did not answer within {_SECONDS:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise FetchProblem(f"{shown} cannot be reached: {error or type(error).__name__}") from None
    try:
        return json.loads(bytes(content))
    except (ValueError, RecursionError):
        raise FetchProblem(f"{shown} sent something that is not JSON") from None


def _shown(url: str) -> str:
    """A URL as a log may hold it: what stands behind the path may be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


# Secrets by reference


async def read_secret(reference: str) -> bytes:
    """The secret that `env:NAME`, `file:PATH` or `command:PROGRAM` stands for; raises `FetchProblem`."""
    kind, _, rest = reference.partition(":")
    if kind == "env":
        found = os.environ.get(rest, "").encode()
    elif kind == "file":
        try:
            found = await asyncio.to_thread(lambda: Path(rest).expanduser().read_bytes())
        except OSError as error:
            raise FetchProblem(f"the file {rest} cannot be read: {error.strerror or error}") from None
    else:
        found = await _said_by(rest)
    found = found.strip()
    if not found:
        raise FetchProblem(f"`{kind}:{rest.split()[0]}` gives no secret")
    return found


async def _said_by(command: str) -> bytes:
    program = shlex.split(command)
    try:
        child = await asyncio.create_subprocess_exec(
            *program, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
    except OSError as error:
        raise FetchProblem(f"`{program[0]}` cannot be run: {error.strerror or error}") from None
    try:
        async with asyncio.timeout(_SECRET_SECONDS):
            said, _ = await child.communicate()
    except TimeoutError:
        raise FetchProblem(f"`{program[0]}` did not end within {_SECRET_SECONDS:g} s") from None
    finally:
        if child.returncode is None:
            child.kill()
    if child.returncode:
        raise FetchProblem(f"`{program[0]}` failed with status {child.returncode}")
    return said


# Webhooks


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


class Webhooks:
    """Tells each tenant's receiver of new approvals. Where it does not answer it is told again, for half a minute.

    What is to be told is kept in memory: an instance that ends forgets it. The list of approvals has them all.
    """

    def __init__(self, settings: Mapping[str, WebhookSettings], public_url: str = "") -> None:
        self._settings = settings
        self._public_url = public_url
        self._waiting: dict[str, set[asyncio.Task[None]]] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._http: httpx2.AsyncClient | None = None

    def approval_created(self, tenant: str, approval: Mapping[str, Any]) -> None:
        """Tell of a new approval; gives no answer, and never waits."""
        receiver = self._settings.get(tenant) or self._settings.get(_ALL_TENANTS)
        if receiver is None:
            return
        waiting = self._waiting.setdefault(tenant, set())
        if len(waiting) >= _MOST_WAITING:
            logger.warning("The webhook of tenant %s is not told of %s: too many wait", tenant, approval["id"])
            return
        message = {
            "type": "approval.created", "tenant": tenant, "timestamp": approval["created_at"],
            "url": f"{self._public_url}/v1/approvals/{approval['id']}", "data": approval,
        }  # fmt: skip
        task = asyncio.get_running_loop().create_task(self._tell(tenant, receiver, json.dumps(message).encode()))
        waiting.add(task)
        task.add_done_callback(waiting.discard)

    async def _tell(self, tenant: str, receiver: WebhookSettings, body: bytes) -> None:
        message_id = f"msg_{secrets.token_hex(12)}"
        turns = self._turns.setdefault(tenant, asyncio.Semaphore(_AT_ONCE))
        why = ""
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.8, 1.2))  # noqa: S311 - a pause
            async with turns:
                try:
                    why = await self._send(receiver, message_id, body)
                except FetchProblem as problem:
                    why = str(problem)
            if not why:
                return
        logger.warning("The webhook of tenant %s was not told of an approval: %s", tenant, why)

    async def _send(self, receiver: WebhookSettings, message_id: str, body: bytes) -> str:
        """Send it once; gives why that failed, or nothing."""
        import httpx2

        moment = int(time())
        headers = {
            "Content-Type": "application/json", "User-Agent": "ferrule", "webhook-id": message_id,
            "webhook-timestamp": str(moment),
            "webhook-signature": sign(await read_secret(receiver.secret), message_id, moment, body),
        }  # fmt: skip
        if self._http is None:
            self._http = _client()
        shown = _shown(receiver.url)
        try:
            async with asyncio.timeout(_SECONDS), self._http.stream(
                "POST", receiver.url, content=body, headers=headers
            ) as response:  # fmt: skip
                status = response.status_code  # what else it says is not read
        except TimeoutError:
            return f"{shown} did not answer within {_SECONDS:g} s"
        except (httpx2.HTTPError, OSError) as error:
            return f"{shown} cannot be reached: {error or type(error).__name__}"
        return "" if 200 <= status < 300 else f"{shown} answered with {status}"

    async def close(self) -> None:
        """Stop telling; what waits is given up."""
        tasks = [task for waiting in self._waiting.values() for task in waiting]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._http is not None:
            await self._http.aclose()
