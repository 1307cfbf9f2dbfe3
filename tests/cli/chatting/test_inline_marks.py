"""Markdown inside a line becomes style, also beside Chinese characters; what is no mark stays."""

from __future__ import annotations

import pytest

from ferrule.cli.chatting.answer_lines import inline
from ferrule.cli.chatting.screen import Paint


class Named(Paint):
    """Says the style in words."""

    def __call__(self, style: str, words: str) -> str:
        return f"<{style} {words}>" if words else ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a **b** c", "a <strong b> c"),
        ("**重要：**后面", "<strong 重要：>后面"),
        ("*one* and _two_", "<slanted one> and <slanted two>"),
        ("`a*b*c` and ``a`b``", "<code a*b*c> and <code a`b>"),
        ("**bold `code` x**", "<strong bold ><code code><strong  x>"),
        ("snake_case_name and 2*3*4", "snake_case_name and 2*3*4"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        (r"\*not\* it", "*not* it"),
        ("[words](https://a.b/c_(d))", "words (<place https://a.b/c_(d)>)"),
        ("[https://a.b](https://a.b)", "https://a.b"),
        ("an **unclosed mark", "an **unclosed mark"),
    ],
)
def test_marks_become_styles(text: str, shown: str) -> None:
    assert inline(text, Named(True)) == shown


def test_a_line_of_more_than_anybody_reads_is_not_searched_for_marks() -> None:
    """Looking for the other half of many open marks takes time that grows with the square of the line."""
    line = "**a " * 100_000 + "**b**"
    assert inline(line, Paint(True)) == line
