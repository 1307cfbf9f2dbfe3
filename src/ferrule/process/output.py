"""What a command wrote, within bounds: its head and its tail, how much lies between them, and a file with all of it.

Standard output and standard error are two pipes, so they are kept apart for certain; their order is that in which they
were read. What came in one turn of the loop on both pipes is put in the order stdout, stderr, so two lines written
within microseconds of each other may change places. Nothing is ever lost or cut without being counted.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ferrule.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


# What a program wrote for a terminal, as the words it would have left there.


_STRING_END = r"(?:\x07|\x1b\\|\x9c)?"
# Strings (titles, links, clipboard, device control) end at their terminator, or at the line's end if it never comes.
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]*" + _STRING_END
_SEQUENCE = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
_SHORT = r"\x1b[ -/]*[0-~]?"
_ERASE_TO_END = lazy_pattern(r"(?:\x1b\[|\x9b)0?K")
_ESCAPES = lazy_pattern(f"{_STRING}|{_SEQUENCE}|{_SHORT}")
_CONTROLS = lazy_pattern(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ERASE = "\x00"  # stands for erase-to-end-of-line while a line is folded; NULs are taken out first
_UNFINISHED = lazy_pattern(rf"(?:{_STRING}|{_SEQUENCE}|{_SHORT}|\r)\Z")
_LONGEST_UNFINISHED = 4096


def clean(text: str) -> str:
    """The text as a terminal would show it in the end, without anything that is for a terminal alone."""
    if text.isprintable():
        return text
    if _ERASE in text:
        text = text.replace(_ERASE, "")
    if "\x1b" in text or "\x9b" in text:
        text = _ERASE_TO_END.sub(_ERASE, text)
    text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = re.sub(r"\r+\n", "\n", text)
    if "\r" in text or "\b" in text or _ERASE in text:
        text = "\n".join(_folded(line) for line in text.split("\n"))
    return _CONTROLS.sub("", text)


def _folded(line: str) -> str:
    """A line as it ends after everything that was written over it."""
    if "\r" not in line and "\b" not in line:
        return line.replace(_ERASE, "")
    shown: list[str] = []
    column = 0
    for character in line:
        if character == "\r":
            column = 0
        elif character == "\b":
            column = max(0, column - 1)
        elif character == _ERASE:
            del shown[column:]
        else:
            if column < len(shown):
                shown[column] = character
            else:
                shown.append(character)
            column += 1
    return "".join(shown).rstrip(" ") if _ERASE in line else "".join(shown)


class StreamCleaner:
    """Cleans text that comes in pieces; a sequence cut in two is kept back until its other half is there."""

    def __init__(self) -> None:
        self._kept = ""

    def feed(self, text: str) -> str:
        """What can be shown by now."""
        text = self._kept + text
        self._kept = ""
        cut = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_UNFINISHED))
        if cut is not None and not _is_whole(cut[0]):
            self._kept = text[cut.start() :]
            text = text[: cut.start()]
        return clean(text)

    def rest(self) -> str:
        """What was kept back, when nothing more comes."""
        text, self._kept = self._kept, ""
        return clean(text)


def _is_whole(sequence: str) -> bool:
    if sequence == "\r":
        return False  # perhaps the first half of a line's end
    if re.match(r"\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f]", sequence):
        return sequence.endswith(("\x07", "\x1b\\", "\x9c"))
    if re.match(r"\x1b\[|\x9b", sequence):
        return re.fullmatch(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]", sequence) is not None
    return re.fullmatch(r"\x1b[ -/]*[0-~]", sequence) is not None and sequence != "\x1b["


# The whole output of a command in a private file, when it is too long to read at once.


_LARGEST_FILE = 64 << 20
_OLDEST_SECONDS = 7 * 24 * 3600
_MOST_FILES, _MOST_BYTES = 200, 1 << 30
_PIECE, _SMALLEST = 1 << 20, 200


@dataclass(slots=True, frozen=True)
class SpillFolder:
    """Where such files lie: a folder of Ferrule's own, that only its owner may enter."""

    path: Path
    largest: int = _LARGEST_FILE
    """Bytes that one file may take; never more than half of what the disk has left."""

    def open(self) -> Spill:
        """A new file, and old ones cleared away."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.prune()
        return Spill(self.path, min(self.largest, shutil.disk_usage(self.path).free // 2))

    def prune(self) -> None:
        """Remove what is older than a week, and the oldest when there are too many or they are too large."""
        found: list[tuple[float, int, Path]] = []
        for path in self.path.glob("output-*.txt"):
            try:
                state = path.stat()
            except FileNotFoundError:
                continue  # another Ferrule was faster
            found.append((state.st_mtime, state.st_size, path))
        found.sort(reverse=True)
        oldest, size = time.time() - _OLDEST_SECONDS, 0
        for place, (changed, taken, path) in enumerate(found):
            size += taken
            if changed < oldest or place >= _MOST_FILES or size > _MOST_BYTES:
                path.unlink(missing_ok=True)


class Spill:
    """One file: written as output comes, readable from any place in it.

    Places are those in the output, whatever of it the file still holds: the first quarter of the bound, then from
    `_resumes` on what came last. When the file is full, its last quarter is moved up to the first.
    """

    def __init__(self, folder: Path, largest: int) -> None:
        self.path = folder / f"output-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(6).hex()}.txt"
        self._opened = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._largest = largest = max(largest, _SMALLEST)
        self._quarter = largest // 4
        self._resumes = self._quarter
        self._after = self._quarter
        """Where in the file it goes on after the first quarter."""
        self.size = 0
        """Bytes of output so far."""
        self.full = ""
        """Why the file does not have everything; empty while it does."""
        self._broken = False

    def write(self, data: bytes) -> None:
        """Add to it; where there is no room left, the middle makes some."""
        if self._broken:
            return
        view = memoryview(data)
        try:
            while view:
                room = self._largest - self._place(self.size)
                if room <= 0:
                    resumes = self.size - self._quarter
                    note = f"\n[… {resumes - self._quarter:,} bytes left out here …]\n".encode()
                    os.pwrite(self._opened, note, self._quarter)
                    source, target = self._place(resumes), self._quarter + len(note)
                    for moved in range(0, self._quarter, _PIECE):
                        piece = os.pread(self._opened, min(_PIECE, self._quarter - moved), source + moved)
                        os.pwrite(self._opened, piece, target + moved)
                    self._resumes, self._after = resumes, target
                    os.ftruncate(self._opened, target + self._quarter)
                    self.full = f"its middle was dropped, since a file holds at most {self._largest:,} bytes"
                    continue
                written = os.pwrite(self._opened, view[:room], self._place(self.size))
                self.size += written
                view = view[written:]
        except OSError as error:
            self.full, self._broken = f"it could not be written further: {error.strerror}", True

    def read(self, start: int, length: int) -> bytes:
        """A part of the output, without what was dropped of it; nothing if the file was cleared away meanwhile."""
        end = min(start + length, self.size)
        ranges = [(start, min(end, self._quarter)), (max(start, self._resumes), end)]
        try:
            return b"".join(self._read(self._place(first), last - first) for first, last in ranges if first < last)
        except FileNotFoundError:
            return b""

    def _place(self, at: int) -> int:
        return at if at < self._quarter else self._after + at - self._resumes

    def _read(self, place: int, length: int) -> bytes:
        if self._opened >= 0:
            return os.pread(self._opened, length, place)
        with self.path.open("rb") as file:
            file.seek(place)
            return file.read(length)

    def close(self) -> None:
        """Let go of the file; it stays where it is."""
        if self._opened >= 0:
            os.close(self._opened)
            self._opened = -1


Stream = Literal["stdout", "stderr"]
KEPT_BYTES = 32_000
_HEAD_SHARE = 0.4


@dataclass(slots=True, frozen=True)
class LeftOut:
    """What lies between head and tail: whole lines where the text has lines."""

    bytes: int = 0
    lines: int = 0


@dataclass(slots=True, frozen=True)
class Piece:
    """Words of one stream, in the order they came; `stream` is None for the note of what was left out."""

    stream: Stream | None
    text: str


class HeadAndTail:
    """The first and the last bytes of something that may be endless, each with the stream it came from."""

    def __init__(self, kept: int) -> None:
        self._head_room = int(kept * _HEAD_SHARE)
        self._tail_room = kept - self._head_room
        self._head: list[tuple[Stream, bytes]] = []
        self._tail: deque[tuple[Stream, bytes]] = deque()
        self._head_size = self._tail_size = 0
        self.total = 0
        self.newlines = 0

    @property
    def full(self) -> int:
        """How many bytes it keeps at most."""
        return self._head_room + self._tail_room

    def add(self, stream: Stream, data: bytes, newlines: int) -> None:
        """Take in what came, with the number of line ends in it."""
        self.total += len(data)
        self.newlines += newlines
        if self._head_size < self._head_room:
            first, data = data[: self._head_room - self._head_size], data[self._head_room - self._head_size :]
            self._head.append((stream, first))
            self._head_size += len(first)
        if not data:
            return
        if len(data) >= self._tail_room:
            self._tail.clear()
            self._tail_size = 0
            data = data[-self._tail_room :]
        self._tail.append((stream, data))
        self._tail_size += len(data)
        while self._tail_size > self._tail_room:
            stream, oldest = self._tail.popleft()
            surplus = self._tail_size - self._tail_room
            self._tail_size -= min(surplus, len(oldest))
            if surplus < len(oldest):
                self._tail.appendleft((stream, oldest[surplus:]))

    def everything(self) -> Iterable[bytes]:
        """All the bytes, as long as nothing was left out."""
        for _, data in (*self._head, *self._tail):
            yield data

    def parts(self) -> tuple[list[tuple[Stream, bytes]], LeftOut, list[tuple[Stream, bytes]]]:
        """Head, what is left out, tail; cut between lines where there are any, and never inside a character."""
        if self.total <= self._head_size + self._tail_size:  # nothing had to be left out
            return _joined([*self._head, *self._tail]), LeftOut(), []
        head, tail = _joined(self._head), _joined(self._tail)
        if head:
            head[-1] = (head[-1][0], _whole_end(head[-1][1]))
        if tail:
            tail[0] = (tail[0][0], _whole_start(tail[0][1]))
        shown = [data for _, data in (*head, *tail)]
        left = LeftOut(self.total - sum(map(len, shown)), self.newlines - sum(data.count(b"\n") for data in shown))
        return head, left, tail


class OutputRecord:
    """The output of one command while it runs and after; memory stays within a few times `kept`."""

    def __init__(self, folder: SpillFolder | None = None, *, kept: int = KEPT_BYTES, spill_all: bool = False) -> None:
        self._folder = folder
        self._both = HeadAndTail(kept)
        self._streams: dict[Stream, HeadAndTail] = {"stdout": HeadAndTail(kept), "stderr": HeadAndTail(kept)}
        self.spill: Spill | None = folder.open() if folder is not None and spill_all else None
        self._problem = ""

    @property
    def total(self) -> int:
        """Bytes so far."""
        return self._both.total

    def add(self, stream: Stream, data: bytes) -> None:
        """Take in what came on a stream."""
        if self._both.total + len(data) > self._both.full:
            self.spill_from_now()
        if self.spill is not None:
            self.spill.write(data)
        newlines = data.count(b"\n")
        self._both.add(stream, data, newlines)
        self._streams[stream].add(stream, data, newlines)

    def text(self, stream: Stream) -> str:
        """One stream, cleaned for a model; what is left out is said in its place."""
        return "".join(piece.text for piece in self._pieces(self._streams[stream]))

    def pieces(self) -> list[Piece]:
        """Both streams in their order."""
        return self._pieces(self._both)

    def left_out(self) -> LeftOut:
        """What is left out of both streams together."""
        return self._both.parts()[1]

    @property
    def path(self) -> Path | None:
        """The file with everything, where there was more than is shown."""
        return self.spill.path if self.spill is not None else None

    @property
    def problem(self) -> str:
        """Why the file does not have everything; empty if it does."""
        return self.spill.full if self.spill is not None else self._problem

    def spill_from_now(self) -> None:
        """Have everything in a file, also what came before and what may be little."""
        if self._folder is None or self.spill is not None or self._problem:
            return
        try:
            self.spill = self._folder.open()
        except OSError as error:
            self._problem = f"no file could be made for the whole output: {error.strerror}"
            return
        for earlier in self._both.everything():
            self.spill.write(earlier)

    def close(self) -> None:
        """Nothing more will come."""
        if self.spill is not None:
            self.spill.close()

    def _pieces(self, kept: HeadAndTail) -> list[Piece]:
        head, left, tail = kept.parts()
        pieces = [Piece(stream, clean(data.decode(errors="replace"))) for stream, data in head]
        if left.bytes:
            pieces.append(Piece(None, self._note(left, starts_line=not pieces or pieces[-1].text.endswith("\n"))))
            pieces += [Piece(stream, clean(data.decode(errors="replace"))) for stream, data in tail]
        return [piece for piece in pieces if piece.text]

    def _note(self, left: LeftOut, *, starts_line: bool) -> str:
        lines = "1 line, " if left.lines == 1 else f"{left.lines:,} lines, " if left.lines else ""
        where = f"; the whole output is in `{self.path}`" if self.path and not self.problem else ""
        if self.problem:
            where = f"; the output is in `{self.path}`, but not all of it: {self.problem}" if self.path else ""
        return f"{'' if starts_line else chr(10)}[… {lines}{left.bytes:,} bytes left out{where} …]\n"


def _joined(pieces: Iterable[tuple[Stream, bytes]]) -> list[tuple[Stream, bytes]]:
    """Neighbours of the same stream made one, so that no character is cut where two reads met."""
    joined: list[tuple[Stream, list[bytes]]] = []
    for stream, data in pieces:
        if joined and joined[-1][0] == stream:
            joined[-1][1].append(data)
        else:
            joined.append((stream, [data]))
    return [(stream, b"".join(parts)) for stream, parts in joined]


def _whole_end(data: bytes) -> bytes:
    """Up to the last line's end, or to the last whole character of a line that has none."""
    if (end := data.rfind(b"\n")) >= 0:
        return data[: end + 1]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]


def _whole_start(data: bytes) -> bytes:
    """From the start of a line, or of the first whole character of a line that has none."""
    end = data.find(b"\n")
    if 0 <= end < len(data) - 1:
        return data[end + 1 :]
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:]
