from hypothesis import given
from hypothesis import strategies as st
from tests.workspace.edit_asking import edited


def test_a_contradiction_is_not_settled_by_guessing():
    text = "  a\n  b\n  c\n  d\n"
    assert edited(text, "a\nb\nc\nd\n", "a\n  b\nx\nd\n")[0] in ("misfit", "missing", "indentation")
    assert edited("a  \nb\nc  \n", "a\nb\nc\n", "a  \nx\nc\n")[0] == "misfit"


def test_a_moved_line_does_not_lose_its_blanks_unseen():
    assert edited("a  \nb\nc\n", "a\nb\nc\n", "b\nx\na\nc\n")[0] == "misfit"


def test_a_change_that_comes_to_nothing_is_refused():
    assert edited("a  \nb\n", "a\nb\n", "a  \nb\n")[0] == "misfit"


@given(st.lists(st.sampled_from(["a", "a  ", "b", "}", "} ", ""]), min_size=2, max_size=8), st.integers(0, 7))
def test_lines_that_stay_keep_every_blank(lines: list[str], at: int):
    text = "".join(f"{line}\n" for line in lines)
    at %= len(lines)
    old = "".join(f"{line.rstrip()}\n" for line in lines)
    new = "".join("changed\n" if index == at else f"{line.rstrip()}\n" for index, line in enumerate(lines))
    rung, result = edited(text, old, new)
    if rung not in ("misfit", "missing", "several"):
        assert result == "".join("changed\n" if index == at else f"{line}\n" for index, line in enumerate(lines))


def test_one_more_blank_on_every_line_is_taken_off_lines_that_have_their_own():
    text = "first line  \nsecond line\n"
    old, new = "first line   \nsecond line \n", "first line   \nother line \n"
    assert edited(text, old, new) == ("line endings or trailing space", "first line  \nother line\n")
    assert edited(text, old, "first line  \nother line\n")[1] == "first line  \nother line\n"


def test_blanks_on_some_of_the_new_lines_are_not_guessed_at():
    text = "first line\nsecond line\n"
    assert edited(text, "first line \nsecond line \n", "third line \nother line\n")[0] == "misfit"


def test_new_empty_lines_are_not_guessed_at_where_the_file_indents_some_of_its_own():
    text = "def f():\n    one()\n    \n    two()\n    three()\n"
    old, apart, together = "two()\nthree()\n", "two()\n\nthree()\n", "two()\nmore()\nthree()\n"
    assert edited(text, old, apart)[0] == "misfit"
    assert edited(text, old, together)[1] == text.replace("    three", "    more()\n    three")
    usual = text.replace("    \n", "\n")
    assert edited(usual, old, apart)[1] == usual.replace("    three", "\n    three")


def test_an_empty_line_among_new_ones_is_not_taken_for_one_that_was_there():
    text = "  first(1)\n  \n  second(2)\n"
    assert edited(text, "first(1)\n\nsecond(2)\n", "first(3)\n\nthird(2)\n")[0] == "misfit"
    assert edited(text, "first(1)\n\nsecond(2)\n", "first(1)\n\nthird(2)\n")[1] == text.replace("second", "third")


def test_an_edit_of_trailing_blanks_alone_is_made_to_the_letter_or_not_at_all():
    text = " \nfirst line \nsecond line\n"
    assert edited(text, " \nfirst line  \n", "\nfirst line \n")[0] == "misfit"
    assert edited(text, " \nfirst line \n", "\nfirst line\n")[1] == "\nfirst line\nsecond line\n"
    assert edited(text.replace("\n", "\r\n"), "first line \nsecond", "first line\nsecond")[1] == (
        " \r\nfirst line\r\nsecond line\r\n"
    )


def test_a_no_break_space_at_the_end_of_a_new_line_does_not_become_a_blank_unseen():
    said = edited("if a: b\nc\n", "if\u00a0a: b\nc\n", "if\u00a0a: b\ntry:\u00a0\nc\n")
    assert said == ("misfit", "if a: b\nc\n")
