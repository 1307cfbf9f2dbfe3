"""Finds the one place that an edit means, and what should stand there.

A ladder: the exact text first, and what stands there once is replaced literally, whatever the new text looks like.
Then, one rung at a time, with differences forgiven that copying brings about. A rung counts only when exactly one place
fits. Letters, digits, operators and their order are never forgiven, and when what should stand in the file would be a
guess, nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.edit_problems import EditProblem, empty, identical, misfit, several
from ferrule.workspace.edits.edit_spans import Found, Rung, Span
from ferrule.workspace.edits.escapes import without_escapes
from ferrule.workspace.edits.final_newline import check_blanks, check_start, lost_line_ending
from ferrule.workspace.edits.line_numbers import without_numbers
from ferrule.workspace.edits.match_rungs import (
    Place,
    by_indentation,
    by_line_endings,
    by_line_ends,
    by_typography,
    by_typography_and_indentation,
)
from ferrule.workspace.edits.near_miss import excerpt, missing
from ferrule.workspace.edits.rebuild import rebuild
from ferrule.workspace.edits.reindent import Unclear
from ferrule.workspace.edits.text_lines import BLANKS, TextLines, as_lines, blanks_before
from ferrule.workspace.edits.whose_form import shows_lost_margin
from ferrule.workspace.texts.text import newline_of

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
_CHECK_MARGIN = (
    "Replaced literally: later lines of the new text do not start with the indentation of line {line:,}. "
    "Check that it was not left out."
)
_CHECK_DEEPER = (
    "Replaced literally: the indentation before the old text stays, so line {line:,} now stands deeper. "
    "Check that it is not indented twice."
)
_CHECK_JOINED = (
    "Replaced literally: only the old text ends with a line ending, so what followed it now stands on line {line:,}. "
    "Check that the two should be one line."
)
_CHECK_ENDINGS = (
    "Replaced literally: lines of the new text end with {new}, and line {line:,} of the file with {file}. "
    "Check that they should differ."
)
_ENDINGS = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}
_LOOKED_AT = 100
_MARK = "\ufeff"
_LEFT_OUT = phrase("it leaves out the indentation there, so how far to indent the lines after it is not clear")
_WHOLE_LINES = phrase("Give the old and the new text as whole lines, exactly as they stand in the file.")


def find_edit(text: str, old: str, new: str, *, replace_all: bool = False) -> Found:
    """Where `old` stands in `text` and what takes its place; raises `EditProblem` when that is not certain."""
    if old[:1] == new[:1] == _MARK and old not in text:
        old, new = old[1:], new[1:]  # the byte order mark, which stands before the text
    if old.endswith("\r") and new.endswith("\r") and _is_half_an_ending(text, old):
        old, new = old[:-1], new[:-1]
        if "\r" not in text:
            new = new.replace("\r\n", "\n")
    if not old and text:
        raise empty()
    if old == new:
        raise identical()
    lines = TextLines(text, _own_style(new))
    if replace_all:
        return _every(lines, old, new)
    exact = _exact(lines, old, new)
    if exact is not None:
        return exact
    found = _climb(lines, old, new) or _without_numbers(lines, old, new) or _without_escapes(lines, old, new)
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


# To the letter


def _exact(lines: TextLines, old: str, new: str) -> Found | None:
    """The one place where the old text stands, line endings aside: there the new text takes its place literally."""
    text = lines.text
    start = text.find(old)
    if start >= 0:
        if text.find(old, start + 1) >= 0:
            starts = _starts(text, old)
            apart = all(after - before >= len(old) for before, after in pairwise(starts))
            raise several(lines.numbers_at(starts), Rung.EXACT, every=apart)
        end = start + len(old)
        if "\r\n" not in (text[max(start - 1, 0) : start + 1], text[end - 1 : end + 1]):  # half an ending is no place
            literal = new.replace("\n", lines.style_at(end)) if _takes_endings(old, new) else new
            span = Span(start, end, literal)
            return Found([span], Rung.EXACT, _to_check(lines, span, old, new))
    half = old.endswith("\r") and "\n" in text
    return _but_for_endings(lines, old, new) if ("\r" in text or "\r" in old) and not half else None


def _but_for_endings(lines: TextLines, old: str, new: str) -> Found | None:
    """The same in a file whose lines end otherwise than those of the old text; the new ones end as the file's do."""
    places = list(by_line_endings(lines, as_lines(old)))
    if len(places) > 1:
        apart = all(one.end <= other.start for one, other in pairwise(places))
        raise several([place.first + 1 for place in places], Rung.LINE_ENDS, every=apart)
    for place in places:
        _require_its_endings(place, old, new)
        span = _span(place, as_lines(new))
        return Found([span], Rung.LINE_ENDS, f"{_NOTES[Rung.LINE_ENDS]} {_to_check(lines, span, old, new)}".rstrip())
    return None


