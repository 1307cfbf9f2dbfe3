# ruff: noqa: E501 - a text that is pinned stands on one line
import time

import pytest
from inline_snapshot import snapshot
from tests.workspace.edit_asking import edited, words

from ferrule.workspace.edits.edit_problems import EditError
from ferrule.workspace.edits.matching import find_edit

EXACT, LINE_ENDS, INDENTATION = "exact", "line endings or trailing space", "indentation"
TYPOGRAPHY, NUMBERS, ESCAPED = "typography", "line numbers", "escaped"


def test_the_exact_text_is_replaced_and_nothing_else():
    assert edited("one two three\n", "two", "2") == (EXACT, "one 2 three\n")


def test_a_text_found_twice_is_not_touched():
    assert words("a\nb\na\n", "a", "c") == snapshot("""\
[several, validation_error] The old text is found 2 times: on lines 1, 3.
Suggestion: Add lines before or after it until it is found once, or set `replace_all` to change every one.\
""")


def test_overlapping_places_are_two():
    assert words("aaa\n", "aa", "b") == snapshot("""\
[several, validation_error] The old text is found 2 times, overlapping itself: on line 1.
Suggestion: Add lines before or after it until it is found once.\
""")
    assert edited("aaa\n", "aa", "b", replace_all=True) == (EXACT, "ba\n")


def test_many_places_are_counted_and_the_first_told():
    assert words("x = 1\n" * 30, "x = 1", "x = 2") == snapshot("""\
[several, validation_error] The old text is found 30 times: on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 and 10 more.
Suggestion: Add lines before or after it until it is found once, or set `replace_all` to change every one.\
""")


def test_the_same_text_twice_is_no_edit():
    assert words("a\n", "a", "a") == snapshot("""\
[identical, validation_error] The old and the new text are the same, so there is nothing to change.
Suggestion: Give the changed text as the new text.\
""")


def test_an_empty_old_text_is_the_only_place_of_an_empty_file():
    assert edited("", "", "a\n") == edited("", "", "a\n", replace_all=True) == (EXACT, "a\n")
    assert edited("", "", "")[0] == "identical"


def test_an_empty_old_text_is_no_place():
    assert words("a\n", "", "a") == snapshot("""\
[empty, validation_error] The old text is empty, so there is no place to change.
Suggestion: Give the text to find, or use Write to create the whole file.\
""")


def test_a_byte_order_mark_pasted_with_both_texts_is_not_looked_for():
    assert edited("a\nb\n", "\ufeffa\n", "\ufeffc\n") == (EXACT, "c\nb\n")


def test_replace_all_changes_every_place():
    assert edited("a b a\n", "a", "c", replace_all=True) == (EXACT, "c b c\n")


def test_replace_all_sees_past_line_endings_and_no_further():
    assert edited("a\r\nb\r\na\r\nb\r\n", "a\nb", "c\nd", replace_all=True) == (LINE_ENDS, "c\r\nd\r\nc\r\nd\r\n")
    assert edited("  a\n  b\n", "a\nb", "c", replace_all=True)[0] == "missing"


def test_replace_all_gives_new_lines_the_endings_of_the_file():
    assert edited("a\r\nb\r\n", "a", "a\nc", replace_all=True) == (EXACT, "a\r\nc\r\nb\r\n")


FUNCTION = "def a():\n    foo()\n    bar()\n"


