"""Typographic characters and their plain forms: told apart in the file, but not when looking for a text."""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.reindent import Unclear

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PLAIN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", ("'",)),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", ('"',)),
    **dict.fromkeys("\u2010\u2011\u2012\u2212", ("-",)),
    **dict.fromkeys("\u2013\u2014\u2015", ("--", "-")),
    "\u2026": ("...",),
    **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f", (" ",)),
}
_KEYS = {ord(char): plain[-1] for char, plain in _PLAIN.items()}
_ANY = re.compile("[" + "".join(_PLAIN) + "]")
_DASH = re.compile("[\u2013\u2014\u2015]")
_DASHES = re.compile("-{2,}")
_UNITS = re.compile(r"\.\.\.|--|.", re.DOTALL)
_PLAIN_UNITS = frozenset(plain for forms in _PLAIN.values() for plain in forms)
_IN_PROSE = re.compile("(?:(?<=\\w)|(?![bBfFrRuU]))[^\\W\\d_]\u2019[^\\W\\d_]| [\u2013\u2014] ")
"""Letters on both sides, unless the one before it stands alone and says what kind of string follows, as in `b'abc'`."""
_QUOTED = re.compile(
    "[\u201c\u201d]{3}|[\u2018\u2019]{3}|"
    "([\u201c\u201d\u2018\u2019])(?:[^\u2018\u2019\u201c\u201d\"'\\n]|(?<=\\w)\u2019(?=\\w))*[\u201c\u201d\u2018\u2019]"
)
_USUALLY_MEANT = frozenset(" -")
_QUOTES = frozenset(char for char, plain in _PLAIN.items() if plain[0] in ("'", '"'))

Pieces = list[tuple[str, str]]


def typographic(text: str) -> bool:
    """Whether there is any character here that has a plain form."""
    return not text.isascii() and _ANY.search(text) is not None


class Folding:
    """Brings lines to one form for looking them up. Runs of dashes count as one only where long dashes are about."""

    def __init__(self, *texts: str) -> None:
        self._dashes = any(not text.isascii() and _DASH.search(text) for text in texts)

    def key(self, line: str) -> str:
        folded = line if line.isascii() else line.translate(_KEYS)
        return _DASHES.sub("-", folded) if self._dashes and "--" in folded else folded

    def column(self, line: str, wanted: int) -> int:
        """The place in a line that a place in its key came from."""
        at = length = 0
        last = ""
        while at < len(line) and length < wanted:
            for char in _KEYS.get(ord(line[at]), line[at]):
                if not (self._dashes and char == last == "-"):
                    length += 1
                last = char
            at += 1
        return at


def walk(old: str, file: str) -> Pieces | None:
    """Pairs the copy with the start of the file's line, piece by piece; None when they differ in more than form."""
    pieces: Pieces = []
    i = j = 0
    while i < len(old):
        step = _step(old, i, file, j)
        if step is None:
            return None
        mine, theirs = step
        pieces.append(step)
        i, j = i + len(mine), j + len(theirs)
    return pieces


def _step(old: str, i: int, file: str, j: int) -> tuple[str, str] | None:
    if j >= len(file):
        return None
    mine, theirs = old[i], file[j]
    if mine == theirs:
        return mine, theirs
    for plain in _PLAIN.get(mine, ()):
        if file.startswith(plain, j):
            return mine, plain
    for plain in _PLAIN.get(theirs, ()):
        if old.startswith(plain, i):
            return plain, theirs
    if mine in _PLAIN and theirs in _PLAIN and _PLAIN[mine][-1] == _PLAIN[theirs][-1]:
        return mine, theirs
    return None