def _takes_endings(old: str, new: str) -> bool:
    """Whether lines that take the place of a part of one end as the file's do: they bring no other ending."""
    return "\n" in new and not ("\n" in old or "\r" in old or "\r" in new)


def _to_check(lines: TextLines, span: Span, old: str, new: str) -> str:
    """What a literal replacement may have done that was not meant, as a note; empty where nothing looks like it."""
    mine, ours = as_lines(old), as_lines(new)
    before, follows = lines.before(span.start), lines.after(span.end) or ""
    margin = blanks_before(before + mine[0])
    number = partial(lines.number_at, span.start)
    ends_alone = len(mine) > 1 and not mine[-1] and (ours[-1] or (before and len(ours) == 1))
    if ends_alone and follows.strip(BLANKS):
        return _CHECK_JOINED.format(line=number() + len(ours) - 1)
    if before and not before.strip(BLANKS) and ours[0].strip(BLANKS) and blanks_before(ours[0]).startswith(margin):
        return _CHECK_DEEPER.format(line=number())
    depths = (margin, *(blanks_before(line) for line in mine[1:] if line.strip(BLANKS)))
    if not all(blanks_before(line).startswith(depths) for line in ours[1:] if line.strip(BLANKS)):
        return _CHECK_MARGIN.format(line=number())
    ending, style = newline_of(span.replacement), lines.style_at(span.end)
    if ending in _ENDINGS and ending != style:
        return _CHECK_ENDINGS.format(new=_ENDINGS[ending], file=_ENDINGS[style], line=number() + len(mine) - 1)
    return ""


def _starts(text: str, old: str) -> list[int]:
    """Where the old text stands, overlapping places too."""
    found: list[int] = []
    at = text.find(old)
    while at >= 0:
        found.append(at)
        at = text.find(old, at + 1)
    return found


def _every(lines: TextLines, old: str, new: str) -> Found:
    """Every place, exactly or but for line endings."""
    text = lines.text
    if old in text and not ("\r\n" in text and (old[:1] == "\n" or old[-1:] == "\r")):
        takes, only = _takes_endings(old, new), lines.only_style
        spans = [
            Span(match.start(), match.end(), new.replace("\n", only or lines.style_at(match.end())) if takes else new)
            for match in re.finditer(re.escape(old), text)
        ]
        return Found(spans, Rung.EXACT, _to_check_in_any(lines, spans, old, new))
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
    note = f"{_NOTES[Rung.LINE_ENDS]} {_to_check_in_any(lines, spans, old, new)}"
    return Found(spans, Rung.LINE_ENDS, note.rstrip())


def _to_check_in_any(lines: TextLines, spans: list[Span], old: str, new: str) -> str:
    """The first note among those of many places, of which some are looked at."""
    return next(filter(None, (_to_check(lines, span, old, new) for span in spans[:_LOOKED_AT])), "")


# With differences forgiven


