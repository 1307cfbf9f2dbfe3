"""An answer is laid out line by line as it comes, and nothing of it is given out twice."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.cli.chatting.answer_lines import AnswerLines
from ferrule.cli.chatting.screen import Paint

ANSWER = """\


# A **title**

A paragraph with `code`.
And a second line.

- one
  - two, which is long enough to be wrapped
3. three

> said

| a | b |
|---|---|
| 1 | 2 |

```python
def f():

    return 1
```


The end \x1b[31m."""


def laid_out(text: str, width: int = 30, *, styled: bool = True, step: int = 1) -> str:
    lines = AnswerLines(Paint(False), styled=styled)
    rows = [row for at in range(0, len(text), step) for row in lines.feed(text[at : at + step], width)]
    return "\n".join([*rows, *lines.end(width)])


def test_blocks_are_laid_out_for_the_terminal() -> None:
    assert laid_out(ANSWER) == snapshot("""\
A title

A paragraph with code.
And a second line.

• one
  • two, which is long enough
    to be wrapped
3. three

> said

a  b
─  ─
1  2

    def f():

        return 1

The end \\x1b[31m.\
""")


def test_plain_text_stays_as_it_is_but_safe() -> None:
    assert laid_out("# A\n\n\n| a |\n```\nx\n```\n\x1b[m", styled=False) == "# A\n\n| a |\n```\nx\n```\n\\x1b[m"


@given(st.text(st.sampled_from("ab*`# |-\n\n中"), max_size=60), st.integers(1, 7))
def test_it_does_not_matter_in_which_pieces_it_comes(text: str, step: int) -> None:
    assert laid_out(text, step=step) == laid_out(text, step=max(1, len(text)))


@given(st.lists(st.text("abc中文 ", min_size=1, max_size=50), max_size=8))
def test_every_word_is_there_exactly_once(paragraphs: list[str]) -> None:
    text = "\n\n".join(paragraphs)
    assert re.sub(r"\s", "", laid_out(text, 12)) == re.sub(r"\s", "", text)


def test_the_unfinished_line_is_known_and_can_be_dropped() -> None:
    lines = AnswerLines(Paint(False), styled=True)
    assert lines.feed("whole\nhal", 40) == ["whole"]
    assert lines.unfinished == "hal"
    assert lines.drop() is True
    assert lines.end(40) == []
    assert lines.drop() is False


def test_of_a_very_long_line_only_the_end_is_laid_out_again() -> None:
    lines = AnswerLines(Paint(False), styled=True)
    lines.feed("word " * 40_000 + "the end", 80)
    assert len(lines.unfinished) <= 7_000
    assert lines.unfinished.endswith("word the end")
    assert len("".join(lines.end(80))) > 190_000
