"""`ferrule mcp trust`."""

from __future__ import annotations

import json

from .conftest import Command
from .mcp_peer import started, write_json

CALL = ("call", "mcp__theirs__echo", '{"text": "hello"}', "--allow", "mcp__theirs")


def test_a_workspaces_server_starts_once_it_is_trusted(ferrule: Command) -> None:
    write_json(ferrule)
    refused = ferrule(*CALL)
    assert refused.code == 1
    assert "not trusted yet" in refused.err
    assert started(ferrule) == 0
    done = ferrule("mcp", "trust", "theirs")
    assert done.code == 0
    assert done.out.splitlines()[2] == "It receives: TOKEN"
    assert ferrule(*CALL).out == "hello\n"
    assert "trusted_mcp_servers" in ferrule.settings.read_text()


def test_tools_that_changed_are_accepted_as_they_are(ferrule: Command) -> None:
    write_json(ferrule)
    ferrule("mcp", "trust", "theirs")
    ferrule(*CALL)
    approved = ferrule.folder / "data" / "mcp" / "approved.json"
    approved.write_text(approved.read_text().replace('"echo": "', '"echo": "not '))
    changed = ferrule(*CALL)
    assert changed.code == 3
    assert "`ferrule mcp trust theirs`" in changed.err
    ferrule("mcp", "trust", "theirs")
    assert ferrule(*CALL).code == 0


def test_what_a_workspaces_server_would_get_is_said_before_it_is_trusted(ferrule: Command) -> None:
    table = {"command": "git", "cwd": "sub", "env": {"LD_PRELOAD": "./x.so", "KEY": "${MY_KEY}"}}
    (ferrule.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": table}}))
    for said in (
        ferrule("mcp", "list").out,
        ferrule("mcp", "test", "theirs").err,
        ferrule("mcp", "trust", "theirs").out,
    ):
        assert "It starts in: sub" in said
        assert "It receives: KEY, LD_PRELOAD" in said
        assert "It receives your values of: ${MY_KEY}" in said
        assert "x.so" not in said
