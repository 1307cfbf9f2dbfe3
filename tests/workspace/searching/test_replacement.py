"""What a replacement says, and that every group it names exists."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.workspace.searching.replacing_room import outcome

from ferrule import ToolError
from ferrule.workspace.paths import Paths
from ferrule.workspace.searching.replacement import (
    Replacement,
    about_groups,
    count_groups,
    literal_pattern,
    literal_replacement,
    names_carriage_return,
    read_replacement,
    require_groups,
)
from ferrule.workspace.searching.ripgrep import find_ripgrep


@pytest.mark.parametrize(
    ("given", "text", "groups"),
    [
        ("plain", "plain", {}),
        ("$1 and ${2}", "${1} and ${2}", {"$1": "1", "${2}": "2"}),
        ("$name-${other}", "${name}-${other}", {"$name": "name", "${other}": "other"}),
        ("$1a $1_x ${1}0 $10", "${1}a ${1}_x ${1}0 ${10}", {"$1": "1", "${1}": "1", "$10": "10"}),
        ("$$1 $$ $ $- ${} ${a-b} $é", "$$1 $$ $$ $$- $${} $${a-b} $$é", {}),
        ("$$$1", "$$${1}", {"$1": "1"}),
        ("$0 $00 $1 $1 $01", "${0} ${0} ${1} ${1} ${1}", {"$1": "1", "$01": "1"}),
        (r"\1 \12 \g<2> \g<name> \g<0>", "${1} ${12} ${2} ${name} ${0}",
         {r"\1": "1", r"\12": "12", r"\g<2>": "2", r"\g<name>": "name"}),
        (r"\\1 \\g<a> \\\1 \\\\1", r"\1 \g<a> \${1} \\1", {r"\1": "1"}),
        (r"\0 \n \d \\ C:\new\\x \g \g<a", r"\0 \n \d \\ C:\new\\x \g \g<a", {}),
        (r"$\1 $$\1 \$1", r"$$${1} $$${1} \${1}", {r"\1": "1", "$1": "1"}),
        (r"\g<> \g<a b>", "${} ${a b}", {r"\g<>": "", r"\g<a b>": "a b"}),
    ],
)  # fmt: skip
def test_groups_are_read_as_regex_tools_write_them(given: str, text: str, groups: dict[str, str]) -> None:
    assert read_replacement(given) == Replacement(text, groups)


@given(
    st.lists(st.sampled_from(["$", "{", "}", "1", "2", "0", "\\", "g<", ">", "word", "a", "é", " "]), max_size=12).map(
        "".join
    )
)
@settings(max_examples=60, deadline=None)
def test_ripgrep_writes_what_was_read(given_text: str) -> None:
    """The law behind the table: what is read is what an engine of another make puts in."""
    read = read_replacement(given_text)
    assume(set(read.groups.values()) <= {"1", "2", "word"})
    with tempfile.TemporaryDirectory() as folder:
        now = outcome(b"<ab>\n", "(a)(?<word>b)", given_text, Path(folder))
    assert now.decode() == f"<{_expanded(given_text)}>\n"
    literal = literal_replacement(given_text)
    with tempfile.TemporaryDirectory() as folder:
        assert outcome(b"<ab>\n", "(a)(?<word>b)", literal, Path(folder)).decode() == f"<{given_text}>\n"


def _expanded(text: str) -> str:
    """Character by character: a reading of its own."""
    groups = {"0": "ab", "1": "a", "2": "b", "word": "b"}
    out, at = "", 0
    while at < len(text):
        rest = text[at:]
        slashes = len(rest) - len(rest.lstrip("\\"))
        refers = re.match(r"[1-9][0-9]?|g<([^<>]*)>", rest[slashes:])
        if rest.startswith("$$"):
            out, at = out + "$", at + 2
        elif slashes and refers:
            out, at = out + "\\" * (slashes // 2), at + slashes
            if slashes % 2:
                name = refers[1] if refers[1] is not None else refers[0]
                out, at = out + groups[name.lstrip("0") or "0" if name.isdecimal() else name], at + len(refers[0])
        elif slashes:
            out, at = out + "\\" * slashes, at + slashes
        elif dollar := re.match(r"\$(?:([0-9]+)|([A-Za-z_]\w*)|\{(\w+)\})", rest, re.ASCII):
            name = dollar[1] or dollar[2] or dollar[3]
            out, at = out + groups[name.lstrip("0") or "0" if name.isdecimal() else name], at + len(dollar[0])
        else:
            out, at = out + rest[0], at + 1
    return out


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


def words(given: str, pattern: str, count: int | None) -> str:
    with pytest.raises(ToolError) as raised:
        require_groups(read_replacement(given), pattern, count)
    return f"{raised.value.message}\n{raised.value.suggestion}"


def test_a_group_that_is_not_there_is_refused_with_those_that_are() -> None:
    assert words("$1", "foo", 0) == snapshot("""\
