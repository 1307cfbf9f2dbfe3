r"""The stretch where two texts differ, as whole lines: an edit of a large file touches little of it.

What is the same at both ends is found by comparing halves, then halves of halves, at the speed of memory; only the
stretch between is taken apart into lines. Cuts are made after a `\n` alone, which ends a line however others end.
"""

from __future__ import annotations

from dataclasses import dataclass

from ferrule.workspace.texts.text import lines_of


@dataclass(slots=True, frozen=True)
class Differing:
    """Lines of both texts, all that differ among them; before them are `skipped` lines that are the same."""

    old: list[str]
    new: list[str]
    skipped: int = 0


def differing(before: str, after: str, around: int) -> Differing:
    """The lines that differ, with `around` lines that are the same on either side, where there are so many."""
    same = _same_at_start(before, after)
    start = _line_start(before, same, around)
    same = _same_at_end(before, after, min(len(before), len(after)) - same)
    end = _line_end(before, len(before) - same, around)
    new_end = end - len(before) + len(after)
    return Differing(lines_of(before[start:end]), lines_of(after[start:new_end]), line_count(before[:start]))


def line_count(text: str) -> int:
    """How many lines a text has; what follows the last ending is one too."""
    endings = text.count("\n")
    if "\r" in text:
        endings += text.count("\r") - text.count("\r\n")
    return endings + (bool(text) and not text.endswith(("\n", "\r")))


def _same_at_start(before: str, after: str) -> int:
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _same_at_end(before: str, after: str, most: int) -> int:
    low, high = 0, most
    old, new = len(before), len(after)
    while low < high:
        middle = (low + high + 1) // 2
        if before[old - middle : old - low] == after[new - middle : new - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _line_start(text: str, position: int, lines: int) -> int:
    """Where the line begins that lies so many lines before the one a character is on."""
    for _ in range(lines + 1):
        if position <= 0:
            return 0
        position = text.rfind("\n", 0, position)
    return position + 1


def _line_end(text: str, position: int, lines: int) -> int:
    """Where the line ends that lies so many lines after the one a character is on."""
    for _ in range(lines + 1):
        found = text.find("\n", position)
        if found < 0:
            return len(text)
        position = found + 1
    return position
