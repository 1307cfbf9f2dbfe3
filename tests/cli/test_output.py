"""What a tool gives cannot drive a terminal, and a pipe gets exactly that."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from .test_call import at_a_terminal

if TYPE_CHECKING:
    from .conftest import Command

RED = '{"text": "\\u001b[31mred\\u009b\\r\\tend"}'


TURNED = '{"text": "a\\u202eb\\u2066c\\u0085"}'


@pytest.mark.parametrize(
    "command",
    [
        ["call", "echo_text", TURNED],
        ["call", "echo_text", TURNED, "--json"],
        ["call", "Bash", '{"command": "printf \'a\\\\u202eb\\\\u2066c\'"}'],
        ["call", "Read", '{"file_path": "a\u202eb"}'],
        ["explain", "Bash", '{"command": "cat a\u202eb"}'],
        ["explain", "Bash", '{"command": "cat a\u202eb"}', "--json"],
        ["explain", "no\u202ebody", "{}"],
        ["rules", "test", "Bash", "cat a\u202eb"],
        ["audit", "show", "1"],
        ["audit", "show", "1", "--json"],
        ["audit", "list"],
        ["history", "--json"],
        ["diff"],
        ["undo", "--json"],
    ],
    ids=" ".join,
)
def test_no_command_prints_such_marks_raw_at_a_terminal(ferrule: Command, command: list[str]) -> None:
    ferrule.environment["COLUMNS"] = "300"
    ferrule("call", "Bash", json.dumps({"command": "printf 'a\u202eb\x1b[31m\n' >'x\u202ey'"}), "--yes")
    seen, _ = at_a_terminal(ferrule, command, "")
    assert re.search("202e", seen, re.IGNORECASE), seen
    assert re.search("[\u202a-\u202e\u2066-\u2069\x80-\x9f]|\x1b\\[31", seen) is None, seen


def test_a_question_shows_them_too(ferrule: Command) -> None:
    seen, _ = at_a_terminal(ferrule, ["call", "save_note", '{"text": "a\u202eb"}'], "n\n")
    assert "\\u{202e}" in seen
    assert "\u202e" not in seen


def test_json_at_a_terminal_means_the_same(ferrule: Command) -> None:
    seen, _ = at_a_terminal(ferrule, ["call", "echo_text", TURNED, "--json"], "")
    assert json.loads(seen)["llm_content"] == "a\u202eb\u2066c\x85"


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
