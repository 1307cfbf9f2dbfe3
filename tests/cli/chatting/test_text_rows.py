"""Rows fit the terminal by cells, and nothing of the text is lost on the way."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from wcwidth import width as cells

from ferrule.cli.chatting.screen import cut, kept, rows_taken, wrapped

PIECES = st.text(st.sampled_from("ab 中文，😀é-\n"), max_size=80)
WIDTHS = st.integers(8, 40)


@given(PIECES, WIDTHS)
def test_wrapped_rows_fit_and_hold_every_word_once(text: str, width: int) -> None:
    rows = wrapped(text, width)
    assert max(map(cells, rows), default=0) <= width
    assert re.sub(r"\s", "", "".join(rows)) == re.sub(r"\s", "", text)


@given(PIECES, WIDTHS)
def test_kept_rows_fit_and_hold_every_character_once(text: str, width: int) -> None:
    rows = kept(text, width)
    assert max(map(cells, rows), default=0) <= width
    assert re.sub(r"\s", "", "".join(rows)) == re.sub(r"\s", "", text)


@given(PIECES.filter(lambda text: "\n" not in text), WIDTHS)
def test_a_cut_row_fits_and_says_that_it_was_cut(text: str, width: int) -> None:
    row = cut(text, width)
    assert cells(row) <= width
    assert row == text or row.endswith("…")


def test_chinese_breaks_anywhere_and_words_at_spaces() -> None:
    assert wrapped("这是一个很长的中文段落 hello world", 12) == ["这是一个很长", "的中文段落", "hello world"]


def test_later_rows_are_indented_as_asked() -> None:
    assert wrapped("one two three four", 10, "• ", "  ") == ["• one two", "  three", "  four"]
    assert wrapped("a\n\nb", 10, "> ") == ["> a", ">", "> b"]


def test_code_keeps_its_spaces() -> None:
    assert kept("if x:\n\treturn  1", 40, "    ") == ["    if x:", "        return  1"]


@given(PIECES.filter(lambda text: "\n" not in text), WIDTHS)
def test_a_row_takes_as_many_rows_as_it_would_be_cut_into(text: str, width: int) -> None:
    assert rows_taken(f"\x1b[2m{text}\x1b[0m", width) == len(kept(text, width))
