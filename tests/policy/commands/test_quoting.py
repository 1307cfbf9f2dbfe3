"""One word, as bash reads it."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.quoting import WordReader
from ferrule.policy.commands.syntax import Kind, Unreadable


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("ls", "ls"),
        ("'a b'", "a b"),
        ('"a b"', "a b"),
        ("a\\ b", "a b"),
        ("r''m", "rm"),
        ('r"m"', "rm"),
        ("$'\\x72m'", "rm"),
        ("$'\\162m'", "rm"),
        ("$'\\u0072m'", "rm"),
        ("$'a\\'b'", "a'b"),
        ('"\\$x"', "$x"),
        ('"\\a"', "\\a"),
        ("a#b", "a#b"),
        ('$"hi"', "hi"),
        ("''", ""),
        ('"a\\\nb"', "ab"),
        ("$", "$"),
        ("a$", "a$"),
    ],
)
def test_quotes_and_escapes_are_taken_off(written: str, read: str):
    word = WordReader(written).word()
    pieces = word.pieces
    assert (word.text if pieces is None else "".join(piece.text for piece in pieces)) == read
    assert all(piece.kind is Kind.TEXT for piece in pieces or ())


@pytest.mark.parametrize(
    "text", ["'a", '"a', "$'a", "a\\", "a(b)", "$[1]", "r\\\nm", "$'\\x00'", "$'\\xff'", "$'\\ca'", "\"${x#'a'}\""]
)
def test_what_has_no_one_meaning_is_not_read(text: str):
    with pytest.raises(Unreadable):
        WordReader(text).word()


def test_a_word_ends_where_bash_ends_it():
    reader = WordReader("a;b")
    assert reader.word().text == "a"
    assert reader.at == 1


def test_a_here_document_keeps_its_quotes():
    pieces = WordReader('it\'s "$x" \\$y\n').here_document()
    assert [(piece.kind.value, piece.text) for piece in pieces] == [
        ("text", "it's \""),
        ("variable", "x"),
        ("text", '" '),
        ("text", "$"),
        ("text", "y\n"),
    ]


def test_a_pattern_keeps_its_bars_and_parentheses():
    reader = WordReader("^(a|b )$ ]]")
    assert reader.pattern().text == "^(a|b )$"
