# ruff: noqa: E501 - a text that is pinned stands on one line
import pytest
from inline_snapshot import snapshot
from tests.workspace.edit_asking import edited, words


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ("b\n", "", "a\nc\n"),
        ("b", "", "a\n\nc\n"),  # an empty line is left
        ("b", "b\n", "a\nb\n\nc\n"),
        ("b", "x\n", "a\nx\n\nc\n"),
        ("b\n", "x", "a\nxc\n"),  # lines joined
        ("a\nb\n", "x\nb", "x\nbc\n"),
        ("\nb\n", "x\n", "ax\nc\n"),
        ("c\n", "x", "a\nb\nx"),  # the file's last line ending, taken away
    ],
)
def test_what_stands_there_is_replaced_to_the_letter_whatever_its_ends(old: str, new: str, result: str):
    assert edited("a\nb\nc\n", old, new) == ("exact", result)
    assert edited("a\r\nb\r\nc\r\n", old, new)[1] == result.replace("\n", "\r\n")


def test_blanks_beside_an_exact_text_stay():
    assert edited("a  \nb\n", "a", "x") == ("exact", "x  \nb\n")
    assert edited("a  \nb\n", "a", "x  ") == ("exact", "x    \nb\n")
    assert edited("a\n  \nb\n", "  ", "") == ("exact", "a\n\nb\n")


def test_a_copy_of_a_line_without_its_ending_is_not_taken_away_by_a_guess():
    assert words("a\n'b'\nc\n", "‘b’", "") == snapshot("""\
[misfit, validation_error] The old text fits on line 2, but it is a whole line without its line ending and the new text is empty, so whether an empty line should stay is not clear. Nothing was changed.

     2	'b'
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: To remove the line, end the old text with its line ending; to leave an empty line, end both with one.\
""")
    assert edited("a\n'b'\nc\n", "‘b’\n", "")[1] == "a\nc\n"


def test_an_ending_that_one_text_alone_has_is_not_guessed_at():
    assert words("a\n'b'\nc\n", "‘b’", "x\n") == snapshot("""\
[misfit, validation_error] The old text fits on line 2, but only the new text ends with a line ending, so whether an empty line should follow is not clear. Nothing was changed.

     2	'b'
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: End both texts with a line ending, or neither; or add the line that follows to both.\
""")
    assert words("a\n'b'\nc\n", "‘b’\n", "x") == snapshot("""\
[misfit, validation_error] The old text fits on line 2, but only the old text ends with a line ending, so whether the line that follows should be joined to the new text is not clear. Nothing was changed.

     2	'b'
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: End both texts with a line ending, or neither; or add the line that follows to both.\
""")


def test_an_empty_line_lost_at_the_end_of_a_copy():
    assert words("a\n'b'\n\nc\n", "a\n‘b’\n", "a\nx\n\n") == snapshot("""\
[misfit, validation_error] The old text fits on line 1, but an empty line follows it, and the new text ends with one more: whether there should then be two is not clear. Nothing was changed.

     1	a
     2	'b'
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Add the empty line to both texts.\
""")


def test_a_line_ending_lost_at_the_start_does_not_join_lines():
    assert words("a\n  'b'\nc\n", "\n  ‘b’\n", "  x\n") == snapshot("""\
[misfit, validation_error] The old text fits on line 1, but it starts with a line ending and the new text does not, so whether to join the line before is not clear. Nothing was changed.

     1	a
     2	··'b'
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Start both texts with a line ending, or neither.\
""")


def test_blanks_at_the_end_of_a_line_are_not_doubled():
    assert edited("'a'  \nb\n", "‘a’", "x  ") == ("typography", "x  \nb\n")


def test_a_numbered_or_escaped_copy_may_have_lost_its_end():
    assert edited("a\nb\nc\n", "     2\tb", "")[0] == "misfit"
    assert edited('a\n"b"\nc\n', '\\"b\\"', "")[0] == "misfit"
    assert edited("a\nb\nc\n", "     2\tb\n", "")[1] == "a\nc\n"


def test_a_line_that_ends_before_a_blank_one_is_not_joined_with_the_blanks():
    text = "    one\n    two\n    \nthree\n"
    assert edited(text, "one\ntwo\n", "one\ntwo")[0] == "misfit"
    assert edited(text, "    one\n    two\n", "    one\n    two")[1] == "    one\n    two    \nthree\n"  # to the letter


def test_a_copy_is_not_given_an_empty_line_by_a_line_ending_alone():
    text = "    one\n    two\nthree\n"
    assert edited(text, "one\ntwo", "one\ntwo\n")[0] == "misfit"
    assert edited(text, "    one\n    two", "    one\n    two\n")[1] == "    one\n    two\n\nthree\n"  # to the letter
