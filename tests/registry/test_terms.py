"""Words brought to one form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.registry.choose_tools import name_terms, name_words, terms


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
