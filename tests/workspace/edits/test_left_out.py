# ruff: noqa: E501 - a text that is pinned stands on one line
from inline_snapshot import snapshot
from tests.workspace.edit_asking import edited, words

FILE = "def f():\n    return 1\n\n\nx = f()\n"


def test_lines_that_know_the_indentation_are_taken_by_the_letter():
    code = "{\n    f();\n}\n"
    assert edited(code, "f();", "f();\n    g();") == ("exact", code.replace("f();", "f();\n    g();"))
    deep = "if a:\n        f()\n"
    assert edited(deep, "f()", "x = 1\n        f()") == ("exact", deep.replace("f()", "x = 1\n        f()"))


def test_lines_that_may_stand_a_step_deeper_are_not_guessed():
    assert edited(FILE, "return 1", "y = 1\n    return y")[0] == "misfit"
    assert edited(FILE, "return 1", "if x:\n        return 1\n    return 2")[0] == "misfit"
    assert edited("  (a b)\n", "(a b)", "(a b\n  (c))")[0] == "misfit"


def test_a_place_that_fits_without_its_margin_elsewhere_makes_two():
    text = "    b\n            b\n        b\n    b\n"
    assert edited(text, "b\n        b\n    b\n", "b\n    b\n")[0] == "several"


def test_new_lines_that_may_have_lost_it_too_are_not_guessed():
    assert edited("    a,\n)\n", "a,\n)\n", "a,\nb,\n)\n")[0] == "misfit"


def test_lines_that_may_lack_it_are_not_guessed():
    assert words(FILE, "return 1", "y = 1\nreturn y") == snapshot("""\
[misfit, execution_error] The old text fits on line 2, but it leaves out the indentation there, so how far to indent the lines after it is not clear. Nothing was changed.

     2	····return 1
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Give the old and the new text as whole lines, exactly as they stand in the file.\
""")
    assert edited(FILE, "return 1", "if x:\n    return 1")[0] == "misfit"
    assert edited(FILE, "return 1", "def g():  # inner\n    return 1")[0] == "misfit"


def test_lines_that_may_be_aligned_are_not_guessed():
    assert edited("    * a -- b\n", "* a -- b", "* c -- d\n           e")[0] == "misfit"


def test_a_new_text_that_brings_the_indentation_along_is_not_guessed():
    assert words(FILE, "return 1\n", "    return 2\n") == snapshot("""\
[misfit, execution_error] The old text fits on line 2, but whether the new text is indented like it or like the file is not clear. Nothing was changed.

     2	····return 1
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)
Suggestion: Give the old and the new text as whole lines, exactly as they stand in the file.\
""")


def test_a_first_line_alone_without_indentation():
    text = "  a\n  b\nc\n"
    assert edited(text, "a\n  b", "  x\n  y") == ("indentation", "  x\n  y\nc\n")


def test_a_line_that_goes_goes_with_its_indentation():
    assert edited(FILE, "return 1\n", "")[1] == "def f():\n\n\nx = f()\n"
    assert edited(FILE, "return 1", "") == ("exact", "def f():\n    \n\n\nx = f()\n")


def test_lines_that_would_fall_out_of_their_block_are_indented_as_it_is():
    text = "def f():\n    a = first()\n    b = second()\n"
    assert edited(text, "a = first()\n", "a = first()\nc = third()\n") == (
        "indentation",
        "def f():\n    a = first()\n    c = third()\n    b = second()\n",
    )
    assert edited(text, "b = second()\n", "b = second()\nc = third()\n")[0] == "misfit"


def test_what_closes_a_bracket_of_the_new_text_stands_as_deep_as_it_does():
    text = "def f():\n    a = first()\n    b = second()\n"
    assert edited(text, "a = first()\n", "a = [\n    one,\n]\n") == (
        "indentation",
        "def f():\n    a = [\n        one,\n    ]\n    b = second()\n",
    )
    assert edited(text, "a = first()\n", "a = first()\n]\n")[0] == "misfit"


def test_lines_that_would_fall_below_the_next_block_are_indented_as_theirs_is():
    text = "class A:\n  def f(self):\n    a = first()\n\n  def g(self):\n    b = second()\n"
    assert edited(text, "a = first()\n", "a = first()\nc = third()\n") == (
        "indentation",
        text.replace("a = first()", "a = first()\n    c = third()"),
    )
    assert edited(text, "b = second()\n", "b = second()\nc = third()\n")[0] == "misfit"


def test_items_of_one_list_stay_at_one_depth():
    text = "x = {\n    'first': 1,\n}\n"
    assert edited(text, "'first': 1,\n", "'first': 1,\n'second': 2,\n") == (
        "indentation",
        "x = {\n    'first': 1,\n    'second': 2,\n}\n",
    )


def test_the_line_that_stays_below_new_ones_keeps_its_indentation():
    assert edited(FILE, "return 1\n", "if x:\n    y()\nreturn 1\n") == (
        "indentation",
        "def f():\n    if x:\n        y()\n    return 1\n\n\nx = f()\n",
    )


def test_a_directive_may_stand_in_the_first_column():
    text = "{\n    first();\n    last();\n}\n"
    assert edited(text, "first();\n", "first();\n#endif\n")[0] == "misfit"


def test_what_closes_a_block_may_stand_further_left():
    assert edited("  {\n  };\n\n  last();\n", "};\n\n", "}\n}\n\n")[0] == "misfit"


def test_a_change_within_a_line_is_exact_whatever_stands_elsewhere():
    assert edited("a  \n  a", " a", "") == ("exact", "a  \n ")
    assert edited("a  \n  a", " a", " b") == ("exact", "a  \n  b")
