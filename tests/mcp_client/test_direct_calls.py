"""Calls past the session: answered, told of progress, cancelled, ended; and nobody else's messages are taken."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from ferrule.mcp_client.failures import Malformed
from ferrule.mcp_client.stdio_transport import DirectCalls
from tests.mcp_client.peers import until


class Line:
    """A stream that keeps what was written."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.direct = DirectCalls(lambda line: self.sent.append(json.loads(line)))

    def call(self, progress: Any = None) -> asyncio.Task[dict[str, Any]]:
        return asyncio.create_task(self.direct.request("tools/call", {"name": "x"}, progress))


async def test_each_call_gets_its_own_answer() -> None:
    line = Line()
    calls = [line.call() for _ in range(3)]
    await until(lambda: len(line.sent) == 3)
    for message in reversed(line.sent):
        assert line.direct.take({"id": message["id"], "result": {"of": message["id"]}})
        assert line.direct.take({"id": message["id"], "result": {"of": "late"}})
    assert [await call for call in calls] == [{"of": message["id"]} for message in line.sent]


async def test_errors_are_raised_and_nonsense_is_one() -> None:
    line = Line()
    for answer, code, words in (
        ({"error": {"code": -5, "message": "no"}}, -5, "no"),
        ({"error": {"code": "odd", "message": None}}, -32603, ""),
    ):
        line.sent.clear()
        call = line.call()
        await until(lambda: line.sent)
        line.direct.take({"id": line.sent[0]["id"], **answer})
        with pytest.raises(MCPError) as raised:
            await call
        assert (raised.value.code, str(raised.value)) == (code, words)


@pytest.mark.parametrize("answer", [{"error": "odd"}, {"result": []}, {"result": "text"}, {}])
async def test_an_answer_that_is_none_is_the_servers_fault_and_not_the_arguments(answer: dict[str, Any]) -> None:
    line = Line()
    call = line.call()
    await until(lambda: line.sent)
    line.direct.take({"id": line.sent[0]["id"], **answer})
    with pytest.raises(Malformed, match="neither an object as its result nor an error"):
        await call


async def test_what_is_the_sessions_is_left_to_it() -> None:
    direct = Line().direct
    for message in (
        {"id": 1, "result": {}}, {"id": "x", "result": {}}, {"id": None}, {"id": True, "result": {}},
        {"id": 2_000_000_000, "method": "ping"}, {"method": "notifications/progress"},
        {"method": "notifications/progress", "params": {"progressToken": 5, "progress": 1}},
    ):  # fmt: skip
        assert not direct.take(message)
    assert direct.take({"id": 2_000_000_000, "result": {}})


async def test_progress_reaches_its_call() -> None:
    line, told = Line(), []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    call = line.call(progress)
    await until(lambda: line.sent)
    token = line.sent[0]["params"]["_meta"]["progressToken"]
    beyond = 10**400  # JSON has no largest number, and floats do
    for params in (
        {"progress": 1, "total": 2, "message": "half"}, {"progress": "odd"}, {"progress": beyond},
        {"progress": 2, "total": beyond},
    ):  # fmt: skip
        assert line.direct.take({"method": "notifications/progress", "params": {"progressToken": token, **params}})
    await until(lambda: len(told) == 2)
    assert told == [(1.0, 2.0, "half"), (2.0, None, None)]
    line.direct.take({"id": token, "result": {}})
    await call
    assert line.direct.idle_words == 4  # and the answer was none
    line.direct.take({"id": token, "result": {}})
    assert line.direct.idle_words == 5


async def test_a_call_that_is_given_up_is_cancelled_there_too() -> None:
    line = Line()
    call = line.call()
    await until(lambda: line.sent)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert line.sent[1]["method"] == "notifications/cancelled"
    assert line.sent[1]["params"]["requestId"] == line.sent[0]["id"]


async def test_the_end_of_the_connection_ends_its_calls() -> None:
    line = Line()
    call = line.call()
    await until(lambda: line.sent)
    line.direct.end()
    for ended in (call, line.call()):
        with pytest.raises(MCPError, match="Connection closed"):
            await ended
    assert len(line.sent) == 1


async def test_what_the_session_says_of_us_is_said_here_too() -> None:
    line = Line()
    line.direct.note_stamp({"_meta": {"io.modelcontextprotocol/protocolVersion": "v", "progressToken": 1}})
    line.direct.note_stamp({"_meta": {"progressToken": 2}})
    line.direct.note_stamp(None)
    call = line.call()
    await until(lambda: line.sent)
    assert line.sent[0]["params"]["_meta"] == {"io.modelcontextprotocol/protocolVersion": "v"}
    line.direct.end()
    with pytest.raises(MCPError):
        await call


async def test_an_error_keeps_its_data() -> None:
    line = Line()
    call = line.call()
    await until(lambda: line.sent)
    line.direct.take({"id": line.sent[0]["id"], "error": {"code": -32042, "message": "first", "data": {"a": 1}}})
    with pytest.raises(MCPError) as error:
        await call
    assert (error.value.code, error.value.data) == (-32042, {"a": 1})