class TestToTheLetter:
    """A text that stands in the file once is replaced literally; what may not be meant is noted, never refused."""

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("foo()", "foo()\n    baz()"),
            ("foo()", "foo()\nbaz()"),
            ("foo()", "if x:\n        foo()"),
            ("foo()\n", "foo()\nbaz()\n"),
            ("foo()\n", "    foo(1)\n"),
            ("foo()\n", ""),
            ("foo()\n", "x"),
            ("bar()", "x = [\n        1,\n    ]"),
            ("foo()\n    bar()", "  x\n  y"),
            ("    foo()", "foo()"),
            ("  foo()", "    foo()"),
            ("()\n    b", "(1)\n\n    c"),
            (":\n    f", ": f"),
            ("\n    bar", "\n\tbar"),
            ("()\n", "()\n\n"),
        ],
    )
    def test_whatever_the_new_text_looks_like(self, old: str, new: str):
        text = FUNCTION if FUNCTION.count(old) == 1 else FUNCTION.replace("bar()", "bar(1)")
        assert edited(text, old, new) == (EXACT, text.replace(old, new, 1))
        assert edited(text, old, new, replace_all=True) == (EXACT, text.replace(old, new))
        windows = text.replace("\n", "\r\n")
        assert edited(windows, old, new)[1] == text.replace(old, new, 1).replace("\n", "\r\n")

    def test_whatever_stands_elsewhere(self):
        text = "    b\n            b\n        b\n    b\n"
        assert edited(text, "b\n        b\n    b\n", "b\n    b\n") == (EXACT, "    b\n            b\n    b\n")
        assert edited("a  \n  a", " a", "") == (EXACT, "a  \n ")
        assert edited("a\n  a  \n", "a  \n", "b  \n") == (EXACT, "a\n  b  \n")

    def test_lines_that_may_lack_the_margin_are_noted(self):
        assert find_edit(FUNCTION, "foo()", "foo()\nbaz()").note == snapshot(
            "Replaced literally: later lines of the new text do not start with the indentation of line 2. Check that it was not left out."
        )
        assert find_edit(FUNCTION, "foo()", "foo(\n1)").note
        assert find_edit(FUNCTION, "foo()", "baz()\nfoo()").note
        assert find_edit("x = f(a)\n    y = g(b)\n", "g(b)", "g(\n  b)").note
        assert find_edit(FUNCTION, "o()", "o()\nbaz()", replace_all=True).note

    def test_a_margin_that_is_there_twice_is_noted(self):
        assert find_edit(FUNCTION, "foo()\n", "    foo(1)\n").note == snapshot(
            "Replaced literally: the indentation before the old text stays, so line 2 now stands deeper. Check that it is not indented twice."
        )

    def test_lines_that_are_joined_are_noted(self):
        assert find_edit(FUNCTION, "foo()\n", "").note == snapshot(
            "Replaced literally: only the old text ends with a line ending, so what followed it now stands on line 2. Check that the two should be one line."
        )
        assert find_edit(FUNCTION, "foo()\n", "x\ny").note == snapshot(
            "Replaced literally: only the old text ends with a line ending, so what followed it now stands on line 3. Check that the two should be one line."
        )

    def test_other_line_endings_are_noted(self):
        assert find_edit("a\nb\n", "b", "b\r\nc").note == snapshot(
            "Replaced literally: lines of the new text end with CRLF, and line 2 of the file with LF. Check that they should differ."
        )
        assert find_edit("a\r\nb\r\n", "a\r\n", "a\n").note == snapshot(
            "Replaced literally: lines of the new text end with LF, and line 2 of the file with CRLF. Check that they should differ."
        )

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("foo()", "foo()\n    baz()"),
            ("foo()", "with x:\n        foo()\n\n    baz()"),
            ("    foo()\n", ""),
            ("bar()\n", "baz()\n"),
            ("foo()\n    bar()\n", "foo()\n    baz()\n"),
            ("a():\n    foo()", "b():\n    foo()"),
        ],
    )
    def test_what_looks_as_meant_is_not(self, old: str, new: str):
        assert find_edit(FUNCTION, old, new).note == ""

    def test_a_line_further_left_is_as_meant_where_the_old_text_has_one(self):
        text = "if a:\n    b()\nelse:\n    c()\n"
        assert find_edit(text, "b()\nelse:", "b()\nelif d:").note == ""

    def test_many_places_are_quick(self):
        start = time.process_time()
        assert len(find_edit("a;" * 200_000, ";", ";\n", replace_all=True).spans) == 200_000
        with pytest.raises(EditError, match="found 200,000 times"):
            find_edit("a;\n" * 200_000, ";", ",")
        assert time.process_time() - start < 10


