"""What a session has read, by content: a file is changed only as it was last read (P11)."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import phrase
from ferrule.workspace.problems import PathError

if TYPE_CHECKING:
    import os
    from io import BufferedReader
    from pathlib import Path

    from ferrule.workspace.paths import Place

_KEPT_CONTENT = 2_000_000
_KEPT_IN_ALL = 64_000_000
_MOST_FILES = 5_000
_SETTLED_NS = 2_000_000_000


def digest(data: bytes) -> str:
    """The name of a content."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def digest_of(file: BufferedReader) -> str:
    """The name of a content that is too long to be held in memory."""
    return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=20)).hexdigest()


@dataclass(slots=True, frozen=True)
class _Seen:
    """The digest of a content; the content itself, if it is short; and what the file looked like from outside."""

    name: str
    data: bytes | None
    stamp: tuple[int, ...] | None


class Tracker:
    """Which contents a session has seen. A file that was only touched has not changed; one with the same size and
    time but other bytes has.
    """

    def __init__(self, *, strict: bool = True) -> None:
        self._strict = strict
        """Whether a file that was never read may not be changed; a single call from a shell has nothing before it."""
        self._lock = threading.Lock()
        self._seen: OrderedDict[Path, _Seen] = OrderedDict()
        self._kept: OrderedDict[Path, int] = OrderedDict()
        """Whose content is kept too, and how long it is: it tells which lines have changed, and spares naming it."""
        self._kept_in_all = 0

    def saw(
        self, place: Place, data: bytes | None = None, name: str | None = None, found: os.stat_result | None = None
    ) -> None:
        """Note that the session knows this content; `name` is its digest where the bytes are too many to pass.

        `found` is what the file looked like before its content was read, so that `has_seen` can tell it again.
        """
        name = name or digest(data or b"")
        kept = data if data is not None and len(data) <= _KEPT_CONTENT else None
        with self._lock:
            self._forget(place.path)
            self._seen[place.path] = _Seen(name, kept, _stamp(found) if found else None)
            if kept is not None:
                self._kept[place.path] = len(kept)
                self._kept_in_all += len(kept)
            while self._kept_in_all > _KEPT_IN_ALL:
                oldest, length = self._kept.popitem(last=False)
                self._kept_in_all -= length
                self._seen[oldest] = replace(self._seen[oldest], data=None)
            while len(self._seen) > _MOST_FILES:
                self._forget(next(iter(self._seen)))

    def forget(self, place: Place) -> None:
        with self._lock:
            self._forget(place.path)

    def _forget(self, path: Path) -> None:
        self._seen.pop(path, None)
        self._kept_in_all -= self._kept.pop(path, 0)

    def has_seen(self, place: Place, found: os.stat_result) -> bool:
        """Whether a file that looks like this from outside need not be read whole again to be known.

        Should it deceive, then the digest does not fit when the file is to be changed, and it is read again.
        """
        with self._lock:
            seen = self._seen.get(place.path)
        return seen is not None and seen.stamp is not None and seen.stamp == _stamp(found)

    def knows(self, place: Place, now: bytes) -> bool:
        """Whether the session has read the file as it is now."""
        with self._lock:
            seen = self._seen.get(place.path)
        return seen is not None and seen.name == digest(now)

    def require_seen(self, place: Place, now: bytes) -> str:
        """The digest of what a file holds now. Refuses one that was never read, or is not any more what was read."""
        with self._lock:
            seen = self._seen.get(place.path)
        if seen is None:
            if not self._strict:
                return digest(now)
            raise PathError(
                "not_read",
                phrase("`{place}` has not been read yet.", place=place),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Read it first, then make the change."),
            )
        if now == seen.data or digest(now) == seen.name:
            return seen.name
        with self._lock:
            if self._seen.get(place.path) is seen:
                self._seen[place.path] = replace(seen, stamp=None)
        raise PathError(
            "changed",
            phrase(
                "`{place}` has changed since you read it: {where}.", place=place, where=_changed_lines(seen.data, now)
            )
            if seen.data is not None
            else phrase("`{place}` has changed since you read it.", place=place),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Read it again, then make the change."),
        )


def _stamp(found: os.stat_result) -> tuple[int, ...] | None:
    """What tells two states of a file apart; nothing does where it was changed a moment ago, and may be once more."""
    if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < _SETTLED_NS:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _changed_lines(before: bytes, now: bytes) -> str:
    """Which lines of the file as it is now differ: `lines 10-14, 20`."""
    old, new = before.splitlines(keepends=True), now.splitlines(keepends=True)
    if len(old) + len(new) > 20_000:
        return phrase("many lines")
    spans: list[str] = []
    for tag, _, _, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            first, last = start + 1, max(end, start + 1)
            spans.append(str(first) if first == last else f"{first}-{last}")
    shown = ", ".join(spans[:6]) + (", …" if len(spans) > 6 else "")
    many = len(spans) > 1 or "-" in shown
    return phrase("lines {listed}", listed=shown) if many else phrase("line {n}", n=shown)
