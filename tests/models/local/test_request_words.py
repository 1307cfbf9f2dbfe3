"""What a request says: the concepts in its words, and the things it names."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.models.local.request_words import (
    CONCEPTS,
    NOTHING_SAID,
    Named,
    loose_folders,
    mentions,
    name_terms,
    name_words,
    terms,
    without_mentions,
)


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
    assert loose_folders("a" * 200_000) == []


# Words brought to one form


@pytest.mark.parametrize(
    ("english", "chinese", "concept"),
    [
        ("running", "运行", "run"),
        ("replaced", "替换", "edit"),
        ("directories", "目录", "folder"),
        ("today's", "今天", "time"),
        ("branches", "分支", "git"),
        ("stopped", "停止", "stop"),
        ("emails", "邮件", "mail"),
    ],
)
def test_both_languages_meet_in_one_concept(english: str, chinese: str, concept: str) -> None:
    assert concept in terms(english)
    assert concept in terms(chinese)


def test_unknown_words_keep_their_stem_and_empty_ones_go() -> None:
    assert terms("please give me the widgets") == ["widget"]


def test_the_longest_chinese_word_is_taken() -> None:
    assert terms("写了什么") == ["read"]
    assert terms("写") == ["write"]


def test_names_are_split_into_words() -> None:
    assert name_words("getCurrentDateTime") == ["get", "current", "date", "time"]
    assert name_words("file_path") == ["file", "path"]
    assert name_terms("-i") == []


@given(st.text(max_size=200))
def test_any_text_has_terms(text: str) -> None:
    assert all(term for term in terms(text))


ROWS = [line.split(":", 1) for line in CONCEPTS.replace("\n  ", " ").strip().splitlines()]


def test_each_concept_stands_once_and_has_words_in_both_languages() -> None:
    assert len({concept for concept, _ in ROWS}) == len(ROWS)
    for concept, words in ROWS:
        english, chinese = words.split("|")
        assert english.split(), concept
        assert chinese.split(), concept
        assert not any(character.isascii() for character in chinese.replace(" ", "")), concept


def test_a_concept_is_found_under_its_own_name() -> None:
    lost = [concept for concept, _ in ROWS if concept not in terms(concept)]
    assert lost == []


def test_words_that_say_nothing_mean_nothing() -> None:
    assert terms(NOTHING_SAID) == []
