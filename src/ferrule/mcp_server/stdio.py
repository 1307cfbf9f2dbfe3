"""The stdio transport: one message a line, nothing else on standard output, and bounds on what a client can pile up.

The SDK has one too. It hands every line to a thread and back, takes lines of any length, and says nothing about those
that it cannot read.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from mcp import types
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage

from ferrule.core.errors import ToolError
from ferrule.mcp_server.messages import MESSAGE_BYTES, Refused, read_message, too_long

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from types import TracebackType

    from ferrule.mcp_server.server import McpServer

_CHUNK = 65_536
_MOST_REQUESTS = 256


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


async def serve_stdio(server: McpServer, reading: int, writing: int) -> None:
    """Serve the one client at the other end until it closes its side; then all that it began is stopped."""
    async with _connected(reading, writing) as pipe:
        await server.sdk.run(pipe, _Writing(pipe), server.sdk.create_initialization_options())


class StdioPipe:
    """Both directions, as the SDK's loop reads them. It also answers what is no message, and what is too much."""

    def __init__(self, reader: asyncio.StreamReader | ThreadedReader, writer: asyncio.StreamWriter | int) -> None:
        self._reader = reader
        self._writer = writer
        self._rest = bytearray()
        self._open: set[types.RequestId] = set()
        self._closed = False

    # Reading

    async def receive(self) -> SessionMessage | Exception:
        while not self._closed:
            line = await self._line()
            if line is None:
                break
            if not line.strip():
                continue
            message = read_message(line) if line is not _SKIPPED else too_long(MESSAGE_BYTES)
            refused = message if isinstance(message, Refused) else self._refuse(message)
            if refused is None:
                return SessionMessage(message)
            await self.write(refused)
        raise anyio.EndOfStream

    def _refuse(self, message: types.JSONRPCMessage) -> Refused | None:
        if isinstance(message, types.JSONRPCRequest):
            key = coerce_request_id(message.id)
            if key in self._open:  # an answer under that id would pass for the other one's
                words = f"The id {message.id!r} is that of a request which still runs. This one was not taken."
                return Refused.of(types.INVALID_REQUEST, words)
            if len(self._open) >= _MOST_REQUESTS:
                words = f"{_MOST_REQUESTS} requests run already. Wait for one of them, and send this again."
                return Refused.of(types.INTERNAL_ERROR, words, message.id)
            self._open.add(key)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = cancelled_request_id_from_params(message.params)
            if cancelled is not None:
                self._open.discard(coerce_request_id(cancelled))  # it is never answered
        return None

    async def _line(self) -> bytes | None:
        """The next line; None at the end, where half a line is none."""
        seen, skipping = 0, False
        while True:
            end = self._rest.find(b"\n", seen)
            if end >= 0:
                line = _SKIPPED if skipping else bytes(self._rest[:end])
                del self._rest[: end + 1]
                return line
            seen = len(self._rest)
            if seen > MESSAGE_BYTES:
                skipping = True
            if skipping:
                self._rest.clear()
                seen = 0
            chunk = await self._reader.read(_CHUNK)
            if not chunk:
                return None
            self._rest += chunk

    # Writing

    async def write(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)) and message.id is not None:
            self._open.discard(coerce_request_id(message.id))
        if self._closed:
            raise anyio.BrokenResourceError
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        try:
            if isinstance(self._writer, int):
                _write_all(self._writer, line)
            else:
                self._writer.write(line)
                await self._writer.drain()
        except (OSError, RuntimeError):  # nobody reads any more, so nobody can be served
            self._closed = True
            self._reader.feed_eof()
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        self._closed = True

    def __aiter__(self) -> StdioPipe:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> StdioPipe:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class _Writing:
    """The way out as a stream of its own: the loop closes the way in first, and still has last words then."""

    def __init__(self, pipe: StdioPipe) -> None:
        self._pipe = pipe

    async def send(self, item: SessionMessage) -> None:
        await self._pipe.write(item.message)

    async def aclose(self) -> None:
        return None

    async def __aenter__(self) -> _Writing:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        return None


_SKIPPED = b"(a line that was too long)"


@asynccontextmanager
async def _connected(reading: int, writing: int) -> AsyncGenerator[StdioPipe]:
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
        yield StdioPipe(reader, writer)
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
