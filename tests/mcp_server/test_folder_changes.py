"""A running `ferrule mcp` follows the files of its tools folders, and its clients hear of it (R6, R8)."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.shared.subscriptions import ToolsListChanged

from tests.mcp_server.processes import environment, http_server
from tests.mcp_server.serving import ERAS, text_of

PATIENCE = 60.0
HELPED = '''
from ferrule import tool
from wording import WORD

@tool(kind="readonly")
def greet_person(name: str) -> str:
    """Greet a person by name."""
    return f"{WORD}, {name}!"
'''
SLOW = '''
import asyncio, os
from ferrule import tool

@tool(kind="readonly")
async def wait_for_file(path: str) -> str:
    """Wait until there is a file."""
    open(path + ".started", "w").close()
    while not os.path.exists(path):
        await asyncio.sleep(0.01)
    return "OLD"
'''


class News:
    """What a client heard; in either era, one that waits for tools to change lists them again when it is told to."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.told = asyncio.Event()
        self.count = 0

    def hear(self) -> None:
        self.count += 1
        self.told.set()

    async def until(self, true: Callable[[dict[str, types.Tool]], bool]) -> dict[str, types.Tool]:
        """The tools once they are as they should be. They are listed after each piece of news, and only then."""
        async with asyncio.timeout(PATIENCE):
            while True:
                await self.told.wait()
                self.told.clear()
                listed = await self.client.list_tools(cache_mode="refresh")
                tools = {tool.name: tool for tool in listed.tools}
                if true(tools):
                    return tools

    async def call(self, name: str, /, **arguments: Any) -> str:
        return text_of(await self.client.call_tool(name, arguments))


