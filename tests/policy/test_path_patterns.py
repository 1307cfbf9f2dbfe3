"""Paths in rules, in the way of .gitignore."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.policy.patterns import PathPattern, RuleError, escape_path

ROOTS = ("/ws", "/added")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/ada")


@pytest.mark.parametrize(
    ("pattern", "path", "covers", "concerns"),
    [
        ("./secrets/**", "/ws/secrets/a/b", True, True),
        ("./secrets/**", "/ws/secrets", False, True),
        ("./secrets/**", "/ws/other/secrets/a", False, False),
        ("./", "/ws/a/b", True, True),
        (".", "/ws/a/b", False, True),
        (".", "/elsewhere", False, False),
        ("../other", "/other/a", False, True),
        ("secrets/**", "/ws/secrets/a", True, True),
        ("secrets/", "/ws/secrets/a", True, True),
        ("/src/**", "/ws/src/a.py", True, True),
        ("/src/*", "/ws/src/a.py", True, True),
        ("/src/*", "/ws/src/a/b.py", False, True),
        ("/src/**/*.py", "/ws/src/a/b.py", True, True),
        ("/src/**/*.py", "/ws/src/b.py", True, True),
        ("//etc/**", "/etc/passwd", True, True),
        ("//etc/passwd", "/etc/passwd", True, True),
        ("//etc/passwd", "/ws/etc/passwd", False, False),
        ("~/.ssh/**", "/home/ada/.ssh/id_rsa", True, True),
        ("~/.ssh/**", "/home/bob/.ssh/id_rsa", False, False),
        (".env", "/ws/.env", True, True),
        (".env", "/ws/deep/down/.env", True, True),
        (".env", "/added/.env", True, True),
        (".env", "/elsewhere/.env", False, True),
        (".env", "/ws/.envrc", False, False),
        ("**/.env", "/ws/a/.env", True, True),
        ("*.key", "/ws/a/b.key", True, True),
        ("[ab].txt", "/ws/a.txt", True, True),
        ("[!ab].txt", "/ws/a.txt", False, False),
        ("a?c", "/ws/abc", True, True),
        ("a?c", "/ws/a/c", False, False),
        ("**", "/ws/a/b", True, True),
        ("**", "/elsewhere", False, True),
        ("//**", "/elsewhere", True, True),
        ("../shared/**", "/shared/a", True, True),
        ("node_modules", "/ws/node_modules/x/y.js", False, True),
        (r"a\*b", "/ws/a*b", True, True),
        (r"a\*b", "/ws/axb", False, False),
    ],
)
def test_what_a_pattern_is_about(pattern: str, path: str, covers: bool, concerns: bool):
    """S3: allow must fit the path; deny also holds for what lies in it, and a bare name wherever it lies."""
    found = PathPattern(pattern)
    assert (found.covers(path, ROOTS), found.concerns(path, ROOTS)) == (covers, concerns)


def test_a_slash_starts_at_the_folder_of_the_projects_settings():
    assert PathPattern("/src/**", Path("/project")).covers("/project/src/a", ROOTS)
    assert not PathPattern("/src/**", Path("/project")).covers("/ws/src/a", ROOTS)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "brackets are empty"),
        ("!a", "cannot have `!` exceptions"),
        ("~bob/x", "no user's home"),
        ("$HOME/x", "`\\$HOME` is not filled in"),
        ("${HOME}/.ssh/**", "is not filled in"),
        ("$SECRETS", "is not filled in"),
        ("src/{a,b}/*", "a rule for each"),
        ("src/[ab", "not closed"),
        ("https://example.org", "an address"),
        ("a\0b", "NUL"),
        ("a\\", "backslash"),
    ],
)
def test_a_pattern_that_can_never_match_is_an_error(pattern: str, said: str):
    with pytest.raises(RuleError, match=said):
        PathPattern(pattern)


def test_a_name_may_begin_with_the_sign_of_a_variable() -> None:
    assert PathPattern("[$]HOME/x").concerns("/ws/$HOME/x", ROOTS)
    assert PathPattern("a$b/x").concerns("/ws/a$b/x", ROOTS)
    assert PathPattern("$*.lock").concerns("/ws/$a.lock", ROOTS)


def test_a_denied_folder_that_is_a_link_is_denied_where_it_leads(tmp_path: Path):
    real, roots = tmp_path / "real", (str(tmp_path),)
    real.mkdir()
    (tmp_path / "secrets").symlink_to(real)
    pattern = PathPattern("./secrets/**")
    assert pattern.concerns(str(real / "a"), roots)
    assert not pattern.covers(str(real / "a"), roots), "whoever makes a link must not choose what is allowed"


@pytest.mark.parametrize(
    ("pattern", "folder", "does"),
    [
        ("./secrets/**", "/ws", True),
        ("./secrets/**", "/ws/secrets/a", False),
        ("./secrets/**", "/ws/other", False),
        (".env", "/ws/other", False),
        ("//etc/passwd", "/ws", False),
        ("//etc/passwd", "/etc", True),
    ],
)
def test_whether_it_lies_in_a_folder(pattern: str, folder: str, does: bool):
    assert PathPattern(pattern).lies_in(folder, ROOTS) == does


@pytest.mark.parametrize(
    ("place", "rule", "named"),
    [
        ("**/.git/**/config", ".git/**", True),
        ("**/.git/**/config", "//ws/.git/config", True),
        ("**/.git/**/config", "**/config", True),
        ("**/.git/**/config", "**", False),
        ("**/.git/**/config", "//ws/**", False),
        ("**/ws", "//ws/**", False),
        ("//etc/**", "//etc/hosts", True),
        ("//etc/**", "//etc/**", True),
        ("//etc/**", "//**", False),
        ("~/.config/fish/**", "~/.config/fish/config.fish", True),
        ("~/.config/fish/**", "//home/ada/.config/fish/**", True),
        ("~/.config/fish/**", "~/.config/**", False),
        ("//ws/mine/**/*.py", "mine/**", True),
        ("//ws/mine/**/*.py", "**/mine/*.py", True),
        ("//ws/mine/**/*.py", "//ws/mine/a.py", True),
        ("//ws/mine/**/*.py", "//ws/**", False),
        ("//ws/mine/**/*.py", "*.py", False),
        ("//opt/mine/tools/**/*.py", "//opt/mine/**", False),
    ],
)
def test_a_place_is_named_and_not_just_taken_in(place: str, rule: str, named: bool):
    assert PathPattern(place).is_named_by(PathPattern(rule), ROOTS) is named


NAMES = st.text(alphabet="abc.*?[]!{}\\ -ü", min_size=1, max_size=8).filter(lambda name: name not in (".", ".."))


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_an_escaped_path_means_just_itself(names: list[str]):
    path = "/" + "/".join(names)
    if "{" in path or "}" in path:
        return
    pattern = PathPattern("/" + escape_path(path)) if not path.endswith(" ") else None
    if pattern is not None:
        assert pattern.covers(path, ROOTS)
        assert not pattern.covers(path + "x", ROOTS)


@given(st.sampled_from(["./a/**", "a", "*.py", "/a/*/c", "//ws/**", "a/[bc]"]), st.lists(NAMES, max_size=4))
def test_what_is_covered_is_also_concerned(pattern: str, names: list[str]):
    path = "/".join(["/ws", *names])
    found = PathPattern(pattern)
    assert not found.covers(path, ROOTS) or found.concerns(path, ROOTS)


PLAIN = ["a", ".env", "a.b", "**/a", "**/a/b", "**/.env/**", "a/", "**/a b", "**/é", "//a/b", "./a", "*.a", "**/a/*"]


@given(st.sampled_from(PLAIN), st.text(alphabet="ab./ é\nenv", max_size=12))
def test_a_plain_name_concerns_what_its_expression_fits(pattern: str, rest: str):
    """Without compiling one for each name (R1)."""
    path, found = f"/{rest}", PathPattern(pattern)
    fits = any(re.fullmatch(shape, path, re.DOTALL) for shape in found.wide_shapes(ROOTS))
    assert found.concerns(path, ROOTS) == fits
