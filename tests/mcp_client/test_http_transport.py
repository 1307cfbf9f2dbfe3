"""Servers over HTTP: both eras' answers, headers, and bodies that are bounded."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.errors import ErrorKind
from ferrule.mcp_client.server_config import ServerConfig
from tests.mcp_client.peers import using

Reply = Callable[["Peer", dict[str, Any]], None]


class Peer(BaseHTTPRequestHandler):
    """A server of the older era without sessions; `reply` answers calls."""

    reply: Reply
    seen: list[dict[str, str]]

    def log_message(self, format: str, *args: object) -> None:
        pass

    def send_body(self, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(200)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def send_result(self, message: dict[str, Any], result: dict[str, Any]) -> None:
        self.send_body(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def do_POST(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if message["method"] == "initialize":
            info = {"name": "web", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            self.send_result(message, result)
        elif message["method"] == "tools/list":
            tool = {"name": "get", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
            self.send_result(message, {"tools": [tool]})
        elif message["method"] == "tools/call":
            type(self).reply(self, message)
        elif "id" in message:
            error = {"code": -32601, "message": "no"}
            self.send_body(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
        else:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()

    def do_GET(self) -> None:
        self.send_error(405)


@contextmanager
def peer(reply: Reply, kind: type[Peer] = Peer) -> Generator[tuple[ServerConfig, list[dict[str, str]]]]:
    seen: list[dict[str, str]] = []
    handler = type("Handler", (kind,), {"reply": staticmethod(reply), "seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield ServerConfig("peer", url=f"http://127.0.0.1:{server.server_port}/mcp"), seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def words(text: str) -> Reply:
    return lambda handler, message: handler.send_result(message, {"content": [{"type": "text", "text": text}]})


async def test_a_call_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "hunter2hunter2")
    with peer(words("from the web")) as (config, seen):
        async with using(tmp_path, replace(config, headers={"X-Key": "${KEY}"})) as used:
            assert (await used.call("get")).llm_content == "from the web"
    assert {one["x-key"] for one in seen} == {"hunter2hunter2"}
    assert {one["accept-encoding"] for one in seen} == {"identity"}


async def test_a_slow_answer_holds_up_no_other_call(tmp_path: Path) -> None:
    """P6: neither do the head of one answer, and whoever could sign in, make the others wait."""
    together = threading.Barrier(3)

    def meet(handler: Peer, message: dict[str, Any]) -> None:
        together.wait(30)
        words("met")(handler, message)

    with peer(meet) as (config, _):
        async with using(tmp_path, config) as used:
            found = await asyncio.gather(*(used.call("get") for _ in range(3)))
            assert [one.llm_content for one in found] == ["met"] * 3


async def test_an_answer_of_100_mb_is_not_read(tmp_path: Path) -> None:
    def huge(handler: Peer, message: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(100 << 20))
        handler.end_headers()
        try:
            for _ in range(100):
                handler.wfile.write(b"x" * (1 << 20))
        except OSError:
            return

    with peer(huge) as (config, _):
        async with using(tmp_path, config) as used:
            assert (await used.call("get")).llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` gave no usable result for `get`: the answer takes more than 33,554,432 bytes, which are not read.

Suggestion: Ask for less at once, if the tool can; the same call would fail the same way.\
""")  # noqa: E501


