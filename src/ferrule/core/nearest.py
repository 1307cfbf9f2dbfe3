"""Near-miss names: what someone probably meant."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_DROPPED = str.maketrans("", "", "_-. ")


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to a wrong one, best first; empty when none is close.

    Case, `_` and `-` do not count as differences, so `read_file` is `readFile`.
    """
    wanted = _plain(name)
    if not wanted or len(name) > 200:
        return []
    letters = set(wanted)
    scored: list[tuple[float, str]] = []
    for candidate in known:
        plain = _plain(candidate)
        if plain == wanted:
            score = 0.0
        elif len(wanted) >= 3 and plain and (plain in wanted or wanted in plain):
            score = abs(len(plain) - len(wanted)) / max(len(plain), len(wanted))
        else:
            longer = len(plain) if len(plain) > len(wanted) else len(wanted)
            bound = longer // 3 or 1
            if abs(len(plain) - len(wanted)) > bound or len(letters.symmetric_difference(plain)) > 2 * bound:
                continue  # cheap, and rules out most of ten thousand names
            distance = _distance(wanted, plain, bound)
            if distance > bound:
                continue
            score = distance / longer
        scored.append((score, candidate))
    return [candidate for _, candidate in sorted(scored)[:most]]


@lru_cache(maxsize=16_384)
def _plain(name: str) -> str:
    return name.lower().translate(_DROPPED)


def _distance(a: str, b: str, bound: int) -> int:
    """Edits (with swaps of neighbours) from one string to another; anything over `bound` counts as `bound + 1`."""
    if abs(len(a) - len(b)) > bound:
        return bound + 1
    while a and b and a[0] == b[0]:
        a, b = a[1:], b[1:]
    while a and b and a[-1] == b[-1]:
        a, b = a[:-1], b[:-1]
    if not a or not b:
        return len(a) or len(b)
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        older, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if older and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > bound:
            return bound + 1
    return row[-1]
