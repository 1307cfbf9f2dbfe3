"""Finds the one place that an edit means, and what should stand there.

A ladder: the exact text first; then, one rung at a time, with differences forgiven that copying brings about. A rung
counts only when exactly one place fits. Letters, digits, operators and their order are never forgiven, and when what
should stand in the file would be a guess, nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.edit_problems import EditProblem, empty, identical, misfit, several
from ferrule.workspace.edits.edit_spans import Found, Rung, Span
from ferrule.workspace.edits.escapes import without_escapes
from ferrule.workspace.edits.final_newline import check_blanks, check_start, lost_line_ending
from ferrule.workspace.edits.left_out import LeftOut, is_left_out, what_is_left_out
from ferrule.workspace.edits.line_numbers import without_numbers
from ferrule.workspace.edits.match_rungs import (
    Place,
    by_indentation,
    by_line_ends,
    by_typography,
    by_typography_and_indentation,
)
from ferrule.workspace.edits.near_miss import excerpt, missing
from ferrule.workspace.edits.rebuild import rebuild
from ferrule.workspace.edits.reindent import Unclear
from ferrule.workspace.edits.text_lines import BLANKS, TextLines, as_lines

Search = Callable[[TextLines, list[str]], Iterator[Place]]

_RUNGS: tuple[tuple[Rung, Search, Search | None], ...] = (
    (Rung.LINE_ENDS, by_line_ends, by_indentation),
    (Rung.INDENTATION, by_indentation, None),
    (Rung.TYPOGRAPHY, by_typography, by_typography_and_indentation),
    (Rung.TYPOGRAPHY, by_typography_and_indentation, None),
)
"""Each with a search that forgives the indentation too."""
_NOTES = {
    Rung.EXACT: "",
    Rung.LINE_ENDS: "Found with other line endings or trailing space; the file's were kept.",
    Rung.INDENTATION: "Found with other indentation; the new text was indented as the file is.",
    Rung.TYPOGRAPHY: "Found with other quotes, dashes or spaces; the file's were kept.",
    Rung.LINE_NUMBERS: "Found after taking off line numbers.",
    Rung.ESCAPED: "Found after undoing escapes.",
}
_MARK = "\ufeff"
_WHOLE_LINES = phrase("Give the old and the new text as whole lines, exactly as they stand in the file.")


def find_edit(text: str, old: str, new: str, *, replace_all: bool = False) -> Found:
    """Where `old` stands in `text` and what takes its place; raises `EditProblem` when that is not certain."""
    if old[:1] == new[:1] == _MARK and old not in text:
        old, new = old[1:], new[1:]  # the byte order mark, which stands before the text
    if old.endswith("\r") and new.endswith("\r") and _is_half_an_ending(text, old):
        old, new = old[:-1], new[:-1]
        if "\r" not in text:
            new = new.replace("\r\n", "\n")
    if not old:
        raise empty()
    if old == new:
        raise identical()
    if replace_all:
        return _every(text, old, new)
    lines = TextLines(text, _own_style(new))
    found = _climb(lines, old, new)
    if found is None:
        found = _without_numbers(lines, old, new) or _without_escapes(lines, old, new)
    if found is None:
        raise missing(lines, as_lines(old))
    span, rung = found
    return Found([span], rung, _NOTES[rung])


def _is_half_an_ending(text: str, old: str) -> bool:
    """Whether the carriage return at a text's end is that of a line ending whose other half was cut off.

    One that tells its place from others stays: without it the edit would be in several.
    """
    if "\n" not in text:
        return False
    return old not in text or (old + "\n" in text and text.count(old) == text.count(old[:-1]))


def _climb(lines: TextLines, old: str, new: str, *, given: bool = True) -> tuple[Span, Rung] | None:
    """The rungs from the first; what was not given so, but made of it, is a copy and nothing to take to the letter."""
    wanted = as_lines(old)
    exact = _exact(lines, old, new) if given else None
    if exact is not None or not old.strip():
        return exact
    for rung, search, looser in _RUNGS:
        places = {(place.start, place.end): place for place in search(lines, wanted)}
        if len(places) == 1 and looser is not None:
            only = next(iter(places.values()))
            if is_left_out(only.before, only.old, as_lines(new), ends_line=only.ends_line):
                _check_alone(lines, only.start, wanted)
            places.update({(other.start, other.end): other for other in _likewise(lines, wanted, only, looser)})
        if len(places) > 1:
            raise several(sorted({place.first + 1 for place in places.values()}), rung)
        for place in places.values():
            if _changes_endings(old, new, lines.style(place.first)):
                raise _unclear(
                    lines, place.first, place.old, Unclear(phrase("the new text has other line endings than it"))
                )
            if looser is not None and _left_out(place, as_lines(new)) is LeftOut.MARGIN:
                break
            return _settled(place, wanted, as_lines(new)), rung
    return None


def _left_out(place: Place, new: list[str]) -> LeftOut:
    """What the blanks before a place are to it."""
    if not is_left_out(place.before, place.old, new, ends_line=place.ends_line):
        return LeftOut.PART
    try:
        return what_is_left_out(place.before, place.old, new, place.lines.next_with_words(place.end))
    except Unclear as unclear:
        raise _unclear(place.lines, place.first, place.old, unclear) from None


def _check_alone(lines: TextLines, start: int, wanted: list[str]) -> None:
    """A place that starts after mere blanks may be a copy without margin of another one, too: then there are two."""
    found = {place.first + 1 for place in by_indentation(lines, wanted)} | {lines.number_at(start)}
    if len(found) > 1:
        raise several(sorted(found), Rung.INDENTATION)


def _likewise(lines: TextLines, wanted: list[str], place: Place, looser: Search) -> Iterator[Place]:
    """Other places that fit but for their indentation, where this one does not but for blanks at the ends of lines."""
    if any(_blanks_after(mine) != _blanks_after(theirs) for mine, theirs in zip(place.old, place.file, strict=True)):
        yield from (other for other in looser(lines, wanted) if other.first != place.first)


def _blanks_after(line: str) -> str:
    return line[len(line.rstrip(BLANKS)) :]


def _changes_endings(old: str, new: str, style: str) -> bool:
    """Whether the old text has the line endings of the file and the new one others, perhaps on purpose."""
    if "\n" not in old or "\n" not in new or ("\r" in old) == ("\r" in new):
        return False
    return ("\r" in old) == (style != "\n")


def _exact(lines: TextLines, old: str, new: str) -> tuple[Span, Rung] | None:
    """The one place where the old text stands to the letter: there the new text takes its place, to the letter."""
    text = lines.text
    start = text.find(old)
    if start < 0:
        return None
    if text.find(old, start + 1) >= 0:
        raise several([lines.number_at(at) for at in _starts(text, old)], Rung.EXACT)
    end = start + len(old)
    if text[max(start - 1, 0) : start + 1] == "\r\n" or text[end - 1 : end + 1] == "\r\n":
        return None  # half a line ending: not what anyone means
    wanted = as_lines(old)
    literal = Span(start, end, _with_endings(new, lines.style_at(end)) if len(wanted) == 1 else new)
    before = lines.before(start)
    ends_line = not wanted[-1] or not (lines.after(end) or "").strip(BLANKS)
    if not old.strip() or not is_left_out(before, wanted, as_lines(new), ends_line=ends_line):
        return literal, Rung.EXACT
    _check_alone(lines, start, wanted)
    try:
        reading = what_is_left_out(before, wanted, as_lines(new), lines.next_with_words(end))
    except Unclear as unclear:
        raise _unclear(lines, lines.number_at(start) - 1, wanted, unclear) from None
    if reading is LeftOut.PART:
        return literal, Rung.EXACT
    if reading is LeftOut.LINES:
        return Span(start - len(before), end, new), Rung.INDENTATION
    return next(
        ((_settled(place, wanted, as_lines(new)), Rung.INDENTATION) for place in by_indentation(lines, wanted)), None
    )


def _starts(text: str, old: str) -> list[int]:
    found: list[int] = []
    at = text.find(old)
    while at >= 0:
        found.append(at)
        at = text.find(old, at + 1)
    return found


def _settled(place: Place, wanted: list[str], new: list[str]) -> Span:
    """The span for the one place that fits."""
    lines = place.lines
    if len(place.old) < len(wanted) and len(new) > 1 and not new[-1]:
        new = new[:-1]
    before, follows = place.before, lines.after(place.end)
    try:
        check_blanks(place.old, new, follows=follows)
        check_start(place.old, new, before=before)
        if lost_line_ending(place.old, new, before=before, follows=follows):
            new = [*new, ""]
        if _left_out(place, new) is LeftOut.LINES:
            place.column = 0
        replacement = rebuild(place, new)
        if replacement == lines.text[place.start : place.end]:
            raise Unclear(phrase("the file would stay as it is"))
    except Unclear as unclear:
        raise _unclear(lines, place.first, place.old, unclear) from None
    return Span(place.start, place.end, replacement)


def _unclear(lines: TextLines, first: int, old: list[str], unclear: Unclear) -> EditProblem:
    shown = excerpt(lines, first, len(old) - (len(old) > 1 and not old[-1]), around=first)
    return misfit(first + 1, unclear.reason, shown, unclear.suggestion or _WHOLE_LINES)


def _without_numbers(lines: TextLines, old: str, new: str) -> tuple[Span, Rung] | None:
    stripped = without_numbers(old, new)
    if stripped is None or not stripped[0].strip():
        return None
    plain, plain_new = stripped
    if plain_new is None:
        return _doubted(
            lines, plain, phrase("whether the numbers at the start of its new lines are line numbers is not clear")
        )
    if plain == plain_new:
        raise identical()
    found = _climb(lines, plain, plain_new, given=False)
    # A number stands before a whole line: what is found within one is another text with another number.
    if found is None or lines.before(found[0].start).strip(BLANKS):
        return None
    return found[0], Rung.LINE_NUMBERS


def _doubted(lines: TextLines, old: str, reason: str) -> None:
    """Refuse, for this reason, if the old text is found at all."""
    for _, search, _ in _RUNGS:
        for place in search(lines, as_lines(old)):
            raise _unclear(lines, place.first, place.old, Unclear(reason))


def _without_escapes(lines: TextLines, old: str, new: str) -> tuple[Span, Rung] | None:
    spans: list[Span] = []
    for plain, plain_new in without_escapes(old, new):
        places = list(by_line_ends(lines, as_lines(plain))) if plain.strip() else []
        if not places:
            continue
        if len(places) > 1:
            raise several([place.first + 1 for place in places], Rung.ESCAPED)
        if plain_new is None or plain_new == plain:
            unclear = Unclear(phrase("whether the new text is escaped too is not clear"))
            raise _unclear(lines, places[0].first, places[0].old, unclear)
        found = _climb(lines, plain, plain_new, given=False)
        if found is not None:
            spans.append(found[0])
    if len(spans) > 1:
        raise several([lines.number_at(span.start) for span in spans], Rung.ESCAPED)
    return (spans[0], Rung.ESCAPED) if spans else None


def _every(text: str, old: str, new: str) -> Found:
    """Every place, exactly or but for line endings."""
    lines = TextLines(text, _own_style(new))
    if old in text and not ("\r\n" in text and (old[0] == "\n" or old[-1] == "\r")):
        length = len(old)
        starts = [match.start() for match in re.finditer(re.escape(old), text)]
        single = "\n" not in old and "\r" not in old and ("\n" in new or "\r" in new)
        spans = [Span(at, at + length, _with_endings(new, lines.style_at(at)) if single else new) for at in starts]
        return Found(spans, Rung.EXACT)
    wanted = as_lines(old)
    spans = (
        [
            Span(match.start(), match.end(), _style_of(match[0]).join(as_lines(new)))
            for match in re.finditer(r"(?:\r\n|\n|\r)".join(map(re.escape, wanted)), text)
        ]
        if len(wanted) > 1
        else []
    )
    if not spans:
        raise missing(lines, wanted)
    return Found(spans, Rung.LINE_ENDS, _NOTES[Rung.LINE_ENDS])


def _style_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n" if "\n" in text else "\r"


def _own_style(new: str) -> str:
    """The line ending that a new text brings to a file without any."""
    return "\r\n" if new.count("\r\n") == new.count("\n") > 0 else "\n"


def _with_endings(new: str, ending: str) -> str:
    """The text with the line endings of the file, unless it brings others than plain ones on purpose."""
    return new if "\r" in new else new.replace("\n", ending)
