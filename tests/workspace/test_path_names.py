"""Which names a path may hold."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.workspace.names import (
    check_new_names,
    check_text,
    escaped,
    look_alikes,
    same_letters,
    slips,
    unicode_form,
)
from ferrule.workspace.problems import PathError


@pytest.mark.parametrize(
    "name",
    [
        "a.py",
        "..a",
        "a..b",
        "-rf",
        " lead",
        "名前",
        "é",
        "e\u0301",
        "\U0001f469\u200d\U0001f4bb",
        "\u0645\u06cc\u200c\u062e",
        "~x",
        "a:b",
    ],
)
def test_an_ordinary_name_may_be_made(name: str) -> None:
    check_new_names([name])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a\u200db", "U\\+200D ZERO WIDTH JOINER"),
        ("\u200d名", "U\\+200D"),
        ("名\u200d", "U\\+200D"),
        ("a\u200bb", "U\\+200B"),
        ("\u202egpj.exe", "RIGHT-TO-LEFT OVERRIDE"),
        ("a\nb", "U\\+000A CONTROL"),
        ("a\uff0fb", "FULLWIDTH SOLIDUS"),
        ("a\\b", "a backslash"),
        ("a.", "a dot"),
        ("a ", "a space"),
        ("...", "a dot"),
    ],
)
def test_a_name_that_misleads_is_not_made(name: str, why: str) -> None:
    with pytest.raises(PathError, match=why) as problem:
        check_new_names(["fine", name])
    assert problem.value.suggestion


@pytest.mark.parametrize(
    "given", ["", "a\0", "x" * 256, "file:///a", "https://example.org/a", "/".join(["d" * 99] * 41)]
)
def test_what_is_no_path_is_refused(given: str) -> None:
    with pytest.raises(PathError) as problem:
        check_text(given)
    assert (problem.value.code, problem.value.suggestion is not None) == ("name", True)


@pytest.mark.parametrize("given", ["a", "/", "file:/a", "a://b"[:3], "x" * 255, "C:\\x", "//a"])
def test_what_may_be_a_path_is_let_through(given: str) -> None:
    check_text(given)


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs",), exclude_characters="/\0"), min_size=1))
def test_letters_are_the_same_in_every_form(name: str) -> None:
    forms = {unicodedata.normalize(form, name) for form in ("NFC", "NFD")} - {name}
    if not name.isascii():
        assert set(same_letters(name, [*forms, name + "x"])) == forms
    assert same_letters(name, [name]) == []


def test_spellings_are_told_apart() -> None:
    assert (unicode_form("\xe9"), unicode_form("e\u0301"), unicode_form("\xe9e\u0301")) == (
        "NFC",
        "NFD",
        "a mixed form",
    )
    assert escaped("e\u0301'\n") == "e\\u0301'\\n"
    assert slips("a.txt. ", ["a.txt", "b"]) == ["a.txt"]
    assert look_alikes("a\u2215b") == "U+2215 DIVISION SLASH"
    assert look_alikes("a/b..") is None
