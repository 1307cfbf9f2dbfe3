"""Near-miss names: what someone probably meant."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_DROPPED = str.maketrans("", "", "_-. ")


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to a wrong one, best first; empty when none is close.

    Close is what is spelt alike (case, `_` and `-` do not count, so `read_file` is `readFile`), what has the same
    words, what begins or ends with the other, and what is few letters away. A name of one or two letters is close to
    itself alone.
    """
    wanted = _plain(name)
    if not wanted or len(name) > 200:
        return []
    letters = set(wanted)
    scored: list[tuple[float, str]] = []
    for candidate in known:
        plain = _plain(candidate)
        shorter, longer = (plain, wanted) if len(plain) < len(wanted) else (wanted, plain)
        if plain == wanted:
            score = 0.0
        elif len(shorter) < 3:
            continue
        elif shorter in longer and _is_part(shorter, longer, name, candidate):
            score = 1 - len(shorter) / len(longer)
        else:
            bound = len(longer) // 3
            if len(longer) - len(shorter) > bound:
                continue
            apart = len(letters.symmetric_difference(plain))
            if apart > 2 * bound:
                continue  # cheap, and rules out most of ten thousand names
            if not apart and len(plain) == len(wanted) and _words(name) == _words(candidate):
                scored.append((0.1, candidate))  # `file_read` for `read_file`
                continue
            distance = edits(wanted, plain, bound)
            if distance > bound:
                continue
            score = distance / len(longer)
        scored.append((score, candidate))
    return [candidate for _, candidate in sorted(scored)[:most]] if scored else []


def _is_part(shorter: str, longer: str, name: str, candidate: str) -> bool:
    """Whether a name within another is more than chance: it begins or ends it, is a word of it, or most of it."""
    if longer.startswith(shorter) or longer.endswith(shorter) or 2 * len(shorter) >= len(longer):
        return True
    one, other = _words(name), _words(candidate)
    return one <= other or other <= one


@lru_cache(maxsize=4096)
def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(name))


@lru_cache(maxsize=16_384)
def _plain(name: str) -> str:
    return name.lower().translate(_DROPPED)


def edits(a: str, b: str, bound: int) -> int:
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