`$1` in `replace_with` refers to the group `1`, and the pattern has no groups. Nothing was changed.
Put parentheses around the part of the pattern to keep, or use `$0` for the whole match. For the text `$1` itself write `$$1`.\
""")
    assert words("${5}", "(a)(?<word>b)", 2) == snapshot("""\
`${5}` in `replace_with` refers to the group `5`, and the pattern has 2 groups, `$1` to `$2`; by name: `${word}`. Nothing was changed.
Put parentheses around the part of the pattern to keep, or use `$0` for the whole match. For the text `${5}` itself write `$${5}`.\
""")
    assert words(r"\2", "(a)", 1) == snapshot("""\
`\\2` in `replace_with` refers to the group `2`, and the pattern has 1 group, `$1`. Nothing was changed.
Put parentheses around the part of the pattern to keep, or use `$0` for the whole match. For the text `\\2` itself write `\\\\2`.\
""")
    assert words(r"\g<nme>", "(?<name>a)", 1) == snapshot("""\
`\\g<nme>` in `replace_with` refers to the group `nme`, and the pattern has 1 group, `$1`; by name: `${name}`. Nothing was changed.
Put parentheses around the part of the pattern to keep, or use `$0` for the whole match. For the text `\\g<nme>` itself write `\\\\g<nme>`.\
""")
    assert (
        words("$10", "(a)", 1)
        == words(r"\10", "(a)", 1).replace(r"\10", "$10")
        == snapshot("""\
`$10` in `replace_with` refers to the group `10`, and the pattern has 1 group, `$1`. Nothing was changed.
For group 1 followed by `0` write `${1}0`.\
""")
    )
    assert "has 1 group" in words("$HOME", "(a)", 1)
    assert "has 1 group" in words("$" + "9" * 5_000, "(a)", 1)


def test_groups_that_are_there_are_taken() -> None:
    require_groups(read_replacement(r"$1 \2 ${word} \g<w2>"), "(?P<word>a)(?<w2>b)", 2)
    require_groups(read_replacement("$2"), "(*UCP)(a)(b)", None)
    with pytest.raises(ToolError, match="group `word`"):
        require_groups(read_replacement("$word"), r"\(?P<word>(a)", 1)


def test_plain_text_means_itself_whatever_it_holds() -> None:
    assert literal_pattern("a.b(c)$") == r"a\.b\(c\)\$"
    assert literal_pattern("a\nb") == r"a\r?\nb"
    assert literal_pattern("a\r\nb") == "a\r\nb"
    assert literal_replacement(r"$1 ${x} $$ \1") == Replacement(r"$$1 $${x} $$$$ \1", {})


@pytest.mark.parametrize(
    ("pattern", "names_it"),
    [(r"\r\n", True), (r"a\r$", True), ("a\r", True), (r"\r?\n", False), (r"\r*\n", False), (r"C:\\run", False)],
)
def test_a_pattern_about_line_endings_is_told_from_one_that_allows_for_them(pattern: str, *, names_it: bool) -> None:
    assert names_carriage_return(pattern) is names_it


def test_how_to_write_groups_literally_is_noted() -> None:
    def notes(given: str) -> list[str]:
        return about_groups(given, read_replacement(given))

    assert notes(r"x\1") == snapshot(
        ["`\\1` in `replace_with` is a group of the pattern; write `\\\\1` for the text itself."]
    )
    assert notes(r"${name}-$2") == snapshot(
        ["`${name}`, `$2` in `replace_with` are groups of the pattern; write `$${name}`, `$$2` for the text itself."]
    )
    assert notes(r"a\nb") == snapshot(["`\\n` in `replace_with` stands for itself: a backslash and `n`."])
    assert notes(r"x $$1 \\1 $0 C:\dir \\n") == []
