"""Servers in `ferrule tools`: asked when nobody knows their tools yet, and only then."""

from __future__ import annotations

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


def test_a_call_of_a_server_that_does_not_start_says_why(ferrule: Command) -> None:
    add(ferrule, "bad", "exit")
    add(ferrule, "other")
    done = ferrule("call", "mcp__bad__echo", "{}")
    assert done.code == 1
    assert "The MCP server bad cannot be used: it ended with exit code 3." in done.err
    assert started(ferrule) == 1
