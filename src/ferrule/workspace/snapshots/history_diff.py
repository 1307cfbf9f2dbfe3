"""What changes did, as a unified diff that stays readable however much there is."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_BYTES = 2_000_000
_MOST_COMPARED = 6_000
_LONGEST_LINE = 500


def unified(name: str, before: bytes | None, after: bytes | None, *, most: int = 200, other: str | None = None) -> str:
    """The difference between two contents; None is no file. At most so many lines of it."""
    old, new = (
        ("/dev/null" if before is None else f"a/{name}"),
        ("/dev/null" if after is None else f"b/{other or name}"),
    )
    one, two = before or b"", after or b""
    if one == two:
        return ""
    head = f"--- {old}\n+++ {new}\n"
    if b"\0" in one[:8192] or b"\0" in two[:8192]:
        return f"{head}Binary: {_size(before)}, then {_size(after)}.\n"
    if max(len(one), len(two)) > _MOST_BYTES:
        return f"{head}Too large to compare: {_size(before)}, then {_size(after)}.\n"
    left, right = _lines(one), _lines(two)
    start, end = _same(left, right)
    if max(len(left), len(right)) - start - end > _MOST_COMPARED:
        middle = f"{len(left) - start - end:,} lines became {len(right) - start - end:,}"
        return f"{head}From line {start + 1:,} on, {middle}.\n"
    # What is the same at both ends is cut off but for its context: comparing costs the square of what is compared.
    first, last = max(start - 3, 0), max(end - 3, 0)
    body = list(unified_diff(left[first : len(left) - last], right[first : len(right) - last], n=3))[2:]
    lines = [_shifted(line, first) if line.startswith("@@") else line for line in body]
    endings = (b"\r" in one) != (b"\r" in two)
    text = "".join(_shown(line, endings=endings) for line in lines[:most])
    rest = len(lines) - most
    return head + text + (f"… {rest:,} more lines of this diff.\n" if rest > 0 else "")


def bounded(parts: Sequence[str], most: int) -> str:
    """Several diffs in one text of at most so many characters, and how many did not fit."""
    shown: list[str] = []
    room = most
    for part in parts:
        if len(part) > room:
            break
        shown.append(part)
        room -= len(part)
    rest = len(parts) - len(shown)
    if rest:
        shown.append(f"… {rest:,} more {'file' if rest == 1 else 'files'} that did not fit here.\n")
    return "".join(shown)


def _lines(data: bytes) -> list[str]:
    return [line.decode("utf-8", "replace") for line in data.splitlines(keepends=True)]


def _same(left: list[str], right: list[str]) -> tuple[int, int]:
    """How many lines are the same at the start, and at the end."""
    short = min(len(left), len(right))
    start = next((at for at in range(short) if left[at] != right[at]), short)
    end = next((at for at in range(short - start) if left[-1 - at] != right[-1 - at]), short - start)
    return start, end


def _shifted(line: str, by: int) -> str:
    """`@@ -1,7 +1,8 @@` for a part that starts `by` lines further down."""
    if not by:
        return line
    _, old, new, end = line.split(" ", 3)
    moved = [",".join([f"{one[0]}{int(at) + by}", *rest]) for one in (old, new) for at, *rest in [one[1:].split(",")]]
    return f"@@ {moved[0]} {moved[1]} {end}"


def _shown(line: str, *, endings: bool) -> str:
    """A line of bounded length; its carriage return is made visible where that may be the difference."""
    text = line.rstrip("\r\n")
    ending = line[len(text) :]
    if len(text) > _LONGEST_LINE:
        text = f"{text[:_LONGEST_LINE]}… ({len(text) - _LONGEST_LINE:,} more characters)"
    if not ending:
        return f"{text}\n\\ No newline at end of file\n"
    return text + ("␍" if endings and "\r" in ending else "") + "\n"


def _size(data: bytes | None) -> str:
    return "no file" if data is None else f"{len(data):,} bytes"
