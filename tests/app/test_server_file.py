"""Servers put into files and taken out, with all else left as it was."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from ferrule.app.server_files import ServerFile, ServerJson
from ferrule.app.settings import SettingsError

BEFORE = '# mine\nlang = "en"  # of course\n\n[limits]\ntimeout = 30\n'


def test_a_server_is_added_and_removed_and_comments_stay(tmp_path: Path) -> None:
    file = tmp_path / "ferrule.toml"
    file.write_text(BEFORE)
    settings = ServerFile(file)
    settings.add("a", {"command": "x", "args": ["--b"], "env": {"C": "${D}"}})
    settings.add("odd name", {"url": "https://example.org"})
    settings.add("a", {"command": "y"})
    assert tomllib.loads(file.read_text())["mcp_servers"] == {
        "a": {"command": "y"},
        "odd name": {"url": "https://example.org"},
    }
    assert file.read_text().startswith(BEFORE)
    assert settings.remove("a")
    assert settings.remove("odd name")
    assert not settings.remove("a")
    assert tomllib.loads(file.read_text()) == tomllib.loads(BEFORE)


@pytest.mark.parametrize("before", ["", BEFORE, "[limits]\ntimeout = 30\n", "trusted_mcp_servers = []\n"])
def test_trust_is_written_once_wherever_it_can_be(tmp_path: Path, before: str) -> None:
    file = tmp_path / "ferrule.toml"
    file.write_text(before)
    for word in ("one", "two", "one"):
        ServerFile(file).trust(word)
    assert tomllib.loads(file.read_text()) == {**tomllib.loads(before), "trusted_mcp_servers": ["one", "two"]}
    assert "# of course" in file.read_text() or before != BEFORE


def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "ferrule.toml"
    file.write_text("[broken")
    for change in (lambda: ServerFile(file).add("a", {}), lambda: ServerFile(file).trust("x")):
        with pytest.raises(SettingsError, match="Nothing was changed"):
            change()
    assert file.read_text() == "[broken"


def test_json_keeps_what_others_wrote(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text('{"inputs": [1], "mcpServers": {"a": {"command": "x", "alwaysAllow": ["y"]}}}')
    ServerJson(file).add("b", {"command": "z"})
    assert ServerJson(file).remove("missing") is False
    assert json.loads(file.read_text()) == {
        "inputs": [1],
        "mcpServers": {"a": {"command": "x", "alwaysAllow": ["y"]}, "b": {"command": "z"}},
    }
    assert ServerJson(file).remove("b")
    for text in ("{", "[]", '{"mcpServers": []}'):
        file.write_text(text)
        with pytest.raises(SettingsError, match="Nothing was changed"):
            ServerJson(file).add("c", {})
        assert file.read_text() == text


def test_a_link_in_a_workspace_never_changes_a_file_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "settings.json"
    elsewhere.write_text('{"mcpServers": {"mine": {"command": "x"}}}')
    workspace = tmp_path / "workspace"
    (workspace / "sub").mkdir(parents=True)
    (workspace / ".mcp.json").symlink_to("../settings.json")
    before = elsewhere.read_text()
    for change in (
        lambda: ServerJson(workspace / ".mcp.json").add("evil", {"command": "y"}),
        lambda: ServerJson(workspace / ".mcp.json").remove("mine"),
    ):
        with pytest.raises(SettingsError, match="is a link that leads out"):
            change()
    assert elsewhere.read_text() == before
    (workspace / ".mcp.json").unlink()
    (workspace / ".mcp.json").symlink_to("sub/servers.json")
    ServerJson(workspace / ".mcp.json").add("mine", {"command": "x"})
    assert json.loads((workspace / "sub" / "servers.json").read_text())["mcpServers"] == {"mine": {"command": "x"}}


def test_who_may_read_a_workspaces_file_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text("{}")
    file.chmod(0o600)
    ServerJson(file).add("mine", {"command": "x"})
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_persons_word_is_taken_back_and_all_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "ferrule.toml"
    before = "# mine\n[limits]\ntimeout = 5  # short\n"
    path.write_text(before)
    file = ServerFile(path)
    assert not file.distrust({"a"})
    assert path.read_text() == before
    for one in ("a", "b", "c"):
        file.trust(one)
    assert file.distrust({"a", "c", "nobody"})
    assert tomllib.loads(path.read_text())["trusted_mcp_servers"] == ["b"]
    assert file.distrust({"b"})
    assert tomllib.loads(path.read_text()) == {"limits": {"timeout": 5}}
    assert "# mine" in path.read_text()
    assert "# short" in path.read_text()
