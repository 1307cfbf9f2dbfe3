"""Whole lines in, whole lines out: what to do when only one of the two texts ends with a line ending.

Taken by the letter, such an edit leaves an empty line behind or runs two lines together. That may be meant, or be a
line ending lost on the way. Where both texts end with the same line, it was lost; else nobody can tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from ferrule.workspace.edits.reindent import Unclear
from ferrule.workspace.edits.text_lines import BLANKS, blanks_before

_BOTH_OR_NEITHER = "End both texts with a line ending, or neither; or add the line that follows to both."


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
    text may be meant by the letter, and may not.
    """
    if before.strip() or follows is None or not any(line.strip(BLANKS) for line in old):
        return Ends()
    ends_line = not follows.strip(BLANKS)
    if len(old) == 1 or old[-1]:
        return _old_without_ending(old, new) if ends_line else Ends()
    if new[-1]:
        # What ends with an empty line is whole without the ending of that line, and may be meant to.
        return Ends() if ends_line else _new_without_ending(old, new)
    if ends_line and _gains_empty_line(old, new):
        raise Unclear(
            "an empty line follows it, and the new text ends with one more: whether there should then be two is not "
            "clear",
            "Add the empty line to both texts.",
        )
    return Ends()


def check_start(old: list[str], new: list[str], *, before: str) -> None:
    """Raises `Unclear` when the old text starts with the end of a line, `before`, and the new one may have lost that."""
    if len(old) < 2 or old[0] or not before or not new[0].strip(BLANKS):
        return
    if blanks_before(new[0]) == blanks_before(old[1]):
        raise Unclear(
            "it starts with a line ending and the new text does not, so whether to join the line before is not clear",
            "Start both texts with a line ending, or neither.",
        )


def _old_without_ending(old: list[str], new: list[str]) -> Ends:
    if new == [""]:
        raise Unclear(
            "it is a whole line without its line ending and the new text is empty, so whether an empty line should "
            "stay is not clear",
            "To take the line away, end the old text with its line ending; to leave an empty line, end both with one.",
        )
    if new[-1] or new[:-1] == old:
        return Ends()
    if new[-2].strip(BLANKS) == old[-1].strip(BLANKS):
        return Ends(take_line_ending=True)
    raise Unclear(
        "only the new text ends with a line ending, so whether an empty line should follow is not clear",
        _BOTH_OR_NEITHER,
    )


def _new_without_ending(old: list[str], new: list[str]) -> Ends:
    if [*new, ""] == old:
        return Ends()
    if new[-1].strip(BLANKS) == old[-2].strip(BLANKS):
        return Ends(add_line_ending=True)
    raise Unclear(
        "only the old text ends with a line ending, so whether the line that follows should be joined to the new text "
        "is not clear",
        _BOTH_OR_NEITHER,
    )


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
