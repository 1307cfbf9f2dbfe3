"""Sessions: what belongs to a client is its own, and ends with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ferrule import Runtime, Session, ToolContext, tool
from ferrule.mcp_server.server import McpServer
from tests.mcp_server.serving import client_of, text_of


@tool(kind="readonly")
async def say_session(context: ToolContext) -> str:
    """Say the session."""
    return f"{context.session_id} {context.workspace} {context.config.get('colour')}"


def serving_in(workspace: Path, closed: list[str], **options: Any) -> McpServer:
    async def close(session: Session) -> None:
        closed.append(session.id)

    session = Session(workspace=workspace, config={"colour": "green"}, state={"of": "nobody"}, id="the template")
    return McpServer(Runtime([say_session, *options.pop("more", ())], session=session), close=close, **options)


async def test_a_session_is_like_the_runtimes_own_and_another_one(tmp_path: Path) -> None:
    closed: list[str] = []
    async with client_of(serving_in(tmp_path, closed), "handshake") as client:
        said = text_of(await client.call_tool("say_session", {}))
    name, folder, colour = said.split()
    assert (folder, colour) == (str(tmp_path), "green")
    assert name != "the template"
    assert closed == [name]


async def test_a_slow_question_to_one_client_holds_up_no_other(tmp_path: Path) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    @tool(kind="write")
    async def save_note() -> str:
        """Save."""
        return "saved"

    async def slow(_context: Any, _params: Any) -> Any:
        from mcp import types

        asked.set()
        await release.wait()
        return types.ElicitResult(action="accept", content={"answer": "once"})

    async def quick(_context: Any, _params: Any) -> Any:
        from mcp import types

        return types.ElicitResult(action="accept", content={"answer": "once"})

    server = serving_in(tmp_path, [], more=[save_note])
    async with (
        client_of(server, "handshake", elicitation_callback=slow) as one,
        client_of(server, "handshake", elicitation_callback=quick) as two,
    ):
        waiting = asyncio.create_task(one.call_tool("save_note", {}))
        await asked.wait()
        assert text_of(await two.call_tool("save_note", {})) == "saved"
        release.set()
        assert text_of(await waiting) == "saved"


async def test_the_shared_session_is_closed_when_nobody_uses_it(tmp_path: Path) -> None:
    closed: list[str] = []
    server = serving_in(tmp_path, closed)
    server.sessions.idle_seconds = 0.05
    async with client_of(server, "stateless") as client:
        first = text_of(await client.call_tool("say_session", {})).split()[0]
        while not closed:
            await asyncio.sleep(0.01)
        second = text_of(await client.call_tool("say_session", {})).split()[0]
    assert closed == [first, second]
    assert first != second


async def test_a_session_that_is_at_work_is_not_idle(tmp_path: Path) -> None:
    closed: list[str] = []

    @tool(kind="readonly")
    async def work_a_while() -> list[str]:
        """Work."""
        await asyncio.sleep(0.3)
        return list(closed)

    server = serving_in(tmp_path, closed, more=[work_a_while])
    server.sessions.idle_seconds = 0.02
    async with client_of(server, "stateless") as client:
        assert text_of(await client.call_tool("work_a_while", {})) == "[]"
