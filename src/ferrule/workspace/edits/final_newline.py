"""Whole lines in, whole lines out: when the two texts do not begin or end with a line ending alike.

What stands in the file to the letter is replaced to the letter. This is about an old text that differs from the file:
then a line ending may have been lost on the way, too. Nobody can tell, so it is asked for, except where the letter or
the loss makes no sense.
"""

from __future__ import annotations

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.reindent import Unclear
from ferrule.workspace.edits.text_lines import BLANKS, blanks_before

_BOTH_OR_NEITHER = phrase("End both texts with a line ending, or neither; or add the line that follows to both.")


def check_start(old: list[str], new: list[str], *, before: str) -> None:
    """Raises `Unclear` when the old text starts with the end of a line, `before`, and the new one may have lost it."""
    if len(old) < 2 or old[0] or not before or not new[0]:
        return
    if not before.strip(BLANKS) or not new[0].strip(BLANKS) or blanks_before(new[0]) == blanks_before(old[1]):
        raise Unclear(
            phrase(
                "it starts with a line ending and the new text does not, so whether to join the "
                "line before is not clear"
            ),
            phrase("Start both texts with a line ending, or neither."),
        )


def check_blanks(old: list[str], new: list[str], *, follows: str | None) -> None:
    """Raises `Unclear` when unseen blanks follow the match on its line, and lines of the new text end with blanks."""
    whole_lines = len(old) > 1 and not old[-1] and not new[-1]
    if whole_lines or not follows or follows.strip(BLANKS):
        return
    if any(line != line.rstrip(BLANKS) for line in new):
        raise Unclear(phrase("it leaves out the blanks at the end of its last line, and the new text has some"))


def lost_line_ending(old: list[str], new: list[str], *, before: str, follows: str | None) -> bool:
    """Whether the new text has lost the line ending that the old one has.

    `before` is what stands on the line before the match, `follows` what stands on its last line after it: nothing, not
    even an empty rest of a line, at the end of the text. Raises `Unclear` when the edit may be meant by the letter, and
    may not.
    """
    if before.strip() or follows is None or not any(line.strip(BLANKS) for line in old):
        return False
    ends_line = not follows.strip(BLANKS)
    if len(old) == 1 or old[-1]:
        if ends_line:
            _check_old_without_ending(old, new)
        return False
    if not new[-1]:
        if ends_line and _gains_empty_line(old, new):
            raise Unclear(
                phrase(
                    "an empty line follows it, and the new text ends with one more: whether there "
                    "should then be two is not clear"
                ),
                phrase("Add the empty line to both texts."),
            )
        return False
    # What ends with an empty line is whole without the ending of that line; one may also be joined with the next.
    if not follows or ([*new, ""] == old and not ends_line):
        return False
    if not ends_line and new[-1].strip(BLANKS) == old[-2].strip(BLANKS):
        return True
    raise Unclear(
        phrase(
            "only the old text ends with a line ending, so whether the line that follows should be "
            "joined to the new text is not clear"
        ),
        _BOTH_OR_NEITHER,
    )


def _check_old_without_ending(old: list[str], new: list[str]) -> None:
    if new == [""]:
        raise Unclear(
            phrase(
                "it is a whole line without its line ending and the new text is empty, so whether "
                "an empty line should stay is not clear"
            ),
            phrase(
                "To take the line away, end the old text with its line ending; to leave an empty "
                "line, end both with one."
            ),
        )
    if not new[-1]:
        raise Unclear(
            phrase("only the new text ends with a line ending, so whether an empty line should follow is not clear"),
            _BOTH_OR_NEITHER,
        )


def _gains_empty_line(old: list[str], new: list[str]) -> bool:
    """Whether the new text ends with an empty line as the file does there, and the old one may have lost it."""
    return _empty_at_end(new) == _empty_at_end(old) + 1 and new[:-1] != old


def _empty_at_end(lines: list[str]) -> int:
    count = 0
    for line in reversed(lines):
        if line.strip(BLANKS):
            break
        count += 1
    return count
