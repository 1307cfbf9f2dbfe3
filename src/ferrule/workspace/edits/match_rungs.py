"""Looks for a text by lines, with ever more forgiven: where does it stand, and as what?

Each search gives the places that fit, and with each a way to write new lines as the file would. Nothing here chooses
between two places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.file_style import Folding, Pieces, Reindent, Retype, Unclear, typographic, walk
from ferrule.workspace.edits.text_lines import BLANKS, blanks_before

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferrule.workspace.edits.text_lines import TextLines

_MOST_WORDS, _MOST_JOINED = 8, 40
_GAP = re.compile(r"[ \t]+")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_]{3,}")
_LETTERS = re.compile(r"[A-Za-z0-9_]+")


@dataclass(slots=True)
class Adapted:
    """Writes new lines in the file's indentation and characters, or as given where neither differs."""

    indentation: Reindent | None = None
    characters: Retype | None = None
    gaps_may_be_tabs: bool = False
    """Whether the file has tabs within its lines, and the copy may show them as spaces."""

    def line(self, line: str, partner: int | None) -> str:
        """`partner` is the line of the old text that a new one stands for, if there is one."""
        before = blanks_before(line)
        rest = line[len(before) :]
        if self.characters is not None:
            rest = self.characters.line(rest, partner)
        if self.gaps_may_be_tabs and any(len(gap) > 1 and "\t" not in gap for gap in _GAP.findall(rest)):
            raise Unclear(phrase("whether the gaps in its new lines are tabs or spaces is not clear from it"))
        return self.indentation.line(before + rest) if self.indentation is not None else before + rest


@dataclass(slots=True)
class MatchPlace:
    """A place that fits: from a column of line `first` to a column of the last, with the file's text of each line."""

    lines: TextLines
    first: int
    column: int
    old: list[str]
    end_column: int
    writing: Adapted = field(default_factory=Adapted)

    @property
    def last(self) -> int:
        return self.first + len(self.old) - 1

    @property
    def start(self) -> int:
        return self.lines.starts[self.first] + self.column

    @property
    def end(self) -> int:
        return self.lines.starts[self.last] + self.end_column

    @property
    def before(self) -> str:
        """What stands before the place on its first line."""
        return self.lines.contents[self.first][: self.column]

    @property
    def ends_line(self) -> bool:
        """Whether nothing but blanks follows the place on its last line."""
        return not self.old[-1] or not self.lines.contents[self.last][self.end_column :].strip(BLANKS)

    @property
    def file(self) -> list[str]:
        """The file's lines here, the first and the last as far as they belong to the place."""
        found = self.lines.contents[self.first : self.last + 1]
        found[-1] = found[-1][: self.end_column]
        found[0] = found[0][self.column :]
        return found


def may_be_in(lines: TextLines, old: Sequence[str]) -> bool:
    """Whether any search here may find these lines: none forgives a difference in letters and digits or in their order.

    Splitting a large text into lines takes several times its memory, and most texts that are not in it end here.
    """
    words = max((_LETTERS.findall(line) for line in old), key=lambda words: sum(map(len, words)), default=())
    return not words or lines.matches(r"[^A-Za-z0-9_]*".join(words[:_MOST_JOINED]))


def by_line_endings(lines: TextLines, old: list[str]) -> Iterator[MatchPlace]:
    """Places that differ in line endings and in nothing else."""
    haystack = "\n".join(lines.contents)
    for at, line in _hits(haystack, "\n".join(old)):
        column = at - haystack.rfind("\n", 0, at) - 1
        yield MatchPlace(lines, line, column, old, len(old[-1]) + (column if len(old) == 1 else 0))


def by_line_ends(lines: TextLines, old: list[str]) -> Iterator[MatchPlace]:
    """Places that differ in line endings and in blanks at the end of lines."""
    for first, column, count in _search(lines.trimmed, [line.rstrip(BLANKS) for line in old]):
        place = _placed(lines, first, column, old[:count], [line.rstrip(BLANKS) for line in old[:count]])
        if place is not None:
            yield place


def by_indentation(lines: TextLines, old: list[str]) -> Iterator[MatchPlace]:
    """Places that differ in indentation, by one rule for all lines; whole lines only."""
    for first, count in _search_whole(lines.stripped, [line.strip(BLANKS) for line in old]):
        place = _whole(lines, first, old[:count])
        indentation = Reindent(place.old, place.file, lines.text, lines.next_with_words(place.end))
        if indentation.fits:
            place.writing = Adapted(indentation, gaps_may_be_tabs=indentation.converts and lines.inner_tabs)
            yield place


def by_typography(lines: TextLines, old: list[str]) -> Iterator[MatchPlace]:
    """Places that differ in quotes, dashes, dots and spaces, and besides perhaps in blanks at the end of lines."""
    for part, first in _typographic_parts(lines, old):
        folding = Folding(*part, *old)
        wanted = [folding.key(line.rstrip(BLANKS)) for line in old]
        for offset, key_column, count in _search([folding.key(line.rstrip(BLANKS)) for line in part], wanted):
            if offset == 0 or first is None:
                line = offset + (first or 0)
                column = folding.column(lines.contents[line], key_column)
                place = _walked(lines, line, column, old[:count])
                if place is not None:
                    yield place


