"""How a file writes its lines, where a copy has them otherwise: indentation and typographic characters.

Only one explanation is allowed for all lines. Where two would write a new line differently, there is none.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise, takewhile
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.text_lines import BLANKS, blanks_before

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_WIDTHS = (2, 4, 8)
_LOOKED_AT = 3_000
_SHOWN_WIDTH = 4
_FEW_STEPS, _MOSTLY, _OF_EITHER = 3, 0.6, 0.5


class Unclear(Exception):  # noqa: N818 - reads as what it says
    """What should stand in the file cannot be told for sure; the words say why, and what would help."""

    def __init__(self, reason: str, suggestion: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.suggestion = suggestion


@dataclass(slots=True, frozen=True)
class _Shift:
    """One explanation: convert (0: not, n: spaces to tabs of n, -n: tabs to n spaces), then take and put a margin."""

    width: int
    add: str = ""
    remove: str = ""

    def apply(self, indentation: str) -> str | None:
        converted = _convert(indentation, self.width)
        if not converted.startswith(self.remove):
            return None
        return self.add + converted[len(self.remove) :]


class Reindent:
    """How the lines of a copy (`old`) became those of the file (`file`), applied to lines that are new."""

    def __init__(self, old: Sequence[str], file: Sequence[str], text: str, following: str | None = None) -> None:
        """`following` is the next line of the file, which may show how deep lines around these stand."""
        self._beside = None if following is None else blanks_before(following)
        pairs = {
            (blanks_before(mine), blanks_before(theirs)) for mine, theirs in zip(old, file, strict=True) if mine.strip()
        }
        self._text = text
        self._known = dict(pairs)
        self._theirs = "".join(theirs for _, theirs in pairs)
        self._mine = "".join(mine for mine, _ in pairs)
        one_to_one = len(self._known) == len(pairs)
        self._shifts = _explanations(sorted(pairs), text) if one_to_one else []
        self.fits = bool(self._shifts) or any(
            all(mine.expandtabs(width) == theirs.expandtabs(width) for mine, theirs in pairs) for width in _WIDTHS
        )
        if not one_to_one:
            several = {mine for mine, _ in pairs if len({t for m, t in pairs if m == mine}) > 1}
            self._known = {mine: theirs for mine, theirs in pairs if mine not in several}

    @property
    def converts(self) -> bool:
        """Whether spaces stand for tabs."""
        return any(shift.width > 0 for shift in self._shifts)

    @property
    def only_expands(self) -> bool:
        """Whether the copy differs by spaces for tabs alone, as many as tabs are shown with. Two are as often meant."""
        return bool(self._shifts) and all(
            shift.width >= _SHOWN_WIDTH and not shift.add and not shift.remove for shift in self._shifts
        )

    @property
    def moves(self) -> bool:
        """Whether a margin was added or taken away, whatever became of tabs and spaces."""
        return any(shift.add or shift.remove for shift in self._shifts)

    def line(self, line: str) -> str:
        """A new line, indented as the file would."""
        if not line.strip(BLANKS):
            return line
        indentation = blanks_before(line)
        words = line[len(indentation) :]
        if words[0] == "*" and indentation.endswith(" ") and indentation not in self._known:
            # The lines of a block comment stand one space deeper than it starts, whatever the steps are.
            return self._indent(indentation[:-1]) + " " + words
        return self._indent(indentation) + words

    def _indent(self, indentation: str) -> str:
        known = self._known.get(indentation)
        if known is not None and not (indentation and self._has_both) and not self._mixes(indentation):
            return known
        results = {shift.apply(indentation) for shift in self._shifts}
        result = results.pop() if len(results) == 1 else None
        seen = self._mine + self._theirs
        # Whether nothing says how to read its tabs or spaces, since neither the copy nor the file has such here.
        foreign = bool(seen) and (
            ("\t" in indentation and "\t" not in seen) or ("  " in indentation and " " not in seen)
        )
        doubtful = (
            foreign
            or self._may_be_aligned(indentation)
            or self._cut(indentation)
            or self._other_step(indentation)
            or bool(indentation and self._has_both)
        )
        if result is None or doubtful:
            raise Unclear(phrase("the indentation of its new lines is not clear from it"))
        return result

    def _cut(self, indentation: str) -> bool:
        """Whether a line may have had less than what was taken from the lines of the copy, which all have some left."""
        if indentation or "" in self._known:
            return False
        return any(shift.add and shift.add != self._beside for shift in self._shifts)

    def _may_be_aligned(self, indentation: str) -> bool:
        """Whether spaces may be meant as spaces in a file with tabs, or a tab as a tab where the file has both."""
        if any(shift.width < 0 for shift in self._shifts):
            step = self._step
            if step and any(
                -shift.width < step and len(shift.apply(indentation) or "") % step for shift in self._shifts
            ):
                return True
            both = "\t" in indentation and " " in indentation
            if both or "\n\t" in "\n" + self._text:
                return True
        widths = [shift.width for shift in self._shifts if shift.width > 0]
        return any(len(indentation.expandtabs(width)) % width for width in widths) or self._mixes(indentation)

    def _other_step(self, indentation: str) -> bool:
        """Whether the copy may be indented in other steps than the file: two spaces where the file has four."""
        if len(self._known) != 1 or "\t" in indentation + self._mine + self._theirs:
            return False
        mine, theirs, step, ours = len(self._mine), len(self._theirs), self._step, len(indentation)
        if not mine or not theirs or mine == theirs or step is None:
            return False
        other = step * mine // theirs
        if step * mine % theirs or other < 2 or ours % other:
            return False
        return other > step or (ours - mine) % step != 0 or (theirs - mine) % step != 0

    @cached_property
    def _step(self) -> int | None:
        return step_of(self._text)

    @cached_property
    def _has_both(self) -> bool:
        """Whether the copy writes tabs for spaces or spaces for tabs, of a file with many lines of either kind: what is
        new may be meant like those of the other.
        """
        if not any(shift.width for shift in self._shifts):
            return False
        tabs = len(re.findall(r"(?m)^\t+\S", self._text))
        spaces = len(re.findall(r"(?m)^ {2,}(?!\*)\S", self._text))
        same, other = (tabs, spaces) if "\t" in self._theirs else (spaces, tabs)
        return other >= _FEW_STEPS and other > _OF_EITHER * same

    def _mixes(self, indentation: str) -> bool:
        """Whether the file has tabs with that many spaces after them, so that spaces may stand for either."""
        return any(
            len(indentation.expandtabs(shift.width)) > shift.width
            and re.search(rf"(?m)^\t+ {{{shift.width}}}", self._text) is not None
            for shift in self._shifts
            if shift.width > 0
        )


def margin(lines: Sequence[str]) -> str:
    """The indentation that all lines with words have in common."""
    indentations = [blanks_before(line) for line in lines if line.strip(BLANKS)]
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*indentations, strict=False))
    return "".join(column[0] for column in columns)


def step_of(text: str) -> int | None:
    """How many spaces deeper lines of a text mostly stand than those before them; None when that varies."""
    indentations = [blanks_before(line) for line in text.split("\n", _LOOKED_AT)[:_LOOKED_AT] if line.strip()]
    deeper = Counter(
        len(after) - len(before)
        for before, after in pairwise(indentations)
        if "\t" not in after and after.startswith(before) and after != before
    )
    [(step, count)] = deeper.most_common(1) or [(0, 0)]
    return step if count and (count == deeper.total() or count >= max(_FEW_STEPS, _MOSTLY * deeper.total())) else None


def _explanations(pairs: Sequence[tuple[str, str]], text: str) -> list[_Shift]:
    found: list[_Shift] = []
    mine = "".join(before for before, _ in pairs)
    for width in (0, 4, 8, 2, -4, -8, -2):
        if (width > 0 and " " not in mine) or (width < 0 and "\t" not in mine):
            continue
        shift = _shift(pairs, width)
        if shift is not None:
            if width == 0 or (width > 2 and not shift.add and not shift.remove):
                return [shift]
            found.append(shift)
    straight = [shift for shift in found if not shift.add and not shift.remove]
    if len(found) > 1 and straight and straight[0].width < 0:
        # Tabs for spaces: each stands for one step of the file, or else for less than one and nothing else changed.
        step = step_of(text)
        one = [shift for shift in found if -shift.width == step]
        return straight[:1] if step is None or -straight[0].width < step else [*one, *straight[:1]]
    return found


def _shift(pairs: Sequence[tuple[str, str]], width: int) -> _Shift | None:
    if not pairs:
        return _Shift(width)
    mine, theirs = _convert(pairs[0][0], width), pairs[0][1]
    if theirs.endswith(mine):
        shift = _Shift(width, add=theirs[: len(theirs) - len(mine)])
    elif mine.endswith(theirs):
        shift = _Shift(width, remove=mine[: len(mine) - len(theirs)])
    else:
        return None
    return shift if all(shift.apply(before) == after for before, after in pairs) else None


def _convert(indentation: str, width: int) -> str:
    if width == 0:
        return indentation
    spaces = indentation.expandtabs(abs(width))
    if width < 0:
        return spaces
    tabs, rest = divmod(len(spaces), width)
    return "\t" * tabs + " " * rest


# Typographic characters and their plain forms: told apart in the file, but not when looking for a text.


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
            raise Unclear(phrase("whether an apostrophe or a dash in its new words is meant as typed is not clear"))
        units = _UNITS.findall(stretch)
        around = [line[max(start - 1, 0) : start], *units, line[end : end + 1]]
        for at, unit in enumerate(units):
            if unit in _USUALLY_MEANT and (around[at], unit, around[at + 2]) in self._turned:
                raise Unclear(phrase("whether a space or a dash in its new words is meant as typed is not clear"))
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
        else:
            in_file = {_PLAIN[char][0] for char in set(_ANY.findall(self._text))}
            if not self._made_plain or unit in _USUALLY_MEANT or unit not in in_file:
                return unit
        raise Unclear(phrase("whether a new `{unit}` is meant as typed is not clear from it", unit=unit))


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
