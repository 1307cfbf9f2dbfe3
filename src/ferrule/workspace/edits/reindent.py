"""Explains how a copy's indentation differs from the file's, and indents new lines the way the file would.

Only one explanation is allowed for all lines: a margin added or removed, tabs for spaces, spaces for tabs, or both.
Where two explanations would indent a new line differently, there is none.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.text_lines import BLANKS, blanks_before

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        doubtful = (
            self._foreign(indentation)
            or self._may_be_aligned(indentation)
            or self._cut(indentation)
            or self._other_step(indentation)
            or bool(indentation and self._has_both)
        )
        if result is None or doubtful:
            raise Unclear(phrase("the indentation of its new lines cannot be told from it"))
        return result

    def _foreign(self, indentation: str) -> bool:
        """Whether nothing says how to read its tabs or spaces, since neither the copy nor the file has such here."""
        seen = self._mine + self._theirs
        return bool(seen) and (("\t" in indentation and "\t" not in seen) or ("  " in indentation and " " not in seen))

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
