"""The terms of a text: its words brought to one form, so that a request in English or Chinese meets an English tool."""

from __future__ import annotations

import re
from functools import cache

from ferrule.registry.concepts import CONCEPTS, NOTHING_SAID, PHRASES

_STOPWORDS = frozenset(NOTHING_SAID.split())
_ASCII = re.compile(r"[A-Za-z][A-Za-z']*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-\s]+")


def _read_table() -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]], int]:
    english: dict[str, tuple[str, ...]] = {}
    chinese: dict[str, tuple[str, ...]] = {}
    for line in CONCEPTS.replace("\n  ", " ").strip().splitlines():
        concept, words = line.split(":", 1)
        ours, theirs = words.split("|")
        for word in ours.split():
            english[_stem(word)] = (*english.get(_stem(word), ()), concept)
        for word in theirs.split():
            chinese[word] = (*chinese.get(word, ()), concept)
    return english, chinese, max(map(len, chinese))


def _stem(word: str) -> str:
    for ending, shortest in (("ies", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4)):
        if word.endswith(ending) and len(word) >= shortest and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            if ending in ("ing", "ed") and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]  # running, stopped
            break
    return word.removesuffix("e") if len(word) > 3 else word


_ENGLISH, _CHINESE, _LONGEST = _read_table()


def name_words(name: str) -> list[str]:
    """The words in a name: `getCurrentDateTime`, `file_path`."""
    return [part.lower() for part in _CAMEL.split(name) if part]


def name_terms(name: str) -> list[str]:
    """The terms in a name."""
    return terms(" ".join(name_words(name)))


def terms(text: str) -> list[str]:
    """The terms of a text: concepts where words are known, stems where not; what says nothing is left out."""
    phrases = [concept for phrase, concept in PHRASES if re.search(phrase, text, re.IGNORECASE)]
    return [*_english_terms(text), *_chinese_terms(text), *phrases]


def _english_terms(text: str) -> list[str]:
    found: list[str] = []
    for word in _ASCII.findall(text):
        found += _of_word(word.lower().removesuffix("'s"))
    return found


@cache
def _of_word(word: str) -> tuple[str, ...]:
    if word in _STOPWORDS:
        return ()
    stem = _stem(word)
    return _ENGLISH.get(stem, (stem,) if len(word) > 1 else ())


def _chinese_terms(text: str) -> list[str]:
    """There are no spaces to split at: the longest known word at each place is taken."""
    found: list[str] = []
    position = 0
    while position < len(text):
        for length in range(min(_LONGEST, len(text) - position), 0, -1):
            concepts = _CHINESE.get(text[position : position + length])
            if concepts:
                found += concepts
                position += length
                break
        else:
            position += 1
    return found
