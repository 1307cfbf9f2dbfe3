"""The HTTP server as a real process: whom it lets in, and what it does with those who misbehave."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from inline_snapshot import snapshot
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from ferrule import Runtime
from ferrule.mcp_server.http import BadAddress, ListenAddress, check_token, http_app, new_token
from ferrule.mcp_server.server import McpServer
from tests.mcp_server.processes import http_server
from tests.mcp_server.serving import ERAS, both_eras, text_of
from tests.mcp_server.test_stdio import soon

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def post(url: str, message: Any, path: str | None = None, **headers: str) -> tuple[int, dict[str, str], str]:
    """One request, with the headers as they are said."""
    place = urlsplit(url)
    assert place.hostname is not None
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
    try:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", path or place.path, body, HEADERS | named)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def modern(method: str, number: int = 1, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    return message, headers | ({"Mcp-Name": params["name"]} if "name" in params else {})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("http")


@pytest.fixture(scope="module")
def served(home: Path) -> Any:
    with http_server(home, home, "--http", "127.0.0.1:0") as (url, _):
        yield url


@both_eras
async def test_the_sdks_client_calls_a_tool(era: str, served: str) -> None:
    async with Client(served, mode=ERAS[era]) as client:
        assert "echo_text" in {one.name for one in (await client.list_tools()).tools}
        assert text_of(await client.call_tool("echo_text", {"text": "hello"})) == "hello"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example.com"},
        {"Host": "evil.example.com:80"},
        {"Host": "localhost:1@evil.example.com"},
        {"Origin": "http://evil.example.com"},
        {"Origin": "http://localhost:80.evil.example.com"},
        {"Origin": "null"},
    ],
)
@both_eras
def test_a_page_of_another_site_is_refused(era: str, headers: dict[str, str], served: str) -> None:
    message, said = (HELLO, {}) if era == "handshake" else modern("tools/list")
    status, answered, _ = post(served, message, **said, **headers)
    assert status in (403, 421)
    assert not any(name.startswith("access-control") for name in answered)


def test_there_is_one_place_and_no_other(served: str) -> None:
    status, _, words = post(served, HELLO, "/")
    assert (status, words) == (404, "There is nothing here. The MCP endpoint is /mcp.\n")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"garbage", 400),
        (b"[]", 400),
        (json.dumps([HELLO]).encode(), 400),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400),
        (b"[" * 100_000, 400),
        (b"x" * (17 * 1024 * 1024), 413),
    ],
    ids=["garbage", "an empty batch", "a batch", "a wrong id", "a deep one", "a huge one"],
)
@both_eras
def test_a_body_that_is_no_message_is_refused(era: str, body: bytes, status: int, served: str) -> None:
    headers = {} if era == "handshake" else {"MCP-Protocol-Version": "2026-07-28"}
    if status == 413:
        with suppress(BrokenPipeError, ConnectionResetError):  # it does not even read it
            assert post(served, body, **headers)[0] == 413
    else:
        assert post(served, body, **headers)[0] == status
    message, said = modern("tools/list")
    assert post(served, message, **said)[0] == 200


def test_a_method_that_there_is_not_is_said_to_be_none(served: str) -> None:
    message, headers = modern("no/such")
    status, _, words = post(served, message, **headers)
    assert (status, json.loads(words)["error"]["code"]) == (404, -32601)


async def test_leaving_in_the_middle_of_a_stateless_call_stops_the_work(served: str, tmp_path: Path) -> None:
    marker = tmp_path / "running"
    message, headers = modern("tools/call", name="wait_long", arguments={"marker": str(marker)})
    place = urlsplit(served)
    assert place.hostname is not None
    connection = http.client.HTTPConnection(place.hostname, place.port)
    connection.request("POST", place.path, json.dumps(message), HEADERS | headers)
    soon(marker.exists)
    connection.close()
    soon(lambda: not marker.exists())


async def test_deleting_a_session_stops_its_work(served: str, tmp_path: Path) -> None:
    marker = tmp_path / "running"
    async with httpx2.AsyncClient() as web:
        session = (await web.post(served, json=HELLO, headers=HEADERS)).headers["mcp-session-id"]
    params = {"name": "wait_long", "arguments": {"marker": str(marker)}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    calling = threading.Thread(target=post, args=(served, call), kwargs={"Mcp_Session_Id": session})
    calling.start()
    soon(marker.exists)
    async with httpx2.AsyncClient() as web:
        gone = await web.delete(served, headers={"Mcp-Session-Id": session})
        assert gone.status_code == 200
        soon(lambda: not marker.exists())
        assert (await web.post(served, json=call, headers=HEADERS | {"Mcp-Session-Id": session})).status_code == 404
    calling.join()


def test_a_token_is_asked_for_where_there_is_one(home: Path) -> None:
    token = new_token()
    with http_server(home, home, "--http", "127.0.0.1:0", FERRULE_MCP_TOKEN=token) as (url, serving):
        message, headers = modern("tools/list")
        assert not any(token in line for line in serving.said)
        status, answered, words = post(url, message, **headers)
        assert (status, answered["www-authenticate"]) == (401, "Bearer")
        assert json.loads(words)["error"]["message"] == snapshot(
            "This server needs its bearer token in the header Authorization, and none was sent."
        )
        status, _, words = post(url, message, **headers, Authorization=f"Bearer {token}x")
        assert (status, "is not the one this server needs" in words) == (401, True)
        assert post(url, message, **headers, Authorization=token)[0] == 401
        assert post(url, message, **headers, Authorization=f"Bearer {token}")[0] == 200


async def test_who_can_be_reached_from_elsewhere_makes_a_token_and_says_it_once(home: Path) -> None:
    with http_server(home, home, "--http", "0.0.0.0:0") as (url, serving):
        token = next(line for line in serving.said if "token" in line).split()[-1]
        url = url.replace("0.0.0.0", "127.0.0.1")
        assert post(url, HELLO)[0] == 401
        assert post(url, HELLO, Authorization=f"Bearer {token}", Origin="http://example.org")[0] == 403
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as web,
            Client(streamable_http_client(url, http_client=web)) as client,
        ):
            assert text_of(await client.call_tool("echo_text", {"text": "hello"})) == "hello"
        serving.process.send_signal(signal.SIGTERM)
        assert serving.process.wait(60) == 0


def test_addresses() -> None:
    places = ["127.0.0.1:80", "localhost", ":9000", "9001", "[::1]:1234", "[::1]", "0.0.0.0:1", "example.org:5"]
    read = [(one := ListenAddress.parse(text), one.is_local, one.url) for text in places]
    assert read == snapshot(
        [
            (ListenAddress(host="127.0.0.1", port=80), True, "http://127.0.0.1:80/mcp"),
            (ListenAddress(host="localhost", port=8765), True, "http://localhost:8765/mcp"),
            (ListenAddress(host="127.0.0.1", port=9000), True, "http://127.0.0.1:9000/mcp"),
            (ListenAddress(host="127.0.0.1", port=9001), True, "http://127.0.0.1:9001/mcp"),
            (ListenAddress(host="::1", port=1234), True, "http://[::1]:1234/mcp"),
            (ListenAddress(host="::1", port=8765), True, "http://[::1]:8765/mcp"),
            (ListenAddress(host="0.0.0.0", port=1), False, "http://0.0.0.0:1/mcp"),
            (ListenAddress(host="example.org", port=5), False, "http://example.org:5/mcp"),
        ]
    )
    with pytest.raises(BadAddress, match="is not a port"):
        ListenAddress.parse("localhost:x")
    with pytest.raises(BadAddress, match="is not a port"):
        ListenAddress.parse("localhost:70000")


def test_a_token_is_needed_where_others_can_come_and_must_not_be_short() -> None:
    with pytest.raises(BadAddress, match="a token is needed"):
        http_app(McpServer(Runtime()), ListenAddress("0.0.0.0", 1))
    with pytest.raises(BadAddress, match="at least 16 characters"):
        check_token("secret")
