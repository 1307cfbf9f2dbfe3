"""What a request names."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.registry.choose_tools import Named, loose_folders, mentions, without_mentions


def named(text: str) -> list[tuple[str, str]]:
    return [(one.kind.value, one.text) for one in mentions(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Show me README.md.", [("file", "README.md")]),
        ("看一下README.md的内容", [("file", "README.md")]),
        ("read src/app/main.py, please", [("file", "src/app/main.py")]),
        ("open ./a/b.tar.gz", [("file", "./a/b.tar.gz")]),
        ("what is in .gitignore?", [("file", ".gitignore")]),
        ("build with the Makefile", [("file", "Makefile")]),
        ('say "hello there" and `x = 1`', [("quoted", "hello there"), ("quoted", "x = 1")]),
        ("把“旧的”换成「新的」", [("quoted", "旧的"), ("quoted", "新的")]),
        ("it's not Ann's 'quoted text'", [("quoted", "quoted text")]),
        ("find *.py and src/**/*.ts", [("glob", "*.py"), ("glob", "src/**/*.ts")]),
        ("list src/ and tests/unit", [("folder", "src/"), ("folder", "tests/unit")]),
        ("what is in the docs folder?", [("folder", "docs")]),
        ("docs 目录里有什么", [("folder", "docs")]),
        ("which directory is this folder in", []),
        ("what does the folder scripts contain", [("folder", "scripts")]),
        ("every JSON file, with subfolders and subdirectories", []),
        ("look for the word deprecated", [("code", "deprecated")]),
        ("查找 deprecated 这个词", [("code", "deprecated")]),
        ("get https://example.org/a?b=1.", [("url", "https://example.org/a?b=1")]),
        ("stop bash_1 and call parse_args()", [("code", "bash_1"), ("code", "parse_args")]),
        ("where is DATABASE_URL or fooBar used", [("code", "DATABASE_URL"), ("code", "fooBar")]),
        ("the first 20 lines with Python 3.11", [("number", "20")]),
        ("e.g. this, i.e. that", []),
        ("Run the command ls -la | wc", [("command", "ls -la | wc")]),
        ("执行命令 git log -1", [("command", "git log -1")]),
        ("stop the background command soon", []),
    ],
)
def test_what_is_named_is_found(text: str, found: list[tuple[str, str]]) -> None:
    assert named(text) == found


def test_the_words_around_what_is_named_are_left() -> None:
    assert without_mentions('replace "search" with "find" in list.py').split() == ["replace", "with", "in"]
    assert "20" in without_mentions("the first 20 lines")


def test_bare_words_where_a_folder_would_stand_are_a_guess() -> None:
    assert loose_folders("list the files in tests recursively") == ["tests"]
    assert loose_folders("tests 下有什么") == ["tests"]
    assert loose_folders("what is in the current folder, or in this project?") == []


@given(st.text(max_size=300))
def test_mentions_are_in_order_and_do_not_overlap(text: str) -> None:
    found = mentions(text)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(one.text in text[one.start : one.end] for one in found)


def test_a_long_text_is_read_from_its_beginning() -> None:
    assert named("a" * 200_000 + " b.py") == []
    assert mentions("b.py " + "a" * 200_000)[0].kind is Named.FILE
