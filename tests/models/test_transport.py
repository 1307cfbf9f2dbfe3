"""One try over HTTP: what goes out, and how a body is told from a stream."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.errors import MissingExtraError
from ferrule.models.faults import Endpoint, Faults, TryAgain
from ferrule.models.http_model import Transport, as_json, http
from ferrule.models.wire_form import Frame

from .endpoints.server import Reply, Server, body, sse
from .endpoints.wire import QUICK


async def frames_of(reply: Reply, sent: Any = None) -> tuple[list[Frame], Server]:
    async with Server(reply) as server:
        endpoint = Endpoint("x", "X", server.url, headers={"x-team": "blue"})
        transport = Transport(endpoint, QUICK)
        exchange = transport.exchange(Faults(endpoint, "m"))
        try:
            return [frame async for frame in exchange.frames("ask", {"x-key": "k"}, sent or {})], server
        finally:
            await transport.close()


async def test_headers_and_body_go_out_as_given() -> None:
    _, server = await frames_of(Reply(sse({"a": 1})), {"text": "你好"})
    request = server.requests[0]
    assert (request.method, request.path) == ("POST", "/ask")
    assert (request.headers["x-team"], request.headers["x-key"]) == ("blue", "k")
    assert request.json == {"text": "你好"}
    assert "你好".encode() in request.body


async def test_events_and_the_end_mark_are_frames() -> None:
    found, _ = await frames_of(Reply(sse(("named", {"a": 1}), {"b": 2}, "[DONE]")))
    assert found == [Frame("named", {"a": 1}), Frame("message", {"b": 2}), Frame("done", None)]


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "text/event-stream"])
async def test_a_body_is_told_by_its_first_byte(kind: str) -> None:
    found, _ = await frames_of(Reply([b"\xef\xbb\xbf", b" \r\n", b'{"a":', b" 1}"], content_type=kind))
    assert found == [Frame("whole", {"a": 1})]


async def test_comments_and_empty_events_are_no_frames() -> None:
    found, _ = await frames_of(Reply([b": hello\n\n", b"event: ping\n\n", b"retry: 5\n\n", b"data: 1"]))
    assert found == [Frame("message", 1)]


async def test_redirects_are_not_followed() -> None:
    async with Server(body({})) as other:
        moved = Reply([], 307, {"location": other.url})
        with pytest.raises(Exception, match="redirects"):
            await frames_of(moved)
        assert other.requests == []


async def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    found, _ = await frames_of(Reply(sse({"a": 1})))
    assert found == [Frame("message", {"a": 1})]


async def test_a_proxy_of_the_environment_is_used_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server(Reply(sse({"a": 1}))) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        endpoint = Endpoint("x", "X", "http://far.example")
        transport = Transport(endpoint, QUICK)
        found = [frame async for frame in transport.exchange(Faults(endpoint, "m")).frames("ask", {}, {})]
        await transport.close()
    assert found == [Frame("message", {"a": 1})]
    assert proxy.requests[0].path == "http://far.example/ask"


@pytest.mark.parametrize(
    ("listed", "expected"), [({"a": 1}, (200, {"a": 1})), (None, (404, {}))], ids=["there", "not there"]
)
async def test_a_small_document_comes_with_its_status(listed: Any, expected: tuple[int, Any]) -> None:
    async with Server(Reply()) as server:
        server.listed = listed
        transport = Transport(Endpoint("x", "X", server.url), QUICK)
        assert await transport.get("models", {}, 5) == expected
        await transport.close()


async def test_a_document_that_does_not_come_is_none() -> None:
    async with Server(Reply()) as server:
        url = server.url
    transport = Transport(Endpoint("x", "X", url), QUICK)
    assert await transport.get("models", {}, 5) == (0, None)
    await transport.close()


async def test_a_dot_path_leads_up() -> None:
    async with Server(Reply(sse({"a": 1}))) as server:
        endpoint = Endpoint("x", "X", server.url + "/v1")
        transport = Transport(endpoint, QUICK)
        _ = [frame async for frame in transport.exchange(Faults(endpoint, "m")).frames("../api/ps", {}, {})]
        await transport.close()
    assert server.requests[0].path == "/api/ps"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), JSON))
def test_any_request_can_be_sent(sent: dict[str, Any]) -> None:
    """Half a surrogate pair and infinity come out of models, and go back as what JSON can say."""
    json.loads(as_json(sent).decode())


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtraError, match=r"ferrule\[models\]"):
        http()


async def test_a_page_is_refused_at_its_first_byte() -> None:
    with pytest.raises(Exception, match="web page"):
        await frames_of(Reply([b"<html>"]))
    with pytest.raises(TryAgain, match="not JSON"):
        await frames_of(Reply([b"data: <html>\n\n"]))
