"""Messages on a stream: one a line, none longer than allowed, and what is too long still told by its id."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import from_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
