r"""Where the lines of a huge file are: how many line endings lie before each block of it.

One pass over the file in large reads counts the endings of each block; a line is then found by looking for its block
in a list of numbers and reading that block alone. The pass goes only as far as asked, goes on where a log has grown
since, and takes 8 bytes of memory for 256 KB of file. A line of a gigabyte is no trouble, because blocks have a size.

An ending is `\n`, `\r\n` or a lone `\r`. That holds byte for byte in UTF-8, in every encoding of one byte a character,
and in GB18030, Big5, Shift-JIS and EUC, where no character has these bytes inside; not in UTF-16 and UTF-32.
"""

from __future__ import annotations

import hashlib
import os
import threading
from array import array
from bisect import bisect_left
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

BLOCK = 256 * 1024
_LF, _CR = 0x0A, 0x0D
# From here on, looking for each ending with memchr (`replace`) beats looking at each byte (`count`) twice over.
_LONG_LINES = 32
_SPOTS, _SPOT, _END = 30, 512, 4096
_MOST_FILES = 64


class FileChanged(Exception):  # noqa: N818 - reads as what it says
    """A block does not hold the lines it held when it was counted."""


@dataclass(slots=True, frozen=True)
class _Stamp:
    """What a file looked like from outside, and a hash of a few spots of its content."""

    size: int
    modified: int
    changed: int
    spots: bytes


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
        self._kept: OrderedDict[tuple[int, int], _Kept] = OrderedDict()

    @contextmanager
    def of(self, descriptor: int) -> Generator[LineIndex]:
        """The index of an open file: the one kept if the file is the same or has only grown, else a new one."""
        found = os.fstat(descriptor)
        key = (found.st_dev, found.st_ino)
        with self._guard:
            kept = self._kept.setdefault(key, _Kept())
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


class _Kept:
    __slots__ = ("_index", "_stamp", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._index: LineIndex | None = None
        self._stamp: _Stamp | None = None

    def forget(self) -> None:
        self._index = self._stamp = None

    def matching(self, descriptor: int, found: os.stat_result) -> LineIndex:
        now = _Stamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, _spots(descriptor, found.st_size))
        index, before = self._index, self._stamp
        if index is None or before is None or now == before:
            index = index or LineIndex(now.size)
        elif now.size > before.size and _spots(descriptor, before.size) == before.spots:
            index.grow(descriptor, now.size)
        else:
            index = LineIndex(now.size)
        self._index, self._stamp = index, now
        return index


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
