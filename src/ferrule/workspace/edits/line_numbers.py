"""Takes off line numbers that were pasted along with the lines, as Read prints them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERED = re.compile(r"([ \t]*)(\d{1,9})(?:[\t→](.*)|(\r?))", re.DOTALL)


@dataclass(slots=True, frozen=True)
class _Numbered:
    """A line that starts with a number; the mark that Read puts after it is missing where blanks were trimmed."""

    number: int
    padding: str
    rest: str
    marked: bool


def without_numbers(old: str, new: str) -> tuple[str, str | None] | None:
    """Both texts without line numbers; None unless every line of the old one has the number that comes next.

    There is no new text where numbers at the start of its lines may be part of them.
    """
    lines = _split(old)
    found = [numbered for line in lines if (numbered := _numbered(line)) is not None]
    if len(found) != len(lines) or not any(one.marked for one in found) or not _follow(found, found[0].number):
        return None
    return _join(old, [one.rest for one in found]), _without(new, lines, found)


def _without(new: str, old: Sequence[str], found: Sequence[_Numbered]) -> str | None:
    lines = _split(new)
    # Numbers that are set to a width are told from others by it.
    padded = {len(one.padding) + len(str(one.number)) for one in found} if any(one.padding for one in found) else None
    looks = [_numbered(line) for line in lines]
    if padded:
        looks = [one if one and len(one.padding) + len(str(one.number)) in padded else None for one in looks]
    numbered = {line: one for line, one in zip(lines, looks, strict=True) if one is not None}
    if not numbered or numbered.keys() <= {one.rest for one in found}:
        return new
    ours = [one for one in looks if one is not None]
    all_of_them = len(ours) == len(lines) and _follow(ours, found[0].number)
    by_width = padded and _near(ours, found, len(lines)) and not numbered.keys() & {one.rest for one in found}
    if not (all_of_them or numbered.keys() <= set(old) or by_width):
        return None
    return _join(new, [line if one is None else one.rest for line, one in zip(lines, looks, strict=True)])


def _near(ours: Sequence[_Numbered], old: Sequence[_Numbered], count: int) -> bool:
    """Whether numbers of some lines go on as the old text's do: a text about line numbers has others of that width."""
    numbers = [one.number for one in ours]
    within = old[0].number <= numbers[0] and numbers[-1] < old[-1].number + max(count, 1)
    return all(one.marked for one in ours) and within and numbers == sorted(numbers)


def _follow(lines: Sequence[_Numbered], first: int) -> bool:
    return [one.number for one in lines] == list(range(first, first + len(lines)))


def _numbered(line: str) -> _Numbered | None:
    match = _NUMBERED.fullmatch(line)
    if match is None:
        return None
    return _Numbered(int(match[2]), match[1].expandtabs(), match[3] or match[4] or "", match[3] is not None)


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines


def _join(text: str, lines: list[str]) -> str:
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")
