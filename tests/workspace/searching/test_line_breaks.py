r"""A `\n` in a pattern fits the end of a line in every file, and means nothing else than before."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.workspace.searching.replacement import any_line_ending


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        (r"a\nb", r"a(?:\r?\n)b"),
        ("a\nb", r"a(?:\r?\n)b"),
        (r"\n{2,}", r"(?:\r?\n){2,}"),
        (r"\)\n\[", r"\)(?:\r?\n)\["),
        (r"[^\n]*\n", r"[^\n]*(?:\r?\n)"),
        (r"[]\n]\n", r"[]\n](?:\r?\n)"),
        (r"a\r?\nb", r"a\r?(?:\r?\n)b"),
    ],
)
def test_the_end_of_a_line_is_meant_however_it_is_written(pattern: str, meant: str) -> None:
    assert any_line_ending(pattern) == meant


@pytest.mark.parametrize(
    "pattern",
    [
        r"a\\nb",
        r"\r\n",
        "a\rb",
        r"(?x)a\n b",
        r"(?<=a\n)b",
        r"[[:alpha:]\n]+",
        r"[\w&&[^\n]]",
        r"\Qa\nb",
        "abc",
        r"[\n",
        r"(\n",
        r"[a--\n]\n",
    ],
)
def test_what_might_mean_something_else_stays_as_it_is(pattern: str) -> None:
    assert any_line_ending(pattern) == pattern


_PARTS = st.sampled_from(["a", "b", r"\n", r"\n+", "[ab]", "(?:a|b)"])
_OTHERS = st.sampled_from([".", r"[^\n]", "$", r"\s"])


@given(st.lists(_PARTS | _OTHERS, max_size=6), st.text("ab\n", max_size=12))
def test_plain_lines_are_found_as_before(parts: list[str], text: str) -> None:
    before = re.search("".join(parts), text, re.MULTILINE)
    found = re.search(any_line_ending("".join(parts)), text, re.MULTILINE)
    assert (found and found.span()) == (before and before.span())


@given(st.lists(_PARTS, max_size=6), st.text("ab\n", max_size=12))
def test_lines_that_end_the_other_way_are_found_like_plain_ones(parts: list[str], text: str) -> None:
    plain = re.search("".join(parts), text)
    found = re.search(any_line_ending("".join(parts)), text.replace("\n", "\r\n"))
    assert (found is None) == (plain is None)
    assert found is None or plain is None or found[0].replace("\r\n", "\n") == plain[0]
