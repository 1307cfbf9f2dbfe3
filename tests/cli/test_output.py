"""What a tool gives cannot drive a terminal, and a pipe gets exactly that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.cli.output import shown

from .test_call import at_a_terminal

if TYPE_CHECKING:
    from .conftest import Command

RED = '{"text": "\\u001b[31mred\\u009b\\r\\tend"}'


def test_control_characters_are_made_visible_but_for_line_ends_and_tabs() -> None:
    assert shown("a\x1b[2J\tb\nc\x07\x9b\rd é 名") == "a\\x1b[2J\tb\nc\\x07\\x9b\\x0dd é 名"


def test_a_terminal_shows_escapes_and_does_not_get_them(ferrule: Command) -> None:
    seen, code = at_a_terminal(ferrule, ["call", "echo_text", RED], "")
    assert code == 0
    assert seen == "\\x1b[31mred\\x9b\\x0d\tend\r\n"


def test_a_pipe_gets_exactly_the_text(ferrule: Command) -> None:
    import subprocess

    done = subprocess.run(
        ferrule.arguments("call", "echo_text", RED),
        cwd=ferrule.workspace, env=ferrule.environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.decode() == "\x1b[31mred\x9b\r\tend\n"