class TestMarginLostByACopy:
    """A text that is found with differences may have lost its margin, too: then it is a copy of whole lines."""

    def test_it_is_indented_as_the_file_is_or_not_found(self):
        text = "def f():\n    a = 'x'\n    b = 2\n"
        assert edited(text, "a = ‘x’\n", "a = ‘x’\nc = ‘y’\n") == (
            TYPOGRAPHY,
            "def f():\n    a = 'x'\n    c = 'y'\n    b = 2\n",
        )
        assert edited(text, "a = ‘x’\n", "a = ‘x’\n    c = ‘y’\n")[0] == "misfit"

    def test_a_change_within_the_line_is_one(self):
        assert edited("    a = 'x'\n", "a = ‘x’", "a = ‘y’") == (TYPOGRAPHY, "    a = 'y'\n")

    def test_a_place_that_fits_without_its_margin_elsewhere_makes_two(self):
        text = "    'b'\n            'b'\n        'b'\n    'b'\n"
        assert edited(text, "‘b’\n        ‘b’\n    ‘b’\n", "‘b’\n    ‘b’\n")[0] == "several"


class TestLineEnds:
    def test_line_feeds_find_carriage_returns_and_become_them(self):
        assert edited("a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\ny\n") == (LINE_ENDS, "a\r\nx\r\ny\r\nc\r\n")

    def test_carriage_returns_find_line_feeds(self):
        assert edited("a\nb\nc\n", "a\r\nb\r\n", "a\r\nx\r\n") == (LINE_ENDS, "a\nx\nc\n")

    def test_a_text_from_the_end_of_a_line_never_parts_a_line_ending(self):
        assert edited("a\r\nb", "\nb", "\nc\nd") == (LINE_ENDS, "a\r\nc\r\nd")

    def test_one_line_that_becomes_several_takes_the_endings_of_the_file(self):
        assert edited("a\r\nb\r\n", "a", "a\nc") == (EXACT, "a\r\nc\r\nb\r\n")

    def test_endings_given_on_purpose_stay(self):
        assert edited("a", "a", "b\r\nc") == (EXACT, "b\r\nc")
        assert edited("a\r\nb\r\n", "a\r\n", "a\n") == (EXACT, "a\nb\r\n")

    def test_endings_that_may_be_meant_to_change_are_not_guessed(self):
        assert edited("a  \nb\n", "a\nb\n", "a\r\nc\r\n")[0] == "misfit"
        assert edited("a  \r\nb\r\n", "a\r\nb\r\n", "a\nc\n")[0] == "misfit"

    def test_mixed_endings_stay_line_by_line(self):
        assert edited("a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nc\nd\n") == (LINE_ENDS, "a\r\nc\r\nd\n")
        assert edited("a\r\nb\r\nc\n", "a\nb\n", "a\nx\n") == (LINE_ENDS, "a\r\nx\r\nc\n")

    def test_how_a_new_line_ends_among_mixed_endings_is_not_guessed(self):
        assert edited("a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nb\nC\nd\n")[0] == "misfit"

    def test_kept_lines_keep_their_trailing_space(self):
        assert edited("a  \nb\t\nc\n", "a\nb\nc\n", "a\nb\nd\n") == (LINE_ENDS, "a  \nb\t\nd\n")

    def test_trailing_space_the_file_does_not_have_is_not_brought_in(self):
        assert edited("a\nb\nc\n", "a  \nb  \nc\n", "a  \nd  \nc\n") == (LINE_ENDS, "a\nd\nc\n")
        assert edited("a\nb\n", "a  \nb\n", "c  \nd\n")[0] == "misfit"
        assert edited("a\nb\n", "a \nb \n", "c \n\nd \n") == (LINE_ENDS, "c\n\nd\n")

    def test_new_text_as_the_file_has_it_is_taken_as_it_is(self):
        assert edited("a  \nb\nc\n", "a\nb\n", "a  \nx\n") == (LINE_ENDS, "a  \nx\nc\n")

    def test_an_exact_text_is_replaced_and_not_the_blanks_after_it(self):
        assert edited("a\nb  \nc\n", "a\nb", "a\nd") == (EXACT, "a\nd  \nc\n")
        assert edited("a\nb  \nc\n", "a\nb", "x\nb") == (EXACT, "x\nb  \nc\n")
        assert edited("a b  \n", "b", "d") == (EXACT, "a d  \n")

    def test_which_of_two_equal_lines_stays_is_not_guessed(self):
        assert edited("}  \n}\nend\n", "}\n}\nend", "}\nend")[0] == "misfit"

    def test_an_old_text_ending_with_a_line_ending_is_found_at_the_end(self):
        assert edited("a\nb", "b\n", "c\n") == (LINE_ENDS, "a\nc")

    def test_a_line_that_fits_elsewhere_but_for_its_indentation_makes_two_places(self):
        assert edited("a\n  a \n", "a  \n", "b  \n")[0] == "several"

    def test_the_number_of_empty_lines_counts(self):
        assert edited("x\na\n", "a\n\n", "b\n")[0] == "missing"
        assert edited("a\n\n\nb\n", "a\n\nb\n", "c\n")[0] == "missing"


