# ruff: noqa: E501 - a text that is pinned stands on one line
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.workspace.edit_asking import edited, words

from ferrule.workspace.edits.edit_problems import visible

FILE = "class Door:\n    def open(self):\n\tif self.locked:\n            return False  \n        self.state = 'open'\n"


def test_a_miss_shows_the_nearest_place_and_the_first_difference():
    old = "    def open(self):\n        if self.closed:\n            return False\n"
    assert words(FILE, old, "") == snapshot("""\
[missing, validation_error] The old text is not in the file. The nearest is on lines 2-4. The first difference is on line 3, column 10: the file has `if self.locked:`, you gave `if self.closed:`.

     2	····def open(self):
     3	→if self.locked:
     4	············return False··
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Copy the old text from these lines, with their spaces and tabs, and try again.\
""")


def test_one_line():
    assert words(FILE, "self.state = 'ajar'", "x") == snapshot("""\
[missing, validation_error] The old text is not in the file. The nearest is on line 5. The first difference is on line 5, column 23: the file has `…lf.state = 'open'`, you gave `…lf.state = 'ajar'`.

     5	········self.state = 'open'
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Copy the old text from these lines, with their spaces and tabs, and try again.\
""")


def test_a_text_that_differs_in_case_alone_is_shown():
    assert words(FILE, "CLASS DOOR:", "x") == snapshot("""\
[missing, validation_error] The old text is not in the file. The nearest is on line 1. The first difference is on line 1, column 1: the file has `class Door:`, you gave `CLASS DOOR:`.

     1	class Door:
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Copy the old text from these lines, with their spaces and tabs, and try again.\
""")


def test_nothing_like_it():
    assert words(FILE, "zebra", "x") == snapshot("""\
[missing, validation_error] The old text is not in the file, nor anything like it.
Suggestion: Read the file again and copy the text to change from it.\
""")


def test_a_place_at_the_end_of_the_file():
    assert words(FILE, "        self.state = 'open'\n        return True\n", "x\n") == snapshot("""\
[missing, validation_error] The old text is not in the file. The nearest is on line 5. The first difference is on line 6: the file ends before it, you gave `········return True`.

     5	········self.state = 'open'
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Copy the old text from these lines, with their spaces and tabs, and try again.\
""")


def test_a_difference_in_blanks_alone_is_told():
    assert words('call("a  b")\n', 'call("a b")\n', "x\n") == snapshot("""\
[missing, validation_error] The old text is not in the file. The nearest is on line 1. The first difference is on line 1, column 9: the file has `call("a··b")`, you gave `call("a b")`.

     1	call("a··b")
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Copy the old text from these lines, with their spaces and tabs, and try again.\
""")


def test_a_long_place_is_shown_around_the_difference():
    text = "".join(f"line {number}\n" for number in range(200))
    said = words(text, text.replace("line 150", "line one hundred and fifty"), "x")
    assert "   151\tline 150" in said
    assert len(said) < 1_500


def test_a_long_line_is_cut():
    assert len(words("x = " + "1 + " * 5_000 + "2\n", "x = " + "1 + " * 5_000 + "3\n", "y\n")) < 1_000


def test_what_the_miss_shows_is_enough_for_the_next_try():
    old = "    def open(self):\n\tif self.closed:\n            return False\n"
    assert edited(FILE, old, "")[0] == "missing"
    lines = words(FILE, old, "").split("\n\n")[1].splitlines()[:3]
    copied = "\n".join(line.partition("\t")[2].replace("·", " ").replace("→", "\t") for line in lines)
    assert edited(FILE, copied, "pass")[0] == "exact"


def test_marks_that_the_text_has_itself_are_not_used_for_blanks():
    text = "a → b\n\tc · d\n"
    assert words(text, "a → b\n\tc · e\n", "") == snapshot("""\
[missing, validation_error] The old text is not in the file. The nearest is on lines 1-2. The first difference is on line 2, column 6: the file has `c · d`, you gave `c · e`.

     1	a → b
     2	⇥c · d
(␣ is a space, ⇥ a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Copy the old text from these lines, with their spaces and tabs, and try again.\
""")


def test_an_empty_line_at_the_start_that_is_not_there():
    assert words("# one\n# two\n", "\n# one\n# two\n", "x\n") == snapshot("""\
[missing, validation_error] The old text is not in the file. The nearest is on lines 1-2. The empty lines at its start are not in the file.

     1	# one
     2	# two
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Copy the old text from these lines, with their spaces and tabs, and try again.\
""")
    said = words("a\n\n# one\n# two\n", "\n\n\n# one\n# two\n", "x\n")
    assert "lines 2-4." in said


def test_blanks_can_be_seen():
    assert visible("\t  a  b c \r") == "→··a··b c ␍"
    assert visible("a\u00a0b ") == "a⍽b·"


def test_a_copy_that_leaves_lines_out_is_shown_the_place_to_its_end():
    """Else the next try would replace less than the new text stands for, and have its last line twice."""
    text = "a = 1\nclass Door:\n    open = 1\n    shut = 2\n    lock = 3\n    key = 4\nb = 2\n"
    assert words(text, "class Door:\n    open = 1\n    lock = 3\n    key = 4\n", "") == snapshot("""\
[missing, validation_error] The old text is not in the file. The nearest is on lines 2-6. The first difference is on line 4, column 5: the file has `shut = 2`, you gave `lock = 3`.

     2	class Door:
     3	····open = 1
     4	····shut = 2
     5	····lock = 3
     6	····key = 4
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Copy the old text from these lines, with their spaces and tabs, and try again.\
""")
    assert "lines 2-6." in words(text, "class Door:\n    ...\n    key = 4\n", "")
    assert "lines 2-4." in words(text, "class Door:\n    open = 0\n    shut = 2\n", "")


@given(st.integers(4, 12), st.data())
def test_whichever_lines_a_copy_leaves_out_its_first_and_last_are_shown(count: int, data: st.DataObject):
    lines = [f"    line_{number} = value_{number * 7919}" for number in range(count + 6)]
    gone = data.draw(st.sets(st.integers(1, count - 2), min_size=1, max_size=3))
    kept = [line for number, line in enumerate(lines[3 : 3 + count]) if number not in gone]
    said = words("\n".join(lines) + "\n", "\n".join(kept) + "\n", "")
    assert f"nearest is on lines 4-{3 + count}." in said
