"""`ferrule mcp test`."""

from __future__ import annotations

from .conftest import Command
from .mcp_peer import TOOLS, add, started, write_json


def test_what_a_server_offers_is_shown(ferrule: Command) -> None:
    add(ferrule, "peer")
    done = ferrule("mcp", "test", "peer")
    assert done.code == 0
    assert done.out.startswith("peer is plain 1, and speaks 2025-11-25.\n")
    assert "mcp__peer__echo" in done.out
    document = ferrule("mcp", "test", "peer", "--json").json
    assert (document["problem"], document["protocol"], len(document["tools"])) == (None, "2025-11-25", TOOLS)


def test_why_one_fails_is_shown_with_what_it_said(ferrule: Command) -> None:
    add(ferrule, "peer", "exit")
    done = ferrule("mcp", "test", "peer")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines() == [
        "The MCP server peer cannot be used: it ended with exit code 3.",
        "Its standard error:",
        "  no configuration",
    ]


def test_what_one_wrote_instead_of_messages_is_shown(ferrule: Command) -> None:
    """R6."""
    add(ferrule, "peer", "says-usage")
    with ferrule.settings.open("a") as file:
        file.write("start_timeout = 1\n")
    done = ferrule("mcp", "test", "peer")
    assert (done.code, done.out) == (1, "")
    sample = "'Usage: server [OPTIONS]'"
    assert (
        f"it did not answer within 1 s (its output contains something that is not a protocol message: {sample})."
        in done.err
    )


def test_one_that_is_not_trusted_is_not_started(ferrule: Command) -> None:
    write_json(ferrule)
    done = ferrule("mcp", "test", "theirs")
    assert (done.code, done.out) == (2, "")
    assert "theirs is not trusted yet. It would start:" in done.err
    assert started(ferrule) == 0
