"""Some lines of a file of any size, without reading the rest of it into memory."""

from __future__ import annotations

import codecs
import hashlib
import os
import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.problems import PathError
from ferrule.workspace.texts.encodings import likely
from ferrule.workspace.texts.text import decode, lines_of

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping


# Where the lines of a huge file are: how many line endings lie before each block of it.


BLOCK = 256 * 1024
_LF, _CR = 0x0A, 0x0D
# From here on, looking for each ending with memchr (`replace`) beats looking at each byte (`count`) twice over.
_LONG_LINES = 32
_SPOTS, _SPOT, _END = 30, 512, 4096
_MOST_FILES = 64


class FileChanged(Exception):  # noqa: N818 - reads as what it says
    """A block does not hold the lines it held when it was counted."""


class LineIndex:
    """The lines of one open file, as far as it has been counted."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._before = array("Q", [0])  # the endings before each block that was counted, and after the last
        self._last = b""  # the last byte that was counted

    @property
    def counted(self) -> int:
        """How many bytes have been counted."""
        return min((len(self._before) - 1) * BLOCK, self.size)

    @property
    def total(self) -> int | None:
        """How many lines there are, once the whole file has been counted."""
        if self.counted < self.size:
            return None
        return self._before[-1] + (self.size > 0 and self._last not in (b"\n", b"\r"))

    def grow(self, descriptor: int, size: int) -> None:
        """The file has become longer; what was counted stays, except for a last block that was not full."""
        if self.size % BLOCK and self.counted == self.size:
            self._before.pop()
            start = (len(self._before) - 1) * BLOCK
            self._last = os.pread(descriptor, 1, start - 1) if start else b""
        self.size = size

    def count_all(self, descriptor: int) -> None:
        while self.counted < self.size:
            self._count_block(descriptor)

    def start_of(self, descriptor: int, line: int) -> int | None:
        """Where a line (from 0) starts, or None when the file has fewer. Counts only as far as needed."""
        if line == 0:
            return 0 if self.size else None
        while self._before[-1] < line and self.counted < self.size:
            self._count_block(descriptor)
        if self._before[-1] < line:
            return None
        block = bisect_left(self._before, line) - 1
        start = self._after_ending(descriptor, block, line - self._before[block])
        return start if start < self.size else None

    def _count_block(self, descriptor: int) -> None:
        start = self.counted
        data = os.pread(descriptor, min(BLOCK, self.size - start), start)
        if len(data) < min(BLOCK, self.size - start):
            raise FileChanged
        blocks = len(self._before) - 1
        long_lines = self._before[-1] * _LONG_LINES <= blocks * BLOCK
        self._before.append(self._before[-1] + endings(data, self._last, long_lines=long_lines))
        self._last = data[-1:]

    def _after_ending(self, descriptor: int, block: int, wanted: int) -> int:
        """The place after the so manyth ending of a block."""
        start = block * BLOCK
        # One byte more on either side: an ending of two bytes may lie across.
        around = os.pread(descriptor, BLOCK + 2, max(start - 1, 0))
        previous, data = (around[:1], around[1:]) if start else (b"", around)
        own = data[: min(BLOCK, self.size - start)]
        if endings(own, previous, long_lines=True) != self._before[block + 1] - self._before[block]:
            raise FileChanged
        at = 1 if previous == b"\r" and own[0] == _LF else 0
        if b"\r" in own:
            at += sum(map(len, own[at:].splitlines(keepends=True)[:wanted]))
        else:
            for _ in range(wanted):
                at = own.index(b"\n", at) + 1
        if own[at - 1] == _CR and data[at : at + 1] == b"\n":
            at += 1
        return start + at


def endings(data: bytes, previous: bytes = b"", *, long_lines: bool = False) -> int:
    r"""How many lines end in `data`. A `\r\n` counts where its `\r` is, so the byte before is all one must know."""
    found = _count(data, b"\n", rare=long_lines)
    if b"\r" in data:
        found += _count(data, b"\r", rare=long_lines) - data.count(b"\r\n")
    if previous == b"\r" and data[:1] == b"\n":
        found -= 1
    return found


def _count(data: bytes, byte: bytes, *, rare: bool) -> int:
    return len(data) - len(data.replace(byte, b"")) if rare else data.count(byte)


class LineIndexes:
    """The indexes of the files read last, each used by one thread at a time."""

    def __init__(self, most: int = _MOST_FILES) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], _KeptIndex] = OrderedDict()

    @contextmanager
    def of(self, descriptor: int) -> Generator[LineIndex]:
        """The index of an open file: the one kept if the file is the same or has only grown, else a new one."""
        found = os.fstat(descriptor)
        key = (found.st_dev, found.st_ino)
        with self._guard:
            kept = self._kept.setdefault(key, _KeptIndex())
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        with kept.lock:
            index = kept.matching(descriptor, found)
            try:
                yield index
            except FileChanged:
                kept.forget()
                raise


class _KeptIndex:
    __slots__ = ("_index", "_stamp", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._index: LineIndex | None = None
        self._stamp: tuple[int, bytes, int, int] | None = None
        """How long the file was, a hash of a few spots of its content, and when it was changed."""

    def forget(self) -> None:
        self._index = self._stamp = None

    def matching(self, descriptor: int, found: os.stat_result) -> LineIndex:
        size = found.st_size
        now = (size, _spots(descriptor, size), found.st_mtime_ns, found.st_ctime_ns)
        index, before = self._index, self._stamp
        if index is not None and before is not None and now != before:
            if size > before[0] and _spots(descriptor, before[0]) == before[1]:
                index.grow(descriptor, size)
            else:
                index = None
        self._index, self._stamp = index or LineIndex(size), now
        return self._index


def _spots(descriptor: int, size: int) -> bytes:
    """A hash of both ends of a file and of spots all over it, to notice what size and times do not tell."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(os.pread(descriptor, min(_END, size), 0))
    for spot in range(1, _SPOTS + 1):
        at = size * spot // (_SPOTS + 1)
        digest.update(os.pread(descriptor, min(_SPOT, size - at), at))
    last = max(0, size - _END)
    digest.update(os.pread(descriptor, size - last, last))
    return digest.digest()


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

    `first` is the number of the first one, from 1. `total` is None while they are not all counted. `cut` has the
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
            raise PathError(
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
    # What a file is written in, to judge by its first lines; None when it is binary.
    encoding = "utf-8" if _starts_like_utf8(head) else next(likely(head), None)
    if encoding is None:
        return None
    for _ in range(_MOST_TRIES):
        with suppress(FileChanged), indexes.of(descriptor) as index:
            return _from_index(descriptor, index, offset, limit, longest, encoding)
    raise PathError(
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
    # A file that starts with plain ASCII may only show further down what it is written in.
    if encoding == "utf-8":
        together = b"\n".join(line for line, _ in raw)
        try:
            together.decode("utf-8")
        except UnicodeDecodeError:
            if not all(_starts_like_utf8(line) for line, _ in raw):
                encoding = next(likely(together), encoding)
    lines = [line.decode(encoding, "replace") for line, _ in raw]
    if offset == 0 and lines:
        lines[0] = lines[0].removeprefix("\ufeff")
    cut = {offset + 1 + place: raw[place][1] for place, line in enumerate(lines) if len(line) > longest}
    shown = tuple(line[:longest] for line in lines)
    return Page(shown, offset + 1, index.total, has_more=end < index.size, encoding=encoding, cut=cut)


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