class TestIndentation:
    def test_a_dedented_copy_is_indented_as_the_file(self):
        text = "def f():\n    a = 1\n    b = 2\n"
        changed = "def f():\n    a = 1\n    if a:\n        c()\n    b = 2\n"
        assert edited(text, "a = 1\nb = 2\n", "a = 1\nif a:\n    c()\nb = 2\n") == (INDENTATION, changed)

    def test_spaces_for_tabs(self):
        text = "def f():\n\ta = 1\n\tb = 2\n"
        old, new = "    a = 1\n    b = 2\n", "    a = 1\n    if a:\n        c()\n    b = 2\n"
        assert edited(text, old, new) == (INDENTATION, "def f():\n\ta = 1\n\tif a:\n\t\tc()\n\tb = 2\n")

    def test_dedented_with_other_line_endings(self):
        assert edited("x\r\n  a\r\n  b\r\n", "a\nb\n", "a\nc\n") == (INDENTATION, "x\r\n  a\r\n  c\r\n")

    def test_new_text_as_the_file_has_it_may_be_meant_deeper(self):
        assert edited("  a\n    b\n  c\n", "a\n  b\nc\n", "  a\n    b\n    x\n  c\n")[0] == "misfit"
        assert edited("\ta\n\t\tb\n\tc\n", "  a\n    b\n  c\n", "\ta\n\t\tx\n\tc\n") == (
            INDENTATION,
            "\ta\n\t\tx\n\tc\n",
        )

    def test_a_dedented_copy_in_a_file_with_tabs(self):
        assert edited("f:\n\n\tcall(a)\n\n", "\ncall(a)\n\n", "\ncall(\n\ta\n)\n\n") == (
            INDENTATION,
            "f:\n\n\tcall(\n\t\ta\n\t)\n\n",
        )

    def test_lines_of_one_depth_may_be_meant_deeper(self):
        assert edited("  a\n  b\n  c\n", "a\nb\nc\n", "  a\n  x\n  c\n")[0] == "misfit"

    def test_tabs_among_spaces_are_not_guessed_at(self):
        assert edited("    a\n    b\n", "  a\n  b\n", "  a\n\tc\n  b\n")[0] == "misfit"

    def test_a_line_with_no_indentation_left_may_have_had_less(self):
        assert edited("    a\n    b\n", "  a\n  b\n", "  a\nc\n  b\n")[0] == "misfit"

    def test_lines_shifted_unevenly_do_not_fit(self):
        assert edited("  a\n    b\n", "a\nb\n", "c\n")[0] == "missing"

    def test_two_depths_are_two_places(self):
        assert edited("  a\n  b\n    a\n    b\n", "a\nb\n", "c\nd\n")[0] == "several"

    def test_an_indentation_that_cannot_be_told_is_not_guessed(self):
        assert words("\ta()\n\tb()\n", "a()\nb()\n", "a()\nif x:\n    b()\nb()\n") == snapshot("""\
[misfit, validation_error] The old text fits on line 1, but the indentation of its new lines is not clear from it. Nothing was changed.

     1	→a()
     2	→b()
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Give the old and the new text as whole lines, exactly as they appear in the file.\
""")

    def test_a_line_without_its_indentation_is_exact_within_the_line(self):
        assert edited("    a()\n", "a()", "b()") == (EXACT, "    b()\n")


