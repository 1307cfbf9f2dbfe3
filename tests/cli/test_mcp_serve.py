"""`ferrule mcp serve`: which tools it shows, and what it says of wrong options."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from mcp import Client, StdioServerParameters, types
from tests.mcp_server.serving import text_of

from .terminal import CTRL_C, Terminal

if TYPE_CHECKING:
    from .conftest import Command


def served(ferrule: Command, *options: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "ferrule", "mcp", "serve", *options],
        env=ferrule.environment,
        cwd=ferrule.workspace,
    )


async def names(ferrule: Command, *options: str) -> list[str]:
    async with Client(served(ferrule, *options)) as client:
        return [one.name for one in (await client.list_tools()).tools]


async def test_only_the_tools_that_were_named_are_served(ferrule: Command) -> None:
    assert await names(ferrule, "--tools", "Read,Gr*", "--tools", "echo_text") == ["Grep", "Read", "echo_text"]
    async with Client(served(ferrule, "--tools", "Read")) as client:
        with pytest.raises(Exception, match="There is no tool `echo_text`"):
            await client.call_tool("echo_text", {"text": "x"})


async def test_of_many_tools_a_client_is_shown_the_built_in_ones_and_finds_the_others(ferrule: Command) -> None:
    """X5."""
    assert {"Read", "echo_text"} < set(await names(ferrule, "--search"))  # they are few
    (ferrule.workspace / "ferrule.toml").write_text("[tools]\nsearch_above = 5\n")
    assert {"Read", "echo_text"} < set(await names(ferrule))
    async with Client(served(ferrule, "--search", "--deny", "launch_rocket")) as client:
        listed = {one.name for one in (await client.list_tools()).tools}
        assert {"Read", "search_tools"} < listed
        assert "echo_text" not in listed
        found = text_of(await client.call_tool("search_tools", {"queries": ["echo", "launch a rocket"]}))
        assert "echo_text" in found
        assert "launch_rocket" not in found
        assert "echo_text" in {one.name for one in (await client.list_tools(cache_mode="refresh")).tools}
        assert text_of(await client.call_tool("echo_text", {"text": "x"})) == "x"


def test_at_a_terminal_it_says_what_it_is_and_what_else_there_is(ferrule: Command) -> None:
    """Whoever types `ferrule mcp` to see what it does is not left before an empty screen."""
    with Terminal(ferrule.arguments("mcp"), ferrule.workspace, {**ferrule.environment, "TERM": "xterm"}) as terminal:
        terminal.wait("Serving MCP on this terminal")
        terminal.press(CTRL_C)
        assert terminal.ended() in (0, 130)  # as it serves already, or not yet
    assert ferrule("mcp").err == ""


async def test_mode_plan_serves_what_reads(ferrule: Command) -> None:
    shown = await names(ferrule, "--mode", "plan")
    assert {"Read", "Grep", "echo_text"} <= set(shown)
    assert not {"Write", "Edit", "Bash", "save_note"} & set(shown)


async def test_rules_on_the_command_line_hold(ferrule: Command) -> None:
    (ferrule.workspace / "notes.txt").write_text("one\n")
    options = ("--allow", "save_note", "--deny", "Read(notes.txt)")
    async with Client(served(ferrule, *options)) as client:
        assert text_of(await client.call_tool("save_note", {"text": "x"})) == "saved x"
        denied = await client.call_tool("Read", {"file_path": "notes.txt"})
        assert denied.is_error
        asked = await client.call_tool("launch_rocket", {"name": "x"})
        assert asked.is_error


async def test_calls_are_on_the_record(ferrule: Command) -> None:
    async with Client(served(ferrule)) as client:
        result = await client.call_tool("echo_text", {"text": "x"})
        assert isinstance(result, types.CallToolResult)
    listed = ferrule("audit", "list", "--json").json
    assert [one["tool"] for one in listed] == ["echo_text"]


def test_a_server_behind_it_that_cannot_be_used_is_said_so_and_the_rest_is_served(ferrule: Command) -> None:
    assert ferrule("mcp", "add", "lost", "no-such-program").code == 0
    done = ferrule("mcp", "serve", input="")
    assert (done.code, done.out) == (0, "")
    assert "The MCP server lost cannot be used: there is no program `no-such-program`." in done.err


def test_a_tool_that_there_is_not_is_said_so(ferrule: Command) -> None:
    """S1: a slip would serve less than was meant, and a client would never hear why."""
    done = ferrule("mcp", "--tools", "Reed")
    assert (done.code, done.out) == (2, "")
    assert done.err == "Error: `--tools`: there is no tool `Reed`; did you mean `Read`?\n"


def test_a_tool_that_may_still_come_is_reported(ferrule: Command) -> None:
    done = ferrule("mcp", "--tools", "xylophone")
    assert (done.code, done.out) == (0, "")  # its input ended at once
    assert "No tool is called `xylophone`" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--http", "127.0.0.1:port"], "'port' is not a port"),
        (["--http", "192.0.2.1:1"], "192.0.2.1:1 cannot be served on"),
    ],
)
def test_an_address_that_cannot_be_served_on_is_said_so(options: list[str], words: str, ferrule: Command) -> None:
    done = ferrule("mcp", "serve", *options)
    assert done.code in (1, 2)
    assert words in done.err


def test_a_token_that_could_be_guessed_is_refused(ferrule: Command) -> None:
    done = ferrule("mcp", "--http", "127.0.0.1:0", FERRULE_MCP_TOKEN="secret")
    assert done.code == 2
    assert "A token has at least 16 characters" in done.err


def test_without_the_sdk_it_says_what_to_install(ferrule: Command) -> None:
    broken = ferrule.folder / "nothing"
    (broken / "mcp").mkdir(parents=True)
    (broken / "mcp" / "__init__.py").write_text("raise ModuleNotFoundError('no mcp', name='mcp')\n")
    path = ferrule.environment.get("PYTHONPATH", "")
    done = ferrule("mcp", PYTHONPATH=f"{broken}:{path}")
    assert done.code == 2
    assert "pip install 'ferrule[mcp]'" in done.err


def test_a_variable_without_a_token_is_not_taken_for_no_need_of_one(ferrule: Command) -> None:
    done = ferrule("mcp", "serve", "--http", "127.0.0.1:0", "--token-variable", "NOT_SET")
    assert (done.code, "The variable NOT_SET holds no token." in done.err) == (2, True)
    done = ferrule("mcp", "serve", "--http", "127.0.0.1:0", FERRULE_MCP_TOKEN="")
    assert (done.code, "The variable FERRULE_MCP_TOKEN holds no token." in done.err) == (2, True)
