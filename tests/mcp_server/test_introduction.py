"""What is said without the SDK is what the SDK says, so that no client sees a difference."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from ferrule import Registry
from ferrule.builtin.all_tools import builtin_tools
from ferrule.mcp_server.opening import HANDSHAKE_REVISIONS, META, STATELESS_REVISION, connected, discovery, handshake
from ferrule.mcp_server.shown_tools import Definitions
from ferrule.mcp_server.stdio import serve_lines
from tests.mcp_server.serving import serving


async def said_by_the_sdk(*requests: dict[str, Any]) -> list[Any]:
    """Its answers to lines, in a process like `ferrule mcp` would be one without the opening."""
    reading, client_writes = os.pipe()
    client_reads, writing = os.pipe()
    lines = [json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in requests]
    os.write(client_writes, b"".join(lines))
    os.close(client_writes)
    async with connected(reading, writing) as streams:
        await serve_lines(serving(builtin_tools(family="all")), streams)
    os.close(writing)
    with os.fdopen(client_reads, "rb") as answers:
        found = [json.loads(line) for line in answers]
    os.close(reading)
    return [one["result"] for one in found]


def test_the_revisions_are_the_sdks() -> None:
    assert frozenset(HANDSHAKE_PROTOCOL_VERSIONS) == HANDSHAKE_REVISIONS
    assert MODERN_PROTOCOL_VERSIONS == (STATELESS_REVISION,)


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_a_handshake_says_what_the_sdk_says(revision: str) -> None:
    hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    greeting: dict[str, Any] = {"id": 1, "method": "initialize", "params": hello}
    initialized: dict[str, Any] = {"method": "notifications/initialized"}
    answers = await said_by_the_sdk(greeting, initialized, {"id": 2, "method": "tools/list"})
    assert answers[0] == handshake(revision)
    assert answers[1] == {"tools": Definitions(Registry(builtin_tools(family="all"))).all()}


async def test_a_discovery_says_what_the_sdk_says() -> None:
    envelope: dict[str, Any] = {
        f"{META}protocolVersion": STATELESS_REVISION,
        f"{META}clientInfo": {"name": "test", "version": "1"},
        f"{META}clientCapabilities": {},
    }
    asked = {"id": 1, "method": "server/discover", "params": {"_meta": envelope}}
    assert await said_by_the_sdk(asked) == [discovery()]
