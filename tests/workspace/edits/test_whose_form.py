"""A margin that only the old text lacks: the new text is taken as it is where the lines that stay say so."""

import pytest
from tests.workspace.edit_asking import edited

DEEP = (
    "class A:\n    def f(self):\n        first(self)\n        second(self)\n\n    def g(self):\n        third(self)\n"
)


def test_lines_that_stand_as_in_the_file_show_that_the_new_text_does():
    new = "        first(self)\n        inserted(self)\n        second(self)\n"
    old = "        first(self)\n        second(self)\n"
    assert edited(DEEP, "first(self)\nsecond(self)\n", new) == ("indentation", DEEP.replace(old, new))


def test_a_changed_line_as_deep_as_the_file_does_not_show_it():
    text = DEEP.replace("first(self)", "first('a')")
    assert edited(text, "first(‘a’)\n", "        first('a', 1)\n") == ("misfit", text)


def test_lines_may_be_moved_by_one_step_on_purpose():
    text = "def f():\n    first()\n    second()\n    last()\n"
    old, new = "first()\nsecond()\nlast()\n", "    first()\n    inserted()\n    last()\n"
    assert edited(text, old, new)[0] == "misfit"


def test_what_cannot_be_moved_left_is_as_the_file_is():
    text = "first()\nsecond()\n"
    assert edited(text, "    first()\n    second()\n", "first()\nother()\nsecond()\n") == (
        "indentation",
        "first()\nother()\nsecond()\n",
    )


@pytest.mark.parametrize("new", ["    first(x)\n    other()\n", "class B:\n    x = 1\n"])
def test_a_new_text_that_starts_as_deep_as_the_file_or_is_another_is_not_guessed_at(new: str):
    text = "def f():\n    with x:\n        first(x)\n        second(x)\n"
    assert edited(text, "with x:\n    first(x)\n    second(x)\n", new)[0] == "misfit"


def test_lines_that_stand_at_any_depth_tell_nothing():
    text = "{\n  outer: {\n    inner: {\n    }\n  }\n}\n"
    assert edited(text, "inner: {\n}\n", "  other: {\n    }\n")[0] == "misfit"


def test_spaces_of_another_text_may_be_meant_in_a_file_with_tabs():
    text = ".first {\n\tcolor: red;\n}\n"
    assert edited(text, ".first {\n  color: red;\n}\n", "body {\n  margin: 0;\n}\n")[0] == "misfit"
    assert edited(text, ".first {\n  color: red;\n}\n", ".first {\n  color: blue;\n}\n") == (
        "indentation",
        ".first {\n\tcolor: blue;\n}\n",
    )


def test_four_spaces_for_tabs_are_tabs_in_another_text_too_unless_the_file_has_many_lines_with_spaces():
    text = "first {\n\tcolor: red;\n}\n"
    old, new = "first {\n    color: red;\n}\n", "body {\n    margin: 0;\n}\n"
    assert edited(text, old, new) == ("indentation", "body {\n\tmargin: 0;\n}\n")
    spaces = "".join(f"c{number} {{\n    margin: {number};\n}}\n" for number in range(3))
    assert edited(text + spaces, old, new)[0] == "misfit"
    assert edited(text + spaces, old, old.replace("}", "    top: 0;\n}"))[0] == "misfit"


def test_a_line_moved_as_deep_as_the_file_has_it_does_not_outweigh_short_ones_that_stay():
    text = "x = 1\n\n        a = 1\n    a = 1\n    say('hi')\n"
    old, new = "\n    a = 1\na = 1\nsay('hi')\n", "\n    a = 1\na = 1\n    say('hi')\n"
    assert edited(text, old, new)[0] == "misfit"


def test_lines_that_are_moved_and_no_more_are_meant_to_be():
    assert edited("  a = 1\n  b = 'x'  \n", "b = 'x'\n", "  b = 'x'\n")[0] == "misfit"


