"""The stdio transport: one message a line, nothing else on standard output, and bounds on what a client can pile up.

The SDK has one too. It hands every line to a thread and back, takes lines of any length, and says nothing about those
that it cannot read.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, cast

import anyio
from mcp import types
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from ferrule.core.json_values import MESSAGE_VALUES, has_too_many_values
from ferrule.mcp_server.opening import LINE_BYTES, NAME, TOO_LONG, Opened, claim_stdio, connected, until_ended
from ferrule.mcp_server.server import McpServer

if TYPE_CHECKING:
    from ferrule.mcp_server.opening import Lines
    from ferrule.pipeline.run import Runtime


# Lines of input as JSON-RPC messages; each that is none becomes an error which says what is wrong with it.


def read_message(line: bytes) -> types.JSONRPCMessage | types.JSONRPCError:
    """The message in a line, or the error to answer it with; the latter is a `JSONRPCError` that nobody sent."""
    if has_too_many_values(line):
        return too_many_values()
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValidationError, RecursionError):
        return _what_is_wrong(line)
    if isinstance(message, types.JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
        return RefusedMessage.of(types.INVALID_REQUEST, "`id` must be a string or an integer.")
    return message


class RefusedMessage(types.JSONRPCError):
    """An error of ours about something that came in, as opposed to one that a client sent."""

    @classmethod
    def of(cls, code: int, words: str, request_id: types.RequestId | None = None) -> RefusedMessage:
        return cls(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=words))


def too_long(most: int) -> RefusedMessage:
    return RefusedMessage.of(types.INVALID_REQUEST, f"A message may have at most {most:,} bytes. This one was skipped.")


def too_many_values() -> RefusedMessage:
    words = f"A message may hold at most {MESSAGE_VALUES:,} values. This one was skipped."
    return RefusedMessage.of(types.INVALID_REQUEST, words)


def _no_answer(known: types.RequestId) -> types.JSONRPCError:
    """In place of an answer that cannot be read, so that whoever asked does not wait for another."""
    error = types.ErrorData(code=types.INVALID_REQUEST, message="its answer does not fit the protocol")
    return types.JSONRPCError(jsonrpc="2.0", id=known, error=error)


def _what_is_wrong(line: bytes) -> types.JSONRPCError:
    try:
        given: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return RefusedMessage.of(types.PARSE_ERROR, f"This line is not valid JSON: {why[:200]}.")
    if isinstance(given, list):
        return RefusedMessage.of(types.INVALID_REQUEST, "Batches are not accepted. Send each message by itself.")
    if not isinstance(given, dict):
        return RefusedMessage.of(types.INVALID_REQUEST, "A message is a JSON object.")
    message = cast("dict[str, Any]", given)
    request_id = message.get("id")
    known = request_id if isinstance(request_id, (str, int)) and not isinstance(request_id, bool) else None
    is_answer = "method" not in message and ("result" in message or "error" in message)
    if is_answer and known is not None and _is_text(known):
        # An answer to a question of ours. It is answered by nothing, least of all under an id that may be another's.
        return _no_answer(known)
    if not _is_text(message):
        words = "It contains half a character (a lone surrogate such as `\\ud800`), which no text may."
        return RefusedMessage.of(types.PARSE_ERROR, words, known if _is_text(known) else None)
    if message.get("jsonrpc") != "2.0":
        why = '`jsonrpc` must be "2.0".'
    elif "method" in message and not isinstance(message["method"], str):
        why = "`method` must be a string."
    elif "params" in message and not isinstance(message["params"], dict):
        why = "`params` must be an object."
    elif "id" in message and known is None:
        why = "`id` must be a string or an integer."
    else:
        why = "This is neither a request, nor a notification, nor a response."
    return RefusedMessage.of(types.INVALID_REQUEST, why, known)


def _is_text(given: Any) -> bool:
    """Whether it can be written again: JSON's escapes can spell half a character, and no encoding has that."""
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


logger = logging.getLogger("ferrule.mcp")

_MOST_REQUESTS = 256


async def serve_stdio(server: McpServer, reading: int, writing: int) -> None:
    """Serve the one client at the other end until it closes its side; then all that it began is stopped."""
    async with connected(reading, writing) as lines:
        await serve_lines(server, lines)


