import pytest

from ferrule.workspace.edits.reindent import Reindent, Unclear, margin


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
