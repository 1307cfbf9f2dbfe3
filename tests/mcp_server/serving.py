"""A server of our own with some tools, and the SDK's real client on it, in either era and in one process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, types

from ferrule import Registry, Runtime
from ferrule.core.tool import Tool
from ferrule.mcp_server.server import McpServer

ERAS = {"handshake": "legacy", "stateless": "2026-07-28"}
both_eras = pytest.mark.parametrize("era", list(ERAS))


def serving(tools: Iterable[Tool[Any]], policy: Any = None, *, own_loop: bool = False, **options: Any) -> McpServer:
    return McpServer(Runtime(Registry(tools), policy=policy, own_loop=own_loop), **options)


@asynccontextmanager
async def client_of(server: McpServer, era: str, **options: Any) -> AsyncGenerator[Client]:
    async with Client(server.sdk, mode=ERAS[era], **options) as client:
        yield client


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


def answering(**content: Any) -> Any:
    """A client's person, who fills in every form like this and keeps what was asked."""
    seen: list[types.ElicitRequestFormParams] = []

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        seen.append(params)
        return types.ElicitResult(action="accept", content=content)

    elicit.seen = seen  # pyright: ignore[reportFunctionMemberAccess]
    return elicit
