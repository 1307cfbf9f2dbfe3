from hypothesis import given
from hypothesis import strategies as st

from ferrule.workspace.edits.text_lines import TextLines, as_lines

TEXTS = st.text("ab \t\r\n", max_size=40)


@given(TEXTS)
def test_lines_and_endings_make_up_the_text(text: str):
    lines = TextLines(text)
    assert (
        "".join(line + lines.ending_at(start) for line, start in zip(lines.contents, lines.starts, strict=False))
        == text
    )
    assert lines.starts[-1] == len(text) + 1


@given(TEXTS, st.data())
def test_a_place_is_before_and_after_on_its_line(text: str, data: st.DataObject):
    lines = TextLines(text)
    index = data.draw(st.integers(0, len(lines) - 1))
    column = data.draw(st.integers(0, len(lines.contents[index])))
    position = lines.starts[index] + column
    assert lines.number_at(position) == index + 1
    assert lines.before(position) == lines.contents[index][:column]
    if index < len(lines) - 1:
        assert lines.after(position) == lines.contents[index][column:]


@given(TEXTS)
def test_trimmed_and_stripped_are_what_they_say(text: str):
    lines = TextLines(text)
    assert lines.trimmed == [line.rstrip(" \t") for line in lines.contents]
    assert lines.stripped == [line.strip(" \t") for line in lines.contents]


def test_endings_are_kept_apart():
    lines = TextLines("a\r\nb\nc\rd")
    assert lines.contents == ["a", "b", "c\rd"]
    assert [lines.ending_at(start) for start in lines.starts[:3]] == ["\r\n", "\n", ""]
    assert TextLines("a\rb").contents == ["a", "b"]


def test_style_near_the_end_is_that_of_the_line_before():
    assert TextLines("a\r\nb").style(1) == "\r\n"
    assert TextLines("b").style(0) == "\n"


def test_given_text_as_lines():
    assert as_lines("a\r\nb\n") == ["a", "b", ""]
    assert as_lines("a\rb") == ["a", "b"]


def test_the_next_line_with_words_is_past_the_rest_of_this_one():
    lines = TextLines("a b\r\n  \r\n  c\r\n")
    assert lines.next_with_words(1) == "  c"
    assert lines.next_with_words(lines.text.index("  c")) == "  c"
    assert lines.next_with_words(len(lines.text)) is None
