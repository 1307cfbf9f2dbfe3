"""Bodies that are not what they should be: refused in words, or turned into what whoever waits can take."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from inline_snapshot import snapshot

from ferrule.mcp_server import http as request_bodies
from tests.mcp_server.processes import http_server
from tests.mcp_server.test_http import HEADERS, HELLO, post


def test_a_message_of_millions_of_values_is_refused_before_they_are_made(tmp_path: Path) -> None:
    body = b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"x":[' + b"[]," * 600_000 + b"[]]}}"
    with http_server(tmp_path, tmp_path, "--http", "127.0.0.1:0") as (url, _):
        session = post(url, HELLO)[1]["mcp-session-id"]
        for headers in ({}, {"Mcp_Session_Id": session}):
            status, _, words = post(url, body, **headers)
            assert (status, json.loads(words)["error"]["message"]) == snapshot(
                (400, "A message may hold at most 500,000 values. This one was skipped.")
            )
        assert post(url, {"jsonrpc": "2.0", "id": 4, "method": "ping"}, Mcp_Session_Id=session)[0] == 200


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], "Batches are not accepted. Send each message by itself."),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, "`id` must be a string or an integer."),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, "`id` must be a string or an integer."),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, "`id` must be a string or an integer."),
        ({"id": 1, "method": "ping"}, '`jsonrpc` must be "2.0".'),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, "`params` must be an object."),
        ("ping", "A message is a JSON object."),
    ],
)
async def test_what_is_no_message_is_refused_in_words_and_not_taken_for_a_notification(body: Any, said: str) -> None:
    status, words = await sent([{"type": "http.request", "body": json.dumps(body).encode()}])
    assert (status, words["error"]["message"]) == (400, said)


@pytest.mark.parametrize(
    "answer",
    [
        b'{"jsonrpc":"2.0","id":%d,"result":"yes"}',
        b'{"id":%d,"result":{"action":"accept"}}',
        b'{"jsonrpc":"2.0","id":%d,"error":"no"}',
        rb'{"jsonrpc":"2.0","id":%d,"result":{"action":"accept","content":{"reason":"\ud83d"}}}',
    ],
)
def test_an_answer_that_is_none_ends_its_question_at_once(tmp_path: Path, answer: bytes) -> None:
    """R6: not after the ten minutes that a person may take."""
    with http_server(tmp_path, tmp_path, "--http", "127.0.0.1:0") as (url, _):
        hello: Any = {**HELLO, "params": {**cast("Any", HELLO["params"]), "capabilities": {"elicitation": {}}}}
        session = post(url, hello)[1]["mcp-session-id"]
        arguments = {"file_path": str(tmp_path / "new.txt"), "content": "x"}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "Write", "arguments": arguments}}
        place = urlsplit(url)
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        with closing(connection):
            connection.request("POST", place.path, json.dumps(call), {**HEADERS, "Mcp-Session-Id": session})
            events = connection.getresponse()
            asked = next(one for one in messages_in(events) if one.get("method") == "elicitation/create")
            assert post(url, answer % asked["id"], Mcp_Session_Id=session)[0] == 202
            result = next(one for one in messages_in(events) if one.get("id") == 2)["result"]
    assert result["isError"]
    assert "the user could not be asked." in result["content"][0]["text"]
    assert "its answer does not fit the protocol" in result["content"][0]["text"]


def messages_in(events: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in events:
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


async def test_a_body_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "BODY_SECONDS", 0.01)
    status, words = await sent([{"type": "http.request", "body": b"{", "more_body": True}])
    assert (status, words["error"]["message"]) == (408, "The rest of this request did not come within 0.01 s.")


async def sent(messages: list[Any]) -> tuple[int, dict[str, Any]]:
    """How a request is refused that comes in these pieces."""
    answers: list[Any] = []

    async def receive() -> Any:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop(0)

    async def send(message: Any) -> None:
        answers.append(message)

    async def nobody(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it was taken")

    scope = {"type": "http", "method": "POST", "headers": [(b"mcp-session-id", b"x")]}
    await request_bodies.RequestBodies(nobody, 1_000)(scope, receive, send)
    head, body = answers
    return head["status"], json.loads(body["body"])
