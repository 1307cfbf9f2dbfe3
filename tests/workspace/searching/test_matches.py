"""Hits, taken apart into lines."""

from __future__ import annotations

from pathlib import Path

from ferrule.workspace.paths import Paths
from ferrule.workspace.searching.search import LONGEST, Names, first_matches, in_words, lines_of

HIT = b"./a.py\x001-before\n2:5:the match: 7:7:\r\n--\n9:1:again\n10-after"


def test_lines_and_what_stands_around_them() -> None:
    assert list(in_words("a.py", lines_of(HIT), numbered=True)) == [
        "a.py-1-before",
        "a.py:2:the match: 7:7:",
        "--",
        "a.py:9:again",
        "a.py-10-after",
    ]
    assert list(in_words("a\nb", first_matches(lines_of(HIT), 1), numbered=False)) == [
        '"a\\nb"-before',
        '"a\\nb":the match: 7:7:',
    ]


def test_a_long_line_is_cut_around_its_match() -> None:
    line = b"x" * 3000 + "é".encode() * 100 + b"needle" + b"y" * 3000
    [found] = lines_of(b"a\x001:%d:%s" % (3201, line))
    assert found is not None
    shown, _, said = found["text"].partition(" [")
    assert "needle" in shown
    assert (shown[0], shown[-1], len(shown)) == ("…", "…", LONGEST + 2)
    assert said == "line cut: 500 of 6,106 characters]"
    [start] = lines_of(b"a\x001:1:" + b"x" * 600)
    assert start is not None
    assert start["text"].startswith("xxx")
    [end] = lines_of(b"a\x001:600:" + b"x" * 599 + b"!")
    assert end is not None
    assert end["text"].endswith("! [line cut: 500 of 600 characters]")


def test_a_line_that_ripgrep_cut_already() -> None:
    [found] = lines_of(b"a\x001:90000:" + b"x" * 20_000 + b" [... 1 more match]")
    assert found is not None
    assert found["text"].endswith("… [line cut: 500 of more than 20,000 characters]")


def test_names_are_shown_from_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    paths = Paths([tmp_path / "a", tmp_path / "b"])
    assert Names(paths, paths.find(".")).of(b"./x/y\0") == "x/y"
    assert Names(paths, paths.find(str(tmp_path / "b"))).of(b"./x\0") == f"{tmp_path}/b/x"
