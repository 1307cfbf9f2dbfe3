"""Calls that go past the SDK's session, on the same stream: a gateway makes many, and the session costs more than they.

The session connects, lists, listens and answers; only `tools/call` comes through here. Ids are far above the session's.
Whatever the session stamps on its requests, so that a stateless server knows us, is taken from those and used here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

from ferrule.core.phrases import phrase
from ferrule.mcp_client.failures import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mcp.shared.dispatcher import ProgressFnT

logger = logging.getLogger("ferrule.mcp")

_FIRST_ID = 1_000_000_000
_STAMP = "io.modelcontextprotocol/"


@dataclass(slots=True)
class _Waiting:
    answer: asyncio.Future[dict[str, Any]]
    progress: ProgressFnT | None


class DirectCalls:
    """Requests of our own beside the session's. `write` takes one line at a time."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._ids = count(_FIRST_ID)
        self._waiting: dict[int, _Waiting] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._over = False
        self.stamp: dict[str, Any] = {}
        self.idle_words = 0
        """How many messages came that answered nothing."""

    @property
    def open(self) -> Collection[int]:
        """The ids of those that wait for an answer."""
        return self._waiting.keys()

    def note_stamp(self, params: Mapping[str, Any] | None) -> None:
        """What the session says of us in a request of its own."""
        told: Any = (params or {}).get("_meta")
        if isinstance(told, dict):
            found = {key: value for key, value in cast("dict[str, Any]", told).items() if key.startswith(_STAMP)}
            if found:
                self.stamp = found

    async def request(self, method: str, params: dict[str, Any], progress: ProgressFnT | None = None) -> dict[str, Any]:
        """The result; raises `MCPError` for the server's error or the connection's end, `Malformed` for neither."""
        if self._over:
            raise _closed()
        number = next(self._ids)
        meta = dict(self.stamp)
        if progress is not None:
            meta["progressToken"] = number
        if meta:
            params = {**params, "_meta": meta}
        waiting = _Waiting(asyncio.get_running_loop().create_future(), progress)
        self._waiting[number] = waiting
        try:
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await waiting.answer
        except asyncio.CancelledError:
            cancelled = {"requestId": number, "reason": "nobody waits for it any more"}
            self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
            raise
        finally:
            del self._waiting[number]

    def take(self, message: dict[str, Any]) -> bool:
        """Whether a message is an answer to one of these requests, or its progress; the session gets the others."""
        if message.get("method") == "notifications/progress":
            return self._take_progress(message.get("params"))
        number = message.get("id")
        if type(number) is not int or number < _FIRST_ID or "method" in message:
            return False
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.answer.done():
            self._settle(waiting.answer, message)
        else:
            self.idle_words += 1
        return True  # late, or to nobody; not the session's either way

    def end(self) -> None:
        """The connection is over, and so are its calls."""
        self._over = True
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(_closed())

    def _settle(self, answer: asyncio.Future[dict[str, Any]], message: dict[str, Any]) -> None:
        result, error = message.get("result"), message.get("error")
        if isinstance(result, dict):
            answer.set_result(cast("dict[str, Any]", result))
            return
        if not isinstance(error, dict):
            answer.set_exception(Malformed(phrase("the answer holds neither an object as its result nor an error")))
            return
        told = cast("dict[str, Any]", error)
        code, words = told.get("code"), str(told.get("message") or "")
        answer.set_exception(
            MCPError(code=code if isinstance(code, int) else INTERNAL_ERROR, message=words, data=told.get("data"))
        )

    def _take_progress(self, params: Any) -> bool:
        told = cast("dict[str, Any]", params) if isinstance(params, dict) else {}
        token, done, total, words = (told.get(key) for key in ("progressToken", "progress", "total", "message"))
        if type(token) is not int or token < _FIRST_ID:
            return False
        self.idle_words += 1
        waiting, reached = self._waiting.get(token), _number(done)
        if waiting is not None and waiting.progress is not None and reached is not None:
            task = asyncio.ensure_future(_tell(waiting.progress, reached, _number(total), str(words or "") or None))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
        return True

    def _send(self, message: dict[str, Any]) -> None:
        if not self._over:
            self._write(
                json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
            )


def _number(given: Any) -> float | None:
    """A number as the protocol has it; none where it is something else, or larger than any."""
    if not isinstance(given, (int, float)):
        return None
    try:
        return float(given)
    except OverflowError:
        return None


async def _tell(progress: ProgressFnT, done: float, total: float | None, words: str | None) -> None:
    try:
        await progress(done, total, words)
    except Exception:
        logger.exception("Progress could not be passed on")


def _closed() -> MCPError:
    return MCPError(code=CONNECTION_CLOSED, message="Connection closed")
