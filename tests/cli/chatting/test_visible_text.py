"""What a model or a tool says cannot steer the terminal, hide in it or turn its order."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.shown_text import one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain 中文 😀", "plain 中文 😀"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("a\u202eb", "a\\u{202e}b"),
        ("tag\U000e0041", "tag\\u{e0041}"),
        ("half \ud800", "half \\u{d800}"),
        ("two\r\nlines\tand a tab", "two\nlines\tand a tab"),
        ("over\rwritten", "over\\x0dwritten"),
        ("👩\u200d👧", "👩\u200d👧"),
    ],
)
def test_what_would_steer_hide_or_turn_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_that_steers_is_left_in_any_text(text: str) -> None:
    shown = visible(text)
    shown.encode()  # no lone surrogate either
    assert not [one for one in shown if unicodedata.category(one) == "Cc" and one not in "\n\t"]


def test_one_line_is_one_line() -> None:
    assert one_line("  a\n\tb\n") == "a⏎ b"
