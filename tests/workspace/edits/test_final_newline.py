import pytest
from tests.workspace.edit_asking import edited


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ("b", "x\n", "a\nx\nc\n"),  # lost by the old text
        ("a\nb", "a\nx\nb\n", "a\nx\nb\nc\n"),
        ("b\n", "x", "a\nx\nc\n"),  # lost by the new text
        ("b", "", "a\nc\n"),
        ("b\n", "", "a\nc\n"),
        ("b", "b\n", "a\nb\n\nc\n"),  # an empty line, plainly meant
        ("b\n", "b", "a\nbc\n"),  # lines joined, plainly meant
        ("c\n", "x", "a\nb\nx"),  # the file's last line ending, taken away
    ],
)
def test_whole_lines_stay_whole_lines(old: str, new: str, result: str):
    assert edited("a\nb\nc\n", old, new)[1] == result


def test_a_part_of_a_line_is_taken_by_the_letter():
    assert edited("a b\nc\n", "b", "x\n") == ("exact", "a x\n\nc\n")


def test_an_empty_line_that_may_be_meant_is_not_guessed():
    assert edited("a\nb\nc\n", "b", "x\ny\n")[0] == "misfit"


def test_an_empty_line_lost_at_the_end_of_the_old_text():
    assert edited("a\nb\n\nc\n", "a\nb\n", "a\nx\n\n")[1] == "a\nx\n\nc\n"


def test_other_line_endings():
    assert edited("a\r\nb\r\nc\r\n", "b", "x\n")[1] == "a\r\nx\r\nc\r\n"
    assert edited("a\r\nb\r\nc\r\n", "a\nb\n", "a\nx")[1] == "a\r\nx\r\nc\r\n"
