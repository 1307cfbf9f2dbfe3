from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ferrule.workspace.edits.file_style import Reindent, Unclear, margin, step_of


def reindented(old: list[str], file: list[str], line: str) -> str:
    how = Reindent(old, file, "\n".join(file))
    assert how.fits
    return how.line(line)


@pytest.mark.parametrize(
    ("old", "file", "line", "result"),
    [
        (["a"], ["    a"], "b", "    b"),
        (["a", "  b"], ["\ta", "\t  b"], "  c", "\t  c"),
        (["    a", "        b"], ["a", "    b"], "            c", "        c"),
        (["    a", "        b"], ["\ta", "\t\tb"], "            c", "\t\t\tc"),
        (["  a", "    b"], ["\ta", "\t\tb"], "      c", "\t\t\tc"),
        (["        a"], ["\t\ta"], "            c", "\t\t\tc"),
        (["\ta", "\t\tb"], ["    a", "        b"], "\t\t\tc", "            c"),
        (["a"], ["\ta"], "\tb", "\t\tb"),
        (["a"], ["  a"], "", ""),
    ],
)
def test_new_lines_follow_the_one_rule(old: list[str], file: list[str], line: str, result: str):
    assert reindented(old, file, line) == result


@pytest.mark.parametrize(
    ("old", "file", "line"),
    [
        (["a"], ["\ta"], "    b"),  # how wide a tab is, nothing tells
        (["    a"], ["\t\ta"], "        b"),  # two of 2, or one of 4 and a margin
        (["    a"], ["\ta"], "      b"),  # tabs and spaces to align
        (["    a"], ["a"], "  b"),  # further left than the margin taken away
    ],
)
def test_what_cannot_be_told_is_not_guessed(old: list[str], file: list[str], line: str):
    with pytest.raises(Unclear):
        reindented(old, file, line)


def test_spaces_may_stand_for_spaces_where_the_file_has_both():
    how = Reindent(["    a", "        b"], ["\ta", "\t\tb"], "\ta\n\t\tb\n\t    c")
    assert how.line("    d") == "\td"
    with pytest.raises(Unclear):
        how.line("        d")


def test_uneven_shifts_do_not_fit():
    assert not Reindent(["a", "b"], ["  a", "    b"], "").fits


def test_the_margin_is_what_all_lines_share():
    assert margin(["    a", "", "      b"]) == "    "
    assert margin(["\ta", "    b"]) == ""
    assert margin([]) == ""


def test_the_line_that_follows_tells_how_deep_a_line_without_indentation_is():
    old, file = ["    a"], ["        a"]
    with pytest.raises(Unclear):
        Reindent(old, file, "").line("b")
    assert Reindent(old, file, "", "    c").line("b") == "    b"


@pytest.mark.parametrize(
    ("text", "steps"),
    [("a\n    b\n        c\nd\n    e\n", 4), ("a\n  b\n", 2), ("a\n\tb\n", None), ("a\nb\n", None), ("", None)],
)
def test_the_step_of_a_file(text: str, steps: int | None):
    assert step_of(text) == steps


FOUR = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"


@pytest.mark.parametrize(
    ("copy", "line"),
    [
        ("\treturn 1", "def h(self):"),  # one tab for eight spaces, or for four and a margin that is gone
        ("\treturn 1", "\t\treturn 3"),
        ("    return 1", "      return 3"),  # a margin that is gone, or two spaces where the file has four
    ],
)
def test_a_copy_that_may_have_other_steps_than_the_file_is_not_guessed_at(copy: str, line: str):
    with pytest.raises(Unclear):
        Reindent([copy], ["        return 1"], FOUR).line(line)


def test_a_tab_stands_for_one_step_of_the_file():
    assert Reindent(["\t\treturn 1"], ["        return 1"], FOUR).line("\tdef h(self):") == "    def h(self):"
    assert Reindent(["    return 1"], ["        return 1"], FOUR).line("        x") == "            x"


def _indented(depths: list[int], unit: str, margin: int = 0) -> list[str]:
    return [unit * max(depth - margin, 0) + f"line{number}" for number, depth in enumerate(depths)]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.sampled_from(["  ", "    ", "\t"]),
    st.sampled_from(["  ", "    ", "\t"]),
    st.booleans(),
)
def test_new_lines_stand_as_deep_as_they_did_in_the_copy_or_nowhere(
    old: list[int], new: list[int], unit: str, other: str, dedents: bool
):
    """Whatever one step is in the file and in the copy; or a tab in one of them, and however many steps were lost."""
    new = [min(depth, max(old) + 1) for depth in new]
    margin = min(old + new) if dedents and (unit == other or "\t" in unit + other) else 0
    assume(_indented(old, other, margin) != _indented(old, unit))
    body = ["top", *_indented([1, 2, 3, 2, 1, 2, 0, 1, 2], unit), *_indented(old, unit)]
    how = Reindent(_indented(old, other, margin), _indented(old, unit), "\n".join(body) + "\n")
    if not how.fits:
        return
    for given_line, meant in zip(_indented(new, other, margin), _indented(new, unit), strict=True):
        with suppress(Unclear):
            assert how.line(given_line) == meant


def test_the_lines_of_a_block_comment_stand_one_space_deeper_than_it():
    how = Reindent(["        a();", "    }"], ["\t\ta();", "\t}"], "class A {\n\tf() {\n\t\ta();\n\t}\n}\n")
    assert [how.line(line) for line in ("    /**", "     * Says.", "     */")] == ["\t/**", "\t * Says.", "\t */"]
    how = Reindent(["\t\ta();", "\t}"], ["    a();", "  }"], "class A {\n  f() {\n    a();\n  }\n}\n")
    assert how.line("\t * Says.") == "   * Says."
    with pytest.raises(Unclear):
        how.line("\t  * Says.")
