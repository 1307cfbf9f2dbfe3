"""A client's first words, answered before the SDK is there.

Importing the SDK takes three quarters of a start, and agents are impatient: Codex goes on without a server that has not
listed its tools after a second, and Claude Code takes one that is slow to be discovered for an old one.
So the greeting and the first list of tools are answered while the SDK is imported in a thread, and the greeting even
while servers behind this one are waited for. Only what is ordinary is answered here, and as the SDK would; the rest
waits for it. It then hears the greeting too, and its answer is dropped.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import threading
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json

from ferrule._version import __version__
from ferrule.core.errors import ToolError
from ferrule.core.files import write_all
from ferrule.core.json_lines import LineReader, TooLong
from ferrule.core.json_values import has_too_many_values
from ferrule.core.loops import no_more_on_signal, on_signal
from ferrule.core.standard_streams import take_stdin, take_stdout

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from ferrule.mcp_server.shown_tools import Definitions


# Standard input and output as lines of bytes, bounded in length. It knows nothing of the protocol, nor of the SDK.


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
        return take_stdin(), take_stdout()
    except OSError:
        raise ToolError("Standard input or output is closed, so there is no client to serve.") from None


async def until_ended(serving: Coroutine[Any, Any, None]) -> None:
    """Run until the client is gone, or until SIGTERM, Ctrl-C or the end of a terminal, which end it as cleanly."""
    task = asyncio.ensure_future(serving)
    names = ("SIGTERM", "SIGINT", "SIGHUP")
    for name in names:
        on_signal(name, task.cancel)
    try:
        await asyncio.wait((task,))
    finally:  # also where the awaiting task is cancelled
        for name in names:
            no_more_on_signal(name)
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.result()


class Lines:
    """Both directions, a line at a time."""

    def __init__(self, reader: asyncio.StreamReader | ThreadedReader, writer: asyncio.StreamWriter | int) -> None:
        self._reader = reader
        self._lines = LineReader(reader, LINE_BYTES)
        self._writer = writer

    async def read(self) -> bytes | None:
        """The next line; None at the end, where half a line is none. A reading that is cancelled loses nothing."""
        line = await self._lines.read()
        return TOO_LONG if isinstance(line, TooLong) else line

    async def write(self, line: bytes) -> None:
        """Write a line, when the other side has room for it. OSError or RuntimeError: nobody reads any more."""
        if isinstance(self._writer, int):
            write_all(self._writer, line)
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


# What server and client know of each other when one comes, in either era; without the SDK, which imports slowly.


NAME = "ferrule"
TITLE = "Ferrule"
INSTRUCTIONS = (
    "Tools that run under the user's own permission rules. Paths are relative to the workspace. "
    "Read a file before you edit it. A call that needs the user's approval asks for it or is refused; the refusal "
    "says what would allow it, so tell the user instead of working around it."
)
HANDSHAKE_REVISIONS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
STATELESS_REVISION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
META = "io.modelcontextprotocol/"
_TOOLS = {"listChanged": True}
_READ_STRUCTURED_ALONE = frozenset({"claude-code", "codex-mcp-client", "opencode"})


def handshake(revision: str) -> dict[str, Any]:
    """The answer to `initialize`."""
    return {
        "protocolVersion": revision,
        "capabilities": {"tools": _TOOLS},
        "serverInfo": _server_info(),
        "instructions": INSTRUCTIONS,
    }


def discovery() -> dict[str, Any]:
    """The answer to `server/discover`."""
    return {
        "resultType": "complete",
        "supportedVersions": [STATELESS_REVISION],
        "capabilities": {"tools": _TOOLS, "extensions": {TASKS: {}}},
        "instructions": INSTRUCTIONS,
        "cacheScope": "private",
        "ttlMs": 0,
        "_meta": {f"{META}serverInfo": _server_info()},
    }


def _server_info() -> dict[str, Any]:
    return {"name": NAME, "title": TITLE, "version": __version__}


def takes_structured(client: str) -> bool:
    """Whether a client of this name gets structured content beside the words.

    Some agents show their model the JSON in place of the words, and of the pictures beside them. They are known by
    name, for no capability tells them apart, and get words and pictures alone, which a model reads better.
    """
    return client not in _READ_STRUCTURED_ALONE


# Which of a client's first messages are so ordinary that the SDK is sure to take them, told without the SDK.


_WORDS = ("title", "description", "websiteUrl")


def read_ordinary(line: bytes) -> dict[str, Any]:
    """A request, or the notification that the greeting is over; nothing for whatever else it is."""
    if has_too_many_values(line):
        return {}
    try:
        message: Any = from_json(line)  # as strict as the SDK's reading: no byte order mark, no half a character
    except ValueError:
        return {}
    if not isinstance(message, dict):
        return {}
    found = cast("dict[str, Any]", message)
    if not isinstance(found.get("params", {}), dict):
        return {}
    is_request = found.get("method") != "notifications/initialized"
    has_id = _is_id(found.get("id"))
    return found if found.get("jsonrpc") == "2.0" and has_id == is_request else {}


def is_greeting(message: dict[str, Any]) -> bool:
    """Whether it is an `initialize` for a revision that is served."""
    params = object_in(message, "params")
    revision = params.get("protocolVersion")
    known = isinstance(revision, str) and revision in HANDSHAKE_REVISIONS
    return known and _has_plain_meta(params) and _is_client(params.get("clientInfo"), params.get("capabilities"))


def is_probe(message: dict[str, Any]) -> bool:
    """Whether it is a `server/discover` in the envelope of the stateless era."""
    meta = object_in(object_in(message, "params"), "_meta")
    own = {f"{META}{name}": name for name in ("protocolVersion", "clientInfo", "clientCapabilities")}
    said = {own[key]: value for key, value in meta.items() if key in own}
    rest = {"_meta": {key: value for key, value in meta.items() if key not in own}}
    known = said.get("protocolVersion") == STATELESS_REVISION
    return known and _has_plain_meta(rest) and _is_client(said.get("clientInfo"), said.get("clientCapabilities"))


def is_first_page(message: dict[str, Any]) -> bool:
    """Whether a `tools/list` asks for the beginning."""
    params = object_in(message, "params")
    return params.get("cursor") is None and _has_plain_meta(params)


def object_in(of: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; an empty one where there is none."""
    found = of.get(key)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _has_plain_meta(params: dict[str, Any]) -> bool:
    """Whether `_meta` is left out, or has a sound progress token at most of what the protocol reserves."""
    meta = params.get("_meta", {})
    if not isinstance(meta, dict):
        return False
    said = cast("dict[str, Any]", meta)
    return _is_id(said.get("progressToken", 0)) and not any(key.startswith(META) for key in said)


