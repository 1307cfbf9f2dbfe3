"""Reads what a command writes, as it comes, into its record; and shows it to whoever watches."""

from __future__ import annotations

import asyncio
import codecs
import os
from time import monotonic
from typing import TYPE_CHECKING

from ferrule.process.output import Piece
from ferrule.process.shell.descriptors import Descriptors
from ferrule.process.terminal_escapes import StreamCleaner

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.process.output import OutputRecord, Stream

_CHUNK = 1 << 18
_SECONDS_OF_SILENCE = 0.005


class OutputReader:
    """Two pipes, or a terminal. Never waits, never keeps a writer waiting longer than a turn of the loop."""

    def __init__(self, sources: dict[int, Stream], record: OutputRecord) -> None:
        self._sources = sources
        self.record = record
        self.on_output: Callable[[Piece], None] | None = None
        self.on_change: Callable[[], None] | None = None
        self.marker = b""
        """On a terminal: the word after which nothing of the command comes any more. It is never shown."""
        self.marked = False
        self._held: bytes = b""
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
            for number in self._sources:
                self._loop.remove_reader(number)
        self._loop = None

    def take_rest(self) -> None:
        """Read what has been written by now, and not what others go on writing."""
        for number in self._sources:
            waiting = Descriptors.unread(number)
            while waiting > 0 and (got := self._read(number, waiting)):
                waiting -= got
            if self.on_output is not None:
                self._show(number, self._decoders[number].decode(b"", final=True), last=True)

    async def until_marked(self, seconds: float) -> None:
        """A terminal hands on what was written to it a little later. Wait for the marker, or for silence."""
        end = monotonic() + seconds
        while not self.marked and monotonic() < end:
            before = self.record.total
            await asyncio.sleep(_SECONDS_OF_SILENCE)
            if not self.marker and self.record.total == before:
                return

    def pipes(self) -> frozenset[str]:
        """The names of its pipes in the kernel."""
        return frozenset(f"pipe:[{os.fstat(number).st_ino}]" for number in self._sources)

    def pipe_files(self) -> frozenset[tuple[int, int]]:
        """The same, as the kernel tells them apart."""
        found = [os.fstat(number) for number in self._sources]
        return frozenset((one.st_dev, one.st_ino) for one in found)

    def close(self) -> None:
        """Stop, and let go of the descriptors."""
        self.stop()
        sources, self._sources = self._sources, {}
        for number in sources:
            os.close(number)

    def _read(self, number: int, most: int = _CHUNK) -> int:
        try:
            data = os.read(number, min(most, _CHUNK))
        except BlockingIOError:
            return 0
        except OSError:  # a terminal whose other side is closed
            data = b""
        if not data:
            if self._loop is not None:
                self._loop.remove_reader(number)
            return 0
        read = len(data)
        if self.marker:
            data = self._without_marker(data)
        if data:
            self.record.add(self._sources[number], data)
        if self.on_output is not None:
            self._show(number, self._decoders[number].decode(data))
        if self.on_change is not None:
            self.on_change()
        return read

    def _without_marker(self, data: bytes) -> bytes:
        data = self._held + data
        self._held = b""
        before, found, after = data.partition(self.marker)
        if found:
            self.marked = True
            return before + after
        for length in range(min(len(self.marker) - 1, len(data)), 0, -1):
            if data.endswith(self.marker[:length]):
                self._held = data[-length:]
                return data[:-length]
        return data

    def _show(self, number: int, text: str, *, last: bool = False) -> None:
        cleaner = self._cleaners[number]
        text = cleaner.feed(text) + (cleaner.rest() if last else "")
        if text and self.on_output is not None:
            self.on_output(Piece(self._sources[number], text))
