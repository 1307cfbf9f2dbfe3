"""Bodies over HTTP that should answer a request, and what becomes of those that answer another one or none.

The SDK hands on whatever message a body holds. One with another id, or that is no answer at all, is nobody's, and the
call whose body it was would wait for an answer that cannot come any more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import httpx2
from mcp_types import PARSE_ERROR
from pydantic_core import from_json

from ferrule.mcp_client.broken_answers import looks_like_answer
from ferrule.mcp_client.message_lines import answered_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LONGEST_ID = 50


def check_answer(response: httpx2.Response) -> None:
    """Have a body looked at when it is read, where it should answer a request."""
    is_json = response.headers.get("content-type", "").lower().startswith("application/json")
    if response.status_code >= 300 or not is_json:
        return
    asked = _request_id(response.request.content)
    if asked is not None:
        body: Any = response.stream
        response.stream = AnswerBody(body, asked)


class AnswerBody(httpx2.AsyncByteStream):
    """A body that ends as an answer to its request, whatever else it held."""

    def __init__(self, body: httpx2.AsyncByteStream, asked: int | str) -> None:
        self._body = body
        self._asked = asked

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield fitting(b"".join([piece async for piece in self._body]), self._asked)

    async def aclose(self) -> None:
        await self._body.aclose()


def fitting(body: bytes, asked: int | str) -> bytes:
    """The body itself where it answers the request or cannot be read; else an error that does."""
    if answered_id(body, body) == asked and looks_like_answer(
        body
    ):  # as nearly always, and nothing is made of it twice
        return body
    try:
        found: Any = from_json(body)
    except ValueError:
        return body
    if not isinstance(found, dict):
        return body
    message = cast("dict[str, Any]", found)
    if "method" in message:
        return _error(asked, "the answer is a message of its own, and none to what was asked")
    given = message.get("id")
    if given is None and isinstance(message.get("error"), dict):  # it could not read what it was asked
        return json.dumps({**message, "id": asked}).encode()
    if str(given) == str(asked) or not {"result", "error"} & message.keys():
        return body
    told = json.dumps(given)[:_LONGEST_ID]
    return _error(asked, f"the answer is to another request (its id is {told}, and not {asked})")


def _error(asked: int | str, words: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": asked, "error": {"code": PARSE_ERROR, "message": words}}).encode()


def _request_id(content: bytes) -> int | str | None:
    """The id of a request; none for a notification, for an answer of ours, and for what is no message."""
    try:
        found: Any = from_json(content)
    except ValueError:
        return None
    message = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    asked = message.get("id")
    return asked if "method" in message and isinstance(asked, (int, str)) else None