def by_typography_and_indentation(lines: TextLines, old: list[str]) -> Iterator[MatchPlace]:
    """Places that differ in typography and in indentation both."""
    for part, first in _typographic_parts(lines, old):
        folding = Folding(*part, *old)
        wanted = [folding.key(line.strip(BLANKS)) for line in old]
        for offset, count in _search_whole([folding.key(line.strip(BLANKS)) for line in part], wanted):
            if offset and first is not None:
                continue
            place = _whole(lines, offset + (first or 0), old[: min(count, len(lines) - offset - (first or 0))])
            file = place.file
            indentation = Reindent(place.old, file, lines.text, lines.next_with_words(place.end))
            walked = [
                _walk_all(mine.strip(BLANKS), theirs.strip(BLANKS))
                for mine, theirs in zip(place.old, file, strict=True)
            ]
            pieces = [line for line in walked if line is not None]
            if indentation.fits and len(pieces) == len(walked):
                place.writing = Adapted(indentation, Retype(pieces, lines.text))
                yield place


def _typographic_parts(lines: TextLines, old: list[str]) -> Iterator[tuple[list[str], int | None]]:
    """The parts of the file to look at, as its lines and the number of the first (None: the whole file).

    Folding a large file takes long, so only the surroundings of words that must be there are looked at.
    """
    if not typographic("\n".join(old)) and not typographic(lines.text):
        return
    found = [(offset, part) for offset, line in enumerate(old) for part in _PLAIN_WORD.findall(line)]
    found = sorted(found, key=lambda pair: -len(pair[1]))[:_MOST_WORDS]
    contents = lines.contents
    if not found:
        yield contents, None
        return
    (offset, part), *others = found
    starts = [index - offset for index, line in enumerate(contents) if part in line and index >= offset]
    for offset, part in others:
        starts = [start for start in starts if start + offset < len(contents) and part in contents[start + offset]]
    for first in starts:
        yield contents[first : first + len(old)], first


def _walk_all(old: str, file: str) -> Pieces | None:
    pieces = walk(old, file)
    return pieces if pieces is not None and sum(len(theirs) for _, theirs in pieces) == len(file) else None


def _search(keys: Sequence[str], wanted: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Line, column and number of lines of each place where the wanted lines stand, whole or as parts of lines."""
    haystack, needle = "\n".join(keys), "\n".join(wanted)
    for at, line in _hits(haystack, needle):
        yield line, at - haystack.rfind("\n", 0, at) - 1, len(wanted)
    # A text that ends with a line ending may stand at the end of a file that does not.
    if len(wanted) > 1 and not wanted[-1] and wanted[-2] and haystack.endswith(needle[:-1]):
        at = len(haystack) - len(needle) + 1
        yield haystack.count("\n", 0, at), at - haystack.rfind("\n", 0, at) - 1, len(wanted) - 1


def _search_whole(keys: Sequence[str], wanted: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The first line, and the number of lines, of each place where the wanted lines stand as whole lines."""
    ended = len(wanted) > 1 and not wanted[-1]
    count = len(wanted) - ended
    haystack, needle = "\n" + "\n".join(keys) + "\n", "\n" + "\n".join(wanted[:count]) + "\n"
    for _, first in _hits(haystack, needle):
        # What follows the last line ending is no empty line.
        if wanted[count - 1] or first + count < len(keys):
            yield first, count + (ended and first + count < len(keys))


def _hits(haystack: str, needle: str) -> Iterator[tuple[int, int]]:
    """Each place of the needle, overlapping ones too, with the number of line ends before it."""
    at = haystack.find(needle)
    line = counted = 0
    while at >= 0:
        line += haystack.count("\n", counted, at)
        counted = at
        yield at, line
        at = haystack.find(needle, at + 1)


def _whole(lines: TextLines, first: int, old: list[str]) -> MatchPlace:
    last = first + len(old) - 1
    ended = len(old) > 1 and not old[-1]
    return MatchPlace(lines, first, 0, old, 0 if ended else len(lines.contents[last]))


def _placed(lines: TextLines, first: int, column: int, old: list[str], keys: list[str]) -> MatchPlace | None:
    last = first + len(old) - 1
    from_column = column if len(old) == 1 else 0
    # The place ends with the whole line, or exactly where the last line of the old text does.
    if len(old) > 1 and not old[-1]:
        end = 0
    elif from_column + len(keys[-1]) == len(lines.trimmed[last]):
        end = len(lines.contents[last])
    elif lines.contents[last].startswith(old[-1], from_column):
        end = from_column + len(old[-1])
    else:
        return None
    return MatchPlace(lines, first, column, old, end)


def _walked(lines: TextLines, first: int, column: int, old: list[str]) -> MatchPlace | None:
    pieces: list[Pieces] = []
    last = first + len(old) - 1
    end = 0
    for offset, mine in enumerate(old):
        content = lines.contents[first + offset]
        theirs = lines.trimmed[first + offset][column if offset == 0 else 0 :]
        whole = _walk_all(mine.rstrip(BLANKS), theirs)
        if whole is not None:
            end = len(content)
        elif first + offset == last:
            # Only a part of the line: then every blank at its end counts.
            whole = walk(mine, content[column if offset == 0 else 0 :])
            if whole is not None:
                end = (column if offset == 0 else 0) + sum(len(piece) for _, piece in whole)
        if whole is None:
            return None
        pieces.append(whole)
    if len(old) > 1 and not old[-1]:
        end = 0
    return MatchPlace(lines, first, column, old, end, Adapted(characters=Retype(pieces, lines.text)))
