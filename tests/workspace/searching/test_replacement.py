"""What a replacement says, and that every group it names exists."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule import ToolError
from ferrule.workspace.paths import Paths
from ferrule.workspace.searching.replacement import (
    about_backslashes,
    count_groups,
    groups_of,
    literal_pattern,
    literal_replacement,
    names_carriage_return,
    require_groups,
)
from ferrule.workspace.searching.ripgrep import find_ripgrep


@pytest.mark.parametrize(
    ("replacement", "groups"),
    [
        ("plain", []),
        ("$1 and ${2}", ["1", "2"]),
        ("$name-${other}", ["name", "other"]),
        ("$1a ${1}a", ["1a", "1"]),
        ("$$1 $$ $ $- ${} ${a-b} $é", []),
        ("$$$1", ["1"]),
        ("$0 $1 $1", ["1"]),
    ],
)
def test_groups_are_read_as_ripgrep_reads_them(replacement: str, groups: list[str]) -> None:
    assert groups_of(replacement) == groups


@pytest.mark.parametrize("pcre2", [False, True])
@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("foo", 0),
        ("(a)(b)", 2),
        ("(?P<n>a)|(?<m>b)(?:c)[()]", 2),
        (r"\((a)\)", 1),
        ("(?x)(a) # (not one)", 1),
        ("(?i)((A)(B)(C))", 4),
        ("(a", None),
    ],
)
def test_the_engine_counts_the_groups(pattern: str, count: int | None, *, pcre2: bool, tmp_path: Path) -> None:
    paths = Paths([tmp_path])
    program = find_ripgrep(paths)
    assert program is not None
    assert asyncio.run(count_groups(program, paths.find("."), pattern, pcre2=pcre2)) == count


def words(wanted: str, pattern: str, count: int | None) -> str:
    with pytest.raises(ToolError) as raised:
        require_groups([wanted], pattern, count)
    return f"{raised.value.message}\n{raised.value.suggestion}"


def test_a_group_that_is_not_there_is_refused_with_those_that_are() -> None:
    assert words("1", "foo", 0) == snapshot("""\
`replace_with` refers to the group `1`, and the pattern has no groups.
Put parentheses around the part of the pattern to keep, or use `$0` for the whole match. For the text `$1` itself write `$$1`.\
""")
    assert words("5", "(a)(?<word>b)", 2) == snapshot("""\
`replace_with` refers to the group `5`, and the pattern has 2 groups, `$1` to `$2`; by name: `${word}`.
Put parentheses around the part of the pattern to keep, or use `$0` for the whole match. For the text `$5` itself write `$$5`.\
""")
    assert words("1_old", "(a)", 1) == snapshot("""\
`replace_with` refers to the group `1_old`, and the pattern has 1 group, `$1`.
For group 1 followed by `_old` write `${1}_old`.\
""")
    assert "has 1 group" in words("HOME", "(a)", 1)


def test_groups_that_are_there_are_taken() -> None:
    require_groups(["1", "2", "word", "w2"], "(?P<word>a)(?<w2>b)", 2)
    require_groups(["2"], "(*UCP)(a)(b)", None)
    with pytest.raises(ToolError, match="group `word`"):
        require_groups(["word"], r"\(?P<word>(a)", 1)


def test_plain_text_means_itself_whatever_it_holds() -> None:
    assert literal_pattern("a.b(c)$") == r"a\.b\(c\)\$"
    assert literal_pattern("a\nb") == r"a\r?\nb"
    assert literal_pattern("a\r\nb") == "a\r\nb"
    assert groups_of(literal_replacement("$1 ${x} $$")) == []


@pytest.mark.parametrize(
    ("pattern", "names_it"),
    [(r"\r\n", True), (r"a\r$", True), ("a\r", True), (r"\r?\n", False), (r"\r*\n", False), (r"C:\\run", False)],
)
def test_a_pattern_about_line_endings_is_told_from_one_that_allows_for_them(pattern: str, *, names_it: bool) -> None:
    assert names_carriage_return(pattern) is names_it


def test_a_group_as_other_programs_write_it_is_noted() -> None:
    assert about_backslashes("(a)", r"x\1") == snapshot(
        ["`\\1` in `replace_with` stands for itself here. Groups are written `$1`."]
    )
    assert about_backslashes("a", r"x\1") == about_backslashes("(a)", "x$1") == []
