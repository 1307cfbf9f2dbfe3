"""One live connection: it opens, says why it ended, and closes whatever state it is in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.mcp_client import bounds, stdio_transport
from ferrule.mcp_client.connection import Connection, connect
from ferrule.mcp_client.failures import Failed, ServerLog
from ferrule.mcp_client.server_config import Ports, ServerConfig
from ferrule.process.references import Variables
from tests.mcp_client.peers import alive, plain, until, using


def connection(folder: Path, config: ServerConfig) -> Connection:
    return connect(
        config, Variables({}), folders=[folder], tokens=folder, ports=Ports(), log=ServerLog(), on_change=lambda: None
    )


async def test_it_opens_answers_and_closes(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    live = connection(tmp_path, plain(notes=notes))
    assert not live.alive
    await live.open(30)
    assert (live.alive, live.offered.server, live.offered.protocol) == (True, "plain", "2025-11-25")
    assert await live.answers()
    assert (await live.call("echo", {"text": "x"}, None))["content"] == [{"type": "text", "text": "x"}]
    await live.close()
    await live.close()
    assert (live.alive, live.ended_because) == (False, "it was closed")
    assert not alive(int(notes.read_text().split()[1]))


async def test_one_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    live = connection(tmp_path, plain("silent", notes))
    with pytest.raises(Failed, match=r"it did not answer within 0\.5 s"):
        await live.open(0.5)
    assert not alive(int(notes.read_text().split()[1]))


async def test_opening_it_can_be_given_up(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    live = connection(tmp_path, plain("silent", notes))
    opening = asyncio.create_task(live.open(30))
    await until(notes.exists)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not alive(int(notes.read_text().split()[1]))


async def test_a_server_that_ends_is_noticed_without_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    monkeypatch.setattr(stdio_transport, "_SECONDS_TO_HEAR_OF_THE_END", 60.0)  # however busy the machine is
    notes = tmp_path / "notes"
    live = connection(tmp_path, plain(notes=notes))
    await live.open(30)
    os.kill(int(notes.read_text().split()[1]), signal.SIGKILL)
    await until(lambda: not live.alive)
    assert live.ended_because == "it was ended by signal 9"
    assert not await live.answers()
    await live.close()


async def test_a_task_that_nobody_asked_for_is_no_result(tmp_path: Path) -> None:
    async with using(tmp_path, plain("unasked-task")) as used:
        assert (await used.call("echo")).llm_content == snapshot("""\
Error (execution_error): `echo` of the MCP server `peer` gave a result that does not fit the protocol: it answered with `task`, which was not asked for, instead of a result.

Suggestion: It has already taken effect; calling it again would repeat it. Its author has to fix this.\
""")  # noqa: E501


async def test_of_a_list_without_end_no_more_is_kept_than_a_message_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LISTING_BYTES", 1_000)
    async with using(tmp_path, plain("pages")) as used:
        assert used.servers.joined["peer"].problems == [
            "its list of tools takes more than 1,000 bytes; the first are used"
        ]
        assert 0 < len(used.servers.joined["peer"].tools) < 10
