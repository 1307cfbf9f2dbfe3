"""The command in front: its errors count lines from its own first."""

from __future__ import annotations

import pytest

from ferrule.process.shell.foreground import error_lines_from_one


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("bash: line 41: nosuch: command not found\n", "bash: line 2: nosuch: command not found\n"),
        ("a\nbash: eval: line 40: syntax error\n", "a\nbash: line 1: syntax error\n"),
        ("bash: line 3: of a bash inside\n", "bash: line 3: of a bash inside\n"),
        ("x bash: line 41: quoted\n", "x bash: line 41: quoted\n"),
        ("bash: -c: line 41: other\n", "bash: -c: line 41: other\n"),
    ],
)
def test_only_this_shells_own_complaints_are_counted_anew(written: str, read: str) -> None:
    assert error_lines_from_one(written, 40) == read
