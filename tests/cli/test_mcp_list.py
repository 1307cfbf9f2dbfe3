"""`ferrule mcp list`."""

from __future__ import annotations

from .conftest import Command
from .mcp_peer import TOOLS, add, started, write_json


def test_every_server_is_listed_with_its_state_and_none_is_started(ferrule: Command) -> None:
    assert "There are no servers" in ferrule("mcp", "list").err
    add(ferrule, "mine")
    write_json(ferrule)
    done = ferrule("mcp", "list")
    lines = done.out.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "SOURCE", "COMMAND"]
    assert "no answer yet" in lines[1]
    assert "not trusted yet" in lines[2]
    assert lines[-1].endswith("ferrule mcp trust theirs")
    assert started(ferrule) == 0
    ferrule("mcp", "test", "mine")
    assert f"{TOOLS} tools" in ferrule("mcp", "list").out


def test_the_command_that_trusts_can_be_copied_whatever_the_server_is_called(ferrule: Command) -> None:
    write_json(ferrule, "my server; rm -rf x")
    quoted = "ferrule mcp trust 'my server; rm -rf x'"
    assert ferrule("mcp", "list").out.endswith(f"{quoted}\n")
    assert quoted in ferrule("tools").err
    assert quoted in ferrule("mcp", "test", "my server; rm -rf x").err


def test_values_are_never_listed(ferrule: Command) -> None:
    ferrule("mcp", "add", "x", "--env", "A_VALUE=hunter2hunter2", "run-it")
    ferrule("mcp", "add", "y", "https://example.org", "--header", "X-Value=hunter2hunter2")
    table, document = ferrule("mcp", "list"), ferrule("mcp", "list", "--json")
    assert "hunter2" not in table.out + document.out
    assert [(one["env"], one["headers"]) for one in document.json] == [(["A_VALUE"], []), ([], ["X-Value"])]


def test_a_file_that_cannot_be_read_is_said(ferrule: Command) -> None:
    (ferrule.workspace / ".mcp.json").write_text("{")
    assert "is not valid JSON" in ferrule("mcp", "list").err