@pytest.mark.slow
async def test_an_event_of_100_mb_is_not_read(tmp_path: Path) -> None:
    def huge(handler: Peer, message: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        try:
            handler.wfile.write(b"data: ")
            for _ in range(100):
                handler.wfile.write(b"x" * (1 << 20))
            handler.wfile.write(b"\n\n")
        except OSError:
            return

    with peer(huge) as (config, _):
        async with using(tmp_path, config) as used:
            said = (await used.call("get")).llm_content
            assert "the answer takes more than 33,554,432 bytes, which are not read" in said


async def test_a_packed_answer_is_not_unpacked(tmp_path: Path) -> None:
    import gzip

    bomb = gzip.compress(b"x" * (10 << 20))
    with peer(lambda handler, message: handler.send_body(bomb, content_encoding="gzip")) as (config, _):
        async with using(tmp_path, config) as used:
            assert "packs its answers" in (await used.call("get")).llm_content


async def test_garbage_is_a_clear_error(tmp_path: Path) -> None:
    with peer(lambda handler, message: handler.send_body(b"<html>", "text/html")) as (config, _):
        async with using(tmp_path, config) as used:
            assert (await used.call("get")).llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` gave no usable result for `get`: the answer is not a protocol message (unexpected content type: text/html).

Suggestion: Its author has to fix this. The call may have run: check what was done before you call it again.\
""")  # noqa: E501


async def test_one_that_never_answers_costs_its_own_call_alone(tmp_path: Path) -> None:
    over = threading.Event()

    def wait(handler: Peer, message: dict[str, Any]) -> None:
        over.wait(30)

    with peer(wait) as (config, _):
        async with using(tmp_path, replace(config, timeout=0.5)) as used:
            result = await used.call("get")
            assert result.error is not None
            assert result.error.kind.value == "timeout_error"
        over.set()


async def test_nobody_there_is_said(tmp_path: Path) -> None:
    with peer(words("x")) as (config, _):
        pass
    async with using(tmp_path, config) as used:
        place = config.url.removeprefix("http://").removesuffix("/mcp")
        assert used.problem() == f"{place} cannot be reached: All connection attempts failed"


@pytest.mark.parametrize(
    ("status", "kind", "body", "said"),
    [
        (403, "text/plain", b"not for you", "HTTP 403 Forbidden: not for you"),
        (500, "text/html", b"<h1>sorry</h1>", "HTTP 500 Internal Server Error"),
        (429, "application/json", b'{"detail": "slow down"}', 'HTTP 429 Too Many Requests: {"detail": "slow down"}'),
        (
            400,
            "application/json",
            b'{"jsonrpc": "2.0", "id": null, "error": {"code": 5, "message": "odd"}}',
            "odd",
        ),
    ],
)
async def test_how_http_refuses_a_call_is_said(tmp_path: Path, status: int, kind: str, body: bytes, said: str) -> None:
    def refuse(handler: Peer, message: dict[str, Any]) -> None:
        handler.send_response(status)
        handler.send_header("content-type", kind)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with peer(refuse) as (config, _):
        async with using(tmp_path, config) as used:
            result = await used.call("get")
            assert result.error is not None
            assert result.error.message == f"The MCP server `peer` refused `get`: {said}"
            assert ("The arguments are not at fault" in (result.error.suggestion or "")) is said.startswith("HTTP")


async def test_an_error_with_the_code_of_a_closed_connection_is_the_servers_own(tmp_path: Path) -> None:
    def fail(handler: Peer, message: dict[str, Any]) -> None:
        error = {"code": -32000, "message": "the database is down"}
        handler.send_body(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())

    with peer(fail) as (config, _):
        async with using(tmp_path, config) as used:
            assert "refused `get`: the database is down" in (await used.call("get")).llm_content


def answer(**message: Any) -> Reply:
    def reply(handler: Peer, asked: dict[str, Any]) -> None:
        told = {key: value(asked) if callable(value) else value for key, value in message.items()}
        handler.send_body(json.dumps({"jsonrpc": "2.0", **told}).encode())

    return reply


def events(*lines: str) -> Reply:
    def reply(handler: Peer, asked: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write("".join(f"{line}\n\n" for line in lines).encode())
        handler.close_connection = True

    return reply


def cut(handler: Peer, asked: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"jsonrpc"')
    handler.close_connection = True


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (lambda handler, asked: handler.send_body(b'{"jsonrpc": "2.0", "id'), "is not a protocol message"),
        (answer(id=lambda asked: asked["id"] + 1000, result={}), "is to another request (its id is 100"),
        (answer(id=None, result={}), "is to another request (its id is null, "),
        (answer(id=None, error={"code": 1, "message": "cannot read it"}), "cannot read it"),
        (answer(method="notifications/message", params={}), "is a message of its own, and none to what was asked"),
        (answer(id=lambda asked: asked["id"], method="ping"), "is a message of its own, and none to what was asked"),
        (cut, "its answer could not be read: peer closed connection"),
        (events("data: {oops"), "is not a protocol message"),
        (events(), "stream ended without a response"),
        (events("event: error\ndata: broken"), "stream ended without a response"),
        (events("id: 1\nretry: 10\ndata: "), "stream ended and reconnection attempts were exhausted"),
    ],
)
async def test_an_answer_that_is_none_ends_its_call_at_once(tmp_path: Path, reply: Reply, said: str) -> None:
    """R6: not when its time is up, which may be never."""
    with peer(reply) as (config, _):
        async with using(tmp_path, replace(config, timeout=30)) as used:
            result = await used.call("get")
            assert result.error is not None
            assert result.error.kind is ErrorKind.EXECUTION
            assert said in result.error.message


async def test_an_answer_whose_id_became_a_text_is_taken(tmp_path: Path) -> None:
    content = [{"type": "text", "text": "fine"}]
    with peer(answer(id=lambda asked: str(asked["id"]), result={"content": content})) as (config, _):
        async with using(tmp_path, config) as used:
            assert (await used.call("get")).llm_content == "fine"


@pytest.mark.parametrize("body", [b"", b"[]", b'{"jsonrpc": "2.0"}'])
async def test_an_answer_that_is_no_message_is_said_in_our_words(tmp_path: Path, body: bytes) -> None:
    with peer(lambda handler, message: handler.send_body(body)) as (config, _):
        async with using(tmp_path, config) as used:
            assert (await used.call("get")).llm_content == snapshot("""\
Error (execution_error): The MCP server `peer` gave no usable result for `get`: the answer is not a protocol message.

Suggestion: Its author has to fix this. The call may have run: check what was done before you call it again.\
""")
