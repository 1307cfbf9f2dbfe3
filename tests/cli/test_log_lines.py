"""What is logged cannot drive a terminal either, and is said once."""

from __future__ import annotations

import logging

import pytest
from tests.needs import slow

from ferrule.cli.output import log_lines_held, show_log_lines

from .conftest import Command
from .mcp_peer import add
from .test_call import at_a_terminal

STEERING = ("\x1b[31mred", "\x9b2J", "\u202e")


@pytest.mark.parametrize("command", [["tools"], slow(["mcp", "test", "peer"]), slow(["mcp", "test", "peer", "--json"])])
def test_what_a_server_names_its_tools_does_not_steer_the_terminal(ferrule: Command, command: list[str]) -> None:
    add(ferrule, "peer", "steers")
    seen, _ = at_a_terminal(ferrule, command, "")
    assert not any(one in seen for one in STEERING)
    assert "is left out: its schema refers to https://example.org/" in seen


def test_in_a_pipe_a_line_of_the_log_is_what_it_was(ferrule: Command) -> None:
    add(ferrule, "peer", "steers")
    said = ferrule.process("tools").err
    assert all(one in said for one in STEERING)


def test_what_is_left_out_is_said_once_by_the_test_of_a_server(ferrule: Command) -> None:
    add(ferrule, "peer", "steers")
    done = ferrule.process("mcp", "test", "peer")
    assert done.code == 0
    assert done.err.count("is left out") == 1


def test_what_is_logged_during_a_question_is_shown_after_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "lastResort", None)
    show_log_lines()
    logger = logging.getLogger("ferrule.test_log_lines")
    logger.propagate = False  # as where no handler was set up
    with log_lines_held():
        with log_lines_held():
            logger.warning("inside")
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err == "inside\n"
    logger.warning("after")
    assert capsys.readouterr().err == "after\n"
