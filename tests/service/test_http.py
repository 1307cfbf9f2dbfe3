"""Requests that are wrong in every way: each a clear answer, none a failure of the service."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.app import listening
from ferrule.service import http as service_http
from ferrule.service.messages import ProblemDetails
from tests.service.serving import Running, running

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 's.db'}"


WRONG: dict[str, tuple[str, str, Any, dict[str, str]]] = {
    "no such path": ("GET", "/v2/calls", None, {}),
    "wrong method": ("PUT", "/v1/calls", None, {}),
    "not JSON": ("POST", "/v1/calls", b"{", JSON),
    "no body": ("POST", "/v1/calls", b"", JSON),
    "a list": ("POST", "/v1/calls", b"[]", JSON),
    "wrong types": ("POST", "/v1/calls", b'{"tool": 3, "timeout": -1, "odd": true}', JSON),
    "another media type": ("POST", "/v1/calls", b"{}", {"Content-Type": "text/plain"}),
    "compressed": ("POST", "/v1/calls", b"{}", {**JSON, "Content-Encoding": "gzip"}),
    "half a surrogate": ("POST", "/v1/calls", b'{"tool": "\\ud800"}', JSON),
    "not UTF-8": ("POST", "/v1/calls", b'{"tool": "\xff"}', JSON),
    "too many in a batch": ("POST", "/v1/calls/batch", json.dumps({"calls": [{"tool": "x"}] * 101}).encode(), JSON),
    "none in a batch": ("POST", "/v1/calls/batch", b'{"calls": []}', JSON),
    "two of one id": (
        "POST",
        "/v1/calls/batch",
        b'{"calls": [{"id": "a", "tool": "x"}, {"id": "a", "tool": "x"}]}',
        JSON,
    ),
    "a bad idempotency key": ("POST", "/v1/calls", b'{"tool": "add"}', {**JSON, "Idempotency-Key": "x" * 300}),
    "a bad session": ("POST", "/v1/calls", b'{"tool": "add", "session": "../x"}', JSON),
    "a bad dialect": ("GET", "/v1/tools?dialect=klingon", None, {}),
    "a bad wait": ("GET", "/v1/calls/x?wait=1e9", None, {}),
    "a bad last event": ("GET", "/v1/calls/x/events", None, {"Last-Event-ID": "-1"}),
    "no such call": ("GET", "/v1/calls/0", None, {}),
    "a bad name": ("POST", "/v1/users", b'{"name": "../etc"}', JSON),
    "a bad hash": ("POST", "/v1/approvals/x/decision", b'{"decision": "approve", "args_hash": "short"}', JSON),
}


async def answered(service: Running, name: str) -> tuple[int, dict[str, Any]]:
    method, path, body, headers = WRONG[name]
    answer = await (await service.http()).request(method, path, content=body, headers=headers)
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    ProblemDetails.model_validate(document)
    assert document["request_id"] == answer.headers["x-request-id"]
    return answer.status_code, document


async def test_every_wrong_request_has_a_clear_answer(sqlite: str, tmp_path: Path) -> None:
    async with running(sqlite, tmp_path) as service:
        said: dict[str, str] = {}
        for name in WRONG:
            status, document = await answered(service, name)
            said[name] = f"{status} {document['code']}: {document['detail'].removeprefix('The body is not valid: ')}"
        assert said == snapshot(
            {
                "no such path": "404 not_found: There is nothing at this path. /openapi.json lists what there is.",
                "wrong method": "405 method: PUT is not for this path.",
                "not JSON": "400 invalid: `/`: Invalid JSON: EOF while parsing an object at line 1 column 1.",
                "no body": "400 invalid: `/`: Invalid JSON: EOF while parsing a value at line 1 column 0.",
                "a list": "400 invalid: `/`: Input should be an object.",
                "wrong types": "400 invalid: `/tool`: Input should be a valid string.",
                "another media type": "415 media_type: Send JSON, with `Content-Type: application/json`.",
                "compressed": "415 media_type: Send the body uncompressed.",
                "half a surrogate": "400 invalid: `/`: Invalid JSON: unexpected end of hex escape at line 1 column 17.",
                "not UTF-8": "400 invalid: `/`: Invalid JSON: invalid unicode code point at line 1 column 11.",
                "too many in a batch": "400 invalid: `/calls`: List should have at most 100 items after validation, "
                "not 101.",
                "none in a batch": "400 invalid: `/calls`: List should have at least 1 item after validation, not 0.",
                "two of one id": "422 duplicate_id: Two calls of the batch have the id `a`.",
                "a bad idempotency key": "400 header: Idempotency-Key must be 1 to 255 visible ASCII characters.",
                "a bad session": "400 invalid: `/session`: String should match pattern '^[A-Za-z0-9_-]+$'.",
                "a bad dialect": "400 query: There is no dialect 'klingon'. There is openai, openai-responses, "
                "anthropic, gemini, mcp.",
                "a bad wait": "400 query: `wait` must be a whole number from 0 to 55.",
                "a bad last event": "400 header: Last-Event-ID must be the id of an event of this call.",
                "no such call": "404 not_found: There is no call `0`.",
                "a bad name": "400 invalid: `/name`: must be 1 to 63 lower-case letters, digits, `.`, `_` or `-`, and "
                "start with a letter or digit.",
                "a bad hash": "400 invalid: `/args_hash`: String should have at least 64 characters.",
            }
        )


async def test_all_that_is_wrong_with_a_body_is_said_at_once(sqlite: str, tmp_path: Path) -> None:
    async with running(sqlite, tmp_path) as service:
        _, document = await answered(service, "wrong types")
        assert [error["pointer"] for error in document["errors"]] == ["/tool", "/timeout", "/odd"]


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Basic YTpi", "Bearer fk_wrong", "bearer \u00e9", "Bearer " + "x" * 5000],
)
async def test_without_a_good_key_there_is_no_answer_but_401(sqlite: str, tmp_path: Path, header: str | None) -> None:
    async with running(sqlite, tmp_path) as service:
        http = await service.http()
        del http.headers["authorization"]
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        for path in ("/v1/tools", "/v1/calls", "/v1/keys", "/metrics"):
            answer = await http.get(path, headers=headers)  # pyright: ignore[reportArgumentType]
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/readyz")).json() == {"status": "ready"}


async def raw(service: Running, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]))
    writer.write(data)
    await writer.drain()
    try:
        return await asyncio.wait_for(reader.readuntil(b"\r\n"), 30)
    finally:
        writer.close()


async def test_two_keys_in_one_request_are_refused(sqlite: str, tmp_path: Path) -> None:
    async with running(sqlite, tmp_path) as service:
        twice = f"Authorization: Bearer {service.key}\r\n" * 2
        assert b" 400 " in await raw(service, f"GET /v1/me HTTP/1.1\r\nHost: x\r\n{twice}\r\n".encode())


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/me HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"nonsense\r\n\r\n",
    ],
)
async def test_a_request_that_can_be_read_two_ways_is_not_taken(sqlite: str, tmp_path: Path, head: bytes) -> None:
    async with running(sqlite, tmp_path) as service:
        status = await raw(service, head)
        assert b" 400 " in status or b" 401 " in status
        assert (await (await service.client()).me()).user == "admin"


async def test_a_body_that_is_too_large_or_too_slow_is_given_up(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_http, "BODY_SECONDS", 0.5)
    async with running(sqlite, tmp_path, body_bytes=1000) as service:
        head = f"POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.key}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        assert b" 413 " in await raw(service, head.format(length=5000).encode() + b"x" * 5000)
        assert b" 408 " in await raw(service, head.format(length=900).encode() + b"{")


async def test_a_deep_or_wide_body_is_an_answer_too(sqlite: str, tmp_path: Path) -> None:
    async with running(sqlite, tmp_path) as service:
        http = await service.http()
        deep = b'{"tool": "add", "arguments": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}"
        wide = b'{"tool": "add", "arguments": {"a": [' + b"0," * 4_000_000 + b"0]}}"
        for body in (deep, wide):
            answer = await http.post("/v1/calls", content=body, headers=JSON)
            assert answer.status_code in (200, 400, 413), answer.text[:200]


async def test_a_failure_of_the_service_says_nothing_of_itself(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P10."""
    async with running(sqlite, tmp_path) as service:

        async def fail(*_: object, **__: object) -> None:
            raise RuntimeError("/srv/app/secret.py line 3: password=hunter2hunter2")

        monkeypatch.setattr(service.service.calls, "page", fail)
        answer = await (await service.http()).get("/v1/calls", headers={"X-Request-ID": "my-own-id"})
        assert answer.status_code == 500
        assert answer.json() == {
            "type": "about:blank", "title": "Internal error", "status": 500, "code": "internal",
            "detail": "The service failed on this request. Its log has the request id.", "request_id": "my-own-id",
            "errors": [], "suggestion": None,
        }  # fmt: skip


