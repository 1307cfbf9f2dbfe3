"""The first words: answered without the SDK, once, and never so that a client is told something else later."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from ferrule import Registry, Runtime, raw_tool
from ferrule.mcp_server.opening import (
    META,
    STATELESS_REVISION,
    Lines,
    Opened,
    connected,
    discovery,
    handshake,
    open_with,
    serve_promptly,
)
from ferrule.mcp_server.server import McpServer
from ferrule.mcp_server.shown_tools import Definitions
from ferrule.mcp_server.stdio import serve_lines
from tests.mcp_server.processes import stdio_server
from tests.mcp_server.serving import serving

CLIENT = {"name": "test", "version": "1"}
HELLO: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": "list", "method": "tools/list"}
ENVELOPE = {
    f"{META}protocolVersion": STATELESS_REVISION,
    f"{META}clientInfo": CLIENT,
    f"{META}clientCapabilities": {},
}
DISCOVER = {"jsonrpc": "2.0", "id": "probe", "method": "server/discover", "params": {"_meta": ENVELOPE}}
PING = {"jsonrpc": "2.0", "id": 9, "method": "ping"}


def raw(name: str) -> Any:
    return raw_tool(name, {"type": "object"}, lambda arguments: arguments, description="Do it.")


class Client:
    """The other end of two pipes."""

    def __init__(self, reads: int, writes: int) -> None:
        self._writes = writes
        self._answers: Queue[bytes] = Queue()
        self._reader = threading.Thread(target=self._read, args=(reads,))
        self._reader.start()

    def _read(self, reads: int) -> None:
        with os.fdopen(reads, "rb") as answers:
            for line in answers:
                self._answers.put(line)

    def send(self, *messages: Any) -> None:
        for one in messages:
            os.write(self._writes, (one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n")

    async def receive(self) -> Any:
        return json.loads(await asyncio.to_thread(self._answers.get, timeout=60))

    def leave(self) -> None:
        os.close(self._writes)

    def close(self) -> None:
        self._reader.join()


@contextmanager
def piped() -> Generator[tuple[Client, int, int]]:
    """A client, and the two descriptors that a server has of it."""
    reading, writes = os.pipe()
    reads, writing = os.pipe()
    one = Client(reads, writes)
    try:
        yield one, reading, writing
    finally:
        os.close(reading)
        os.close(writing)
        one.close()


@asynccontextmanager
async def client() -> AsyncGenerator[tuple[Client, Lines]]:
    with piped() as (one, reading, writing):
        async with connected(reading, writing) as lines:
            yield one, lines


async def opened_by(*messages: Any, registry: Registry | None = None) -> tuple[list[Any], Opened]:
    """What is answered to a client that says this and then waits until the SDK is there, and what is left to it."""
    definitions = Definitions(registry or Registry([raw("a")]))
    async with client() as (one, lines):
        imported = asyncio.get_running_loop().create_future()
        one.send(*messages, b"")  # an empty line is nothing ordinary: the opening is over
        opened = await open_with(lines, definitions, imported)
        answers = [await one.receive() for _ in opened.answers]
        one.leave()
        return answers, opened


def test_it_does_without_the_sdk() -> None:
    program = "import sys, ferrule.mcp_server.opening, ferrule.mcp_server.shown_tools, ferrule.cli.mcp\n"
    done = subprocess.run(
        [sys.executable, "-c", program + "print([one for one in sys.modules if one.partition('.')[0] == 'mcp'])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


async def test_a_client_gets_its_greeting_and_the_tools_before_the_sdk_is_there() -> None:
    answers, opened = await opened_by(INITIALIZE, INITIALIZED, LIST)
    assert answers == [
        {"jsonrpc": "2.0", "id": 0, "result": handshake("2025-06-18")},
        {"jsonrpc": "2.0", "id": "list", "result": {"tools": Definitions(Registry([raw("a")])).all()}},
    ]
    assert [json.loads(one) for one in opened.lines] == [INITIALIZE, INITIALIZED, LIST]


async def test_a_long_list_has_its_next_page() -> None:
    registry = Registry([raw(f"tool_{at:04}") for at in range(1001)])
    answers, _ = await opened_by(INITIALIZE, INITIALIZED, LIST, registry=registry)
    assert answers[1]["result"]["nextCursor"] == Definitions(registry).page().next


@pytest.mark.parametrize(
    "first",
    [
        PING,
        LIST,
        INITIALIZED,
        {**INITIALIZE, "params": {**HELLO, "protocolVersion": "1999-01-01"}},
        {**INITIALIZE, "params": {**HELLO, "protocolVersion": []}},
        {**INITIALIZE, "params": {**HELLO, "capabilities": {"roots": 5}}},
        {**INITIALIZE, "params": {**HELLO, "clientInfo": {"name": "test"}}},
        {**INITIALIZE, "params": {**HELLO, "capabilities": {"roots": {"listChanged": "perhaps"}}}},
        {**INITIALIZE, "params": []},
        {**INITIALIZED, "id": []},
        {**INITIALIZE, "id": True},
        {**INITIALIZE, "jsonrpc": "1.0"},
        {key: value for key, value in INITIALIZE.items() if key != "id"},
        {**DISCOVER, "params": {"_meta": {**ENVELOPE, f"{META}protocolVersion": "2030-01-01"}}},
        {**DISCOVER, "params": {"_meta": 5}},
        [INITIALIZE],
        b"garbage",
        b"[" * 50_000,
    ],
)
async def test_what_is_not_ordinary_is_left_to_the_sdk(first: Any) -> None:
    answers, opened = await opened_by(first)
    assert answers == []
    assert opened.lines == [first if isinstance(first, bytes) else json.dumps(first).encode()]


async def test_a_client_that_shook_hands_is_not_discovered_too() -> None:
    answers, opened = await opened_by(INITIALIZE, DISCOVER)
    assert [one["id"] for one in answers] == [0]
    assert [json.loads(one) for one in opened.lines] == [INITIALIZE, DISCOVER]


async def test_a_list_under_the_id_of_the_greeting_is_left_to_the_sdk() -> None:
    answers, opened = await opened_by(INITIALIZE, INITIALIZED, {**LIST, "id": 0})
    assert [one["id"] for one in answers] == [0]
    assert len(opened.lines) == 3


async def test_an_id_that_was_answered_early_may_be_used_again_and_its_answer_comes() -> None:
    server = serving([raw("a")])
    async with client() as (one, lines):
        one.send(INITIALIZE, INITIALIZED, LIST)
        opened = await open_with(lines, server.definitions, asyncio.get_running_loop().create_future())
        assert [(await one.receive())["id"] for _ in range(2)] == [0, "list"]
        one.send({**PING, "id": "list"}, {**PING, "id": 0})  # all there before the SDK hears the first
        serving_it = asyncio.ensure_future(serve_lines(server, lines, opened))
        answers = [await one.receive() for _ in range(2)]
        assert {str(answer["id"]): answer["result"] for answer in answers} == {"list": {}, "0": {}}
        one.leave()
        await serving_it


@pytest.mark.parametrize("turns", range(40))
async def test_it_can_be_ended_at_any_moment_of_the_hand_over(turns: int) -> None:
    server = serving([raw("a")])
    async with client() as (one, lines):
        one.send(INITIALIZE, INITIALIZED, LIST, PING)
        opened = await open_with(lines, server.definitions, asyncio.get_running_loop().create_future())
        serving_it = asyncio.ensure_future(serve_lines(server, lines, opened))
        for _ in range(turns):
            await asyncio.sleep(0)
        serving_it.cancel()
        await asyncio.wait((serving_it,))
        assert serving_it.cancelled() or serving_it.exception() is None
        one.leave()


async def test_the_opening_ends_when_the_sdk_is_there_and_no_line_is_lost() -> None:
    async with client() as (one, lines):
        imported = asyncio.get_running_loop().create_future()
        opening = asyncio.ensure_future(open_with(lines, Definitions(Registry([])), imported))
        one.send(INITIALIZE)
        assert (await one.receive())["id"] == 0
        imported.set_result(None)
        opened = await opening
        one.send(PING)
        assert len(opened.lines) == 1
        assert json.loads(await lines.read() or b"") == PING
        one.leave()


async def test_a_client_that_leaves_during_the_opening_is_waited_for_no_longer() -> None:
    async with client() as (one, lines):
        imported = asyncio.get_running_loop().create_future()
        opening = asyncio.ensure_future(open_with(lines, Definitions(Registry([])), imported))
        one.send(INITIALIZE)
        one.leave()
        assert (await one.receive())["id"] == 0
        imported.set_result(None)
        assert len((await opening).lines) == 1


@pytest.mark.parametrize("sdk_first", [False, True])
async def test_a_client_is_greeted_while_the_app_still_starts_and_sees_all_tools(sdk_first: bool) -> None:
    """A server behind this one that never answers keeps nobody from being greeted."""
    registry = Registry([raw("a")])
    greeted = asyncio.Event()
    said: list[str] = []

    @asynccontextmanager
    async def app() -> AsyncGenerator[None]:
        await greeted.wait()
        registry.register(raw("b"))
        yield
        said.append("closed")

    with piped() as (one, reading, writing):
        one.send(INITIALIZE, INITIALIZED, LIST)
        serving_it = asyncio.ensure_future(
            serve_promptly(Definitions(registry), app(), serving_of(registry), reading, writing, sdk_first=sdk_first)
        )
        assert (await one.receive())["id"] == 0
        greeted.set()
        listed = await one.receive()
        assert (listed["id"], [tool["name"] for tool in listed["result"]["tools"]]) == ("list", ["a", "b"])
        one.send(PING)
        assert await one.receive() == {"jsonrpc": "2.0", "id": 9, "result": {}}
        one.leave()
        await serving_it
    assert said == ["closed"]


async def test_an_app_that_cannot_start_ends_the_opening() -> None:
    @asynccontextmanager
    async def app() -> AsyncGenerator[None]:
        raise ValueError("it cannot start")
        yield

    registry = Registry([raw("a")])
    with piped() as (one, reading, writing):
        one.send(INITIALIZE, INITIALIZED, LIST)
        with pytest.raises(ValueError, match="it cannot start"):
            await serve_promptly(Definitions(registry), app(), serving_of(registry), reading, writing)
        one.leave()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def serving_of(registry: Registry) -> Callable[[Lines, Opened], Awaitable[None]]:
    return lambda lines, opened: serve_lines(McpServer(Runtime(registry)), lines, opened)


async def test_tools_that_come_while_the_sdk_is_imported_are_told_of() -> None:
    registry = Registry([raw("a")])
    async with client() as (one, lines):
        imported = asyncio.get_running_loop().create_future()
        one.send(INITIALIZE, INITIALIZED, LIST)
        opened = await open_with(lines, Definitions(registry), imported)
        assert [(await one.receive())["id"] for _ in range(2)] == [0, "list"]
        registry.register(raw("b"))
        server = serving([])
        server.definitions = Definitions(registry)
        serving_it = asyncio.ensure_future(serve_lines(server, lines, opened))
        assert (await one.receive())["method"] == "notifications/tools/list_changed"
        one.send({**LIST, "id": 2})
        assert [tool["name"] for tool in (await one.receive())["result"]["tools"]] == ["a", "b"]
        one.leave()
        await serving_it


@pytest.mark.parametrize(("name", "shown"), [("test", True), ("claude-code", False)])
def test_output_schemas_are_shown_to_those_alone_who_will_get_what_they_promise(
    tmp_path: Path, name: str, shown: bool
) -> None:
    """Whoever answers, the opening or the SDK after it: so the client is not told that its list is outdated."""
    hello = {**INITIALIZE, "params": {**HELLO, "clientInfo": {"name": name, "version": "1"}}}
    with stdio_server(tmp_path, tmp_path) as server:
        for message in (hello, INITIALIZED, LIST):
            server.send(message)
        assert server.receive()["id"] == 0
        first = server.receive()["result"]["tools"]
        assert {"outputSchema" in one for one in first if one["name"] in ("Read", "Bash", "Write")} == {shown}
        result = server.call(1, "getCurrentDirectory")["result"]
        assert ("structuredContent" in result) is shown
        server.send({**LIST, "id": 2})
        assert server.receive()["result"]["tools"] == first


def test_every_request_of_an_opening_has_one_answer_and_calls_follow(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path) as server:
        for message in (INITIALIZE, INITIALIZED, LIST, PING):
            server.send(message)
        assert [server.receive()["id"] for _ in range(3)] == [0, "list", 9]
        assert server.call(10, "echo_text", text="hi")["result"]["content"][0]["text"] == "hi"
        server.close_input()
        assert server.process.wait(60) == 0
        assert server.lines.get(timeout=60) == b""


def test_a_client_that_gave_up_on_being_discovered_may_still_shake_hands(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path) as server:
        for message in (DISCOVER, INITIALIZE, INITIALIZED):
            server.send(message)
        assert server.receive() == {"jsonrpc": "2.0", "id": "probe", "result": discovery()}
        assert server.receive() == {"jsonrpc": "2.0", "id": 0, "result": handshake("2025-06-18")}
        assert server.call(10, "echo_text", text="hi")["result"]["content"][0]["text"] == "hi"


def test_a_client_that_was_discovered_needs_no_handshake(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path) as server:
        server.send(DISCOVER)
        assert server.receive()["result"] == discovery()
        said = server.request(2, "tools/call", name="echo_text", arguments={"text": "hi"}, _meta=ENVELOPE)
        assert said["result"]["content"][0]["text"] == "hi"
