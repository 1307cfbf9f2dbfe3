"""The top of the command line: what is wrong is said in one line."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING

import click
import pytest

from ferrule.cli.main import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Command


def test_a_near_miss_is_suggested(ferrule: Command) -> None:
    done = ferrule("tols")
    assert done.code == 2
    assert "There is no command `tols`. Did you mean `tools`?" in done.err


def test_something_else_is_sent_to_the_help(ferrule: Command) -> None:
    assert "There is no command `xyzzy`. See `ferrule --help`." in ferrule("xyzzy").err


def test_wrong_settings_end_with_2_and_name_file_and_key(ferrule: Command) -> None:
    ferrule.settings.write_text("[limits]\ntimout = 5\n")
    done = ferrule("tools")
    assert (done.code, done.out) == (2, "")
    assert done.err == (f"Error: {ferrule.settings}: there is no setting `limits.timout`. Did you mean `timeout`?\n")


def test_a_group_sends_to_its_own_help(ferrule: Command) -> None:
    assert "There is no command `xyzzy`. See `ferrule mcp --help`." in ferrule("mcp", "xyzzy").err


@pytest.mark.parametrize("command", [("tools",), ("audit", "verify"), ("mcp", "list")])
def test_the_language_may_be_said_after_the_command_too(ferrule: Command, command: tuple[str, ...]) -> None:
    ferrule("call", "getCurrentDirectory")
    before, after = ferrule("--lang", "zh", *command), ferrule(*command, "--lang", "zh")
    assert (after.code, after.out, after.err) == (before.code, before.out, before.err)
    assert after.code == 0


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Every command and group as it is typed."""

    def below(command: click.Command, typed: str) -> Iterator[tuple[str, click.Command]]:
        yield typed, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from below(inner, f"{typed} {name}")

    for name, (module, _summary) in COMMANDS.items():
        yield from below(getattr(import_module(f"ferrule.cli.{module}"), f"{name}_command"), name)


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


EVERY = dict(every_command())


def test_every_group_of_things_has_a_list() -> None:
    """`serve` is no group of things: it starts the service, and `serve migrate` prepares its database."""
    groups = {name for name, command in EVERY.items() if isinstance(command, click.Group)}
    assert {name for name in groups if f"{name} list" not in EVERY} == {"serve"}
    assert {
        name for name in groups - {"serve", "completion"} if "--json" not in options_of(EVERY[f"{name} list"])
    } == set()


def test_what_asks_takes_yes() -> None:
    asking = {"call", "chat", "run", "draft accept", "draft new", "market add"}
    asking |= {f"plugin {name}" for name in ("enable", "install", "update")}
    assert {name for name, command in EVERY.items() if "--yes" in options_of(command)} == asking


def test_a_chat_with_yes_runs_a_call_that_asks(ferrule: Command) -> None:
    script = ferrule.folder / "script.json"
    script.write_text(json.dumps([{"calls": [{"name": "save_note", "arguments": {"text": "x"}}]}, "Done."]))
    for more, words in (([], "`save_note` was not run"), (["--yes"], "saved x")):
        done = ferrule.process("chat", "--plain", "--model", f"scripted:{script}", *more, stdin="go on\n")
        assert done.code == 0
        assert words in done.out


@pytest.mark.parametrize("group", ["rules", "shells"])
def test_a_group_that_lists_by_itself_takes_the_options_of_its_list(ferrule: Command, group: str) -> None:
    listed = ferrule(group, "list", "--json", "--workspace", ".")
    assert (listed.code, listed.err) == (0, "")
    assert ferrule(group, "--json", "--workspace", ".") == listed
    assert "list" in ferrule(group, "--help").out


def test_completion_is_listed_for_each_shell(ferrule: Command) -> None:
    assert ferrule("completion", "install", "fish", HOME=str(ferrule.folder)).code == 0
    rows = ferrule("completion", "list", HOME=str(ferrule.folder)).out.splitlines()
    script = ferrule.folder / ".config/fish/completions/ferrule.fish"
    assert [row.split() for row in rows] == [
        ["SHELL", "INSTALLED"],
        ["bash", "no"],
        ["zsh", "no"],
        ["fish", str(script)],
    ]
