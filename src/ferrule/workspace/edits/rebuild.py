"""Writes what takes the place of a text that was found with differences forgiven.

Lines that the old and the new text share keep the file's own characters. New lines are written as the file would write
them. The new text either shares the flaws of the old one or is already as the file is: the lines they share tell which,
and where they tell both, nothing is written.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.reindent import Unclear
from ferrule.workspace.edits.text_lines import BLANKS
from ferrule.workspace.edits.whose_form import is_as_the_file, tells
from ferrule.workspace.edits.whose_form import partners as partners_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.workspace.edits.match_rungs import MatchPlace

_MOST_COMPARED = 4_000_000
_EMPTY = phrase("how far to indent its empty lines cannot be told from it")
_TRAILING = phrase("which blanks at the ends of its lines should stay cannot be told from it")


def rebuild(place: MatchPlace, new: list[str]) -> str:
    """The text for this place; raises `Unclear` when it would be a guess."""
    file, endings = place.file, _endings(place)
    if place.old == file and len(set(endings)) == 1:
        return endings[0].join(new)  # line endings alone differ
    if len(place.old) * len(new) > _MOST_COMPARED:
        raise Unclear(phrase("it is too long to compare with the new text line by line"))
    if place.old != file and [line.rstrip(BLANKS) for line in place.old] == [line.rstrip(BLANKS) for line in new]:
        raise Unclear(_TRAILING)  # blanks alone are to change, and the copy's are not to be relied on
    place.old, new = _without_added(place.old, file, new)
    if is_as_the_file(place, file, new):
        partners = partners_of(file, new)
        if _added_blanks(place.old, file) and any(_ends_blank(new[j]) for j in range(len(new)) if j not in partners):
            raise Unclear(_TRAILING)
        return _join(place, new, new, partners)
    forwards = _written(place, file, new, partners_of(place.old, new))
    backwards = _written(place, file, new, partners_of(place.old, new, backwards=True))
    if forwards != backwards:
        raise Unclear(phrase("which of its equal lines are kept cannot be told from the new text"))
    return forwards


def _written(place: MatchPlace, file: Sequence[str], new: Sequence[str], partners: dict[int, int]) -> str:
    old = place.old
    changed = _replaced(len(old), len(new), partners)
    written: list[str] = []
    indented = place.writing.indentation is not None
    stripped_kept = blanks_added = False
    added = _added_blanks(old, file)
    kept_added = any(_ends_blank(old[k]) and not _ends_blank(file[k]) and new[j] == old[k] for j, k in partners.items())
    losing = {old[k].rstrip(BLANKS) for k in range(len(old)) if _loses_blanks(old, file, k)}
    for j, line in enumerate(new):
        k = partners.get(j)
        if indented and line and not line.strip(BLANKS) and (k is None or line != old[k]):
            raise Unclear(_EMPTY)
        if k is None:
            if indented and not line and 0 < j < len(new) - 1 and place.lines.often_blank:
                raise Unclear(_EMPTY)
            last_part = j == len(new) - 1 and not line
            if not last_part and line.rstrip(BLANKS) in losing:
                raise Unclear(_TRAILING)
            if added and _ends_blank(line):
                if _blanks_after(line) not in added or not kept_added or any(map(_ends_blank, file)):
                    raise Unclear(_TRAILING)
                line = line.rstrip(BLANKS)
            blanks_added = blanks_added or (line != line.rstrip(BLANKS) and j < len(new) - 1)
            written.append(place.writing.line(line, changed.get(j)))
            if _ends_blank(written[-1]) and not _ends_blank(line):
                raise Unclear(_TRAILING)  # a no-break space at its end is a blank in the file's characters
        elif old[k] == file[k]:
            if added and line != old[k] and _ends_blank(line):
                raise Unclear(_TRAILING)
            written.append(line)
        elif not line.strip(BLANKS) and partners.get(j - 1) != k - 1 and partners.get(j + 1) != k + 1:
            raise Unclear(_EMPTY)  # one empty line is like another: nothing shows that it is this one
        elif line in (old[k], file[k]):
            stripped_kept = stripped_kept or (line == old[k] and _loses_blanks(old, file, k))
            written.append(file[k])
        else:
            raise Unclear(_TRAILING)
    if stripped_kept and blanks_added:
        raise Unclear(_TRAILING)
    return _join(place, new, written, partners)


def _without_added(old: list[str], file: Sequence[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Both texts without the blanks that the copy has at the end of every line, and the file has not."""
    added = {_surplus(mine, theirs) for mine, theirs in zip(old, file, strict=True) if mine.strip(BLANKS)}
    blanks = added.pop() if len(added) == 1 else ""
    if not blanks:
        return old, new
    worded = [line for line in new if line.strip(BLANKS)]
    copied, kept = ({line for line in lines if tells(line)} for lines in (old, file))
    shared = {line.rstrip(BLANKS): line in copied for line in worded if line in copied ^ kept}
    if shared and not any(shared.values()):
        return [line.removesuffix(blanks) if line.strip(BLANKS) else line for line in old], new
    if len({line.endswith(blanks) for line in worded}) > 1:
        if not shared and len(copied) > 1:
            raise Unclear(_TRAILING)
        return old, new
    if any(line.endswith(blanks) and _blanks_after(line) != blanks and line not in old for line in worded):
        raise Unclear(_TRAILING)

    def without(line: str) -> str:
        return line.removesuffix(blanks) if line.strip(BLANKS) else line

    return [without(line) for line in old], [without(line) for line in new]