class Retype:
    """Writes new lines with the characters that the file has where the copy has others."""

    def __init__(self, lines: Iterable[Pieces], text: str) -> None:
        self._pairs = list(lines)
        self._text = text
        self._known: dict[str, set[str]] = {}
        for pieces in self._pairs:
            for mine, theirs in pieces:
                if mine != theirs or mine in _PLAIN or mine in _PLAIN_UNITS:
                    self._known.setdefault(mine, set()).add(theirs)
        self._turned = {
            (before[0], mine, after[0])
            for pieces in self._pairs
            for before, (mine, theirs), after in zip(pieces, pieces[1:], pieces[2:], strict=False)
            if mine != theirs
        }
        """What the file writes otherwise, and what stands on both sides of it."""
        changed = [(m, t) for m, found in self._known.items() for t in found if m != t]
        self._made_typographic = any(mine in _PLAIN for mine, _ in changed)
        self._made_quotes = any(mine in _QUOTES for mine, _ in changed)
        self._in_prose = any(_IN_PROSE.search("".join(mine for mine, _ in pieces)) for pieces in self._pairs)
        self._made_plain = any(mine not in _PLAIN for mine, _ in changed)
        self._quoted = _quoted(self._pairs)

    def line(self, line: str, partner: int | None) -> str:
        """A new line in the file's characters; what it shares with the line it replaces is taken from there."""
        before = after = ""
        if partner is not None and partner < len(self._pairs):
            line, before, after = _shared(line, self._pairs[partner])
        written: list[str] = []
        end = 0
        for match in _QUOTED.finditer(line):
            if match[0] in self._quoted:
                written += [self._new(line, end, match.start()), self._quoted[match[0]]]
                end = match.end()
        return before + "".join([*written, self._new(line, end, len(line))]) + after

    def _new(self, line: str, start: int, end: int) -> str:
        """A stretch of a line that the copy shows nothing of."""
        stretch = line[start:end]
        if self._made_typographic and not self._in_prose and _IN_PROSE.search(stretch):
            raise Unclear(phrase("whether an apostrophe or a dash in its new words is meant as typed cannot be told"))
        units = _UNITS.findall(stretch)
        around = [line[max(start - 1, 0) : start], *units, line[end : end + 1]]
        for at, unit in enumerate(units):
            if unit in _USUALLY_MEANT and (around[at], unit, around[at + 2]) in self._turned:
                raise Unclear(phrase("whether a space or a dash in its new words is meant as typed cannot be told"))
        return "".join(
            self._unit(unit, around[at].isalpha() and around[at + 2].isalpha()) for at, unit in enumerate(units)
        )

    def contradicts(self, new: Sequence[str]) -> bool:
        """Whether the new text has both the copy's typographic characters and the plain ones the copy lacks."""
        text = "\n".join(new)
        for mine, found in self._known.items():
            if mine in _PLAIN and mine not in found and mine in text:
                plain = _PLAIN[mine][0]
                if plain in text and plain not in self._known:
                    return True
        return False

    def _has_typographic(self, unit: str) -> bool:
        return any(_PLAIN[char][0] == unit for char in set(_ANY.findall(self._text)))

    def _unit(self, unit: str, in_word: bool) -> str:
        known = self._known.get(unit)
        if known == {unit} and unit in _PLAIN and self._made_typographic:
            pass  # the copy has it from the file, but others it made itself
        elif known is not None:
            # A plain one may be meant, as in code, except within a word.
            told = unit not in self._text if unit in _PLAIN else in_word
            if len(known) == 1 and (unit in known or told):
                return next(iter(known))
            if unit in known and unit in _USUALLY_MEANT:
                return unit
        elif unit in _PLAIN:
            if not self._made_typographic:
                return unit
            if unit not in self._text and unit in _QUOTES and self._made_quotes:
                return _PLAIN[unit][0]
        elif not self._made_plain or unit in _USUALLY_MEANT or not self._has_typographic(unit):
            return unit
        raise Unclear(phrase("whether a new `{unit}` is meant as typed cannot be told from it", unit=unit))


def _quoted(lines: Iterable[Pieces]) -> dict[str, str]:
    """What stands in quotes in the copy, each with the one form it has in the file."""
    found: dict[str, set[str]] = {}
    for pieces in lines:
        starts = [0, *accumulate(len(mine) for mine, _ in pieces)]
        for match in _QUOTED.finditer("".join(mine for mine, _ in pieces)):
            first, last = bisect_left(starts, match.start()), bisect_left(starts, match.end())
            found.setdefault(match[0], set()).add("".join(theirs for _, theirs in pieces[first:last]))
    return {mine: theirs.pop() for mine, theirs in found.items() if len(theirs) == 1}


def _shared(line: str, pieces: Pieces) -> tuple[str, str, str]:
    """The middle of a line that its partner does not have, and the file's form of what stands around it."""
    start, before = 0, ""
    used = 0
    for mine, theirs in pieces:
        if not line.startswith(mine, start):
            break
        start, before, used = start + len(mine), before + theirs, used + 1
    end, after = len(line), ""
    for mine, theirs in reversed(pieces[used:]):
        if end - len(mine) < start or not line.startswith(mine, end - len(mine)):
            break
        end, after = end - len(mine), theirs + after
    tail = line[end:]
    if typographic(after) and after != tail and not any(map(str.isalnum, tail)):
        return line[start:], before, ""  # marks alone do not show that the end of the line is the same
    return line[start:end], before, after
