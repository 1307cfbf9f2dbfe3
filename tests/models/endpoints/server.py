"""A real HTTP server on loopback that answers each request with the next step of a script, byte by byte as it says."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

CUT = object()  # the connection is torn here
HANG = object()  # nothing more is sent, and the connection stays


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """A status, headers, and the pieces of a body: bytes, or what happens to the connection."""

    pieces: list[Any] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"
    zipped: bool = False
    deaf: bool = False  # not even a status comes back


def sse(*events: Any) -> list[bytes]:
    """One piece for each event; a pair is a named event, `[DONE]` is itself."""
    pieces: list[bytes] = []
    for event in events:
        name, data = event if isinstance(event, tuple) else ("", event)
        head = f"event: {name}\n" if name else ""
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        pieces.append(f"{head}data: {text}\n\n".encode())
    return pieces


def body(data: Any, status: int = 200, **headers: str) -> Reply:
    """A whole JSON body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply([json.dumps(data).encode()], status, named, "application/json")


class Server:
    """`async with Server(reply, …) as server`: replies in order, the last one again and again."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.asked: list[Request] = []  # what was fetched with GET
        self.listed: Any = None  # what a GET gives
        self.listed_status = 200
        self.listed_deaf = False
        self.closed = asyncio.Event()  # a client went away in the middle of an answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            while request := await self._request(reader):
                if request.method == "GET":
                    self.asked.append(request)
                    if not await self._send(self._listing(), reader, writer):
                        break
                    continue
                self.requests.append(request)
                reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
                if not await self._send(reply, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.closed.set()
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    def _listing(self) -> Reply:
        if self.listed_deaf:
            return Reply(deaf=True)
        return body({}, 404) if self.listed is None else body(self.listed, self.listed_status)

    async def _request(self, reader: asyncio.StreamReader) -> Request | None:
        first = (await reader.readline()).decode().split()
        if not first:
            return None
        headers: dict[str, str] = {}
        while line := (await reader.readline()).decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        length = int(headers.get("content-length", 0))
        return Request(first[0], first[1], headers, await reader.readexactly(length))

    async def _send(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if reply.deaf:
            await reader.read()
            return False
        headers = {"content-type": reply.content_type, "transfer-encoding": "chunked", **reply.headers}
        pieces = reply.pieces
        if reply.zipped:
            headers["content-encoding"] = "gzip"
            whole = gzip.compress(b"".join(pieces))
            pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {reply.status} Scripted\r\n{head}\r\n".encode())
        await writer.drain()
        for piece in pieces:
            if piece is CUT:
                writer.transport.abort()
                return False
            if piece is HANG:
                if await reader.read(1) == b"":
                    self.closed.set()
                return False
            if piece:
                writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True