def _surplus(line: str, shorter: str) -> str:
    mine, theirs = _blanks_after(line), _blanks_after(shorter)
    return mine.removesuffix(theirs) if mine.endswith(theirs) else ""


def _added_blanks(old: Sequence[str], file: Sequence[str]) -> set[str]:
    """The blanks that the copy has at the ends of lines where the file has none."""
    pairs = zip(old, file, strict=True)
    return {_blanks_after(mine) for mine, theirs in pairs if _ends_blank(mine) and not _ends_blank(theirs)}


def _blanks_after(line: str) -> str:
    return line[len(line.rstrip(BLANKS)) :]


def _ends_blank(line: str) -> bool:
    return line != line.rstrip(BLANKS) and bool(line.strip(BLANKS))


def _loses_blanks(old: Sequence[str], file: Sequence[str], k: int) -> bool:
    return file[k] != file[k].rstrip(BLANKS) and old[k] == old[k].rstrip(BLANKS)


def _replaced(old_count: int, new_count: int, partners: dict[int, int]) -> dict[int, int]:
    """Pairs changed lines, one to one, where as many lines went as came."""
    pairs: dict[int, int] = {}
    edges = [(-1, -1), *sorted(partners.items()), (new_count, old_count)]
    for (j, k), (next_j, next_k) in pairwise(edges):
        if next_j - j == next_k - k:
            pairs.update(zip(range(j + 1, next_j), range(k + 1, next_k), strict=True))
    return pairs


def _join(place: MatchPlace, new: Sequence[str], written: Sequence[str], partners: dict[int, int]) -> str:
    """The lines with line endings: each line that stays keeps its own, and the others get the one that all have."""
    endings = _endings(place)
    parts: list[str] = []
    for j, line in enumerate(written):
        parts.append(line)
        if j < len(new) - 1:
            k = partners.get(j)
            if (k is None or k >= len(endings)) and len(set(endings)) > 1:
                raise Unclear(
                    phrase("its lines end differently in the file, so how its new lines should end is not clear")
                )
            parts.append(endings[0] if k is None or k >= len(endings) else endings[k])
    return "".join(parts)


def _endings(place: MatchPlace) -> list[str]:
    """The line endings inside the place, or else the one for lines that are new there."""
    return [place.lines.style(place.first + k) for k in range(max(len(place.old) - 1, 1))]
