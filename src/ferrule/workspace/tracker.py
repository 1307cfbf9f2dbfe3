"""What a session has read, by content: nobody changes a file they have not seen as it is now (P11)."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.workspace.paths import Place

_KEPT_CONTENT = 2_000_000
_MOST_FILES = 5_000


def digest(data: bytes) -> str:
    """The name of a content."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


class Tracker:
    """Which contents a session has seen. A file that was only touched has not changed; one with the same size and
    time but other bytes has.
    """

    def __init__(self, *, strict: bool = True) -> None:
        self._strict = strict
        """Whether a file that was never read may not be changed; a single call from a shell has nothing before it."""
        self._lock = threading.Lock()
        self._seen: OrderedDict[Path, tuple[str, bytes | None]] = OrderedDict()

    def saw(self, place: Place, data: bytes | None = None, name: str | None = None) -> None:
        """Note that the session knows this content; `name` is its digest where the bytes are too many to pass."""
        kept = data if data is not None and len(data) <= _KEPT_CONTENT else None
        with self._lock:
            self._seen[place.path] = (name or digest(data or b""), kept)
            self._seen.move_to_end(place.path)
            while len(self._seen) > _MOST_FILES:
                self._seen.popitem(last=False)

    def forget(self, place: Place) -> None:
        with self._lock:
            self._seen.pop(place.path, None)

    def knows(self, place: Place, now: bytes) -> bool:
        """Whether the session has read the file as it is now."""
        with self._lock:
            seen = self._seen.get(place.path)
        return seen is not None and seen[0] == digest(now)

    def require_seen(self, place: Place, now: bytes) -> None:
        """Refuse a change of a file that was never read, or is not any more what was read."""
        with self._lock:
            seen = self._seen.get(place.path)
        if seen is None:
            if not self._strict:
                return
            raise PathProblem(
                "not_read",
                f"`{place}` has not been read yet.",
                kind=ErrorKind.VALIDATION,
                suggestion="Read it first, then make the change.",
            )
        known, data = seen
        if known == digest(now):
            return
        where = f": {_changed_lines(data, now)}" if data is not None else ""
        raise PathProblem(
            "changed",
            f"`{place}` has changed since you read it{where}.",
            kind=ErrorKind.VALIDATION,
            suggestion="Read it again, then make the change.",
        )


def _changed_lines(before: bytes, now: bytes) -> str:
    """Which lines of the file as it is now differ: `lines 10-14, 20`."""
    old, new = before.splitlines(keepends=True), now.splitlines(keepends=True)
    if len(old) + len(new) > 20_000:
        return "many lines"
    spans: list[str] = []
    for tag, _, _, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            first, last = start + 1, max(end, start + 1)
            spans.append(str(first) if first == last else f"{first}-{last}")
    shown = ", ".join(spans[:6]) + (", …" if len(spans) > 6 else "")
    return f"lines {shown}" if len(spans) > 1 or "-" in shown else f"line {shown}"