def _is_client(info: Any, capabilities: Any) -> bool:
    if not isinstance(info, dict) or not isinstance(capabilities, dict):
        return False
    said = cast("dict[str, Any]", info)
    named = isinstance(said.get("name"), str) and isinstance(said.get("version"), str)
    worded = all(isinstance(said.get(key, ""), str) for key in _WORDS)
    able = cast("dict[str, Any]", capabilities)
    return named and worded and "icons" not in said and all(_is_ability(name, one) for name, one in able.items())


def _is_ability(name: str, said: Any) -> bool:
    if not isinstance(said, dict):
        return False
    parts = cast("dict[str, Any]", said)
    if name == "roots":
        return isinstance(parts.get("listChanged", True), bool)
    if name == "tasks":
        return _holds_objects(parts)
    return all(isinstance(one, dict) for one in parts.values())


def _holds_objects(of: Any) -> bool:
    return isinstance(of, dict) and all(_holds_objects(one) for one in cast("dict[str, Any]", of).values())


def _is_id(given: Any) -> bool:
    return isinstance(given, (int, str)) and not isinstance(given, bool)


_MOMENT = 0.05


@dataclass
class Opened:
    """What was said so far: the lines that the SDK must hear too, and the answers that were given to them."""

    lines: list[bytes] = field(default_factory=list[bytes])
    answers: dict[int | str, dict[str, Any]] = field(default_factory=dict[int | str, dict[str, Any]])


