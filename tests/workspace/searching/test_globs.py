"""Globs: what they mean, and that they stay inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule import ToolError
from ferrule.workspace.paths import Paths
from ferrule.workspace.searching.globs import compile_glob, escape_glob, excluded_globs, glob_below, select, split_globs


@pytest.mark.parametrize(
    ("glob", "fits", "does_not"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py"]),
        ("/src/*.py", ["src/a.py"], ["x/src/a.py"]),
        ("src/**", ["src/a", "src/x/y"], ["srcs/a", "src"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["xa"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.t", "a.ts,tsx"]),
        ("[a-c].x", ["a.x", "b.x"], ["d.x", "ab.x"]),
        ("[!a-c].x", ["d.x"], ["a.x", "/.x"]),
        ("a?c", ["abc"], ["a/c", "ac"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        ("a.b(c)+", ["a.b(c)+"], ["axb(c)+"]),
        ("{a,b", ["{a,b"], ["a"]),
    ],
)
def test_what_a_glob_fits(glob: str, fits: list[str], does_not: list[str]) -> None:
    compiled = compile_glob(glob)
    assert [path for path in fits if not compiled.fullmatch(path)] == []
    assert [path for path in does_not if compiled.fullmatch(path)] == []


def test_several_globs_in_one_text() -> None:
    assert split_globs("*.ts, *.tsx") == ["*.ts", "*.tsx"]
    assert split_globs("*.{ts,tsx},a[,]b") == ["*.{ts,tsx}", "a[,]b"]
    assert split_globs(" ") == []


def test_a_glob_is_read_from_the_searched_folder(tmp_path: Path) -> None:
    (tmp_path / "a[b]").mkdir()
    paths = Paths([tmp_path])
    top, inner = paths.find("."), paths.find("a[b]")
    assert glob_below("*.py", inner) == "*.py"
    assert glob_below("x/*.py", top) == "/x/*.py"
    assert glob_below("x/*.py", inner) == r"/a\[b\]/x/*.py"
    assert glob_below("!./x/", inner) == r"!/a\[b\]/x/**"
    assert glob_below(f"{tmp_path}/x/*.py", top) == "/x/*.py"
    assert glob_below(str(tmp_path), top) == "/**"
    assert compile_glob(escape_glob("a*[{!?}]\\")).fullmatch("a*[{!?}]\\")


@pytest.mark.parametrize(
    "glob", ["../*", "a/../../b", "/etc/*", "/*", "~/x", "a\0b", "x" * 5000, "!../x", "!", "/ws-evil/*"]
)
def test_what_leads_out_is_refused(glob: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError) as refused:
        glob_below(glob, Paths([tmp_path]).find("."))
    assert refused.value.kind == "validation_error"
    assert refused.value.suggestion


def test_dots_within_a_name_lead_nowhere(tmp_path: Path) -> None:
    assert glob_below("a..b/*", Paths([tmp_path]).find(".")) == "/a..b/*"


def test_what_ripgrep_is_told_and_what_is_looked_at_afterwards() -> None:
    names = select(["*.py", "!x/*"])
    assert names.flags == ("--glob=!x/*", "--type-add=ferrule:*.py", "--type=ferrule")
    assert names.fit is None
    assert select(["/**/*.py"]).fit is None
    paths = select(["/src/**/*.py"])
    assert paths.flags == ("--type-add=ferrule:*.py", "--type=ferrule")
    assert paths.fit is not None
    looked_at = [b"./src/a/b.py", b"./lib/b.py", b"./src/caf\xe9\n.py", b"src/b.py"]
    assert list(map(bool, paths.fit(looked_at))) == [True, False, True, True]
    both = select(["*.py"], "js")
    assert both.flags == ("--type=js",)
    assert both.fit is not None
    assert select(["/a/{b/c,d}", "*.py"]).flags == ()
    for colon in (select(["include:py"]), select(["a:b"]), select(["c*:[:]"])):
        assert colon.flags == ()  # it would mean something else to ripgrep
        assert colon.fit is not None
    doubled = select(["a**b"]).fit
    assert doubled is not None
    assert list(map(bool, doubled([b"./x/aab", b"./x/ab.c"]))) == [True, False]
    assert select(["**"]).fit is None


def test_what_is_left_out_may_be_a_file_or_a_folder_with_all_in_it() -> None:
    assert excluded_globs("vendor, !*.min.js, dist/, src/gen") == [
        "vendor", "**/vendor/**", "*.min.js", "**/*.min.js/**", "**/dist/**", "src/gen", "src/gen/**",
    ]  # fmt: skip
    assert excluded_globs("") == []
