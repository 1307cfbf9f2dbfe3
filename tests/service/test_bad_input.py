"""Requests that no honest client sends, on every endpoint and `/mcp`: a clear answer, and nobody else notices."""

from __future__ import annotations

import asyncio
import base64
import json
import resource
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule import ToolContext, tool
from ferrule.service.routes import ENDPOINTS, MCP_ENDPOINTS
from tests.service.serving import TOOLS, Running, running
from tests.service.test_mcp import HEADERS, HELLO

BODY = b'{"tool": "add", "arguments": {"a": 1, "b": 2}}'
SIZE = str(len(BODY)).encode()
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
PATHS = ("/v1/calls", "/mcp")


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 's.db'}"


@asynccontextmanager
async def opened(service: Running) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]))
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def raw(service: Running, sent: bytes) -> bytes:
    """What comes back until the service hangs up."""
    async with opened(service) as (reader, writer):
        with suppress(ConnectionError):
            writer.write(sent)
            await writer.drain()
            async with asyncio.timeout(60):
                return await reader.read()
        return b"(reset)"


def head(path: str, key: str, *more: bytes, method: bytes = b"POST") -> bytes:
    lines = [
        method + b" " + path.encode() + b" HTTP/1.1", b"Host: x", b"Content-Type: application/json",
        b"Accept: application/json, text/event-stream", b"Authorization: Bearer " + key.encode(), *more,
    ]  # fmt: skip
    return b"\r\n".join(lines) + b"\r\n\r\n"


