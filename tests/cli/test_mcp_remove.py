"""`ferrule mcp remove`."""

from __future__ import annotations

import json

from .conftest import Command
from .mcp_peer import add, write_json


def test_a_server_is_removed_from_the_file_that_names_it(ferrule: Command) -> None:
    before = ferrule.settings.read_text()
    add(ferrule, "mine")
    write_json(ferrule)
    ferrule("mcp", "test", "mine")
    done = ferrule("mcp", "remove", "mine")
    assert (done.code, done.out) == (0, f"mine was removed from {ferrule.settings}.\n")
    assert ferrule.settings.read_text().strip() == before.strip()
    assert ferrule("mcp", "remove", "theirs").code == 0
    assert json.loads((ferrule.workspace / ".mcp.json").read_text()) == {"mcpServers": {}}
    assert list((ferrule.folder / "data" / "mcp" / "definitions").iterdir()) == []


def test_one_that_is_removed_is_not_trusted_any_more(ferrule: Command) -> None:
    """R5: a workspace that brings it back under the same name asks again."""
    before = ferrule.settings.read_text()
    write_json(ferrule)
    ferrule("mcp", "trust", "theirs")
    ferrule("mcp", "remove", "theirs")
    assert ferrule.settings.read_text().strip() == before.strip()
    write_json(ferrule)
    assert [one["trusted"] for one in ferrule("mcp", "list", "--json").json] == [False]
    assert json.loads((ferrule.folder / "data" / "mcp" / "trusted.json").read_text()) == {}


def test_a_name_that_nobody_has_is_said(ferrule: Command) -> None:
    add(ferrule, "github")
    done = ferrule("mcp", "remove", "gihtub")
    assert (done.code, done.out) == (2, "")
    assert "There is no server `gihtub`. Did you mean `github`?" in done.err
