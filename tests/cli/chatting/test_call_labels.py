"""A call is known by its tool and the one argument that tells it from others."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.cli.chatting.call_view import arguments_of, label
from ferrule.core.call import RawCall


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("Read", {"file_path": "src/a.py", "limit": 3}, "Read src/a.py"),
        ("Read", '{"file_path": "src/a.py"}', "Read src/a.py"),
        ("Bash", {"description": "say hello", "command": "echo 1\necho 2"}, "Bash echo 1⏎echo 2"),
        ("Bash", {"command": "echo \x1b[2J\u202e"}, "Bash echo \\x1b[2J\\u{202e}"),
        ("Grep", {"path": "src", "pattern": "x.*"}, "Grep x.*"),
        ("mine", {"number": 3}, 'mine {"number": 3}'),
        ("mine", {}, "mine"),
        ("mine", "not json", "mine"),
        ("mine", None, "mine"),
    ],
)
def test_a_call_has_a_short_safe_label(name: str, arguments: Any, shown: str) -> None:
    assert label(RawCall(name, arguments)) == shown


def test_a_long_one_is_cut() -> None:
    assert len(label(RawCall("Bash", {"command": "x" * 100_000}))) == 200


def test_arguments_that_are_no_object_are_none() -> None:
    assert arguments_of(RawCall("x", "[1]")) == {}
