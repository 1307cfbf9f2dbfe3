"""Some lines of a file of any size, without reading the rest of it into memory."""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.texts.encodings import likely
from ferrule.workspace.texts.line_index import BLOCK, FileChanged, LineIndex, LineIndexes
from ferrule.workspace.texts.text import decode, lines_of

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_LINE = 2_000
# Files up to this size are decoded whole, as Edit does it; so are those in UTF-16 and UTF-32, up to the second.
WHOLE = 4 * 1024 * 1024
WHOLE_IF_WIDE = 64 * 1024 * 1024
# Up to this size the lines of a file are always counted; beyond it only as far as a page needs.
COUNTED = 64 * 1024 * 1024
_HEAD = 64 * 1024
_WIDEST_CHARACTER = 4
_MOST_TRIES = 3
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)

_indexes = LineIndexes()


@dataclass(slots=True, frozen=True)
class Page:
    """Lines of a file, without their endings.

    `first` is the number of the first one, from 1. `total` is None while nobody has counted to the end. `cut` has the
    lines that were too long to show whole, by number, and how many bytes each has.
    """

    lines: tuple[str, ...]
    first: int
    total: int | None
    has_more: bool
    encoding: str
    cut: Mapping[int, int] = field(default_factory=dict[int, int])


def read_lines(
    descriptor: int, offset: int, limit: int, *, longest: int = LONGEST_LINE, indexes: LineIndexes = _indexes
) -> Page | None:
    """Up to `limit` lines after the first `offset` ones, or None when the file is binary.

    Past the end the page is empty and `total` says how many lines there are.
    """
    size = os.fstat(descriptor).st_size
    if size <= WHOLE:
        return _from_whole(_read(descriptor, size), offset, limit, longest)
    head = _read(descriptor, _HEAD)
    if head.startswith(_WIDE_MARKS) or b"\0" in head:
        # Two bytes less, too: the first cut may go through a pair of surrogates.
        if all(decode(head[: _HEAD - less]) is None for less in (0, 2)):
            return None
        if size > WHOLE_IF_WIDE:
            raise PathProblem(
                "too_large",
                phrase(
                    "The file is in UTF-16 or UTF-32 and has {size} bytes; pages of such files are "
                    "read up to {whole_if_wide}.",
                    size=f"{size:,}",
                    whole_if_wide=f"{WHOLE_IF_WIDE:,}",
                ),
                suggestion=phrase("Convert it to UTF-8 first, with `iconv` for example."),
            )
        return _from_whole(_read(descriptor, size), offset, limit, longest)
    encoding = _encoding(head)
    if encoding is None:
        return None
    for _ in range(_MOST_TRIES):
        try:
            with indexes.of(descriptor) as index:
                return _from_index(descriptor, index, offset, limit, longest, encoding)
        except FileChanged:
            continue
    raise PathProblem(
        "changed", phrase("The file keeps changing while it is read."), suggestion=phrase("Try again in a moment.")
    )


def _from_whole(data: bytes, offset: int, limit: int, longest: int) -> Page | None:
    text = decode(data)
    if text is None:
        return None
    lines = lines_of(text.text)
    shown = [line.rstrip("\r\n") for line in lines[offset : offset + limit]]
    cut = {
        number: len(line.encode(text.encoding))
        for number, line in enumerate(shown, start=offset + 1)
        if len(line) > longest
    }
    return Page(
        tuple(line[:longest] for line in shown),
        offset + 1,
        len(lines),
        has_more=offset + limit < len(lines),
        encoding=text.encoding,
        cut=cut,
    )


def _from_index(descriptor: int, index: LineIndex, offset: int, limit: int, longest: int, encoding: str) -> Page:
    start = index.start_of(descriptor, offset)
    raw, end = _lines_at(descriptor, index, start, offset, limit, longest) if start is not None else ([], index.size)
    if index.size <= COUNTED:
        index.count_all(descriptor)
    used = _encoding_of_page([line for line, _ in raw], encoding)
    lines = [line.decode(used, "replace") for line, _ in raw]
    if offset == 0 and lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    cut = {offset + 1 + place: raw[place][1] for place, line in enumerate(lines) if len(line) > longest}
    shown = tuple(line[:longest] for line in lines)
    return Page(shown, offset + 1, index.total, has_more=end < index.size, encoding=used, cut=cut)


def _lines_at(
    descriptor: int, index: LineIndex, start: int, offset: int, limit: int, longest: int
) -> tuple[list[tuple[bytes, int]], int]:
    """The lines from a place on, as bytes and how many there are; and where the last one ends.

    Of a line that is too long to show, only the beginning is kept.
    """
    enough = (longest + 1) * _WIDEST_CHARACTER
    lines: list[tuple[bytes, int]] = []
    while len(lines) < limit and start < index.size:
        data = os.pread(descriptor, min(max(BLOCK, enough), index.size - start), start)
        if not data:
            raise FileChanged
        whole = data.splitlines(keepends=True)
        goes_on = start + len(data) < index.size
        if goes_on and len(whole) == 1:
            following = index.start_of(descriptor, offset + len(lines) + 1)
            end = index.size if following is None else following
            ending = 2 - len(os.pread(descriptor, 2, end - 2).rstrip(b"\r\n"))
            lines.append((data[:enough].rstrip(b"\r\n"), end - start - ending))
            start = end
            continue
        if goes_on:
            whole.pop()
        for line in whole[: limit - len(lines)]:
            bare = line.rstrip(b"\r\n")
            lines.append((bare[:enough], len(bare)))
            start += len(line)
    return lines, start


def _encoding(head: bytes) -> str | None:
    """What a file is written in, to judge by its first lines; None when it is binary."""
    return "utf-8" if _starts_like_utf8(head) else next(likely(head), None)


def _encoding_of_page(raw: list[bytes], encoding: str) -> str:
    """A file that starts with plain ASCII may only show further down what it is written in."""
    if encoding != "utf-8":
        return encoding
    together = b"\n".join(raw)
    try:
        together.decode("utf-8")
    except UnicodeDecodeError:
        return encoding if all(map(_starts_like_utf8, raw)) else next(likely(together), encoding)
    return encoding


def _starts_like_utf8(line: bytes) -> bool:
    """Whether it is UTF-8, but for a last character that may have been cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(line)
    except UnicodeDecodeError:
        return False
    return True


def _read(descriptor: int, most: int) -> bytes:
    pieces: list[bytes] = []
    at = 0
    while at < most and (piece := os.pread(descriptor, min(most - at, 1 << 24), at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)
