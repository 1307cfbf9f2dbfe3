"""Messages on a stream: one a line, none longer than allowed, and what is too long still told by its id."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic_core import from_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from mcp_types import JSONRPCMessage, RequestId


_CHUNK = 1 << 16
_END_KEPT = 512
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_ID = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*[,}]')


class Readable(Protocol):
    """Where bytes come from; no bytes are its end."""

    async def read(self, n: int = -1, /) -> bytes: ...


@dataclass(slots=True, frozen=True)
class TooLong:
    """A line that was passed over: its two ends and its length."""

    head: bytes
    tail: bytes
    size: int


@dataclass(slots=True, frozen=True)
class CutOff:
    """What stood after the last line when the stream ended."""

    size: int


async def lines(stream: Readable, most: int) -> AsyncIterator[bytes | TooLong | CutOff]:
    """Every line without its end, as it comes. Never holds more than `most` and one chunk."""
    held = bytearray()
    dropped = 0
    head = tail = b""
    while chunk := await stream.read(_CHUNK):
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            part = chunk[start:end]
            start = end + 1
            if dropped:
                yield TooLong(head, (tail + part)[-_END_KEPT:], dropped + len(part))
                dropped = 0
            elif len(held) + len(part) > most:
                yield TooLong(bytes((held + part)[:_END_KEPT]), bytes((held + part)[-_END_KEPT:]), len(held + part))
                held.clear()
            elif held:
                held += part
                whole = bytes(held)
                held.clear()
                yield whole
            else:
                yield part
        rest = chunk[start:]
        if dropped:
            dropped += len(rest)
            tail = (tail + rest)[-_END_KEPT:]
        else:
            held += rest
            if len(held) > most:
                dropped, head, tail = len(held), bytes(held[:_END_KEPT]), bytes(held[-_END_KEPT:])
                held.clear()
    if held or dropped:
        yield CutOff(dropped or len(held))


def answered_id(head: bytes, tail: bytes) -> int | None:
    """The id in the first or last few bytes of a message. Not from between: there a result's own ids stand."""
    found = _ID.search(head[:_END_KEPT]) or next(iter(reversed(list(_ID.finditer(tail[-_END_KEPT:])))), None)
    return int(found[1]) if found else None


def read_line(line: bytes) -> Any:
    """A line's JSON; raises `ValueError`. Half a character, which JSON can spell, is shown as one that cannot be read.

    Programs in JavaScript cut texts in the middle of an emoji and think nothing of it.
    """
    try:
        return from_json(line)
    except ValueError:
        if not _HALF.search(line):
            raise
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return from_json(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


# Which request of ours a line that cannot be read would have answered, so that nobody waits for another answer.


_LOOKED_AT = 512
_ANSWER = re.compile(rb"""["']jsonrpc["']\s*:|^\s*(?:["']id["']\s*:\s*\d+\s*,\s*)?["']result["']\s*:""")
_REQUEST = re.compile(rb"""["']method["']\s*:""")
_LISTEN = "subscriptions/listen"
"""Open for as long as the connection is, and not answered meanwhile."""


def looks_like_answer(head: bytes) -> bool:
    """Whether the beginning of a line is that of an answer, whatever became of the rest."""
    head = head[:_LOOKED_AT].lstrip()
    own_keys = head[1:].partition(b"{")[0]  # further in stands what an answer holds, or what a record quotes
    return head.startswith(b"{") and _ANSWER.search(own_keys) is not None and _REQUEST.search(own_keys) is None


class OpenQuestions:
    """The session's requests that are not answered yet."""

    def __init__(self) -> None:
        self._open: set[RequestId] = set()

    def sent(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest) and message.method != _LISTEN:
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            given_up = cancelled_request_id_from_params(message.params)
            if given_up is not None:
                self._open.discard(given_up)

    def came(self, message: JSONRPCMessage) -> None:
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._open.discard(message.id)

    def answered_by(self, head: bytes, tail: bytes, others: Collection[int]) -> RequestId | None:
        """The one that a broken answer was for, among these and `others`: by its id, or because there is one alone."""
        if not looks_like_answer(head):
            return None
        told = answered_id(head, tail)
        return told if told in self._open or told in others else self.only(others)

    def only(self, others: Collection[int]) -> RequestId | None:
        """The one that is open, if there is no second; among these and `others`."""
        asked = {*self._open, *others}
        return asked.pop() if len(asked) == 1 else None
