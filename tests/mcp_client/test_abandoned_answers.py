"""A call over HTTP that was given up leaves nothing behind."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ferrule.mcp_client.http_transport import BoundedExchange
from tests.mcp_client.peers import until, using
from tests.mcp_client.test_http_transport import Peer, peer


@pytest.mark.parametrize("first", [b"", b"id: 1\nretry: 0\ndata:\n\n"])
async def test_a_stream_that_is_kept_alive_by_comments_ends_with_its_call(tmp_path: Path, first: bytes) -> None:
    """Also where the server says how it could be taken up again."""
    ended = threading.Event()

    def never_answer(handler: Peer, message: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        try:
            handler.wfile.write(first)
            while True:
                handler.wfile.write(b": still here\n\n")
                time.sleep(0.02)
        except OSError:
            ended.set()

    with peer(never_answer) as (config, _):
        async with using(tmp_path, config) as used:
            result = await used.runtime.run(used.named("get"), {}, timeout=0.3)
            assert result.error is not None
            await until(ended.is_set)


async def test_only_what_is_cancelled_is_let_go_of() -> None:
    answers = BoundedExchange("http://peer/mcp")

    def request(body: bytes) -> httpx2.Request:
        return httpx2.Request("POST", "http://peer/mcp", content=body)

    async def response(body: bytes) -> httpx2.Response:
        stream = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=b": one\n\n")
        stream.request = request(body)
        await answers.see_response(stream)
        return stream

    kept, left = [await response(b'{"id":%d,"method":"tools/call"}' % number) for number in (1, 2)]
    for harmless in (
        b"{}",
        b"[]",
        b"nothing",
        b'{"method":"x","params":{"requestId":1,"a":"notifications/cancelled"}}',
    ):
        await answers.see_request(request(harmless))
    await answers.see_request(request(b'{"method":"notifications/cancelled","params":{"requestId":2}}'))
    assert [piece async for piece in kept.stream] == [b": one\n\n"]  # type: ignore[union-attr]
    with pytest.raises(httpx2.ReadError, match="nothing waits"):
        assert [piece async for piece in left.stream] == []  # type: ignore[union-attr]
