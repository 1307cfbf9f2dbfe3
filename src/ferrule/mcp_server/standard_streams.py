"""Standard input and output as lines of bytes, bounded in length. It knows nothing of the protocol, nor of the SDK."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ferrule.core.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

LINE_BYTES = 16 * 1024 * 1024
"""The longest line that is taken."""
TOO_LONG = b"(a line that was too long)"
"""Stands for a line that was skipped."""
_CHUNK = 65_536


def claim_stdio() -> tuple[int, int]:
    """Take standard input and output for the protocol: whatever else reads finds the end, whatever else prints goes to
    standard error. To be called before anything is imported that might print.
    """
    try:
        taken = _above_standard(0), _above_standard(1)
    except OSError:
        raise ToolError("Standard input or output is closed, so there is no client to serve.") from None
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return taken


def _above_standard(fd: int) -> int:
    if sys.platform == "win32":
        return os.dup(fd)
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


class Lines:
    """Both directions, a line at a time."""

    def __init__(self, reader: asyncio.StreamReader | ThreadedReader, writer: asyncio.StreamWriter | int) -> None:
        self._reader = reader
        self._writer = writer
        self._rest = bytearray()
        self._skipping = False

    async def read(self) -> bytes | None:
        """The next line; None at the end, where half a line is none. A reading that is cancelled loses nothing."""
        seen = 0
        while True:
            end = self._rest.find(b"\n", seen)
            if end >= 0:
                line = TOO_LONG if self._skipping else bytes(self._rest[:end])
                del self._rest[: end + 1]
                self._skipping = False
                return line
            seen = len(self._rest)
            if seen > LINE_BYTES:
                self._skipping = True
            if self._skipping:
                self._rest.clear()
                seen = 0
            chunk = await self._reader.read(_CHUNK)
            if not chunk:
                return None
            self._rest += chunk

    async def write(self, line: bytes) -> None:
        """Write a line, when the other side has room for it. OSError or RuntimeError: nobody reads any more."""
        if isinstance(self._writer, int):
            _write_all(self._writer, line)
        else:
            self._writer.write(line)
            await self._writer.drain()

    def end(self) -> None:
        """Nothing more is read."""
        self._reader.feed_eof()


@asynccontextmanager
async def connected(reading: int, writing: int) -> AsyncGenerator[Lines]:
    """The streams behind two descriptors, until the block ends."""
    loop = asyncio.get_running_loop()
    reader: asyncio.StreamReader | ThreadedReader
    transports: list[asyncio.BaseTransport] = []
    if _is_pipe(reading):
        stream = reader = asyncio.StreamReader(limit=_CHUNK)
        incoming, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", 0, closefd=False)
        )
        transports.append(incoming)
    else:
        reader = ThreadedReader(reading)
    writer: asyncio.StreamWriter | int = writing
    if _is_pipe(writing) and not _same_file(writing, 2):  # what is done to the one would be done to the other
        outgoing, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(writing, "wb", 0, closefd=False)
        )
        outgoing.set_write_buffer_limits(0)  # a client that does not read is waited for
        transports.append(outgoing)
        writer = asyncio.StreamWriter(outgoing, protocol, None, loop)
    try:
        yield Lines(reader, writer)
    finally:
        for transport in transports:
            transport.close()


class ThreadedReader:
    """Input that the loop cannot wait for (a terminal, a file), read by a thread a piece at a time."""

    def __init__(self, fd: int) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(maxsize=4)
        self._ended = False
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._work, args=(fd, loop), daemon=True).start()

    async def read(self, _most: int) -> bytes:
        if self._ended:
            return b""
        chunk = await self._chunks.get()
        self._ended = self._ended or not chunk
        return chunk

    def feed_eof(self) -> None:
        self._ended = True
        if self._chunks.empty():
            self._chunks.put_nowait(b"")

    def _work(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        chunk = b"-"
        while chunk:
            try:
                chunk = os.read(fd, _CHUNK)
            except OSError:
                chunk = b""
            putting = self._chunks.put(chunk)
            try:
                asyncio.run_coroutine_threadsafe(putting, loop).result()
            except (RuntimeError, CancelledError):  # the loop is closed: the server has ended
                putting.close()
                return


def _is_pipe(fd: int) -> bool:
    """Whether the loop can wait for it. A terminal is left alone: it is shared with the shell."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _same_file(one: int, other: int) -> bool:
    with suppress(OSError):
        return os.path.sameopenfile(one, other)
    return False


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
