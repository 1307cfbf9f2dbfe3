"""Reads messages that are a line of JSON each, from a program that may write too much, or something else."""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from pydantic_core import from_json

from ferrule.core.shown_text import well_formed

_CHUNK = 1 << 16
_END_KEPT = 512
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class Readable(Protocol):
    """Where bytes come from; no bytes are its end."""

    async def read(self, most: int, /) -> bytes: ...


@dataclass(slots=True, frozen=True)
class TooLong:
    """A line that was skipped: its two ends and its length."""

    head: bytes
    tail: bytes
    size: int


class LineSplitter:
    """Puts lines together from pieces. Of one that is longer than `most` bytes it keeps the two ends."""

    def __init__(self, most: float = inf) -> None:
        self._most = most
        self._held = bytearray()
        self._dropped = 0  # from the middle of a line that is too long

    @property
    def is_inside_line(self) -> bool:
        """Whether the last line has no end yet."""
        return bool(self._held)

    def feed(self, piece: bytes) -> list[bytes | TooLong]:
        """The lines that end in this piece, without their ends."""
        *ended, rest = piece.split(b"\n")
        lines: list[bytes | TooLong] = []
        for part in ended:
            self._held += part
            size, line = len(self._held) + self._dropped, bytes(self._held)
            lines.append(line if size <= self._most else TooLong(line[:_END_KEPT], line[-_END_KEPT:], size))
            self._held.clear()
            self._dropped = 0
        self._held += rest
        if len(self._held) + self._dropped > self._most and len(self._held) > 2 * _END_KEPT:
            self._dropped += len(self._held) - 2 * _END_KEPT
            del self._held[_END_KEPT:-_END_KEPT]
        return lines


class LineReader(LineSplitter):
    """The lines of a stream. Never holds more than `most` bytes and a chunk."""

    def __init__(self, stream: Readable, most: float) -> None:
        super().__init__(most)
        self._stream = stream
        self._ready: deque[bytes | TooLong] = deque()

    async def read(self) -> bytes | TooLong | None:
        """The next line; None at the end, where half a line is none. A reading that is cancelled loses nothing."""
        while not self._ready:
            piece = await self._stream.read(_CHUNK)
            if not piece:
                return None
            self._ready += self.feed(piece)
        return self._ready.popleft()


def parse_line(line: bytes) -> Any:
    """A line's JSON; raises `ValueError`. Half a character, which JSON can spell, becomes a replacement character.

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
    return from_json(well_formed(text))
