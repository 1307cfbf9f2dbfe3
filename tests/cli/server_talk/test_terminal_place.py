"""`ferrule call` and `ferrule run` ask at a real terminal what servers want to know, and decline it in a pipe."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.mcp_peer import add
from tests.cli.terminal import Terminal
from tests.mcp_client.signing_in_peer import browser, signing_in

from ferrule.cli.server_talk.questions import TerminalPlace


@pytest.fixture
def ferrule(tmp_path: Path) -> Command:
    return Command(tmp_path)


def test_a_call_at_a_terminal_asks_and_confirms_in_turn(ferrule: Command) -> None:
    add(ferrule)
    arguments = ferrule.arguments("call", "mcp__peer__ask", "{}")
    with Terminal(arguments, ferrule.workspace, {**ferrule.environment, "TERM": "linux"}) as terminal:
        terminal.wait("Run it?")
        terminal.type("y")
        terminal.wait("The MCP server peer asks you something:")
        terminal.question()
        assert "`/no` declines, Ctrl-D cancels." in terminal.text
        terminal.type("\x1b[A")
        terminal.wait("Keys such as Esc and the arrows do not work here.")
        terminal.question()  # what is typed before it is there does not count
        terminal.type("Ada")
        assert terminal.ended() == 0
        assert '{"action": "accept", "content": {"name": "Ada"}}' in terminal.text


def test_a_call_in_a_pipe_declines_and_says_so(ferrule: Command) -> None:
    add(ferrule)
    done = ferrule("call", "mcp__peer__ask", "{}", "--yes", stdin="Ada\n")
    note = "[The MCP server `peer` asked the user something while this ran: 'Who?'. It was declined: {why}.]"
    why = "there is no terminal to ask the user at"
    assert done.out.splitlines() == ['{"action": "decline"}', note.format(why=why)]
    words = "The MCP server peer asked you something. It was declined: there is no terminal to answer at."
    assert words in done.err


def test_a_run_in_a_pipe_declines_and_the_model_reads_it(ferrule: Command) -> None:
    add(ferrule)
    script = ferrule.folder / "script.json"
    script.write_text(json.dumps([{"text": "", "calls": [{"name": "mcp__peer__ask", "arguments": {}}]}, "Declined."]))
    done = ferrule("run", "go", "--yes", "--model", f"scripted:{script}", "--json")
    assert "It was declined: there is no terminal to ask the user at." in done.out
    assert "there is no terminal to answer at" in done.err


def test_testing_a_server_signs_in_at_a_terminal_and_says_what_to_run_elsewhere(ferrule: Command) -> None:
    opens, visited = browser(ferrule.folder)
    environment = {**ferrule.environment, **opens, "TERM": "linux"}
    with signing_in() as url:
        assert "sign in if it asks you to: ferrule mcp test guarded" in ferrule("mcp", "add", "guarded", url).out
        piped = ferrule("mcp", "test", "guarded", **opens)
        assert piped.code == 1
        assert "it wants you to sign in; at a terminal: ferrule mcp test guarded." in piped.err
        assert not visited.exists()
        with Terminal(ferrule.arguments("mcp", "test", "guarded"), ferrule.workspace, environment) as terminal:
            terminal.wait("The MCP server guarded wants you to sign in.")
            terminal.question()
            terminal.type("y")
            assert terminal.ended() == 0
            assert "guarded is guarded 1" in terminal.text
        again = ferrule("mcp", "test", "guarded", **opens)  # what it got is kept
        assert (again.code, again.out.split(",")[0]) == (0, "guarded is guarded 1")
    assert len(visited.read_text().splitlines()) == 1


async def test_an_asker_waits_while_a_servers_question_is_open() -> None:
    place, asked = TerminalPlace(), list[str]()

    async def asker(question: object) -> str:
        asked.append("ours")
        return "once"

    shared = place.sharing(asker)
    assert shared is not None
    async with place.asking():
        waiting = asyncio.ensure_future(shared(None))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asked == []
    assert await waiting == "once"


def test_a_test_has_no_terminal() -> None:
    assert TerminalPlace().shut_because or sys.stdin.isatty()
