"""A server that does not answer is no silence: at a terminal it is said who is waited for, and Ctrl-C ends that."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest
from tests.mcp_client.peers import alive

from .conftest import Command
from .mcp_peer import PATIENT, add, told
from .terminal import CTRL_C, Terminal

ECHO = ("call", "mcp__peer__echo", '{"text": "hello"}', "--allow", "mcp__peer")

ROW = "Waiting for `peer` to start ("


def mute(ferrule: Command, *, start_timeout: float = 30, name: str = "peer") -> None:
    add(ferrule, name, "silent")
    with ferrule.settings.open("a") as file:
        file.write(f"start_timeout = {start_timeout}\n")


def known_and_mute(ferrule: Command) -> None:
    """Its tools are known from last time, so that the call itself has to wait for it."""
    add(ferrule)
    assert ferrule("tools").code == 0
    (kept,) = (ferrule.folder / "data" / "mcp" / "definitions").iterdir()
    found = json.loads(kept.read_text())
    (ferrule.folder / "notes").unlink()
    mute(ferrule)
    fingerprint = _fingerprint(ferrule)
    kept.with_name(f"peer-{fingerprint[:12]}.json").write_text(json.dumps({**found, "fingerprint": fingerprint}))


def _fingerprint(ferrule: Command) -> str:
    from ferrule.mcp_client.server_config import from_json

    (one,) = ferrule("mcp", "list", "--json").json
    return from_json("peer", {"command": one["command"][0], "args": one["command"][1:]}).fingerprint


def started_pid(ferrule: Command) -> int:
    return int((ferrule.folder / "notes").read_text().split()[1])


def at(ferrule: Command, *arguments: str, **environment: str) -> Terminal:
    variables = {**ferrule.environment, "TERM": "linux", **environment}
    return Terminal(ferrule.arguments(*arguments), ferrule.workspace, variables)


@pytest.mark.parametrize("arguments", [("mcp", "test", "peer"), ("tools",), ECHO], ids=["mcp test", "tools", "call"])
def test_whoever_waits_is_told_and_ctrl_c_ends_it_with_nothing_left(
    ferrule: Command, arguments: tuple[str, ...]
) -> None:
    """P6."""
    mute(ferrule)
    with at(ferrule, *arguments) as terminal:
        terminal.wait(ROW)
        before = terminal.text
        terminal.wait(lambda: ROW in terminal.text and terminal.text != before)
        assert terminal.text.count("Waiting") == 1, "it is one row, not one for each second"
        terminal.press(CTRL_C)
        assert terminal.ended() == 130
        assert terminal.text.strip() in ("", "^C")
    assert not alive(started_pid(ferrule))


def test_a_call_that_starts_its_server_itself_says_so_too(ferrule: Command) -> None:
    known_and_mute(ferrule)
    with at(ferrule, *ECHO) as terminal:
        terminal.wait(ROW)
        terminal.press(CTRL_C)
        assert terminal.ended() == 130
        assert "Waiting" not in terminal.text
    assert not alive(started_pid(ferrule))


@pytest.mark.slow
def test_a_run_says_so_before_its_turn(ferrule: Command) -> None:
    mute(ferrule)
    script = ferrule.folder / "script.json"
    script.write_text('["It answered."]')
    with at(ferrule, "run", "go", "--model", f"scripted:{script}") as terminal:
        terminal.wait(ROW)
        assert terminal.ended() == 0
        _, _, after = terminal.written.partition(b"has not answered yet")
        assert after
        assert b"Waiting" not in after, "the turn goes on without it: Ctrl-C would end the turn, and not a wait"
        assert "Waiting" not in terminal.text
        assert terminal.text.splitlines()[-1] == "It answered."
    assert not alive(started_pid(ferrule))


def test_many_of_them_do_not_push_the_way_out_off_the_row(ferrule: Command) -> None:
    for number in range(1, 8):
        mute(ferrule, name=f"peer{number}", start_timeout=60)
    with at(ferrule, "tools") as terminal:
        terminal.wait("Waiting for `peer1`, `peer2` and 5 more to start (")
        assert "s; Ctrl-C ends it)…" in terminal.text
        terminal.press(CTRL_C)
        assert terminal.ended() == 130


@pytest.mark.slow
def test_the_row_is_gone_when_the_server_was_given_up(ferrule: Command) -> None:
    mute(ferrule, start_timeout=3)
    with at(ferrule, "mcp", "test", "peer") as terminal:
        terminal.wait("Waiting for `peer`")
        assert terminal.ended() == 1
        assert terminal.text == "The MCP server peer cannot be used: it did not answer within 3 s."


@pytest.mark.slow
def test_the_result_alone_is_on_standard_output_whatever_the_terminal_shows(ferrule: Command) -> None:
    mute(ferrule, start_timeout=3)
    out = ferrule.folder / "out"
    command = 'exec "$0" "$@" > ' + str(out)
    arguments = ["sh", "-c", command, *ferrule.arguments("mcp", "test", "peer", "--json")]
    with Terminal(arguments, ferrule.workspace, {**ferrule.environment, "TERM": "linux"}) as terminal:
        terminal.wait("Waiting for `peer`")
        assert terminal.ended() == 1
        assert terminal.text == ""
    assert json.loads(out.read_text())["problem"] == "it did not answer within 3 s"


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_escape_codes_is_told_once(ferrule: Command, environment: dict[str, str]) -> None:
    mute(ferrule, start_timeout=3)
    with at(ferrule, "mcp", "test", "peer", **environment) as terminal:
        assert terminal.ended() == 1
        assert b"\x1b" not in terminal.written
        assert terminal.text.splitlines() == [
            "Waiting for `peer` to start…",
            "The MCP server peer cannot be used: it did not answer within 3 s.",
        ]


def test_in_a_pipe_nothing_is_said_of_it(ferrule: Command) -> None:
    mute(ferrule, start_timeout=3)
    done = ferrule("mcp", "test", "peer")
    assert (done.code, done.out) == (1, "")
    assert done.err == "The MCP server peer cannot be used: it did not answer within 3 s.\n"


@pytest.mark.slow
def test_it_is_said_in_chinese_too(ferrule: Command) -> None:
    mute(ferrule, start_timeout=3)
    with at(ferrule, "--lang", "zh", "mcp", "test", "peer") as terminal:
        terminal.wait("正在等待 `peer` 启动")
        assert terminal.ended() == 1


@pytest.mark.slow
def test_sigkill_leaves_no_server_either(ferrule: Command) -> None:
    notes = ferrule.folder / "notes"
    os.mkfifo(notes)
    mute(ferrule)
    command = [sys.executable, PATIENT, "tools"]
    with subprocess.Popen(command, cwd=ferrule.workspace, env=ferrule.environment) as program:
        server = int(told(notes, program).split()[1])
        program.kill()
    while alive(server):  # its keeper ends it; where it does not, the test never ends
        os.sched_yield()


def test_an_address_that_accepts_and_never_answers_is_waited_for_and_left_in_the_same_way(ferrule: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute_address:
        ferrule("mcp", "add", "peer", f"http://127.0.0.1:{mute_address.getsockname()[1]}/mcp")
        with at(ferrule, "mcp", "test", "peer") as terminal:
            terminal.wait(ROW)
            terminal.press(CTRL_C)
            assert terminal.ended() == 130
            assert terminal.text.strip() in ("", "^C")
