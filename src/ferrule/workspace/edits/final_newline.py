"""Whole lines in, whole lines out: a line ending lost or added at the end of one of the two texts is set right.

Taken by the letter, such an edit leaves an empty line behind or runs two lines together.
"""

from __future__ import annotations

from dataclasses import dataclass

from ferrule.workspace.edits.reindent import Unclear
from ferrule.workspace.edits.text_lines import BLANKS


@dataclass(slots=True, frozen=True)
class Ends:
    """What to do at the end of a match."""

    take_line_ending: bool = False
    add_line_ending: bool = False

    def __bool__(self) -> bool:
        return self.take_line_ending or self.add_line_ending


def settle_ends(old: list[str], new: list[str], *, before: str, follows: str | None) -> Ends:
    """`before` is what stands on the line before the match, `follows` what stands on its last line after it.

    There is nothing to follow, not even an empty rest of a line, at the end of the text. Raises `Unclear` when the new
    text may end with an empty line on purpose.
    """
    if before.strip() or follows is None:
        return Ends()
    old_ended, new_ended = len(old) > 1 and not old[-1], not new[-1]
    ends_line = not follows.strip(BLANKS)
    if not old_ended:
        deletes_lines = new == [""]
        gains_ending = ends_line and len(new) > 1 and new_ended and new[:-1] != old
        alike = new[-2:-1] and new[-2].strip(BLANKS) == old[-1].strip(BLANKS)
        one_for_one = len(old) == 1 and len(new) == 2 and new[0].strip(BLANKS)
        if gains_ending and not alike and not one_for_one:
            raise Unclear(
                "only the new text ends with a line ending, so whether an empty line should follow is not clear"
            )
        return Ends(take_line_ending=gains_ending or (ends_line and deletes_lines))
    if not new_ended:
        if not new[-1].strip(BLANKS) and ends_line:
            raise Unclear("the new text ends with blanks, and so does the file there")
        return Ends(add_line_ending=[*new, ""] != old)
    return Ends(take_line_ending=ends_line and _gains_empty_line(old, new))


def _gains_empty_line(old: list[str], new: list[str]) -> bool:
    """Whether the new text ends with an empty line as the file does there, and the old one lost it."""
    gains = _empty_at_end(new) == _empty_at_end(old) + 1
    return gains and new[:-1] != old and new[0].strip(BLANKS) == old[0].strip(BLANKS)


def _empty_at_end(lines: list[str]) -> int:
    count = 0
    for line in reversed(lines):
        if line.strip(BLANKS):
            break
        count += 1
    return count