def test_a_new_text_without_any_indentation_is_not_guessed_at_where_it_opens_blocks():
    old, flat = "first(self)\nsecond(self)\n", "first(self)\nif self.ready:\nsecond(self)\n"
    assert edited(DEEP, old, flat)[0] == "misfit"
    assert edited(DEEP, old, "first(self)\nif self.ready:\n    second(self)\n") == (
        "indentation",
        DEEP.replace("        second(self)\n", "        if self.ready:\n            second(self)\n"),
    )
    assert edited(DEEP, old, "first(\n)\nsecond(self)\n")[1] == DEEP.replace("first(self)", "first(\n        )")


def test_an_opening_line_that_the_file_has_so_shows_nothing():
    text = "class A {\n  go() {\n  more();\n  }\n}\n"
    assert edited(text, "go() {\nmore();\n}\n", "go() {\nmore();\nless();\n}\n") == (
        "indentation",
        text.replace("  more();\n", "  more();\n  less();\n"),
    )
    assert edited(text, "go() {\nmore();\n}\n", "go() {\nless();\n}\n")[1] == text.replace("more", "less")


def test_one_line_as_deep_as_the_file_by_chance_does_not_outweigh_all_that_are_not():
    body = ["with lock:", "    first(self)", "    try:", "        second(self)", "        third(self)"]
    text, old = ("".join(f"{margin}{line}\n" for line in body) for margin in ("        ", ""))
    text = f"class A:\n    def f(self):\n{text}"
    moved = [
        "with other:",
        "  with lock:",
        "            first(self)",
        "          second(self)",
        "          third(self)",
    ]
    assert edited(text, old, "".join(f"{line}\n" for line in moved))[0] == "misfit"


def test_a_text_as_deep_as_the_copy_is_not_taken_for_the_files_by_one_line():
    text = "first: one\n  second: two\n    third: three\nfourth: four\n  fifth: five\n    sixth: six\n"
    old = "".join(f"    {line}\n" for line in text.splitlines())
    new = "    First: other\n      added: of\n    third: three\n        seventh: more\n"
    assert edited(text, old, new)[0] == "misfit"


def test_a_new_text_with_the_files_spaces_that_lacks_its_margin_is_not_taken_as_it_is():
    text = "class A:\n    def f(self):\n        for a in b:\n            if a:\n                return a\n"
    old = "for a in b:\n    if a:\n\treturn a\n"
    assert edited(text, old, "if b:\n    return b\nreturn any(c)\n") == ("misfit", text)


def test_an_edit_may_be_part_of_making_two_spaces_four():
    """Then lines move by as much as they have: a copy without margin has them where the file has them now."""
    text = "class A:\n  def f(self):\n    a = 1\n    b = 2\n  def g(self):\n    c = 3\n"
    assert edited(text, "a = 1\nb = 2\n", "    a = 1\n    b = 22\n") == ("misfit", text)


def test_a_new_text_as_deep_as_the_file_does_not_bring_the_quotes_of_the_copy():
    text = 'def f():\n    if a:\n        say("a", b)\n        go(1)\n'
    assert edited(text, "say(\u201ca\u201d, b)\ngo(1)\n", "        say(\u201cc\u201d, b)\n        go(1)\n") == (
        "misfit",
        text,
    )
    assert edited(text, "\tsay(\u201ca\u201d, b)\n", "        say(\u201cc\u201d, b)\n") == ("misfit", text)
    right = ("typography", text.replace('"a"', '"c"'))
    assert edited(text, "say(\u201ca\u201d, b)\ngo(1)\n", '        say("c", b)\n        go(1)\n') in (
        right,
        ("misfit", text),
    )


def test_a_new_text_that_starts_as_deep_as_the_copy_is_not_as_the_file_for_lines_that_were_moved_there():
    text = "ports:\n  all:\n    open:\n      - 1\n      - 2\n    restart: always\n"
    new = "  wrap:\n      - 1\n      - 2\n    restart: always\n"
    assert edited(text, "  - 1\n  - 2\nrestart: always\n", new) == ("misfit", text)
