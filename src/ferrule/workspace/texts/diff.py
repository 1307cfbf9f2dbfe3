r"""What changed in a file, as a unified diff that hides nothing: endings, final newline and encoding are shown.

It is for reading. Where both sides end every line the same way, the endings are left out; else `\r\n` is shown as `␍␊`
and a lone `\r` as `␍`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ferrule.workspace.texts.differing import differing
from ferrule.workspace.texts.line_changes import line_changes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferrule.workspace.texts.differing import Differing
    from ferrule.workspace.texts.line_changes import Change
    from ferrule.workspace.texts.text import Text

_MOST_LINES = 400
_LONGEST_LINE = 500
_NO_NEWLINE = "\\ No newline at end of file"
_ENDINGS = {"\n": "LF", "\r\n": "CRLF", "\r": "CR", "mixed": "mixed"}


@dataclass(slots=True, frozen=True)
class FileDiff:
    """A unified diff, and how many lines were added and removed."""

    text: str = ""
    added: int = 0
    removed: int = 0


def diff_file(
    before: Text | None, after: Text | None, name: str, context: int = 3, most_lines: int = _MOST_LINES
) -> FileDiff:
    """The diff of a file that was made (`before` is None), changed or removed (`after` is None); empty if it is the
    same. At most `most_lines` lines of hunks are shown, and the last line says how many were left out.
    """
    if before == after:
        return FileDiff()
    part = differing(before.text if before else "", after.text if after else "", context)
    changes = line_changes(part.old, part.new)
    shown = name if name.isprintable() else repr(name)
    head = [
        *_attributes(before, after),
        f"--- a/{shown}" if before else "--- /dev/null",
        f"+++ b/{shown}" if after else "+++ /dev/null",
    ]
    body: list[str] = []
    left_out = 0
    marked = _endings_matter(before, after)
    for hunk in _hunks(changes, context):
        for line in _hunk_lines(hunk, part, marked=marked, context=context):
            if len(body) < most_lines:
                body.append(line)
            else:
                left_out += 1
    if left_out:
        body.append(f"… {left_out:,} more lines of the diff are not shown")
    return FileDiff(
        "\n".join((*head, *body)) + "\n",
        added=sum(one.new_end - one.new for one in changes),
        removed=sum(one.old_end - one.old for one in changes),
    )


def _attributes(before: Text | None, after: Text | None) -> Iterator[str]:
    """What changed about the whole file."""
    if before is None or after is None:
        return
    was, now = _encoding(before), _encoding(after)
    if was != now:
        yield f"encoding: {was} -> {now}"
    if before.newline and after.newline and before.newline != after.newline:
        yield f"line endings: {_ENDINGS[before.newline]} -> {_ENDINGS[after.newline]}"


def _encoding(text: Text) -> str:
    return f"{text.encoding} with byte order mark" if text.bom else text.encoding


def _endings_matter(before: Text | None, after: Text | None) -> bool:
    used = {text.newline for text in (before, after) if text and text.newline}
    return len(used) > 1 or "mixed" in used


def _hunks(changes: Sequence[Change], context: int) -> Iterator[list[Change]]:
    """Changes that are so near that their context would touch belong together."""
    hunk: list[Change] = list(changes[:1])
    for last, change in pairwise(changes):
        if change.old - last.old_end > 2 * context:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _hunk_lines(hunk: Sequence[Change], part: Differing, *, marked: bool, context: int) -> Iterator[str]:
    old, new, skipped = part.old, part.new, part.skipped
    first, last = hunk[0], hunk[-1]
    leading = min(context, first.old)
    trailing = min(context, len(old) - last.old_end)
    yield (
        f"@@ -{_span(skipped + first.old - leading, skipped + last.old_end + trailing)}"
        f" +{_span(skipped + first.new - leading, skipped + last.new_end + trailing)} @@"
    )
    at = first.old - leading
    for change in hunk:
        yield from _show(" ", old[at : change.old], marked=marked)
        yield from _show("-", old[change.old : change.old_end], marked=marked)
        yield from _show("+", new[change.new : change.new_end], marked=marked)
        at = change.old_end
    yield from _show(" ", old[at : at + trailing], marked=marked)


def _span(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _show(sign: str, lines: Sequence[str], *, marked: bool) -> Iterator[str]:
    for line in lines:
        content = line.rstrip("\r\n")
        ending = line[len(content) :]
        if len(content) > _LONGEST_LINE:
            content = f"{content[:_LONGEST_LINE]}… ({len(content) - _LONGEST_LINE:,} more characters)"
        mark = {"\r\n": "␍␊", "\r": "␍"}.get(ending, "") if marked else ""
        yield f"{sign}{content}{mark}"
        if not ending:
            yield _NO_NEWLINE
