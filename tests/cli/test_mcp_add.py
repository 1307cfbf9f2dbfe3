"""`ferrule mcp add`."""

from __future__ import annotations

import json
import tomllib

from .conftest import Command
from .mcp_peer import add


def servers(ferrule: Command) -> dict[str, object]:
    return tomllib.loads(ferrule.settings.read_text()).get("mcp_servers", {})


def test_a_command_with_its_arguments_is_added(ferrule: Command) -> None:
    done = ferrule(
        "mcp", "add", "files", "--env", "TOKEN=${MY_TOKEN}", "--timeout", "9", "npx", "-y", "server", "--flag"
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == f"files is now in {ferrule.settings}. See what it offers: ferrule mcp test files\n"
    assert servers(ferrule) == {
        "files": {"command": "npx", "args": ["-y", "server", "--flag"], "env": {"TOKEN": "${MY_TOKEN}"}, "timeout": 9.0}
    }


def test_what_follows_the_command_is_the_servers_own_even_where_an_option_of_ours_has_its_name(
    ferrule: Command,
) -> None:
    for marked in ([], ["--"]):
        done = ferrule("mcp", "add", "-e", "A=b", "x", "--timeout=9", *marked, "run-it", "--timeout", "5", "-e", "B=c")
        assert done.code == 0, done.err
        args = ["--timeout", "5", "-e", "B=c"]
        assert servers(ferrule) == {"x": {"command": "run-it", "args": args, "env": {"A": "b"}, "timeout": 9.0}}
        assert ferrule("mcp", "remove", "x").code == 0


def test_an_option_that_there_is_not_is_no_command(ferrule: Command) -> None:
    for arguments in (["x", "--user", "--", "run-it"], ["--scope", "user", "x", "run-it"], ["x", "--user"]):
        done = ferrule("mcp", "add", *arguments)
        assert (done.code, done.out) == (2, "")
        assert "No such option" in done.err
    assert not servers(ferrule)


def test_an_address_is_added_with_its_headers(ferrule: Command) -> None:
    done = ferrule("mcp", "add", "web", "https://example.org/mcp", "--header", "Authorization=Bearer ${TOKEN}")
    assert done.code == 0
    assert servers(ferrule) == {
        "web": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    }


def test_a_secret_that_is_written_out_is_warned_of_and_not_repeated(ferrule: Command) -> None:
    done = ferrule("mcp", "add", "x", "--env", "API_TOKEN=hunter2hunter2", "run-it")
    assert done.code == 0
    assert "API_TOKEN='${API_TOKEN}'" in done.err
    assert "hunter2" not in done.out + done.err


def test_what_does_not_go_together_is_said(ferrule: Command) -> None:
    before = ferrule.settings.read_text()
    for arguments in (
        ["web", "https://example.org", "--env", "A=b"],
        ["web", "https://example.org", "more"],
        ["files", "--header", "A=b", "npx"],
        ["files", "--env", "A", "npx"],
        ["files", "--timeout", "0", "npx"],
        ["files", ""],
    ):
        done = ferrule("mcp", "add", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
    assert ferrule.settings.read_text() == before


def test_a_projects_server_is_shared_and_trusted_by_whoever_added_it(ferrule: Command) -> None:
    assert add(ferrule, "shared", "good", "--project").code == 0
    written = json.loads((ferrule.workspace / ".mcp.json").read_text())
    assert list(written["mcpServers"]) == ["shared"]
    assert [one["trusted"] for one in ferrule("mcp", "list", "--json").json] == [True]


def test_an_address_in_capitals_is_one_too_and_one_that_is_wrong_is_said(ferrule: Command) -> None:
    assert ferrule("mcp", "add", "x", "HTTPS://example.org/mcp").code == 0
    assert ferrule("mcp", "list", "--json").json[0]["url"] == "HTTPS://example.org/mcp"
    wrong = ferrule("mcp", "add", "y", "http://example.org:99999/mcp")
    assert (wrong.code, "is not an address" in wrong.err) == (2, True)


def test_an_option_of_ours_after_the_command_is_warned_of(ferrule: Command) -> None:
    done = ferrule("mcp", "add", "x", "cat", "--env", "A=b")
    assert "--env comes after the command, so it is passed to cat. Put Ferrule's options before the name." in done.err
    assert servers(ferrule) == {"x": {"command": "cat", "args": ["--env", "A=b"]}}
    assert ferrule("mcp", "add", "y", "run-it", "--", "--env").err == ""


def test_a_server_that_is_replaced_is_said_to_be(ferrule: Command) -> None:
    for place in ([], ["--project"]):
        assert ferrule("mcp", "add", *place, "x", "one").err == ""
        assert "x existed already and was replaced." in ferrule("mcp", "add", *place, "x", "two").err


def test_what_has_no_place_is_not_dropped(ferrule: Command) -> None:
    done = ferrule("mcp", "add", "--project", "--timeout", "5", "x", "one")
    assert (done.code, ".mcp.json` cannot store a time limit" in done.err) == (2, True)
    assert ferrule("mcp", "add", "x", "ftp://example.org").code == 2
    assert not servers(ferrule)


def test_a_name_that_tools_cannot_have_is_said_as_they_have_it(ferrule: Command) -> None:
    done = ferrule("mcp", "add", "my server", "run-it")
    assert "Its tools are named with my_server-" in done.err
    assert done.out.endswith("ferrule mcp test 'my server'\n")