async def soon(true: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what no news is about: the same tool, and another body."""
    async with asyncio.timeout(PATIENCE):
        while not await true():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def told(server: Any, era: str) -> AsyncGenerator[News]:
    """A client that is told of changes, as its era has it."""
    news: list[News] = []

    async def handle(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            news[0].hear()

    async with Client(server, mode=ERAS[era], message_handler=handle) as client:
        news.append(News(client))
        if era == "handshake":
            await client.list_tools()
            yield news[0]
            return
        async with client.listen(tools_list_changed=True) as events:

            async def listen() -> None:
                async for event in events:
                    assert event == ToolsListChanged()
                    news[0].hear()

            listening = asyncio.create_task(listen())
            try:
                yield news[0]
            finally:
                listening.cancel()
                await asyncio.wait((listening,))


@asynccontextmanager
async def running(transport: str, home: Path, era: str) -> AsyncGenerator[tuple[News, Path]]:
    """A server as a process of its own, and the file with what it said on standard error."""
    errors = home / "errors.txt"
    if transport == "http":
        with http_server(home, home, "--http", "127.0.0.1:0") as (url, _):
            async with told(url, era) as news:
                await stream_is_open(news, home / "tools" / "first.py")
                yield news, errors
        return
    arguments = ["-m", "ferrule", "mcp", "--workspace", str(home)]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=environment(home))
    with errors.open("w") as log:
        async with told(stdio_client(parameters, errlog=log), era) as news:
            yield news, errors


async def stream_is_open(news: News, file: Path) -> None:
    """A client opens the stream for news beside its first requests, and what is sent before is lost to it."""
    for attempt in range(int(PATIENCE)):
        file.write_text(SLOW.replace("wait_for_file", f"wait_for_{attempt}"))
        try:
            async with asyncio.timeout(5):
                await news.told.wait()
            break
        except TimeoutError:
            continue
    file.unlink()


@pytest.mark.slow
@pytest.mark.parametrize(("transport", "era"), [("stdio", "handshake"), ("http", "stateless")])
async def test_a_file_is_added_changed_broken_mended_and_removed(era: str, transport: str, tmp_path: Path) -> None:
    async with running(transport, tmp_path, era) as (news, errors):
        folder = tmp_path / "tools"
        (folder / "wording.py").write_text("WORD = 'Hello'\n")
        (folder / "greet.py").write_text(HELPED)
        await news.until(lambda tools: "greet_person" in tools)
        assert await news.call("greet_person", name="Ada") == "Hello, Ada!"

        (folder / "greet.py").write_text(HELPED.replace("Greet a person", "Welcome a person"))
        tools = await news.until(lambda tools: tools["greet_person"].description == "Welcome a person by name.")
        assert "echo_text" in tools

        (folder / "greet.py").write_text(HELPED.replace("def greet_person(", "def greet_person("[:-4]))
        if transport == "stdio":
            await soon(lambda: said(errors, "greet.py: line 6: "))
            assert "the version loaded before stays in use" in errors.read_text()
        assert await news.call("greet_person", name="Ada") == "Hello, Ada!"

        (folder / "greet.py").write_text(HELPED.replace("greet_person", "greet_everybody"))
        tools = await news.until(lambda tools: "greet_everybody" in tools)
        assert "greet_person" not in tools

        (folder / "wording.py").write_text("WORD = 'Salve'\n")  # of the same length: only the text is another
        await soon(lambda: says(news, "Salve, Ada!"))

        (folder / "greet.py").unlink()
        await news.until(lambda tools: "greet_everybody" not in tools)
        assert await news.call("echo_text", text="still there") == "still there"


async def said(errors: Path, words: str) -> bool:
    return words in errors.read_text()


async def says(news: News, words: str) -> bool:
    return await news.call("greet_everybody", name="Ada") == words


@pytest.mark.slow
@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_a_call_under_way_ends_as_it_began(era: str, tmp_path: Path) -> None:
    async with running("stdio", tmp_path, era) as (news, _):
        folder, gate = tmp_path / "tools", tmp_path / "gate"
        (folder / "slow.py").write_text(SLOW)
        await news.until(lambda tools: "wait_for_file" in tools)
        old = asyncio.create_task(news.call("wait_for_file", path=str(gate)))
        await soon(lambda: there(Path(f"{gate}.started")))
        (folder / "slow.py").write_text(SLOW.replace("OLD", "NEW").replace("Wait until", "Stay until"))
        await news.until(lambda tools: str(tools["wait_for_file"].description).startswith("Stay"))
        assert not old.done()
        gate.touch()
        assert await old == "OLD"
        assert await news.call("wait_for_file", path=str(gate)) == "NEW"


async def there(path: Path) -> bool:
    return path.exists()


@pytest.mark.slow
async def test_a_slow_import_keeps_nobody_waiting(tmp_path: Path) -> None:
    """The file is imported beside the loop: requests are answered while it waits for something."""
    async with running("stdio", tmp_path, "handshake") as (news, _):
        gate, started = tmp_path / "gate", tmp_path / "started"
        waits = f"import os, time\nopen({str(started)!r}, 'w').close()\n"
        waits += f"while not os.path.exists({str(gate)!r}):\n    time.sleep(0.01)\n"
        (tmp_path / "tools" / "late.py").write_text(waits + SLOW)
        await soon(lambda: there(started))
        assert await news.call("echo_text", text="while it is imported") == "while it is imported"
        assert not gate.exists()
        gate.touch()
        await news.until(lambda tools: "wait_for_file" in tools)


@pytest.mark.slow
async def test_what_a_file_prints_when_it_is_loaded_again_is_no_message(tmp_path: Path) -> None:
    """On stdio a line that is no message would end the conversation."""
    async with running("stdio", tmp_path, "handshake") as (news, errors):
        loud = "import os\nprint('printed')\nos.write(1, b'written\\n')\nos.system('echo started')\n"
        (tmp_path / "tools" / "loud.py").write_text(loud + SLOW)
        await news.until(lambda tools: "wait_for_file" in tools)
        assert await news.call("echo_text", text="understood") == "understood"
        assert {"printed", "written", "started"} <= set(errors.read_text().split())


async def test_a_folder_that_goes_and_comes_back(tmp_path: Path) -> None:
    async with running("stdio", tmp_path, "handshake") as (news, _):
        folder, away = tmp_path / "tools", tmp_path / "away"
        folder.rename(away)
        await news.until(lambda tools: "echo_text" not in tools)
        away.rename(folder)
        await news.until(lambda tools: "echo_text" in tools)
        assert await news.call("echo_text", text="back") == "back"


def test_no_thread_of_ours_is_left_when_an_app_has_ended() -> None:
    assert not [thread for thread in threading.enumerate() if thread.name == "ferrule-tools-watch"]
