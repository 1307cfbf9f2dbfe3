"""A service for the official conformance suite, which has no key to send: its requests get one on the way in.

Run as a program it prints its port, and keeps its store in the folder that it is given.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from ferrule.app.service_settings import ServiceSettings
from ferrule.app.settings import Settings
from ferrule.service import mcp_endpoint, serving
from ferrule.service.http import HttpApp
from ferrule.service.service import Service
from tests.mcp_server.fixture_server import ConformanceServer, registry


class KeyBearing(HttpApp):
    """The application, for clients whose requests all bear the first key."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            key = (b"authorization", f"Bearer {self.service.first_key}".encode())
            scope = {**scope, "headers": [*scope["headers"], key]}
        await super().__call__(scope, receive, send)


def main(folder: Path) -> None:
    mcp_endpoint.McpServer = ConformanceServer  # pyright: ignore[reportPrivateImportUsage]
    serving.HttpApp = KeyBearing  # pyright: ignore[reportPrivateImportUsage]
    settings = ServiceSettings(database=f"sqlite:///{folder / 's.db'}", workspace_root=folder / "workspaces")
    service = Service(Settings(service=settings), folder, tools=registry)
    asyncio.run(serving.serve(service, "127.0.0.1", 0, ready=lambda port: print(port, flush=True)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
