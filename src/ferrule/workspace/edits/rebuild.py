"""Writes what takes the place of a text that was found with differences forgiven.

Lines that the old and the new text share keep the file's own characters. New lines are written as the file would write
them. The new text either shares the flaws of the old one or is already as the file is: the lines they share tell which,
and where they tell both, nothing is written.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING

from ferrule.workspace.edits.match_rungs import Adapted
from ferrule.workspace.edits.reindent import Unclear, margin
from ferrule.workspace.edits.text_lines import BLANKS, blanks_before

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.workspace.edits.match_rungs import Place

_MOST_COMPARED = 4_000_000
_WORD = re.compile(r"\w+")
_SHARED = 0.5
_TRAILING = "which blanks at the ends of its lines should stay cannot be told from it"


def rebuild(place: Place, new: list[str]) -> str:
    """The text for this place; raises `Unclear` when it would be a guess."""
    if len(place.old) * len(new) > _MOST_COMPARED:
        raise Unclear("it is too long to compare with the new text line by line")
    file = place.file
    place.old, new = _without_added(place.old, file, new)
    if _is_as_the_file(place, file, new):
        partners = _partners(file, new)
        if _added_blanks(place.old, file) and any(_ends_blank(new[j]) for j in range(len(new)) if j not in partners):
            raise Unclear(_TRAILING)
        return _join(place, new, new, partners)
    forwards = _written(place, file, new, _partners(place.old, new))
    backwards = _written(place, file, new, _partners(place.old, new, backwards=True))
    if forwards != backwards:
        raise Unclear("which of its equal lines are kept cannot be told from the new text")
    return forwards


def _is_as_the_file(place: Place, file: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the new text is written as the file is, and not with the differences that the old text has."""
    alike = _count_shared(place.old, new, unlike=file)
    as_file = _count_shared(file, new, unlike=place.old)
    writing = place.writing if isinstance(place.writing, Adapted) else Adapted()
    if as_file > 2 * alike:
        if writing.indentation is not None:
            _check_kept(place.old, file, new)
        return True
    if as_file and alike <= 2 * as_file:
        raise Unclear("the new text shares lines both with it and with the file where the two differ")
    if writing.characters is not None and writing.characters.contradicts(new):
        raise Unclear("the new text has both plain and typographic characters where it has one kind only")
    return not alike and writing.indentation is not None and _indented_as_the_file(place.old, file, new)


def _indented_as_the_file(old: Sequence[str], file: Sequence[str], new: Sequence[str]) -> bool:
    """Where no line tells: by tabs or spaces, or else only when the margin is that of the copy."""
    if not any(line.strip(BLANKS) for line in new):
        return False
    if _converted(old, file):
        if _with_tabs(new) and _with_spaces(new):
            raise Unclear("the new text is indented with tabs and with spaces, and it is not")
        return (_with_tabs(new) or _with_spaces(new)) and _with_tabs(new) == _with_tabs(file)
    known = {line.strip(BLANKS) for line in old} - {""}
    moved = any(line.strip(BLANKS) in known for line in new)
    deeper = len(margin(old)) > len(margin(file))
    if moved or deeper or margin(new) != margin(old) or _first_indentation(new) != _first_indentation(old):
        raise Unclear("the new text is indented neither like it nor clearly like the file")
    if not _share_words(old, new):
        raise Unclear("the new text has nothing in common with it, so how far to indent it is not clear")
    return False


def _first_indentation(lines: Sequence[str]) -> str:
    return next((blanks_before(line) for line in lines if line.strip(BLANKS)), "")


