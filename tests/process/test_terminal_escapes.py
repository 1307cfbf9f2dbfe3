"""What a program wrote for a terminal, as words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.process.output import StreamCleaner, clean


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("plain\n", "plain\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;ZXZpbA==\x07text", "text"),
        ("\x1bP1$r0m\x1b\\text\x1b_app\x1b\\\x1b^pm\x1b\\\x1bXsos\x1b\\", "text"),
        ("\x90dcs\x9c\x9dosc\x9ctext", "text"),
        ("\x1b]0;never ended\nnext", "\nnext"),
        ("\x1b(B\x1b=\x1b7text\x1b8\x1bc", "text"),
        ("bell\x07 and \x00nul\x7f", "bell and nul"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("a long line\rshort", "shortg line"),
        ("a long line\r\x1b[Kshort", "short"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("o\bo\b_x", "_x"),
        ("tab\there", "tab\there"),
        ("\x1b[", ""),
        ("\x1b[38;2;1;2;3mtrue\x1b[m \x1b[2J\x1b[Hhome", "true home"),
    ],
)
def test_what_is_for_the_terminal_alone_is_gone(written: str, read: str) -> None:
    assert clean(written) == read


def test_what_is_part_of_the_text_stays_as_it_is_for_a_model() -> None:
    """A model that is to mend a file gets what the file holds; a person's screen is seen to by `ferrule.cli.output`."""
    assert clean("a\u202eb\u2066\u200b\x1b[31m\ufeff") == "a\u202eb\u2066\u200b\ufeff"


@given(st.text(st.sampled_from("ab\n\r\b\x1b[]0;mKPX\\\x07\x9b\x9c\x9d中é\t")))
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", clean(text)) is None
    assert clean(clean(text)) == clean(text)


@given(
    st.lists(st.sampled_from(["a", "中", "\x1b[1m", "\x1b]0;t\x07", "\r\n", "\n", "\x1b(B", "\x9b2K"])),
    st.integers(1, 5),
)
def test_a_sequence_cut_in_two_is_still_one(parts: list[str], step: int) -> None:
    text = "".join(parts)
    cleaner = StreamCleaner()
    shown = "".join(cleaner.feed(text[place : place + step]) for place in range(0, len(text), step))
    assert shown + cleaner.rest() == clean(text)


def test_a_long_unfinished_sequence_costs_little() -> None:
    assert clean("\x1b]" + "x" * 1_000_000) == ""
    assert clean("\x1b[" * 300_000) == ""
    assert clean("x\b" * 300_000) == "x"
