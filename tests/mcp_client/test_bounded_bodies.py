"""Answers over HTTP that hold more than anyone would read are told, and never made into values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.mcp_client.http_transport import BoundedBody, BoundedEvents
from tests.mcp_client.peers import using
from tests.mcp_client.test_http_transport import Peer, peer

MANY = b"[]," * 600_000 + b"[]"


class Pieces(httpx2.AsyncByteStream):
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def cut(body: bytes, size: int) -> Pieces:
    return Pieces([body[at : at + size] for at in range(0, len(body), size)])


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_of_millions_of_values_is_not_read(tmp_path: Path, kind: str) -> None:
    def many(handler: Peer, message: dict[str, Any]) -> None:
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":[%s]}}' % (message["id"], MANY)
        handler.send_body(body if kind == "application/json" else b"event: message\ndata: " + body + b"\n\n", kind)

    with peer(many) as (config, _):
        async with using(tmp_path, config) as used:
            assert (await used.call("get")).llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` gave no usable result for `get`: the answer contains more than 500,000 values, which are not read.

Suggestion: Ask for less at once, if the tool can; the same call would fail the same way.\
""")  # noqa: E501


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1 << 16])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r\n", b"\r\n\n"])
async def test_each_event_is_counted_for_itself(size: int, end: bytes) -> None:
    half = b"data: " + b"[]," * 150_000 + end  # twice as many signs as values
    body = b"data: [1,2]" + end + half + half
    if size < 10:
        body = body.replace(b"[]," * 149_000, b"x")
    assert b"".join([piece async for piece in BoundedEvents(cut(body, size))]) == body


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
async def test_lines_do_not_split_an_event(end: bytes) -> None:
    line = b"data: " + b"[]," * 100_000 + end
    with pytest.raises(httpx2.SSEError, match="500,000 values"):
        async for _ in BoundedEvents(cut(b': "' + end + line * 3 + end, 1 << 16)):
            pass


@given(st.lists(st.binary(max_size=9), max_size=9))
def test_bodies_pass_as_they_are(pieces: list[bytes]) -> None:
    async def read(body: httpx2.AsyncByteStream) -> list[bytes]:
        return [piece async for piece in body]

    async def both() -> None:
        assert await read(BoundedBody(Pieces(pieces), None)) == [b"".join(pieces)]
        assert await read(BoundedEvents(Pieces(pieces))) == pieces

    asyncio.run(both())
