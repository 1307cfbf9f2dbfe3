"""A service with its panel, and something to see on each of its pages."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ferrule.app.settings import McpServerSettings
from ferrule.panel.sign_in import panel_of
from ferrule.process.sandbox.choose import best_sandbox
from ferrule.tools import builtin_tools
from tests.needs import needs
from tests.service.serving import TOOLS, Running, running
from tests.service.shop import INTENTS, Order
from tests.service.test_drafted_tools import handed_in

FILES = tuple(one for one in builtin_tools() if one.name in ("Write", "Edit", "Read", "Bash"))
PEER = Path(__file__).parents[1] / "mcp_client" / "plain_peer.py"


@asynccontextmanager
async def shown(folder: Path, *, tools: tuple[Any, ...] | None = TOOLS, **settings: Any) -> AsyncGenerator[Running]:
    """A service with its panel; without `tools`, with those that any service has."""
    async with running(f"sqlite:///{folder / 's.db'}", folder, tools=tools, pages=panel_of, **settings) as service:
        yield service


@asynccontextmanager
async def lively(folder: Path, **settings: Any) -> AsyncGenerator[Running]:
    """One with files, entities and MCP servers, one of them trusted."""
    untrusted = {"mcpServers": {"weather": {"command": "weather-server", "args": ["--token", "hidden"]}}}
    (folder / ".mcp.json").write_text(json.dumps(untrusted), encoding="utf-8")
    trusted = {"clock": McpServerSettings(command=sys.executable, args=[str(PEER)])}
    everything: dict[str, Any] = {
        "tools": (*TOOLS, *FILES),
        "models": {"order": Order},
        "mcp_servers": trusted,
        **settings,
    }
    async with shown(folder, **everything) as service:
        yield service


async def start(service: Running, tool: str, /, key: str | None = None, **arguments: Any) -> str:
    """A call that nobody waits for; its id."""
    http = await service.http(key)
    body = {"tool": tool, "arguments": arguments}
    return (await http.post("/v1/calls", json=body, headers={"Prefer": "respond-async"})).json()["id"]


async def peopled(service: Running) -> list[str]:
    """Put something on every page of a lively service: its pages."""
    needs(best_sandbox().has_layers, "a sandbox with layers, in which drafts are tried")
    client, http = await service.client(), await service.http()
    for a in range(3):
        await client.call("add", {"a": a, "b": 2})
    await client.call("refuse", {})
    done, failed = (await client.calls(tool="add")).calls[0].id, (await client.calls(tool="refuse")).calls[0].id
    for code, intent in INTENTS.items():
        await http.put(f"/v1/intents/{code}", json=intent)
    await http.put(
        "/v1/roles/drafter", json={"allow": ["Read(/docs/**)"], "ask": ["draft_tool", "Write"], "mode": None}
    )
    await client.create_user("ann", roles=["member", "drafter"], limits={"rate": 50.0, "calls_per_day": 1000})
    await client.create_tenant("acme", display_name="Acme Ltd")
    ann = (await client.create_key("ann", name="laptop")).secret
    waiting = await start(service, "Write", ann, file_path="docs/list.txt", content="bread\nmilk\n")
    await start(service, "Bash", ann, command="touch done && ls -la")
    denied = await start(service, "note", ann, text="tea")
    await client.deny(next(one for one in await client.approvals() if one.call == denied), reason="We have tea.")
    draft = await start(service, "draft_tool", ann, **handed_in())
    async with asyncio.timeout(120):
        while not (asked := next((one for one in await client.approvals() if one.call == draft), None)):
            await asyncio.sleep(0.1)
    running = await start(service, "rest", seconds=3000)
    return [
        "/", "/?status=failed", "/?status=lost", f"/calls/{done}", f"/calls/{failed}", f"/calls/{waiting}",
        f"/calls/{draft}", f"/calls/{running}", "/approvals", f"/approvals/{asked.id}", "/approvals?status=denied",
        "/approvals?status=expired", "/tools", "/tools?q=zzz", "/tools/add", "/tools/Edit", "/statistics",
        "/statistics?period=hour&by=tenant", "/audit?verify=1", "/audit?q=nothing-like-it", "/audit/row/1",
        "/admin/tenants?edit=acme", "/admin/users?edit=ann", "/admin/roles?edit=drafter", "/admin/keys",
        "/admin/intents", "/admin/servers", "/calls/none",
    ]  # fmt: skip