class TestTypography:
    def test_smart_quotes_find_plain_ones_and_become_them(self):
        assert edited("say('a')\nsay(\"b\")\n", "say(“b”)\n", "say(“c”)\n") == (TYPOGRAPHY, "say('a')\nsay(\"c\")\n")

    def test_plain_characters_find_typographic_ones_and_keep_them(self):
        text = "It’s – well – “fine”…\n"
        assert edited(text, 'It\'s - well - "fine"...', 'It\'s - quite - "fine"...') == (
            TYPOGRAPHY,
            "It’s – quite – “fine”…\n",
        )

    def test_plain_characters_in_new_words_may_be_meant(self):
        text = "# it’s a – b\n"
        assert edited(text, "# it's a - b\n", "# it's a - b\nx = 'y'\n")[0] == "misfit"
        assert edited(text, "# it's a - b\n", "# it's a - b\nx = 3 - 1\n")[0] == "misfit"
        assert edited(text, "# it's a - b\n", "# it's a - b\n# that's it\n") == (
            TYPOGRAPHY,
            "# it’s a – b\n# that’s it\n",
        )

    def test_no_break_spaces(self):
        assert edited("10\u00a0km\n", "10 km", "12 km") == (TYPOGRAPHY, "12\u00a0km\n")

    def test_with_trailing_space_and_dedented(self):
        assert edited("  a = 'x'  \n  b = 1\n", "a = ‘x’\nb = 1\n", "a = ‘x’\nb = ‘y’\n") == (
            TYPOGRAPHY,
            "  a = 'x'  \n  b = 'y'\n",
        )

    def test_minus_and_decrement_stay_apart(self):
        assert edited("i--;\nx — y\n", "i-;", "i+;")[0] == "missing"

    def test_a_character_that_may_be_meant_is_not_changed(self):
        text = "a = 'x'\n# the “other” one\n"
        assert edited(text, "a = ‘x’\n", "a = “x”\n")[0] == "misfit"

    def test_dots_and_dashes_are_meant_where_only_quotes_were_changed(self):
        assert edited("say('a')\n", "say(‘a’)\n", "say(‘a…’)\n")[0] == "misfit"
        assert edited('say("a")\n', "say(“a”)\n", "say(“a”, ‘b’)\n") == (TYPOGRAPHY, "say(\"a\", 'b')\n")

    def test_prose_may_mean_what_it_types(self):
        assert edited("a = 'x'\n", "a = ‘x’\n", "# that’s it\na = ‘x’\n")[0] == "misfit"
        assert edited("it’s 'x'\n", "it’s ‘x’\n", "it’s ‘y’ ’z’\n")[0] == "misfit"
        assert edited("a\n--\n", "a\n—\n", "a\n—\nb — c\n")[0] == "misfit"


