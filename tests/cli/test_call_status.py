"""What a tool says of how far it is stands on one row while it runs, and is gone with it (P9)."""

from __future__ import annotations

import io
import json
import os
import shlex

import pytest

from ferrule.agent.agent_events import CallAsked
from ferrule.app.build import Tools
from ferrule.cli.chatting.screen import LiveScreen, Paint
from ferrule.cli.status_line import CallStatus
from ferrule.core.call import RawCall
from ferrule.core.events import Done, Progress
from ferrule.core.result import ToolResult
from ferrule.registry.registry import Registry

from .conftest import Command
from .mcp_peer import add
from .terminal import CTRL_C, Terminal

OWN = '''
import time
from pathlib import Path
from ferrule import ToolContext, tool

@tool(kind="readonly")
def count_slowly(gate: str, context: ToolContext) -> str:
    """Count. Use this to test progress."""
    context.progress(1, 4, "one \\x1b[2J\\nof four")
    while not Path(gate).exists() and not context.cancelled:
        time.sleep(0.01)
    return "counted"
'''
STREAMS = '''
import time
from pathlib import Path
from ferrule import ToolContext, tool

@tool(kind="readonly")
def tell_slowly(gate: str, context: ToolContext):
    """Tell. Use this to test partial output."""
    yield "first \\x1b[2Jline\\n"
    yield "second "
    while not Path(gate).exists() and not context.cancelled:
        time.sleep(0.01)
    yield "line"
'''
WORKS = ("call", "mcp__peer__progress", "{}", "--allow", "mcp__peer")


def at(ferrule: Command, *arguments: str, **environment: str) -> Terminal:
    variables = {**ferrule.environment, "TERM": "linux", **environment}
    return Terminal(ferrule.arguments(*arguments), ferrule.workspace, variables)


@pytest.fixture
def counting(ferrule: Command) -> tuple[str, ...]:
    (ferrule.folder / "tools" / "own.py").write_text(OWN)
    return ("call", "count_slowly", json.dumps({"gate": str(ferrule.folder / "gate")}))


def test_a_servers_progress_is_one_row_that_is_gone_with_the_call(ferrule: Command) -> None:
    add(ferrule, "peer", "gated")
    with at(ferrule, *WORKS) as terminal:
        terminal.wait("mcp__peer__progress… 2/3 step 2")
        assert "step 1" not in terminal.text
        (ferrule.folder / "notes.go").touch()
        assert terminal.ended() == 0
        assert terminal.text == "done"


def test_a_tool_of_ours_does_the_same_and_cannot_steer_the_terminal(
    ferrule: Command, counting: tuple[str, ...]
) -> None:
    with at(ferrule, *counting) as terminal:
        terminal.wait("1/4 one \\x1b[2J⏎of four")
        (ferrule.folder / "gate").touch()
        assert terminal.ended() == 0
        assert terminal.text == "counted"


def test_ctrl_c_takes_the_row_away_and_says_that_the_call_was_stopped(
    ferrule: Command, counting: tuple[str, ...]
) -> None:
    with at(ferrule, *counting) as terminal:
        terminal.wait("1/4 one")
        terminal.press(CTRL_C)
        assert terminal.ended() == 130
        assert "1/4" not in terminal.text
        assert "`count_slowly` was interrupted." in terminal.text


def test_with_json_the_terminal_shows_it_too_and_the_document_is_whole(
    ferrule: Command, counting: tuple[str, ...]
) -> None:
    with at(ferrule, *counting, "--json") as terminal:
        terminal.wait("1/4 one")
        (ferrule.folder / "gate").touch()
        assert terminal.ended() == 0
        assert json.loads(terminal.text)["llm_content"] == "counted"


@pytest.mark.parametrize("where", ["", " >out"], ids=["terminal", "file"])
def test_output_is_shown_as_it_comes_and_standard_output_is_exactly_the_result(ferrule: Command, where: str) -> None:
    """P9: the last lines stand on standard error while the call runs, and are gone with it."""
    (ferrule.folder / "tools" / "own.py").write_text(STREAMS)
    words = ferrule.arguments("call", "tell_slowly", json.dumps({"gate": str(ferrule.folder / "gate")}))
    variables = {**ferrule.environment, "TERM": "linux"}
    with Terminal(["sh", "-c", shlex.join(words) + where], ferrule.workspace, variables) as terminal:
        terminal.wait("tell_slowly")
        terminal.wait("second")
        assert "    first line" in terminal.text
        (ferrule.folder / "gate").touch()
        assert terminal.ended() == 0
        shown = terminal.text
    if where:
        assert (shown, (ferrule.workspace / "out").read_text()) == ("", "first \x1b[2Jline\nsecond line\n")
    else:
        assert shown.splitlines() == ["first \\x1b[2Jline", "second line"]


def test_in_a_pipe_output_comes_when_it_is_whole(ferrule: Command) -> None:
    (ferrule.folder / "tools" / "own.py").write_text(STREAMS)
    (ferrule.folder / "gate").touch()
    done = ferrule("call", "tell_slowly", json.dumps({"gate": str(ferrule.folder / "gate")}))
    assert (done.out, done.err) == ("first \x1b[2Jline\nsecond line\n", "")


def test_a_person_who_wants_no_escape_codes_gets_none(ferrule: Command) -> None:
    add(ferrule)
    with at(ferrule, *WORKS, NO_COLOR="1") as terminal:
        assert terminal.ended() == 0
        assert (b"\x1b" in terminal.written, terminal.text) == (False, "done")


def test_in_a_pipe_there_is_the_result_alone(ferrule: Command) -> None:
    add(ferrule)
    done = ferrule(*WORKS)
    assert (done.code, done.out, done.err) == (0, "done\n", "")


def test_a_run_shows_it_above_the_line_that_stays(ferrule: Command) -> None:
    add(ferrule, "peer", "gated")
    script = ferrule.folder / "script.json"
    asked = {"text": "", "calls": [{"name": "mcp__peer__progress", "arguments": {}}]}
    script.write_text(json.dumps([asked, "All done."]))
    with at(ferrule, "run", "go", "--model", f"scripted:{script}", "--allow", "mcp__peer") as terminal:
        terminal.wait("2/3 step 2")
        (ferrule.folder / "notes.go").touch()
        assert terminal.ended() == 0
        call, answer = terminal.text.splitlines()
        assert (call[:1], call[-6:], answer) == ("✓", ": done", "All done.")


def test_calls_that_others_make_have_no_row_and_the_latest_news_is_shown() -> None:
    screen = LiveScreen(io.StringIO(), size=lambda: os.terminal_size((60, 20)))
    screen.paint = Paint(False)
    status = CallStatus(Tools(Registry()), now=lambda: 5.0)
    for name in ("a", "b"):
        status.begin(CallAsked(RawCall("Read", {"file_path": name}, id=name), ""))
    assert status.rows(screen) == []
    for name in ("a", "b", "inner"):
        status.hear(Progress(name, "Read", 1, 2, f"in {name}"))
    assert "Read b… 1/2 in b" in status.rows(screen)[0]
    status.hear(Done("b", "Read", ToolResult("b", "Read", True, "", "")))
    assert status.rows(screen) == []
