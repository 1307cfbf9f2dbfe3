"""What a server wrote can be told from what we say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ferrule.cli.server_talk.form import BAR, one_row, theirs


@given(st.text())
def test_every_line_of_a_server_has_a_bar_and_nothing_that_steers_a_terminal(text: str) -> None:
    for line in theirs(text):
        assert line.warning or line.words.startswith(BAR)
        assert line.words.isprintable()


def test_what_is_not_what_it_looks_like_is_warned_of() -> None:
    words, warning = theirs("pay\u202ement")
    assert words.words == "│ pay\\u{202e}ment"
    assert warning.warning


def test_nothing_is_no_line() -> None:
    assert theirs(" \n") == []


def test_a_word_of_theirs_in_a_row_of_ours_stays_in_it() -> None:
    assert one_row("a\nb\tc") == "a b c"
    assert len(one_row("x" * 500, 40)) == 40
