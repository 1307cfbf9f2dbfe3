"""Near-miss names: what someone probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SCANNED = 2000


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to a wrong one, best first; empty when none is close.

    Case, `_` and `-` do not count as differences, so `read_file` is `readFile`.
    """
    wanted = _plain(name)
    if not wanted or len(name) > 200:
        return []
    scored: list[tuple[float, str]] = []
    for position, candidate in enumerate(known):
        if position >= _SCANNED and len(scored) >= most:
            break
        plain = _plain(candidate)
        if plain == wanted:
            score = 0.0
        elif len(wanted) >= 3 and plain and (plain in wanted or wanted in plain):
            score = 0.3 + abs(len(plain) - len(wanted)) / max(len(plain), len(wanted)) / 2
        else:
            bound = max(1, max(len(plain), len(wanted)) // 3)
            distance = _distance(wanted, plain, bound)
            if distance > bound:
                continue
            score = distance / max(len(plain), len(wanted))
        scored.append((score, candidate))
    return [candidate for _, candidate in sorted(scored)[:most]]


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "").replace(".", "")


def _distance(a: str, b: str, bound: int) -> int:
    """Edits (with swaps of neighbours) from one string to another; anything over `bound` counts as `bound + 1`."""
    if abs(len(a) - len(b)) > bound:
        return bound + 1
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