async def serve(runtime: Runtime, *, name: str = NAME, instructions: str = "") -> None:
    """Serve a runtime's tools over standard input and output, until the client closes them, Ctrl-C or SIGTERM.

    From now on what anything prints goes to standard error, and what anything reads from standard input is empty.
    `instructions` are for the client's model: what the tools are for, and how to use them. Enter a runtime with plugins
    or MCP servers first, with `async with`.
    """
    reading, writing = claim_stdio()
    await until_ended(serve_stdio(McpServer(runtime, name=name, instructions=instructions), reading, writing))


async def serve_lines(server: McpServer, lines: Lines, opened: Opened | None = None) -> None:
    """Serve on streams that are open already; what was `opened` is heard first, and not answered again."""
    pipe = StdioPipe(lines, opened or Opened())
    try:
        await server.sdk.run(pipe, _Writing(pipe), server.sdk.create_initialization_options())
    except* anyio.BrokenResourceError:
        logger.debug("Ended while a line was passed on")  # which breaks the SDK's own stream when it is cancelled


class StdioPipe:
    """Both directions, as the SDK's loop reads them. It also answers what is no message, and what is too much."""

    def __init__(self, lines: Lines, opened: Opened) -> None:
        self._lines = lines
        self._heard = deque(opened.lines)
        self._answered = dict(opened.answers)
        self._caught_up = anyio.Event()
        self._open: set[types.RequestId] = set()
        self._closed = False

    # Reading

    async def receive(self) -> SessionMessage | Exception:
        while not self._closed:
            line = self._heard.popleft() if self._heard else await self._next_line()
            if line is None:
                break
            if not line.strip():
                continue
            message = read_message(line) if line is not TOO_LONG else too_long(LINE_BYTES)
            refused = message if isinstance(message, RefusedMessage) else self._refuse(message)
            if refused is None:
                return SessionMessage(message)
            await self.write(refused)
        raise anyio.EndOfStream

    async def _next_line(self) -> bytes | None:
        """The next line, once the SDK has answered all that it heard late: for the client those requests are over, so
        it may use their ids again, or take back what can no longer be taken back.
        """
        while any(coerce_request_id(one) in self._open for one in self._answered):
            await self._caught_up.wait()
            self._caught_up = anyio.Event()
        self._answered.clear()
        return await self._lines.read()

    def _refuse(self, message: types.JSONRPCMessage) -> RefusedMessage | None:
        if isinstance(message, types.JSONRPCRequest):
            key = coerce_request_id(message.id)
            if key in self._open:  # an answer under that id would pass for the other one's
                words = f"The id {message.id!r} is that of a request which still runs. This one was not accepted."
                return RefusedMessage.of(types.INVALID_REQUEST, words)
            if len(self._open) >= _MOST_REQUESTS:
                words = f"{_MOST_REQUESTS} requests run already. Wait for one of them, and send this again."
                return RefusedMessage.of(types.INTERNAL_ERROR, words, message.id)
            self._open.add(key)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            cancelled = cancelled_request_id_from_params(message.params)
            if cancelled is not None:
                self._open.discard(coerce_request_id(cancelled))  # it is never answered
        return None

    # Writing

    async def write(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, (types.JSONRPCResponse, types.JSONRPCError)) and message.id is not None:
            self._open.discard(coerce_request_id(message.id))
            if message.id in self._answered:
                self._caught_up.set()
                if not _is_outdated(self._answered.pop(message.id), message):
                    return
                message = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")
        if self._closed:
            raise anyio.BrokenResourceError
        try:
            await self._lines.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        except (OSError, RuntimeError):  # nobody reads any more, so nobody can be served
            self._closed = True
            self._lines.end()
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

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
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

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        return None


def _is_outdated(said: dict[str, Any], answer: types.JSONRPCResponse | types.JSONRPCError) -> bool:
    """Whether a client holds a list of tools that is no longer the one that it would get."""
    now = answer.result if isinstance(answer, types.JSONRPCResponse) else {}
    return "tools" in now and now["tools"] != said.get("tools")
