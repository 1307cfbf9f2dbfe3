"""What is taken for ordinary is taken by the SDK as well: no client is greeted first and refused afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types
from mcp_types.methods import validate_client_request

from ferrule.mcp_server.opening import (
    HANDSHAKE_REVISIONS,
    META,
    STATELESS_REVISION,
    is_first_page,
    is_greeting,
    is_probe,
    read_ordinary,
)
from ferrule.mcp_server.stdio import RefusedMessage, read_message

CLIENT = {"name": "test", "version": "1"}
HELLO: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)
_PARTS = ("listChanged", "form", "url", "tools", "context", "list", "cancel", "requests", "sampling", "elicitation")
_abilities = st.dictionaries(
    st.sampled_from(("roots", "sampling", "elicitation", "experimental", "extensions", "tasks", "else")),
    st.dictionaries(st.sampled_from((*_PARTS, "create")), st.just({}) | st.booleans() | anything, max_size=2),
    max_size=3,
)
_info = st.fixed_dictionaries(
    {"name": st.text(max_size=3), "version": st.text(max_size=3)},
    optional={key: st.text(max_size=3) | anything for key in ("title", "description", "websiteUrl", "icons", "more")},
)
_meta = st.dictionaries(st.sampled_from(("progressToken", f"{META}logLevel", "x")), st.text() | anything, max_size=2)


def a_request(method: str, params: Any, request_id: Any = 0) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()


def greeting(**other: Any) -> dict[str, Any]:
    return read_ordinary(a_request("initialize", {**HELLO, **other}))


@given(
    st.sampled_from(sorted(HANDSHAKE_REVISIONS)),
    _abilities,
    _info,
    st.fixed_dictionaries({}, optional={"_meta": _meta}),
)
def test_the_sdk_takes_every_greeting_that_is_ordinary(
    revision: str, capabilities: Any, info: Any, more: dict[str, Any]
) -> None:
    params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": info, **more}
    line = a_request("initialize", params)
    if is_greeting(read_ordinary(line)):
        assert isinstance(read_message(line), types.JSONRPCRequest)
        for served in HANDSHAKE_REVISIONS:
            validate_client_request("initialize", served, params)
        types.InitializeRequestParams.model_validate(params, by_name=False)


@given(_abilities, _info, _meta)
def test_the_sdk_takes_every_probe_that_is_ordinary(capabilities: Any, info: Any, meta: Any) -> None:
    envelope = {
        **meta,
        f"{META}protocolVersion": STATELESS_REVISION,
        f"{META}clientInfo": info,
        f"{META}clientCapabilities": capabilities,
    }
    if is_probe(read_ordinary(a_request("server/discover", {"_meta": envelope}))):
        validate_client_request("server/discover", STATELESS_REVISION, {"_meta": envelope})


@given(st.fixed_dictionaries({}, optional={"cursor": st.none() | anything, "_meta": _meta | anything}))
def test_the_sdk_takes_every_first_page_that_is_ordinary(params: Any) -> None:
    if is_first_page(read_ordinary(a_request("tools/list", params))):
        for served in HANDSHAKE_REVISIONS:
            validate_client_request("tools/list", served, params)


@given(st.binary(max_size=40) | anything.map(lambda one: json.dumps(one).encode()))
def test_nothing_that_comes_in_makes_it_fail(line: bytes) -> None:
    message = read_ordinary(line)
    assert not is_greeting(message)
    assert not is_probe(message)


@pytest.mark.parametrize(
    "capabilities",
    [
        {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}},
        {"elicitation": {"form": {"applyDefaults": True}, "url": {}}, "sampling": {"tools": {}}},
        {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}, "experimental": {"x": {"y": 1}}},
        {"tasks": {"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}}},
    ],
)
def test_what_clients_really_say_they_can_is_ordinary(capabilities: Any) -> None:
    info = {**CLIENT, "title": "Test", "description": "A client.", "websiteUrl": "https://example.org"}
    assert is_greeting(greeting(capabilities=capabilities, clientInfo=info, _meta={"progressToken": 1}))


@pytest.mark.parametrize(
    "odd",
    [
        {"capabilities": {"roots": {"listChanged": "perhaps"}}},
        {"capabilities": {"elicitation": {"form": 5}}},
        {"capabilities": {"experimental": {"x": 1}}},
        {"capabilities": {"tasks": {"requests": {"elicitation": {"create": 5}}}}},
        {"clientInfo": {**CLIENT, "title": 5}},
        {"clientInfo": {**CLIENT, "icons": "none"}},
        {"_meta": 5},
        {"_meta": {"progressToken": []}},
    ],
)
def test_a_greeting_that_the_sdk_refuses_is_not_ordinary(odd: dict[str, Any]) -> None:
    assert not is_greeting(greeting(**odd))


@pytest.mark.parametrize(
    "line",
    [
        b"\xef\xbb\xbf" + a_request("initialize", HELLO),
        a_request("initialize", {**HELLO, "clientInfo": {"name": "\ud800", "version": "1"}}),
        a_request("initialize", HELLO, "\ud800"),
        a_request("initialize", HELLO).replace(b"{}", b'{"x": {"y": ' + b"[" * 250 + b"]" * 250 + b"}}"),
    ],
    ids=["a byte order mark", "half a character", "half a character in the id", "too deep"],
)
def test_what_the_sdk_cannot_read_is_not_ordinary(line: bytes) -> None:
    assert isinstance(read_message(line), RefusedMessage)
    assert read_ordinary(line) == {}