def _share_words(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether one text looks like a change of the other: else nothing says that both lost the same margin."""
    mine, ours = (set(_WORD.findall("\n".join(lines))) for lines in (old, new))
    return len(mine & ours) >= _SHARED * min(len(mine), len(ours))


def _check_kept(old: Sequence[str], file: Sequence[str], new: Sequence[str]) -> None:
    """New text indented as the file is, with tabs for spaces or the other way round, starts and ends as the file does.

    Where only a margin is missing, it may as well be the copy's lines, indented deeper on purpose.
    """
    theirs, ours = ([line.rstrip(BLANKS) for line in lines if line.strip(BLANKS)] for lines in (file, new))
    if not ours or (theirs[0], theirs[-1]) != (ours[0], ours[-1]) or not _converted(old, file):
        raise Unclear("whether the new text is indented like it or like the file is not clear")


def _converted(old: Sequence[str], file: Sequence[str]) -> bool:
    """Whether the copy has spaces where the file has tabs, or the other way round."""
    if _with_tabs(old):
        return not _with_tabs(file) and _with_spaces(file)
    return _with_spaces(old) and _with_tabs(file)


def _with_tabs(lines: Sequence[str]) -> bool:
    return any("\t" in blanks_before(line) for line in lines)


def _with_spaces(lines: Sequence[str]) -> bool:
    return any(blanks_before(line).startswith("  ") for line in lines if line.strip(BLANKS))


def _count_shared(base: Sequence[str], new: Sequence[str], *, unlike: Sequence[str]) -> int:
    """How many lines the new text shares with `base` where `unlike` has another line."""
    return sum(base[k] == new[j] and base[k] != unlike[k] for j, k in _partners(base, new).items())


def _partners(old: Sequence[str], new: Sequence[str], *, backwards: bool = False) -> dict[int, int]:
    """For each line of the new text that is also in the old one, which one; read from the front or from the back."""
    mine = [line.rstrip(BLANKS) for line in old]
    theirs = [line.rstrip(BLANKS) for line in new]
    if backwards:
        mine.reverse()
        theirs.reverse()
    front = 0
    while front < min(len(mine), len(theirs)) and mine[front] == theirs[front]:
        front += 1
    pairs = {index: index for index in range(front)}
    matcher = SequenceMatcher(None, mine[front:], theirs[front:], autojunk=False)
    for block in matcher.get_matching_blocks():
        pairs.update({front + block.b + step: front + block.a + step for step in range(block.size)})
    if backwards:
        return {len(new) - 1 - j: len(old) - 1 - k for j, k in pairs.items()}
    return pairs


def _written(place: Place, file: Sequence[str], new: Sequence[str], partners: dict[int, int]) -> str:
    old = place.old
    changed = _replaced(len(old), len(new), partners)
    written: list[str] = []
    indented = isinstance(place.writing, Adapted) and place.writing.indentation is not None
    stripped_kept = blanks_added = False
    added = _added_blanks(old, file)
    kept_added = any(_ends_blank(old[k]) and not _ends_blank(file[k]) and new[j] == old[k] for j, k in partners.items())
    losing = {old[k].rstrip(BLANKS) for k in range(len(old)) if _loses_blanks(old, file, k)}
    for j, line in enumerate(new):
        k = partners.get(j)
        if indented and line and not line.strip(BLANKS) and (k is None or line != old[k]):
            raise Unclear("how far to indent its empty lines cannot be told from it")
        if k is None:
            last_part = j == len(new) - 1 and not line
            if not last_part and line.rstrip(BLANKS) in losing:
                raise Unclear(_TRAILING)
            if added and _ends_blank(line):
                if _blanks_after(line) not in added or not kept_added or any(map(_ends_blank, file)):
                    raise Unclear(_TRAILING)
                line = line.rstrip(BLANKS)
            blanks_added = blanks_added or (line != line.rstrip(BLANKS) and j < len(new) - 1)
            written.append(place.writing.line(line, changed.get(j)))
        elif old[k] == file[k]:
            if added and line != old[k] and _ends_blank(line):
                raise Unclear(_TRAILING)
            written.append(line)
        elif line in (old[k], file[k]):
            stripped_kept = stripped_kept or (line == old[k] and _loses_blanks(old, file, k))
            written.append(file[k])
        else:
            raise Unclear(_TRAILING)
    if stripped_kept and blanks_added:
        raise Unclear(_TRAILING)
    return _join(place, new, written, partners)


def _without_added(old: list[str], file: Sequence[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Both texts without the same blanks at the end of every line, where the file has none."""
    added = {
        _blanks_after(mine) for mine, theirs in zip(old, file, strict=True) if mine.strip(BLANKS) and mine != theirs
    }
    blanks = added.pop() if len(added) == 1 else ""
    if not blanks or any(_blanks_after(line) == blanks for line in file if line.strip(BLANKS)):
        return old, new
    same = {mine for mine, theirs in zip(old, file, strict=True) if mine == theirs}
    if any(line.strip(BLANKS) and _blanks_after(line) != blanks and line not in same for line in new):
        return old, new

    def without(line: str) -> str:
        return line.rstrip(BLANKS) if line.strip(BLANKS) and _blanks_after(line) == blanks else line

    return [without(line) for line in old], [without(line) for line in new]


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


def _join(place: Place, new: Sequence[str], written: Sequence[str], partners: dict[int, int]) -> str:
    """The lines with line endings: each line that stays keeps its own, and the others get the one that all have."""
    lines = place.lines
    count = len(place.old) - (len(place.old) > 1)
    endings = [lines.style(place.first + k) for k in range(max(count, 1))]
    parts: list[str] = []
    for j, line in enumerate(written):
        parts.append(line)
        if j < len(new) - 1:
            k = partners.get(j)
            if (k is None or k >= len(endings)) and len(set(endings)) > 1:
                raise Unclear("its lines end differently in the file, so how its new lines should end is not clear")
            parts.append(endings[0] if k is None or k >= len(endings) else endings[k])
    return "".join(parts)
