"""The client that the official conformance suite drives: Ferrule's own servers, registry and runtime, and nothing else.

Run by `test_conformance.py`; the suite gives it the address of its server as the last argument. It uses each
tool that it finds once, or makes the calls that a scenario asks for, answers a form with its defaults, and signs in as
a browser would.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2

from ferrule import RulePolicy
from ferrule.core.call import RawCall
from ferrule.core.elicitation import Elicited
from ferrule.mcp_client.server_config import Ports, ServerConfig
from ferrule.mcp_client.servers import Servers
from ferrule.pipeline.run import Runtime
from ferrule.registry.registry import Registry

DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client's own document, which the suite knows by this address."""
ECHO = "json_schema_echo"
EXAMPLES: dict[str, Any] = {"string": "test", "integer": 2, "number": 2, "boolean": True, "array": [], "object": {}}


class Accepts:
    """Accepts every form as it is: the defaults are what is filled in."""

    async def elicit(self, message: str, schema: Any, *, server: str = "", url: str = "") -> Elicited:
        return Elicited("accept", {})


async def lend_words(server: str, params: Any) -> Any:
    from mcp_types import CreateMessageResult, TextContent

    content = TextContent(type="text", text="words")
    return CreateMessageResult(role="assistant", content=content, model="none", stop_reason="endTurn")


async def browse(name: str, url: str) -> None:
    """What the person's browser does: follow the way to the sign-in page and back to us, without waiting for us."""
    tasks.append(asyncio.create_task(_browse(url)))


tasks: list[asyncio.Task[None]] = []


async def _browse(url: str) -> None:
    async with httpx2.AsyncClient(follow_redirects=False, timeout=60) as browser:
        for _ in range(10):
            answer = await browser.get(url)
            if "location" not in answer.headers:
                return
            url = urljoin(url, answer.headers["location"])


def arguments_for(schema: Any) -> dict[str, Any]:
    """Something that fits, for tools about which the scenario says nothing."""
    properties: dict[str, Any] = schema.get("properties", {})
    return {name: EXAMPLES.get(properties.get(name, {}).get("type"), "test") for name in schema.get("required", [])}


async def main(url: str) -> int:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    config = ServerConfig(
        "suite",
        url=url,
        client_id=context.get("client_id", DOCUMENT),
        client_secret=context.get("client_secret", ""),
    )
    ports = Ports(elicitor=Accepts(), sample=lend_words, show_url=browse)
    with tempfile.TemporaryDirectory() as folder:
        registry = Registry()
        servers = Servers([config], registry, folders=[Path(folder)], data=Path(folder) / "data", ports=ports)
        runtime = Runtime(registry, policy=RulePolicy(allow=["mcp__suite__*"]))
        try:
            await servers.start()
            joined = servers.joined["suite"]
            print("server:", joined.server.problem or joined.server.offered, list(joined.tools), joined.problems)
            if joined.server.problem:
                return 1
            for call in calls(context, joined.tools):
                result = await runtime.run(call)
                print(call.name, result.success, result.llm_content[:300])
        finally:
            await servers.close()
    return 0


def calls(context: dict[str, Any], tools: dict[str, Any]) -> list[RawCall]:
    if "toolCalls" in context:
        return [RawCall(tools[one["name"]].name, one["arguments"]) for one in context["toolCalls"]]
    if ECHO in tools:  # it wants to see another tool's schema as we have it
        shown = next(tool.input_schema for name, tool in tools.items() if name != ECHO)
        return [RawCall(tools[ECHO].name, {"schema": shown})]
    return [RawCall(tool.name, arguments_for(tool.definition.input_schema)) for tool in tools.values()]


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
