"""`ferrule.mcp.serve` and `asgi_app`: a program's own MCP server, with the official client (O7)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from inline_snapshot import snapshot
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from ferrule import Caller, RulePolicy, Runtime, Session, tool
from ferrule.mcp import McpServer, asgi_app
from ferrule.testing import Recorded
from tests.mcp_server.serving import both_eras, client_of, text_of
from tests.mcp_server.test_http import HEADERS, HELLO
from tests.needs import slow

MODES: dict[str, Any] = {"handshake": "legacy", "stateless": "auto"}  # the second asks what the server says of itself
PROGRAM = '''
import asyncio, os, subprocess, sys

from ferrule import Runtime, ToolContext, tool
from ferrule.mcp import serve

print("printed before it serves")

@tool(kind="readonly")
def add_numbers(a: int, b: int) -> int:
    """Add two numbers."""
    print("printed by a tool")
    os.write(1, b"written by a tool")
    subprocess.run(["echo", "printed by a program"], check=True)
    return a + b

@tool(kind="readonly")
async def wait_long(context: ToolContext, marker: str) -> str:
    """Wait until the call is cancelled."""
    open(marker, "w").close()
    try:
        await asyncio.sleep(600)
    finally:
        os.unlink(marker)
    return "never"

@tool(kind="write")
def delete_note(name: str) -> str:
    """Delete a note."""
    return f"deleted {name}"

asyncio.run(serve(Runtime([add_numbers, wait_long, delete_note]), name="notes", instructions="Sums and notes."))
'''


@pytest.fixture
def program(tmp_path: Path) -> StdioServerParameters:
    (tmp_path / "program.py").write_text(PROGRAM)
    return StdioServerParameters(
        command=sys.executable, args=[str(tmp_path / "program.py")], env={"PYTHONPATH": str(Path("src").resolve())}
    )


async def yes(context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"answer": "once"})


@pytest.mark.slow
@both_eras
async def test_a_program_serves_its_tools_on_stdio_whatever_is_printed(
    era: str, program: StdioServerParameters, tmp_path: Path
) -> None:
    with (tmp_path / "errors").open("w+") as errors:
        async with Client(stdio_client(program, errlog=errors), mode=MODES[era], elicitation_callback=yes) as client:
            listed = await client.list_tools()
            assert [one.name for one in listed.tools] == ["add_numbers", "delete_note", "wait_long"]
            assert (client.instructions, client.server_info.name, client.server_info.title) == (  # pyright: ignore[reportOptionalMemberAccess]
                "Sums and notes.", "notes", "notes"
            )  # fmt: skip
            assert text_of(await client.call_tool("add_numbers", {"a": 1, "b": 2})) == "3"
        errors.seek(0)
        said = errors.read()
    for line in ("printed before it serves", "printed by a tool", "written by a tool", "printed by a program"):
        assert line in said


@pytest.mark.slow
async def test_what_a_client_cancels_on_stdio_is_stopped(program: StdioServerParameters, tmp_path: Path) -> None:
    marker = tmp_path / "running"
    async with Client(stdio_client(program), mode="legacy") as client:
        calling = asyncio.create_task(client.call_tool("wait_long", {"marker": str(marker)}))
        while not marker.exists():
            await asyncio.sleep(0.01)
        calling.cancel()
        while marker.exists():
            await asyncio.sleep(0.01)
        assert text_of(await client.call_tool("add_numbers", {"a": 1, "b": 2})) == "3"


# In a web server of one's own


@tool(kind="readonly")
def add_numbers(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(kind="write")
def delete_note(name: str) -> str:
    """Delete a note."""
    return f"deleted {name}"


@asynccontextmanager
async def web_server(app: Any, *, lifespan: str = "on") -> AsyncGenerator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan=lifespan, log_level="error"))  # type: ignore[arg-type]
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def mounted(app: Any, how: str) -> Any:
    if how == "alone":
        return app
    home = Route("/", lambda request: PlainTextResponse("home"))
    if how == "a route":
        return Starlette(routes=[home, Route("/mcp", app)], lifespan=app.lifespan)
    return Starlette(routes=[home, Mount("/mcp", app)])  # a mounted application gets no lifespan


@both_eras
@pytest.mark.parametrize("how", ["a route", slow("alone"), slow("a mount")])
async def test_a_web_server_of_ones_own_serves_tools_beside_its_pages(how: str, era: str) -> None:
    recorded = Recorded()
    app = asgi_app(Runtime([add_numbers, delete_note], recorders=[recorded]), name="notes", instructions="Sums.")
    async with web_server(mounted(app, how)) as url:
        async with Client(f"{url}/mcp", mode=MODES[era], elicitation_callback=yes) as client:
            assert client.instructions == "Sums."
            assert text_of(await client.call_tool("add_numbers", {"a": 1, "b": 2})) == "3"
            assert text_of(await client.call_tool("delete_note", {"name": "a"})) == "deleted a"
        if how != "alone":
            async with httpx2.AsyncClient() as web:
                assert (await web.get(url)).text == "home"


@pytest.mark.slow
async def test_its_lifespan_can_begin_and_end_again() -> None:
    app = asgi_app(Runtime([add_numbers]))
    for _ in range(2):
        async with web_server(app) as url, Client(f"{url}/mcp", mode="legacy") as client:
            assert text_of(await client.call_tool("add_numbers", {"a": 1, "b": 2})) == "3"


def test_it_serves_on_a_new_event_loop_where_nothing_told_it_of_the_end_of_the_last() -> None:
    """As a test client without a lifespan does, one loop for each request."""
    app = asgi_app(Runtime([add_numbers]), allowed_hosts=["*"])

    async def ask() -> int:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app)) as web:
            return (await web.post("http://any.example/mcp", json=HELLO, headers=HEADERS)).status_code

    assert [asyncio.run(ask()), asyncio.run(ask())] == [200, 200]


@pytest.mark.parametrize(
    ("options", "headers", "status"),
    [
        ({}, {}, 200),
        ({}, {"Origin": "https://evil.example"}, 403),
        ({}, {"Host": "evil.example"}, 421),
        ({}, {"Host": "localhost.evil.example"}, 421),
        ({"allowed_hosts": ["tools.example"]}, {"Host": "tools.example"}, 200),
        ({"allowed_hosts": ["tools.example"]}, {"Host": "tools.example", "Origin": "https://tools.example"}, 200),
        ({"allowed_hosts": ["tools.example"]}, {"Host": "evil.example"}, 421),
        ({"allowed_hosts": ["*"]}, {"Host": "any.example"}, 200),
        ({"allowed_hosts": ["*"]}, {"Host": "any.example", "Origin": "https://any.example"}, 403),
        ({"token": "a-token-of-enough-letters"}, {}, 401),
        ({"token": "a-token-of-enough-letters"}, {"Authorization": "Bearer a-token-of-enough-letters"}, 200),
    ],
)
async def test_who_may_reach_it(options: dict[str, Any], headers: dict[str, str], status: int) -> None:
    """S1: no page of another site, by whatever name."""
    async with web_server(asgi_app(Runtime([add_numbers]), **options)) as url, httpx2.AsyncClient() as web:
        assert (await web.post(url, json=HELLO, headers=HEADERS | headers)).status_code == status


def test_a_wrong_option_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"Write \['tools.example'\]"):
        asgi_app(Runtime(), allowed_hosts="tools.example")
    with pytest.raises(ValueError, match="at least 16 characters"):
        asgi_app(Runtime(), token="short")


# Tools that are always denied


@tool(kind="readonly", roles=["admin"])
def count_users() -> int:
    """Count the users."""
    return 3


@both_eras
async def test_tools_that_are_always_denied_are_not_listed_and_say_so_when_called(era: str) -> None:
    policy = RulePolicy(deny=["delete_*"])
    server = McpServer(Runtime([add_numbers, delete_note, count_users], policy=policy))
    async with client_of(server, era) as client:
        assert [one.name for one in (await client.list_tools()).tools] == ["add_numbers"]
        assert text_of(await client.call_tool("delete_note", {"name": "a"})) == snapshot("""\
Error (permission_error): `delete_note` was not run: `delete_*` from the program denies it.

Suggestion: Do not try the same call again; try another approach, or ask the user.\
""")


async def test_what_is_denied_in_the_middle_is_listed_no_longer() -> None:
    policy = RulePolicy()
    admin = Session(caller=Caller(role="admin"))
    server = McpServer(Runtime([add_numbers, delete_note, count_users], policy=policy, session=admin))
    async with client_of(server, "handshake") as client:
        assert [one.name for one in (await client.list_tools()).tools] == ["add_numbers", "count_users", "delete_note"]
        policy.restrict(deny=["delete_note"])
        assert [one.name for one in (await client.list_tools()).tools] == ["add_numbers", "count_users"]