async def serve_promptly(
    definitions: Definitions,
    app: AbstractAsyncContextManager[object],
    serve: Callable[[Lines, Opened], Awaitable[None]],
    reading: int,
    writing: int,
    *,
    sdk_first: bool = False,
) -> None:
    """Greet the client before the SDK is imported and the app has started, then `serve` it what is left.

    Only for a server of default words. `sdk_first` is for an app that needs the SDK to start: two threads that import
    it at once get in each other's way, and on the loop's own thread nobody would be greeted meanwhile.
    """
    definitions.page()  # made now, while nothing else wants the processor
    async with connected(reading, writing) as lines:
        over = asyncio.Event()
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        importing = asyncio.ensure_future(_import_sdk(over))
        until = asyncio.ensure_future(asyncio.wait((importing, started)))
        opening = asyncio.ensure_future(open_with(lines, definitions, until, started))
        try:
            if sdk_first:
                await importing
            async with app:
                started.set_result(None)
                opened = await opening
                over.set()
                await importing
                await serve(lines, opened)
        finally:
            for one in (opening, until, importing):
                one.cancel()
            await asyncio.wait((opening, until, importing))


async def _import_sdk(over: asyncio.Event) -> None:
    """Import it beside the opening; but a client that speaks at once is answered at once, and not beside an import."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_MOMENT):
            await over.wait()
    await asyncio.to_thread(import_module, "ferrule.mcp_server.stdio")
    await asyncio.to_thread(import_module, "ferrule.mcp_server.server")


async def open_with(
    lines: Lines, definitions: Definitions, until: asyncio.Future[Any], started: asyncio.Future[None] | None = None
) -> Opened:
    """Answer what is ordinary, up to the first line that is not, the end of input, or until `until` is done.

    The tools are listed when all are there, which is when it has `started`.
    """
    opening = _Opening(definitions)
    while not until.done() and not opening.over:
        line = await _read_until(lines, until)
        if started is not None and line is not None and opening.is_list(line):
            await asyncio.wait((started,))
        answer = opening.hear(line) if line is not None else None
        if answer is not None:
            try:
                await lines.write(json.dumps(answer).encode() + b"\n")
            except (OSError, RuntimeError):  # nobody reads any more, which the SDK's loop finds out by itself
                break
    return opening.opened


async def _read_until(lines: Lines, until: asyncio.Future[Any]) -> bytes | None:
    """The next line; None at the end of input, or when there was none until then."""
    reading = asyncio.ensure_future(lines.read())
    try:
        await asyncio.wait((reading, until), return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and reading.result() is None:
            await asyncio.wait((until,))
    finally:
        if not reading.done():
            reading.cancel()
            await asyncio.wait((reading,))
    return None if reading.cancelled() else reading.result()


class _Opening:
    """Hears line after line; `over` when the rest is the SDK's."""

    def __init__(self, definitions: Definitions) -> None:
        self.opened = Opened()
        self.over = False
        self._definitions = definitions
        self._greeted = False
        self._client = ""

    def is_list(self, line: bytes) -> bool:
        """Whether the tools are asked for."""
        return self._greeted and read_ordinary(line).get("method") == "tools/list"

    def hear(self, line: bytes) -> dict[str, Any] | None:
        """The answer to a line, if it gets one here. What the SDK need not hear is not kept for it."""
        message = read_ordinary(line)
        method = message.get("method")
        if method == "server/discover" and not self._greeted and is_probe(message):
            # The SDK speaks the era that it hears first. A client that gave up waiting for this may still choose.
            return _answer(message, discovery())
        self.opened.lines.append(line)
        if method == "notifications/initialized" and self._greeted:
            return None
        if method == "initialize" and not self._greeted and is_greeting(message):
            self._greeted = True
            self._client = message["params"]["clientInfo"]["name"]
            return self._keep(_answer(message, handshake(message["params"]["protocolVersion"])))
        if method == "tools/list" and self._greeted and is_first_page(message) and self._is_new(message["id"]):
            page = self._definitions.page(structured=takes_structured(self._client))
            more = {"nextCursor": page.next} if page.next else {}
            self.over = True
            return self._keep(_answer(message, {"tools": page.tools, **more}))
        self.over = True
        return None

    def _is_new(self, request_id: int | str) -> bool:
        """Whether nothing was answered under this id, so that the SDK's answers cannot be taken for each other."""
        return request_id not in self.opened.answers

    def _keep(self, answer: dict[str, Any]) -> dict[str, Any]:
        self.opened.answers[answer["id"]] = answer["result"]
        return answer


def _answer(request: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}
