"""Lines of input as JSON-RPC messages; each that is none becomes an error which says what is wrong with it."""

from __future__ import annotations

import json
from typing import Any, cast

from mcp import types
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from ferrule.core.json_values import MESSAGE_VALUES, has_too_many_values


def read_message(line: bytes) -> types.JSONRPCMessage | types.JSONRPCError:
    """The message in a line, or the error to answer it with; the latter is a `JSONRPCError` that nobody sent."""
    if has_too_many_values(line):
        return too_many_values()
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except (ValidationError, RecursionError):
        return _what_is_wrong(line)
    if isinstance(message, types.JSONRPCNotification) and b'"id"' in line and _has_id(line):
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
        return RefusedMessage.of(types.PARSE_ERROR, f"This line is no JSON that can be read: {why[:200]}.")
    if isinstance(given, list):
        return RefusedMessage.of(types.INVALID_REQUEST, "Batches are not taken. Send each message by itself.")
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
        words = "It holds half a character (a lone surrogate such as `\\ud800`), which no text may."
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


def _has_id(line: bytes) -> bool:
    return "id" in json.loads(line)


def _is_text(given: Any) -> bool:
    """Whether it can be written again: JSON's escapes can spell half a character, and no encoding has that."""
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
