"""Near-miss names: what someone probably meant."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_DROPPED = str.maketrans("", "", "_-. ")
_LONGEST = 200
_MOST_MISSING = 200
_MOST_KNOWN = 50_000
_MOST_LETTERS = 100_000
"""Letters that one search compares letter by letter; beyond them only what costs next to nothing is tried."""


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names closest to a wrong one, best first; empty when none is close.

    Close is what is spelt alike (case, `_` and `-` do not count, so `read_file` is `readFile`), what has the same
    words, what begins or ends with the other, and what is few letters away. A name of one or two letters is close to
    itself alone. However many and long the names are, a search takes some hundredths of a second at most.
    """
    if len(name) > _LONGEST or not (wanted := _plain(name)):
        return []
    letters, left = set(wanted), _MOST_LETTERS
    scored: list[tuple[float, str]] = []
    for candidate in islice(known, _MOST_KNOWN):
        if len(candidate) > _LONGEST:
            continue
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
            left -= len(longer)
            if left < 0 or (distance := edits(wanted, plain, bound)) > bound:
                continue
            score = distance / len(longer)
        scored.append((score, candidate))
    return [candidate for _, candidate in sorted(scored)[:most]] if scored else []


class UnknownNameError(ValueError):
    """A name that no tool has, while one is called nearly the same."""


def check_names(names: Iterable[str], known: Collection[str], *, complete: bool = True) -> list[str]:
    """The names that no tool has yet, for a warning; raises `UnknownNameError` for one that is probably misspelt.

    Names are as for `is_named`. One of a server's tools is compared with that server's alone, and is no cause for a
    warning while it has none: the server may come. Where not all tools are known, nothing is misspelt.
    """
    missing: list[str] = []
    there = frozenset(known)
    for name in names:
        if name in there or _is_server(name) or ("*" in name and any(fnmatchcase(one, name) for one in there)):
            continue
        if len(missing) == _MOST_MISSING:  # to compare more would take long, and to pass over one would be a risk
            some = ", ".join(f"`{one[:80]}`" for one in missing[:10])
            raise UnknownNameError(
                phrase("more than {most} names are of no tool: {some} …", most=_MOST_MISSING, some=some)
            )
        before, mark, _ = name.rpartition("__")
        alike = [one for one in known if one.startswith(before + mark)]
        if close := nearest(name, alike, most=1) if complete else []:
            raise UnknownNameError(
                phrase("there is no tool `{name}`; did you mean `{close}`?", name=name, close=close[0])
            )
        if alike or not mark:
            missing.append(name)
    return missing


def is_named(name: str, names: Collection[str]) -> bool:
    """Whether a tool's name is one of these, which may contain `*`, or be `mcp__server` for all tools of a server."""
    return name in names or any(
        fnmatchcase(name, one) if "*" in one else _is_server(one) and name.startswith(f"{one}__") for one in names
    )


def _is_server(name: str) -> bool:
    return name.startswith("mcp__") and name.count("__") == 1


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
    # A column of the table of distances is kept as the bits that say where it rises and falls: Hyyrö's form of Myers'
    # algorithm, with swaps. Each letter of `b` then takes a few operations, however long `a` is.
    places: dict[str, int] = {}
    for at, letter in enumerate(a):
        places[letter] = places.get(letter, 0) | 1 << at
    every, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    rises, falls, same, before, distance = every, 0, 0, 0, len(a)
    for letter in b:
        here = places.get(letter, 0)
        swapped = ((~same & here) << 1) & before
        same = ((((here & rises) + rises) ^ rises) | here | falls | swapped) & every
        up, down = (falls | ~(same | rises)) & every, same & rises
        distance += ((up & last) != 0) - ((down & last) != 0)
        up = (up << 1) | 1
        rises, falls, before = ((down << 1) | ~(same | up)) & every, up & same, here
    return min(distance, bound + 1)
