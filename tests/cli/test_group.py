"""The top of the command line: what is wrong is said in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