def _climb(lines: TextLines, old: str, new: str) -> tuple[Span, Rung] | None:
    wanted = as_lines(old)
    if not old.strip():
        return None
    for rung, search, looser in _RUNGS:
        places = {(place.start, place.end): place for place in search(lines, wanted)}
        if len(places) == 1 and looser is not None:
            only = next(iter(places.values()))
            if _lacks_its_margin(only, as_lines(new)):
                _check_alone(only, looser(lines, wanted))
            places.update({(other.start, other.end): other for other in _likewise(lines, wanted, only, looser)})
        if len(places) > 1:
            raise several(sorted({place.first + 1 for place in places.values()}), rung)
        for place in places.values():
            _require_its_endings(place, old, new)
            if looser is not None and _lacks_its_margin(place, as_lines(new)):
                _require_lost_by_both(place, as_lines(new))
                break  # a copy of whole lines, to be found with the indentation forgiven or not at all
            return _settled(place, wanted, as_lines(new)), rung
    return None


def _lacks_its_margin(place: Place, new: list[str]) -> bool:
    """Whether a place behind the blanks of a line may be whole lines of which the copy lost the margin, and it matters.

    `foo()` found in `    foo()` is fine for a change within the line. Lines that follow in the new text may have lost
    the margin, too.
    """
    if not place.before or place.before.strip(BLANKS) or not place.ends_line:
        return False
    if new == [""]:
        return len(place.old) > 1
    as_deep = bool(new[0].strip(BLANKS)) and blanks_before(new[0]) == blanks_before(place.old[0])
    return not as_deep or any(line.strip(BLANKS) for line in (*place.old[1:], *new[1:]))


def _require_lost_by_both(place: Place, new: list[str]) -> None:
    """Raises where lines of the new text may stand as they are meant to: nothing shows that they lost a margin."""
    lines, own, later = place.lines, blanks_before(place.old[0]), any(line.strip(BLANKS) for line in new[1:])
    brings = blanks_before(new[0]) == place.before + own
    as_deep = new == [""] or (new[0].strip(BLANKS) and (brings or blanks_before(new[0]) == own))
    shown = not later or own or brings
    following = lines.next_with_words(place.end)
    if not as_deep or not (shown or shows_lost_margin(place.before, place.old[0], new, following)):
        raise _unclear(lines, place.first, place.old, Unclear(_LEFT_OUT))


def _check_alone(place: Place, others: Iterator[Place]) -> None:
    """A place that starts after mere blanks may be a copy without margin of another one, too: then there are two."""
    found = {other.first + 1 for other in others} | {place.first + 1}
    if len(found) > 1:
        raise several(sorted(found), Rung.INDENTATION)


def _likewise(lines: TextLines, wanted: list[str], place: Place, looser: Search) -> Iterator[Place]:
    """Other places that fit but for their indentation, where this one does not but for blanks at the ends of lines."""
    if any(_blanks_after(mine) != _blanks_after(theirs) for mine, theirs in zip(place.old, place.file, strict=True)):
        yield from (other for other in looser(lines, wanted) if other.first != place.first)


def _blanks_after(line: str) -> str:
    return line[len(line.rstrip(BLANKS)) :]


def _require_its_endings(place: Place, old: str, new: str) -> None:
    """Raises where the old text has the line endings of the file and the new one others, perhaps on purpose."""
    lines = place.lines
    style = lines.style(place.first)
    if "\n" not in old or "\n" not in new or ("\r" in old) == ("\r" in new):
        return
    if ("\r" in old) == (style != "\n"):
        raise _unclear(lines, place.first, place.old, Unclear(phrase("the new text has other line endings than it")))


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
    except Unclear as unclear:
        raise _unclear(lines, place.first, place.old, unclear) from None
    return _span(place, new)


def _span(place: Place, new: list[str]) -> Span:
    """The place with the new lines, written as the file would."""
    lines = place.lines
    try:
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
    found = _climb(lines, plain, plain_new)
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
        found = _climb(lines, plain, plain_new)
        if found is not None:
            spans.append(found[0])
    if len(spans) > 1:
        raise several([lines.number_at(span.start) for span in spans], Rung.ESCAPED)
    return (spans[0], Rung.ESCAPED) if spans else None


def _style_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n" if "\n" in text else "\r"


def _own_style(new: str) -> str:
    """The line ending that a new text brings to a file without any."""
    return "\r\n" if new.count("\r\n") == new.count("\n") > 0 else "\n"
