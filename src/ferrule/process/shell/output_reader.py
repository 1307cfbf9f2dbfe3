"""Reads what a command writes, as it comes, into its record; and shows it to whoever watches."""

from __future__ import annotations

import asyncio
import codecs
import os
from time import monotonic
from typing import TYPE_CHECKING

from ferrule.process.output import Piece
from ferrule.process.terminal_escapes import StreamCleaner

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.process.output import OutputRecord, Stream

_CHUNK = 1 << 18
_SECONDS_BETWEEN_LOOKS = 0.002


class OutputReader:
    """Two pipes, or a terminal, which are the caller's. Never keeps a writer waiting longer than a turn of the loop."""

    def __init__(self, sources: dict[int, Stream], record: OutputRecord) -> None:
        self._sources = sources
        self.record = record
        self.on_output: Callable[[Piece], None] | None = None
        self._open = set(sources)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._decoders = {number: codecs.getincrementaldecoder("utf-8")("replace") for number in sources}
        self._cleaners = {number: StreamCleaner() for number in sources}

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on, read what comes."""
        self._loop = loop
        for number in self._sources:
            loop.add_reader(number, self._read, number)

    def stop(self) -> None:
        """Read no more; the descriptors stay open."""
        if self._loop is not None and not self._loop.is_closed():
            for number in self._open:
                self._loop.remove_reader(number)
        self._loop = None

    def take_rest(self) -> None:
        """Read what has been written by now. Whoever could write more has ended."""
        for number in list(self._open):
            while self._read(number):
                continue
        if self.on_output is not None:
            for number in self._sources:
                self._show(number, self._decoders[number].decode(b"", final=True), last=True)

    async def until_closed(self, seconds: float) -> None:
        """A terminal hands on what was written to it a little later, and then says that it is closed."""
        end = monotonic() + seconds
        while self._open and monotonic() < end:  # noqa: ASYNC110 - it is read as it comes
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)

    def pipe_files(self) -> frozenset[tuple[int, int]]:
        """Its pipes, as the kernel tells them apart."""
        found = [os.fstat(number) for number in self._sources]
        return frozenset((one.st_dev, one.st_ino) for one in found)

    def _read(self, number: int) -> int:
        try:
            data = os.read(number, _CHUNK)
        except BlockingIOError:
            return 0
        except OSError:  # a terminal whose other side is closed
            data = b""
        if not data:
            self._open.discard(number)
            if self._loop is not None:
                self._loop.remove_reader(number)
            return 0
        self.record.add(self._sources[number], data)
        if self.on_output is not None:
            self._show(number, self._decoders[number].decode(data))
        return len(data)

    def _show(self, number: int, text: str, *, last: bool = False) -> None:
        cleaner = self._cleaners[number]
        text = cleaner.feed(text) + (cleaner.rest() if last else "")
        if text and self.on_output is not None:
            self.on_output(Piece(self._sources[number], text))