async def test_a_request_id_that_could_forge_a_line_is_replaced(sqlite: str, tmp_path: Path) -> None:
    async with running(sqlite, tmp_path) as service:
        answer = await (await service.http()).get("/v1/me", headers={"X-Request-ID": "a b"})
        assert answer.headers["x-request-id"] != "a b"


async def test_the_access_log_has_who_and_what_and_no_secret(
    sqlite: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """O2."""
    caplog.set_level("INFO", "ferrule.access")
    async with running(sqlite, tmp_path) as service:
        http = await service.http()
        await http.get("/v1/me?key=supersecret", headers={"X-Request-ID": "r1"})
        (line,) = [one.getMessage() for one in caplog.records if one.name == "ferrule.access"]
        assert line.startswith("GET /v1/me 200 ")
        assert line.endswith(" ms tenant=default user=admin request=r1")
        assert service.key not in caplog.text


async def test_tools_have_a_tag_and_are_sent_once(sqlite: str, tmp_path: Path) -> None:
    """R8: a tool that comes or goes is seen in the next answer."""
    async with running(sqlite, tmp_path) as service:
        http = await service.http()
        first = await http.get("/v1/tools?dialect=anthropic")
        same = await http.get("/v1/tools?dialect=anthropic", headers={"If-None-Match": first.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        service.service.tools.unregister("add")
        changed = await http.get("/v1/tools?dialect=anthropic", headers={"If-None-Match": first.headers["etag"]})
        assert changed.status_code == 200
        assert len(changed.json()["tools"]) == len(first.json()["tools"]) - 1


async def test_the_metrics_are_those_of_the_catalogue_by_tenant(sqlite: str, tmp_path: Path) -> None:
    """O1."""
    async with running(sqlite, tmp_path) as service:
        boss, secret = await service.tenant("other")
        await (await service.client()).call("add", {"a": 1, "b": 1})
        await boss.call("refuse")
        whole = (await (await service.http()).get("/metrics")).text
        assert 'tool_execution_success_total{tenant="default",tool="add"} 1' in whole
        assert 'tool_execution_failure_total{tenant="other",tool="refuse"} 1' in whole
        assert 'http_requests_total{path="/v1/calls",status="200"} 2' in whole
        assert "tool_registry_size 13" in whole
        assert whole.count("# TYPE tool_execution_count_total") == 1
        own = (await (await service.http(secret)).get("/metrics")).text
        assert "default" not in own
        assert 'tenant="other"' in own


async def test_characters_that_no_database_takes_are_answers_too(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        http, client = await service.http(), await service.client()
        odd = "a\x00b\ud83d\U0001f600"
        text = json.dumps(odd)
        bodies: list[tuple[str, str]] = [
            ("/v1/calls", f'{{"tool": {json.dumps("a" + chr(0))}}}'),
            ("/v1/calls", f'{{"tool": "large", "arguments": {{"size": {json.dumps("x" + chr(0))}}}}}'),
            ("/v1/calls", json.dumps({"tool": "add", "metadata": {"a": "b\x00"}})),
            ("/v1/calls", json.dumps({"tool": "add", "arguments": "\x00"})),
            ("/v1/calls", json.dumps({"tool": "add", "version": "\x00"})),
            ("/v1/calls", json.dumps({"tool": "note", "arguments": {"text": "\x00"}})),
            ("/v1/calls/batch", json.dumps({"calls": [{"tool": "\x00"}]})),
            ("/v1/keys", json.dumps({"user": "admin", "name": "\x00"})),
            ("/v1/users", f'{{"name": {text}}}'),
            ("/v1/tenants", json.dumps({"name": "t", "display_name": "\x00"})),
        ]
        for path, body in bodies:
            answer = await http.post(path, content=body.encode(), headers={**JSON, "Prefer": "wait=5"})
            assert answer.status_code < 500, (path, body, answer.text)
        for path in ("/v1/calls/%00", "/v1/calls?tool=%00", "/v1/tools/%00", "/v1/users/%ff%00", "/v1/usage?day=%00"):
            assert (await http.get(path)).status_code in (400, 404), path
        (approval,) = await client.approvals()
        assert approval.arguments == {"text": "\x00"}
        await client.approve(approval, reason="\x00\ud83d".encode("utf-8", "replace").decode())
        assert (await client.get_call(approval.call, wait=30)).status == "succeeded"
        assert (await client.verify_audit()).ok


async def test_half_a_head_is_not_waited_for_and_a_resting_connection_is_kept(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "HEAD_SECONDS", 0.3)
    async with running(sqlite, tmp_path) as service:
        port = int(service.url.rpartition(":")[2])
        whole = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        for first, half in ((b"", b""), (b"", b"GET /healthz HT"), (whole, b"GET /healthz HTTP/1.1\r\nHo")):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(first)
            if first:
                await asyncio.wait_for(reader.readuntil(b"}"), 30)
            writer.write(half)
            await asyncio.wait_for(reader.read(), 30)  # until the service ends it
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(whole)
            assert b'{"status": "ok"}' in await asyncio.wait_for(reader.readuntil(b"}"), 30)
            await asyncio.sleep(1.2)
        writer.close()


BODY = json.dumps({"tool": "add", "arguments": {"a": 1, "b": 2}}).encode()
HEAD_OF_CALL = (
    "POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n{more}\r\n"
)
SENT: dict[str, tuple[str, tuple[bytes, ...], int]] = {
    "at once": ("Content-Length: {length}\r\n", (BODY,), 1),
    "in pieces": ("Content-Length: {length}\r\n", (b"", BODY[:9], BODY[9:]), 1),
    "in chunks": ("Transfer-Encoding: chunked\r\n", (b"%x\r\n%b\r\n" % (len(BODY), BODY), b"0\r\n\r\n"), 1),
    "after a go-ahead": ("Content-Length: {length}\r\nExpect: 100-continue\r\n", (b"", BODY), 1),
    "with what expects a go-ahead": ("Content-Length: {length}\r\nExpect: 100-continue\r\n", (BODY,), 1),
    "on a connection that ends": ("Content-Length: {length}\r\nConnection: close\r\n", (BODY,), 1),
    "three behind each other": ("Content-Length: {length}\r\n", (BODY,), 3),
}


@pytest.mark.parametrize("how", SENT)
async def test_a_body_is_read_however_it_comes(how: str, sqlite: str, tmp_path: Path) -> None:
    """A body that has come with its head is taken at once, any other is waited for."""
    more, pieces, times = SENT[how]
    async with running(sqlite, tmp_path) as service:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]))
        head = HEAD_OF_CALL.format(key=service.key, more=more.format(length=len(BODY))).encode()
        writer.write(b"".join([head, pieces[0]] * times))
        for piece in pieces[1:]:
            await asyncio.sleep(0.05)
            writer.write(piece)
        for _ in range(times):
            said = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            if said.startswith(b"HTTP/1.1 100"):
                said = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            assert said.startswith(b"HTTP/1.1 200 OK\r\n"), said
            length = next(
                int(line[16:]) for line in said.lower().split(b"\r\n") if line.startswith(b"content-length: ")
            )
            answer = json.loads(await asyncio.wait_for(reader.readexactly(length), 30))
            assert (answer["status"], answer["result"]["data"]) == ("succeeded", 3)
        if b"connection: close" not in head.lower():
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")  # nothing is left of the request before
            assert (await asyncio.wait_for(reader.readuntil(b"}"), 30)).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
