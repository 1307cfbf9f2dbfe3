"""The table of words that mean the same."""

from __future__ import annotations

from ferrule.registry.choose_tools import CONCEPTS, NOTHING_SAID, terms

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