class TestLineNumbers:
    def test_numbers_are_taken_off_both_texts(self):
        assert edited("a\nb\nc\n", "     2\tb\n     3\tc\n", "     2\tB\n     3\tc\n") == (NUMBERS, "a\nB\nc\n")

    def test_with_another_indentation(self):
        assert edited("x\n  a\n  b\n", "     2\ta\n     3\tb\n", "a\nc\n") == (NUMBERS, "x\n  a\n  c\n")

    def test_numbers_in_the_lines_themselves_stay(self):
        assert edited("a\n3\tb\n", "     1\ta\n     2\t3\tb\n", "x\n3\tb\n") == (NUMBERS, "x\n3\tb\n")
        assert edited("a\nb\n", "1\ta\n2\tb\n", "a\n7\tb\n")[0] == "misfit"

    def test_a_number_that_belongs_to_the_line_is_not_forgiven(self):
        assert edited("a\n3\tx\n", "9\tx\n", "b\n")[0] == "missing"

    def test_numbers_that_do_not_follow_each_other_are_text(self):
        assert edited("a\nb\n", "1\ta\n3\tb\n", "1\tc\n")[0] == "missing"


class TestEscaped:
    def test_a_copy_in_json_form(self):
        assert edited('say("a")\nend\n', 'say(\\"a\\")\\nend', 'say(\\"b\\")\\nend') == (ESCAPED, 'say("b")\nend\n')

    def test_entities(self):
        assert edited("if a < b:\n", "if a &lt; b:", "if a &gt; b:") == (ESCAPED, "if a > b:\n")

    def test_a_new_text_that_is_not_escaped_stays(self):
        assert edited('say("a")\n', 'say(\\"a\\")', 'say("b\\n")') == (ESCAPED, 'say("b\\n")\n')

    def test_a_new_text_that_may_be_either_is_not_guessed(self):
        assert edited('say("a")\n', 'say(\\"a\\")', 'say(\\"a\\n\\")')[0] == "misfit"


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("if not is_admin:\n", "if is_admin :\n"),
        ("if (!is_admin) {\n", "if (is_admin) {\n"),
        ("x = 10\n", "x = 11\n"),
        ("a + b\n", "a - b\n"),
        ("a b\n", "b a\n"),
        ("# the old way\n", "# the new way\n"),
        ('s = "a  b"\n', 's = "a b"\n'),
        ("Name\n", "name\n"),
    ],
)
def test_words_numbers_operators_and_their_order_are_never_forgiven(text: str, old: str):
    assert edited(text, old, "changed\n")[0] == "missing"


def test_a_miss_on_a_large_file_is_quick():
    text = "".join(f"    value_{number} = compute({number})  # note\n" for number in range(26_000))
    old = "value_77 = compute(78)\nvalue_78 = compute(79)\n"
    best = 9.0
    for _ in range(3):
        start = time.process_time()
        with pytest.raises(EditError):
            find_edit(text, old, "")
        best = min(best, time.process_time() - start)
    assert len(text) > 1_000_000
    assert best < 0.25


@pytest.mark.parametrize("text", ["one\r\ntwo\r\n", "one\ntwo\n"])
def test_half_a_line_ending_at_the_end_of_both_texts_is_none(text: str):
    """As a copy with carriage returns has it that lost its last line feed."""
    new = text.replace("one", "one\nmore") if "\r" not in text else text.replace("one", "one\r\nmore")
    assert edited(text, "one\r", "one\r\nmore\r")[1] == new
    assert edited("a\r\nb\rc\n", "b\r", "x\r") == ("exact", "a\r\nx\rc\n")
    assert edited("one\r\none two\r\n", "one\r", "x\r")[1] == "x\r\none two\r\n"


@pytest.mark.parametrize("old", ["one", "     1\tone", "one  "])
def test_a_file_without_any_line_ending_gets_the_new_texts_own(old: str) -> None:
    assert edited("one", old, "one\r\ntwo\r\n")[1] == "one\r\ntwo\r\n"
    assert edited("one", old, "one\ntwo\n")[1] == "one\ntwo\n"
