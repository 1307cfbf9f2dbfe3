"""Line numbers that were pasted along with lines."""

import pytest

from ferrule.workspace.edits.edit_problems import EditError
from ferrule.workspace.edits.matching import find_edit, without_numbers


def test_numbers_as_read_prints_them():
    assert without_numbers("     9\ta\n    10\t  b\n", "     9\tc\n") == ("a\n  b\n", "c\n")


def test_arrows_and_other_widths():
    assert without_numbers("9→a\n10→", "c") == ("a\n", "c")


def test_an_empty_line_may_have_lost_its_tab():
    assert without_numbers("  1\ta\n  2\n  3\tb", "x") == ("a\n\nb", "x")


def test_line_endings_stay():
    assert without_numbers("  1\ta\r\n  2\r\n", "  1\tb\n") == ("a\r\n\r\n", "b\n")


def test_a_new_line_may_have_none():
    assert without_numbers("  1\ta", "  1\ta\nb") == ("a", "a\nb")


def test_text_is_left_alone():
    assert without_numbers("a\nb", "c") is None
    assert without_numbers("1\ta\n1\tb", "c") is None
    assert without_numbers("1\ta\nb", "c") is None
    assert without_numbers("1\n2\n", "c") is None


def test_a_number_before_a_part_of_a_line_is_no_line_number():
    with pytest.raises(EditError):
        find_edit("a = 1\na\tb\n", "9\tb\n", "c\n")
    assert find_edit("a = 1\n\tb\n", "     2\t\tb\n", "     2\t\tc\n").rung == "line numbers"


def test_numbers_that_do_not_go_on_from_the_old_ones_may_be_part_of_the_text():
    """A test of what Read prints, say: the same width, and other numbers."""
    old = "    10\ta\n    11\tb\n"
    assert without_numbers(old, "a\n     2\ttwo\nb\n") == ("a\nb\n", None)
    assert without_numbers(old, "a\n    11\ttwo\n    10\tone\n") == ("a\nb\n", None)
    assert without_numbers(old, "    10\ta\nnew\n    12\tb\n") == ("a\nb\n", "a\nnew\nb\n")