CLOSE = b"Connection: close"
SMUGGLED: dict[str, tuple[tuple[bytes, ...], bytes]] = {
    "a length and chunks": ((b"Content-Length: " + SIZE, b"Transfer-Encoding: chunked"), CHUNKED),
    "chunks and a length": ((b"Transfer-Encoding: chunked", b"Content-Length: 4"), CHUNKED),
    "two lengths": ((b"Content-Length: " + SIZE, b"Content-Length: 5"), BODY),
    "one length twice": ((b"Content-Length: " + SIZE, b"Content-Length: " + SIZE), BODY),
    "a list of lengths": ((b"Content-Length: %s, %s" % (SIZE, SIZE),), BODY),
    "a length with a sign": ((b"Content-Length: +" + SIZE,), BODY),
    "a length below nothing": ((b"Content-Length: -1",), BODY),
    "a length beyond numbers": ((b"Content-Length: 99999999999999999999999",), BODY),
    "a folded header": ((b"X-A: b\r\n Content-Length: 3", b"Content-Length: " + SIZE), BODY),
    "a folded coding": ((b"Transfer-Encoding:\r\n chunked",), CHUNKED),
    "two codings": ((b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"), CHUNKED),
    "an unknown coding": ((b"Transfer-Encoding: xchunked",), CHUNKED),
    "a space before the colon": ((b"Content-Length : " + SIZE,), BODY),
    "a NUL in a header": ((b"X-A: a\x00b", b"Content-Length: " + SIZE), BODY),
    "a carriage return in a header": ((b"X-A: a\rContent-Length: 3", b"Content-Length: " + SIZE), BODY),
    "a chunk of no size": ((b"Transfer-Encoding: chunked",), b"zz\r\n" + BODY),
    "a chunk beyond numbers": ((b"Transfer-Encoding: chunked",), b"fffffffffffffffffff\r\n" + BODY),
    "a line feed in a chunk's line": ((b"Transfer-Encoding: chunked",), CHUNKED.replace(b"\r\n", b";a\n\r\n", 1)),
    "two keys": ((b"Authorization: Bearer fk_other", b"Content-Length: " + SIZE, CLOSE), BODY),
}


@pytest.mark.parametrize("path", PATHS)
async def test_a_request_that_could_be_read_in_two_ways_is_refused(sqlite: str, tmp_path: Path, path: str) -> None:
    """Neither what it holds nor what hides behind it is done."""
    async with running(sqlite, tmp_path) as service:
        hidden = head("/v1/calls", service.key, b"Content-Length: " + SIZE) + BODY
        for case, (more, body) in SMUGGLED.items():
            answer = await raw(service, head(path, service.key, *more) + body + hidden)
            assert answer.startswith(b"HTTP/1.1 400 "), (case, answer[:200])
            assert answer.count(b"HTTP/1.1 ") == 1, case
            assert not (await (await service.client()).calls()).calls, case


async def test_a_coding_besides_chunks_is_not_guessed_at(sqlite: str, tmp_path: Path) -> None:
    async with running(sqlite, tmp_path) as service:
        sent = head("/v1/calls", service.key, b"Transfer-Encoding: gzip, chunked", CLOSE) + CHUNKED
        assert (await raw(service, sent)).startswith(b"HTTP/1.1 415 ")


@pytest.mark.parametrize("path", PATHS)
async def test_what_comes_after_a_body_is_no_header(sqlite: str, tmp_path: Path, path: str) -> None:
    """A proxy checks headers, and passes trailers on: a key among them is none."""
    async with running(sqlite, tmp_path) as service:
        trailer = f"Authorization: Bearer {service.key}\r\n\r\n".encode()
        sent = head(path, "x", b"Transfer-Encoding: chunked", CLOSE).replace(b"Authorization: Bearer x\r\n", b"")
        answer = await raw(service, sent + CHUNKED[:-2] + trailer)
        assert answer.startswith(b"HTTP/1.1 401 "), answer[:300]


HUGE: dict[str, bytes] = {
    "one header": b"X-A: " + b"a" * 300_000,
    "many headers": b"\r\n".join(b"X-%d: a" % number for number in range(10_000)),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", list(HUGE))
async def test_a_huge_head_is_refused(sqlite: str, tmp_path: Path, case: str, path: str) -> None:
    async with running(sqlite, tmp_path) as service:
        answer = await raw(service, head(path, service.key, HUGE[case]))
        assert answer.startswith((b"HTTP/1.1 431 ", b"(reset)")), answer[:200]
        assert (await (await service.http()).get("/healthz")).status_code == 200


ENDLESS: dict[str, bytes] = {
    "a header": b"POST /v1/calls HTTP/1.1\r\nX-A: ",
    "a path": b"GET /",
    "a trailer": b"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: ",
    "a chunk's line": b"POST /v1/calls HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;a=",
}


@pytest.mark.parametrize("case", list(ENDLESS))
async def test_what_never_ends_is_cut_off_early(sqlite: str, tmp_path: Path, case: str) -> None:
    sent = 0
    async with running(sqlite, tmp_path) as service, opened(service) as (_, writer):
        writer.write(ENDLESS[case])
        with suppress(ConnectionError):
            while sent < 200_000_000:
                writer.write(b"a" * 65_536)
                await writer.drain()
                sent += 65_536
                await asyncio.sleep(0)
        assert sent < 50_000_000  # what the sockets hold, and no more
        assert (await (await service.http()).get("/healthz")).status_code == 200


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_without_end_is_refused_in_bounded_memory(sqlite: str, tmp_path: Path, path: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with running(sqlite, tmp_path, body_bytes=100_000) as service, opened(service) as (reader, writer):
        writer.write(head(path, service.key, b"Transfer-Encoding: chunked"))
        answer = asyncio.create_task(reader.read(4_000))
        sent = 0
        with suppress(ConnectionError):
            while not answer.done() and sent < 500_000_000:
                writer.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
                await writer.drain()
                sent += 65_536
                await asyncio.sleep(0)
        with suppress(ConnectionError):
            assert (await answer).startswith(b"HTTP/1.1 413 ")
        assert sent < 100_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_that_stops_half_way_holds_nobody_up(
    sqlite: str, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferrule.service.http.BODY_SECONDS", 0.3)
    monkeypatch.setattr("ferrule.mcp_server.http.BODY_SECONDS", 0.3)
    async with running(sqlite, tmp_path) as service:
        answer = await raw(service, head(path, service.key, b"Content-Length: " + SIZE) + BODY[:10])
        assert answer.startswith(b"HTTP/1.1 408 "), answer[:200]
        async with opened(service) as (_, writer):  # and one that goes away
            writer.write(head(path, service.key, b"Content-Length: " + SIZE) + BODY[:10])
            await writer.drain()
        assert not (await (await service.client()).calls()).calls


# Credentials


def unsigned_token() -> str:
    parts = ({"alg": "none", "typ": "JWT"}, {"sub": "admin", "tenant": "default", "iss": "https://issuer.example"})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, ""])


async def test_no_endpoint_answers_a_credential_that_is_none(sqlite: str, tmp_path: Path) -> None:
    """Expired, revoked, made up, unsigned: all the same 401, wherever it is sent."""
    async with running(sqlite, tmp_path) as service:
        admin = await service.client()
        revoked = await admin.create_key("admin")
        await admin.revoke_key(revoked.id)
        expired = await admin.create_key("admin", expires_in=0.05)
        await asyncio.sleep(0.1)
        secrets = [revoked.secret, expired.secret, unsigned_token(), "fk_" + "A" * 43, "\u00e9" * 10, "x" * 5_000]
        for endpoint in (*ENDPOINTS, *MCP_ENDPOINTS):
            if endpoint.scope is None:
                continue
            for secret in secrets:
                web = await service.http()
                path = endpoint.path.replace("{id}", "x").replace("{name}", "x")
                given: Any = {"Authorization": f"Bearer {secret}".encode("latin-1"), **HEADERS}
                answer = await web.request(endpoint.method, path, headers=given, content=b"{}")
                assert answer.status_code == 401, (endpoint.path, secret)
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert secret not in answer.text


# Readers that do not read


@tool(kind="readonly")
async def pour(context: ToolContext, pieces: int = 1_000) -> AsyncIterator[str]:
    """Give a lot of output."""
    for _ in range(pieces):
        yield "x" * 50_000
        await asyncio.sleep(0)


async def test_a_stream_that_nobody_reads_holds_up_nothing_and_is_bounded(sqlite: str, tmp_path: Path) -> None:
    """50 connections with events that are never read cost no more than what a call keeps anyway."""
    async with running(sqlite, tmp_path, tools=(*TOOLS, pour)) as service:
        key = (await (await service.client()).create_key("admin", limits={"result_bytes": 10_000})).secret
        client = await service.client(key)
        await client.call("pour", {"pieces": 200})  # what the call itself needs
        waiting = await client.call("pour", {"pieces": 200}, wait=0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        deaf: list[asyncio.StreamWriter] = []
        for _ in range(50):
            _, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]), limit=1_024)
            writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
            writer.write(head(f"/v1/calls/{waiting.id}/events", key, method=b"GET"))
            deaf.append(writer)
        done = await client.get_call(waiting.id, wait=50)
        assert done.status == "succeeded"
        assert (await client.call("add", {"a": 1, "b": 1})).status == "succeeded"
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        for writer in deaf:
            writer.transport.abort()  # pyright: ignore[reportAttributeAccessIssue]
        assert grown < 150_000  # kB; 50 times the output would be 500 MB


async def test_an_mcp_stream_that_nobody_reads_holds_up_nothing(sqlite: str, tmp_path: Path) -> None:
    async with running(sqlite, tmp_path, tools=(*TOOLS, pour)) as service:
        web = await service.http()
        session = (await web.post("/mcp", json=HELLO, headers=HEADERS)).headers["mcp-session-id"]
        of_session = b"Mcp-Session-Id: " + session.encode()
        async with opened(service) as (reader, writer):
            writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
            call = {
                "jsonrpc": "2.0", "id": 7, "method": "tools/call",
                "params": {"name": "pour", "arguments": {"pieces": 100}, "_meta": {"progressToken": 1}},
            }  # fmt: skip
            body = json.dumps(call).encode()
            length = b"Content-Length: " + str(len(body)).encode()
            writer.write(head("/mcp", service.key, of_session, b"Mcp-Protocol-Version: 2025-11-25", length) + body)
            client = await service.client()
            while not (listed := (await client.calls()).calls):
                await asyncio.sleep(0.02)
            assert (await client.get_call(listed[0].id, wait=50)).status == "succeeded"
            assert (await client.call("add", {"a": 1, "b": 1})).status == "succeeded"
            assert reader is not None


# Whatever it is

KEYS = st.sampled_from(["jsonrpc", "id", "method", "params", "_meta", "name", "arguments", "tool", "cursor", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["2.0", "tools/call", "tools/list", "initialize", "ping", "add", "notifications/cancelled"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)  # fmt: skip
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.integers() | st.text(max_size=5) | st.none(),
        "method": st.sampled_from(["tools/call", "tools/list", "initialize", "ping", "server/discover", "tasks/get"]),
        "params": VALUES,
    },
)
ERAS = st.sampled_from([b"", b"Mcp-Protocol-Version: 2025-11-25\r\n", b"Mcp-Protocol-Version: 2026-07-28\r\n"])


@given(data=st.data())
@settings(max_examples=1, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_makes_an_endpoint_fail(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A law, over one service: any JSON and any bytes, wherever they are sent, are answered, and not with a 5xx."""
    bodies = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["/mcp", "/v1/calls", "/v1/calls/batch", "/v1/users", "/v1/keys", "/v1/tenants"]),
                MESSAGES.map(_json) | VALUES.map(_json) | st.binary(max_size=200),
                ERAS,
            ),
            min_size=60,
            max_size=60,
        )
    )
    asyncio.run(all_are_answered(tmp_path_factory.mktemp("any"), bodies))


def _json(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


async def all_are_answered(folder: Path, bodies: list[tuple[str, bytes, bytes]]) -> None:
    async with running(f"sqlite:///{folder / 's.db'}", folder) as service:
        for path, body, era in bodies:
            length = b"Content-Length: " + str(len(body)).encode()
            sent = head(path, service.key, length, CLOSE).replace(b"Host: x\r\n", b"Host: x\r\n" + era) + body
            answer = await raw(service, sent)
            status = int(answer.split(b" ", 2)[1])
            assert status < 500, (path, body, era, answer)
        failed = [counted for counted in service.service.requests if counted[1] >= 500]
        assert not failed


@given(lines=st.lists(st.binary(max_size=60), max_size=12))
@settings(max_examples=1, deadline=None)
def test_bytes_that_are_no_http_hurt_nobody(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    async def sent_all() -> None:
        folder = tmp_path_factory.mktemp("noise")
        async with running(f"sqlite:///{folder / 's.db'}", folder) as service:
            for line in lines:
                async with opened(service) as (_, writer):
                    writer.write(line + b"\r\n\r\n")
                    with suppress(ConnectionError):
                        await writer.drain()
            assert (await (await service.http()).get("/healthz")).status_code == 200

    asyncio.run(sent_all())
