"""Servers for the tests to speak to, and a runtime that uses them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ferrule.core.call import RawCall
from ferrule.core.context import Session
from ferrule.core.result import ToolResult
from ferrule.mcp_client.server_config import Ports, ServerConfig
from ferrule.mcp_client.servers import Servers
from ferrule.pipeline.run import Runtime
from ferrule.policy.decide import RulePolicy
from ferrule.registry.registry import Registry

PLAIN = Path(__file__).with_name("plain_peer.py")
MODERN = Path(__file__).with_name("modern_peer.py")


def plain(behaviour: str = "good", notes: Path | None = None, **more: Any) -> ServerConfig:
    """A server of the older era, good or bad in one way; it writes what happens to it into `notes`."""
    command = (sys.executable, "-I", str(PLAIN), behaviour, str(notes or os.devnull))
    return ServerConfig(more.pop("name", "peer"), command, **more)


def modern(**more: Any) -> ServerConfig:
    """A server of the newer era, made with the SDK."""
    return ServerConfig(more.pop("name", "peer"), (sys.executable, str(MODERN), *more.pop("arguments", ())), **more)


class Used:
    """Servers in use: their registry, and a runtime whose rules allow all of them unless said."""

    def __init__(self, configs: list[ServerConfig], folder: Path, **options: Any) -> None:
        self.folder = folder
        self.registry = Registry()
        workspace = folder / "workspace"
        workspace.mkdir(exist_ok=True)
        self.servers = Servers(
            configs, self.registry, folders=[workspace], data=folder / "data", ports=options.pop("ports", Ports())
        )
        rules: dict[str, Any] = {"allow": ["mcp__*"], **options}
        self.policy = RulePolicy(doubts=self.servers.approvals, **rules)
        self.runtime = Runtime(self.registry, policy=self.policy, session=Session(workspace=workspace))

    def named(self, tool: str, server: str = "peer") -> str:
        return self.servers.joined[server].tools[tool].name

    async def call(self, tool: str, server: str = "peer", /, **arguments: Any) -> ToolResult:
        return await self.runtime.run(RawCall(self.named(tool, server), arguments))

    def problem(self, server: str = "peer") -> str:
        return self.servers.joined[server].server.problem


@asynccontextmanager
async def using(folder: Path, *configs: ServerConfig, **options: Any) -> AsyncGenerator[Used]:
    """Started servers, which are all ended afterwards."""
    used = Used(list(configs), folder, **options)
    try:
        await used.servers.start()
        yield used
    finally:
        await used.servers.close()


async def until(happens: Callable[[], Any]) -> Any:
    """Wait for something that surely comes; a test that waits for ever is ended by its runner."""
    while not (found := happens()):
        await asyncio.sleep(0.005)
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
