"""A service on a real socket, with tools that a test can look into, and clients of it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from ferrule import Output, Registry, ToolContext, ToolError, tool
from ferrule.app.service_settings import ServiceSettings
from ferrule.app.settings import PermissionSettings, RemoteSettings, Settings, ShellSettings
from ferrule.client import AsyncClient
from ferrule.models import Model
from ferrule.service.service import Service
from ferrule.service.serving import serve

TRUSTED = ssl.create_default_context()
"""Made once: it takes longer than a call, and some tests have hundreds of clients."""
started: list[str] = []
"""Every start of a tool that changes something, by what it was given."""


@tool(kind="readonly")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(kind="readonly")
async def rest(context: ToolContext, seconds: float = 30.0) -> str:
    """Wait for a while."""
    await asyncio.sleep(seconds)
    return "rested"


@tool(kind="readonly")
async def count(context: ToolContext, to: int = 3) -> AsyncIterator[str]:
    """Count aloud, with progress."""
    for number in range(1, to + 1):
        context.progress(number, to, f"at {number}")
        yield f"{number} "
        await asyncio.sleep(0.06)


@tool(kind="write")
def note(text: str) -> str:
    """Write a note. It asks first."""
    started.append(text)
    return f"noted {text}"


@tool(kind="write")
async def slow_note(text: str, seconds: float = 30.0) -> str:
    """Write a note, slowly."""
    started.append(text)
    await asyncio.sleep(seconds)
    return f"noted {text}"


@tool(kind="readonly")
def who(context: ToolContext) -> dict[str, Any]:
    """Say who calls, and where."""
    caller = context.caller
    return {"tenant": caller.tenant, "user": caller.user, "role": caller.role, "workspace": str(context.workspace)}


@tool(kind="readonly")
def trip() -> str:
    """Fail with words that nobody may see."""
    raise RuntimeError("could not open /srv/secret/place/file.db with password=hunter2hunter2")


@tool(kind="readonly")
def refuse() -> str:
    """Fail in words for the model."""
    raise ToolError("The shop is closed.", suggestion="Try on Monday.")


@tool(kind="readonly", roles=["clerk"])
def clerks_only() -> str:
    """For clerks."""
    return "hello, clerk"


@tool(kind="readonly")
def large(size: int) -> Output[str]:
    """Give a lot of text."""
    return Output(data="x" * size)


TOOLS = (add, rest, count, note, slow_note, who, trip, refuse, clerks_only, large)


class Running:
    """A service that listens, and clients of it."""

    def __init__(self, service: Service, url: str, stack: AsyncExitStack) -> None:
        self.service = service
        self.url = url
        self._stack = stack
        self.key = service.first_key or ""

    async def client(self, key: str | None = None) -> AsyncClient:
        return await self._stack.enter_async_context(AsyncClient(self.url, key or self.key))

    async def http(self, key: str | None = None) -> httpx2.AsyncClient:
        """Without the typed client, for what it would never send."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        made = httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=60, verify=TRUSTED)
        return await self._stack.enter_async_context(made)

    async def user(self, name: str, *roles: str, **key: Any) -> AsyncClient:
        """A client of a new user."""
        admin = await self.client()
        await admin.create_user(name, roles=roles or ("member",))
        return await self.client((await admin.create_key(name, **key)).secret)

    async def tenant(self, name: str, **tenant: Any) -> tuple[AsyncClient, str]:
        """An administrator of a new tenant, and their secret."""
        admin = await self.client()
        await admin.create_tenant(name, **tenant)
        from ferrule.service.directory import create_user, note_change
        from ferrule.service.messages import UserRequest

        def change(connection: Any) -> None:
            create_user(connection, name, UserRequest(name="boss", roles=["admin"]))
            note_change(connection, self.service.database)

        await self.service.writer.change(name, change)
        self.service.directory.forget()
        secret = (await admin.create_key("boss", tenant=name)).secret
        return await self.client(secret), secret


@asynccontextmanager
async def running(
    store: str, folder: Path, *, tools: tuple[Any, ...] | None = TOOLS, permissions: PermissionSettings | None = None,
    key: str = "", telemetry: Any = None, model: Model | None = None, models: dict[str, Any] | None = None,
    remote: RemoteSettings | None = None, pages: Any = None, mcp_servers: dict[str, Any] | None = None,
    shell: ShellSettings | None = None, **settings: Any,
) -> AsyncGenerator[Running]:  # fmt: skip
    """An instance on a port of its own, until the end of the block; it is drained as by SIGTERM. `pages` makes what
    stands in front of the API, from the settings.
    """
    options: dict[str, Any] = {"drain_seconds": 0, **settings}
    chosen = ServiceSettings(database=store, workspace_root=folder / "workspaces", **options)
    everything = Settings(
        service=chosen, permissions=permissions or PermissionSettings(), remote=remote or RemoteSettings(),
        mcp_servers=mcp_servers or {}, shell=shell or ShellSettings(),
    )  # fmt: skip
    service = Service(
        everything, folder, tools=Registry(tools) if tools is not None else None, telemetry=telemetry, model=model,
        entities=models,
    )  # fmt: skip
    listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    until = asyncio.Event()
    shown = pages(chosen) if pages is not None else None
    task = asyncio.create_task(serve(service, "127.0.0.1", 0, pages=shown, ready=listening.set_result, until=until))
    await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    async with AsyncExitStack() as stack:
        made = Running(service, f"http://127.0.0.1:{listening.result()}", stack)
        made.key = key or made.key
        try:
            yield made
        finally:
            await stack.aclose()
            until.set()
            await task
