"""Servers in `ferrule tools`: asked when nobody knows their tools yet, and only then."""

from __future__ import annotations

import pytest
from tests.mcp_client.peers import alive

from .conftest import Command
from .mcp_peer import add, started


def test_tools_of_servers_are_listed_and_the_next_time_at_once(ferrule: Command) -> None:
    add(ferrule, "peer")
    assert "mcp__peer__echo" in ferrule("tools").out
    assert started(ferrule) == 1
    assert "mcp__peer__echo" in ferrule("tools").out
    assert started(ferrule) == 1
    document = next(one for one in ferrule("tools", "--json").json if one["name"] == "mcp__peer__add")
    assert (document["kind"], document["origin"], document["read_only"]) == ("execute", "mcp", False)


def test_one_that_fails_is_said_and_the_others_are_listed(ferrule: Command) -> None:
    add(ferrule, "bad", "exit")
    done = ferrule("tools", "save_note")
    assert done.code == 0
    assert "The MCP server bad cannot be used: it ended with exit code 3." in done.err


@pytest.mark.slow
def test_a_mute_server_keeps_nobody_from_seeing_the_other_tools(ferrule: Command) -> None:
    """P6: it may take 30 s to start, and a list does not wait for that."""
    add(ferrule, "mute", "silent")
    add(ferrule, "peer")
    done = ferrule("tools")
    assert done.code == 0
    assert "mcp__peer__echo" in done.out
    assert done.err == (
        "Warning: The MCP server mute had not answered after 5 s, so its tools are not shown. "
        "To wait longer: ferrule mcp test mute\n"
    )
    pids = [int(line.split()[1]) for line in (ferrule.folder / "notes").read_text().splitlines() if "started" in line]
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)


@pytest.mark.slow
def test_a_call_waits_for_as_long_as_its_server_may_take(ferrule: Command) -> None:
    """More than the seconds that a list waits, which is what this one is set to."""
    add(ferrule, "slow", "starts-late")
    done = ferrule("call", "mcp__slow__echo", '{"text": "here"}', "--allow", "mcp__slow")
    assert (done.code, done.out) == (0, "here\n")


def test_a_call_of_a_server_that_does_not_start_says_why(ferrule: Command) -> None:
    add(ferrule, "bad", "exit")
    add(ferrule, "other")
    done = ferrule("call", "mcp__bad__echo", "{}")
    assert done.code == 1
    assert "The MCP server bad cannot be used: it ended with exit code 3." in done.err
    assert started(ferrule) == 1
