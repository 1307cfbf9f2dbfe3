"""Whole lines in, whole lines out: a line ending lost or added at the end of one of the two texts is set right.

Taken by the letter, such an edit leaves an empty line behind or runs two lines together.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Ends:
    """What to do at the end of a match."""

    take_line_ending: bool = False
    add_line_ending: bool = False

    def __bool__(self) -> bool:
        return self.take_line_ending or self.add_line_ending


def settle_ends(old: list[str], new: list[str], *, before: str, ends_line: bool, at_end: bool) -> Ends:
    """`before` is what stands on the line before the match; `ends_line` whether a line ending follows it."""
    if before.strip():
        return Ends()
    old_ended, new_ended = len(old) > 1 and not old[-1], not new[-1]
    if not old_ended and ends_line:
        deletes_lines = new == [""] and not before
        gains_ending = len(new) > 1 and new_ended and new[:-1] != old
        return Ends(take_line_ending=deletes_lines or gains_ending)
    if old_ended and not at_end:
        return Ends(add_line_ending=not new_ended and [*new, ""] != old)
    return Ends()
