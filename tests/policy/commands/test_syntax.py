"""The shapes that a reading gives."""

from __future__ import annotations

from ferrule.policy.commands.syntax import Kind, Piece, Pipeline, Word


def test_a_word_is_plain_until_it_has_pieces():
    assert Word(0, 2, "ls").pieces is None
    assert Word(0, 2, "$x", [Piece(Kind.VARIABLE, "x", quoted=False)]).pieces


def test_two_words_alike_are_still_two():
    assert Word(0, 1, "a") != Word(0, 1, "a")


def test_a_pipeline_is_not_negated_by_itself():
    assert not Pipeline([]).negated
