"""What is known of a server before it is started."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ferrule.mcp_client.server_config import ConfigProblem, ServerConfig, from_json, read_mcp_json


def test_the_form_of_other_agents_is_read(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    servers = {
        "files": {"command": "npx", "args": ["-y", "server"], "env": {"A": "${B}"}, "cwd": "sub", "alwaysAllow": ["x"]},
        "web": {"type": "http", "url": "https://example.org/mcp", "headers": {"X-Key": "${KEY}"}},
        "off": {"command": "x", "disabled": True},
    }
    file.write_text(json.dumps({"mcpServers": servers, "other": 1}))
    found = read_mcp_json(file, scope="/work")
    assert found.problems == []
    files, web, off = found.servers
    assert (files.command, files.env, files.folder, files.scope) == (
        ("npx", "-y", "server"),
        {"A": "${B}"},
        "sub",
        "/work",
    )
    assert (web.url, web.headers) == ("https://example.org/mcp", {"X-Key": "${KEY}"})
    assert (files.enabled, off.enabled) == (True, False)


def test_a_program_may_give_the_arguments_as_a_tuple() -> None:
    assert from_json("notes", {"command": "uvx", "args": ("mcp-server-notes", "-v")}).command == (
        "uvx",
        "mcp-server-notes",
        "-v",
    )
    with pytest.raises(ConfigProblem, match="must be a list of text"):
        from_json("notes", {"command": "uvx", "args": ("a", 1)})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ([], "`x` is not an object"),
        ({}, "neither `command` nor `url`"),
        ({"command": "a", "url": "http://b"}, "both `command` and `url`"),
        ({"command": 5}, "`command` must be text"),
        ({"command": "a", "args": "b"}, "`args` must be a list of text"),
        ({"command": "a", "env": {"B": 1}}, "every value of `env` must be text"),
        ({"command": "a", "env": []}, None),
        ({"command": "a", "env": ["b"]}, "`env` must be an object of text"),
        ({"command": " "}, "`command` names no program"),
        ({"url": "ftp://example.org"}, "must start with http:// or https://"),
        ({"type": "sse", "url": "https://example.org/sse"}, "old SSE transport"),
    ],
)
def test_what_cannot_work_is_said(table: object, said: str | None) -> None:
    if said is None:
        assert from_json("x", table).env == {}
        return
    with pytest.raises(ConfigProblem, match=said):
        from_json("x", table)


def test_one_wrong_server_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"bad": {}, "good": {"command": "x"}}}')
    found = read_mcp_json(file)
    assert [one.name for one in found.servers] == ["good"]
    assert found.problems == [f"{file}: `bad` has neither `command` nor `url`; a server is a program or an address."]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"mcpServers": []}', "[" * 100_000])
def test_a_file_that_is_none_is_said(tmp_path: Path, text: str) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text(text)
    found = read_mcp_json(file)
    assert (found.servers, len(found.problems)) == ([], 1)
    assert read_mcp_json(tmp_path / "missing").problems == []


@pytest.mark.parametrize("made", [lambda file: file.symlink_to("/dev/zero"), lambda file: os.mkfifo(file)])
def test_a_file_that_is_a_device_or_a_pipe_holds_nothing_up(tmp_path: Path, made: Callable[[Path], None]) -> None:
    made(tmp_path / ".mcp.json")
    assert read_mcp_json(tmp_path / ".mcp.json").problems == [
        f"{tmp_path}/.mcp.json could not be read: it is not a regular file."
    ]


def test_a_fingerprint_changes_with_whatever_decides_what_runs() -> None:
    one = ServerConfig("x", ("a", "b"), env={"C": "d"})
    others = [
        replace(one, command=("a", "c")), replace(one, env={"C": "e"}), replace(one, folder="sub"),
        replace(one, scope="/work"), replace(one, name="y"), ServerConfig("x", url="https://a"),
        ServerConfig("x", url="https://a", headers={"H": "1"}),
    ]  # fmt: skip
    assert len({one.fingerprint, *(other.fingerprint for other in others)}) == len(others) + 1
    assert replace(one, timeout=5, enabled=False).fingerprint == one.fingerprint


def test_what_is_shown_has_nothing_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    assert ServerConfig("x", ("run it", "--token=${TOKEN}")).shown == "'run it' '--token=${TOKEN}'"
    assert ServerConfig("x", url="https://a/${TOKEN}").shown == "https://a/${TOKEN}"


def test_time_limits_are_above_nothing() -> None:
    with pytest.raises(ConfigProblem, match="`timeout` is a number of seconds above 0"):
        ServerConfig("x", ("a",), timeout=0)
    with pytest.raises(ConfigProblem, match="`start_timeout`"):
        ServerConfig("x", ("a",), start_timeout=float("inf"))
    with pytest.raises(ConfigProblem, match="needs a name"):
        ServerConfig(" ", ("a",))


def test_a_secret_in_ones_own_command_is_not_shown_and_a_workspaces_command_is_shown_exactly() -> None:
    url = "https://ann:hunter2@example.org/mcp?token=${TOKEN}"
    assert ServerConfig("x", url=url).shown == "https://ann:[redacted]@example.org/mcp?token=${TOKEN}"
    assert ServerConfig("x", url=url, scope="/work").shown == url
    assert ServerConfig("x", ("run", "--api-key", "hunter2hunter2")).shown == "run --api-key [redacted]"


@pytest.mark.parametrize(
    "url", ["http://", "http://:80/mcp", "https://[::1", "http://a:99999", "http://a:b/mcp", "http://a:0"]
)
def test_an_address_that_is_none_is_said_when_it_is_added(url: str) -> None:
    with pytest.raises(ConfigProblem, match="`x`: `url` is not an address: "):
        ServerConfig("x", url=url)


@pytest.mark.parametrize(
    "url", ["HTTP://localhost/mcp", "http://[::1]:80/mcp", "https://${HOST}:${PORT}/mcp", "${URL}"]
)
def test_other_addresses_are_taken(url: str) -> None:
    assert ServerConfig("x", url=url).url == url


def test_a_password_that_spoils_an_address_is_not_told() -> None:
    with pytest.raises(ConfigProblem) as raised:
        ServerConfig("x", url="https://ann:hunter2/x@example.org/mcp")
    assert "hunter2" not in str(raised.value)
