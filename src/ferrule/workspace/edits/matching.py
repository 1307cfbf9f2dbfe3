"""Finds the one place that an edit means, and what should stand there.

A ladder: the exact text first, and what stands there once is replaced literally, whatever the new text looks like.
Then, one rung at a time, with differences forgiven that copying brings about. A rung counts only when exactly one place
fits. Letters, digits, operators and their order are never forgiven, and when what should stand in the file would be a
guess, nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.edits.edit_problems import (
    EditError,
    FoundText,
    Rung,
    empty,
    excerpt,
    identical,
    misfit,
    missing,
    several,
)
from ferrule.workspace.edits.file_style import Unclear
from ferrule.workspace.edits.match_rungs import (
    MatchPlace,
    by_indentation,
    by_line_endings,
    by_line_ends,
    by_typography,
    by_typography_and_indentation,
    may_be_in,
)
from ferrule.workspace.edits.rebuild import rebuild, shows_lost_margin
from ferrule.workspace.edits.text_lines import BLANKS, TextLines, as_lines, blanks_after, blanks_before, in_utf_8
from ferrule.workspace.texts.text import Edit, in_bytes, newline_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Takes off line numbers that were pasted along with the lines, as Read prints them.


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
    # Whether the numbers go on as the old text's do: a text about line numbers has others of that width.
    numbers = [one.number for one in ours]
    within = found[0].number <= numbers[0] and numbers[-1] < found[-1].number + max(len(lines), 1)
    near = all(one.marked for one in ours) and within and numbers == sorted(numbers)
    by_width = padded and near and not numbered.keys() & {one.rest for one in found}
    if not (all_of_them or numbered.keys() <= set(old) or by_width):
        return None
    return _join(new, [line if one is None else one.rest for line, one in zip(lines, looks, strict=True)])


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


# Undoes an escaping that a whole text went through on its way, as in JSON or HTML.


_NAMES = {"<": "lt", ">": "gt", '"': "quot", "'": "apos", "&": "amp"}


@dataclass(slots=True, frozen=True)
class _Escaping:
    """What stands for what, and everything that looks like one of them."""

    table: Mapping[str, str]
    form: re.Pattern[str]

    def used(self, text: str) -> set[str]:
        return {found for found in self.form.findall(text) if found in self.table}

    def others(self, text: str) -> set[str]:
        """What looks like an escape here, and is none that is undone."""
        return {found for found in self.form.findall(text) if found not in self.table}

    def bare(self, text: str) -> str:
        return self.form.sub("", text)

    def plain(self, text: str) -> str | None:
        """The text unescaped; None when it also has something that the escaping would not have left as it is."""
        if self is _BACKSLASHED and self.others(text):
            return None
        bare = self.bare(text)
        if any(self.table[escape] in bare for escape in self.used(text)):
            return None
        return self.form.sub(lambda match: self.table.get(match[0], match[0]), text)


_BACKSLASHES = re.compile(r"\\[^\n]")
_QUOTES = _Escaping({'\\"': '"', "\\'": "'"}, _BACKSLASHES)
_BACKSLASHED = _Escaping({"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\\\": "\\", **_QUOTES.table}, _BACKSLASHES)
_ENTITIES = _Escaping(
    # By name, and by number as libraries write it: an apostrophe is `&#39;` in one and `&#x27;` in the next.
    {
        f"&{form};": plain
        for plain, name in _NAMES.items()
        for form in (name, f"#{ord(plain)}", f"#0{ord(plain)}", f"#x{ord(plain):x}", f"#x{ord(plain):X}")
    },
    re.compile(r"&(?:[A-Za-z][A-Za-z0-9]*|#[0-9]+|#[xX][0-9A-Fa-f]+);"),
)


def without_escapes(old: str, new: str) -> Iterator[tuple[str, str | None]]:
    """Each way to read both texts as escaped copies; no new text where it is not clear how that one is meant."""
    seen = {old}
    for escaping in (_BACKSLASHED, _QUOTES, _ENTITIES):
        used = escaping.used(old)
        plain = escaping.plain(old) if used else None
        if plain is not None and plain not in seen:
            seen.add(plain)
            yield plain, _new(old, new, escaping, used)


def _new(old: str, new: str, escaping: _Escaping, used: set[str]) -> str | None:
    escapes, bare = escaping.used(new), escaping.bare(new)
    raw = {escape for escape in used if escaping.table[escape] in bare}
    if not escapes:
        return new
    if raw:
        # What the old text has escaped stands bare here, so this text was not escaped, if nothing speaks for it.
        return new if raw - escapes else None
    if escaping is _ENTITIES:
        # Who escapes writes `&nbsp;` as `&amp;nbsp;`, so another one that is new was left as it is, or is meant.
        alike = escapes & used or any(escaping.table[escape] in "<>" for escape in used)
        return escaping.plain(new) if alike and escaping.others(new) <= escaping.others(old) else None
    if escaping is _BACKSLASHED and '"' in bare and '\\"' not in used:
        return None  # a copy as in JSON would have escaped it, and the old text has none to show whether this one did
    if not escapes <= used and "\\n" not in used:
        return None  # the old text does not show that everything was escaped, and not quotes alone
    return escaping.plain(new)


# Whole lines in, whole lines out: when the two texts do not begin or end with a line ending alike.


_BOTH_OR_NEITHER = phrase("End both texts with a line ending, or neither; or add the line that follows to both.")


def _lost_line_ending(old: list[str], new: list[str], *, before: str, follows: str | None) -> bool:
    """Whether the new text has lost the line ending that the old one has.

    `before` is what stands on the line before the match, `follows` what stands on its last line after it: nothing, not
    even an empty rest of a line, at the end of the text. Raises `Unclear` when the edit may be meant by the letter, and
    may not.
    """
    whole_lines = len(old) > 1 and not old[-1]
    unseen_blanks = follows and not follows.strip(BLANKS) and not (whole_lines and not new[-1])
    if unseen_blanks and any(line != line.rstrip(BLANKS) for line in new):
        raise Unclear(phrase("it leaves out the blanks at the end of its last line, and the new text has some"))
    may_join = len(old) > 1 and not old[0] and before and new[0]
    if may_join and (not before.strip(BLANKS) or blanks_before(new[0]) in (new[0], blanks_before(old[1]))):
        raise Unclear(
            phrase(
                "it starts with a line ending and the new text does not, so whether to join the "
                "line before is not clear"
            ),
            phrase("Start both texts with a line ending, or neither."),
        )
    if before.strip() or follows is None or not any(line.strip(BLANKS) for line in old):
        return False
    ends_line = not follows.strip(BLANKS)
    if not whole_lines:
        if ends_line and new == [""]:
            raise Unclear(
                phrase(
                    "it is a whole line without its line ending and the new text is empty, so whether "
                    "an empty line should stay is not clear"
                ),
                phrase(
                    "To remove the line, end the old text with its line ending; "
                    "to leave an empty line, end both with one."
                ),
            )
        if ends_line and not new[-1]:
            raise Unclear(
                phrase(
                    "only the new text ends with a line ending, so whether an empty line should follow is not clear"
                ),
                _BOTH_OR_NEITHER,
            )
        return False
    if not new[-1]:
        # Whether the new text ends with an empty line as the file does there, and the old one may have lost it.
        if ends_line and (_empty_at_end(new) == _empty_at_end(old) + 1 and new[:-1] != old):
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


def _empty_at_end(lines: list[str]) -> int:
    return next((count for count, line in enumerate(reversed(lines)) if line.strip(BLANKS)), len(lines))


Search = Callable[[TextLines, list[str]], Iterator[MatchPlace]]

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
_ENDINGS = {"\r\n": "CRLF", "\n": "LF", "\r": "CR"}
_LOOKED_AT = 100
_MARK = "\ufeff"
_LEFT_OUT = phrase("it leaves out the indentation there, so how far to indent the lines after it is not clear")
_WHOLE_LINES = phrase("Give the old and the new text as whole lines, exactly as they appear in the file.")


def find_edit(source: str | bytes, old: str, new: str, *, replace_all: bool = False) -> FoundText:
    """Where `old` stands in a text and what takes its place; raises `EditError` when that is not certain.

    Of a large text, its bytes in UTF-8 are searched: then the spans are of bytes.
    """
    lines = TextLines(source)
    if old[:1] == new[:1] == _MARK and not lines.has(old):
        old, new = old[1:], new[1:]  # the byte order mark, which stands before the text
    # A carriage return at both ends is that of a line ending whose other half was cut off, unless it tells the place
    # from others: without it the edit would be in several.
    both_end = old.endswith("\r") and new.endswith("\r") and lines.has("\n")
    if both_end and (
        not lines.has(old) or (lines.has(old + "\n") and lines.text.count(old) == lines.text.count(old[:-1]))
    ):
        old, new = old[:-1], new[:-1]
        if not lines.has("\r"):
            new = new.replace("\r\n", "\n")
    if not old and source:
        raise empty()
    if old == new:
        raise identical()
    # The line ending that a new text brings to a file without any.
    without_any = "\r\n" if new.count("\r\n") == new.count("\n") > 0 else "\n"
    lines = TextLines(source, without_any)
    literally = _every if replace_all else _exact
    if isinstance(source, str):
        found = literally(lines, old, new)
    else:
        # Each byte as a character, of which UTF-8 has the same parts in the same places.
        found = literally(TextLines(source.decode("latin-1"), without_any), _as_bytes(old), _as_bytes(new))
        if found is not None:
            texts = (one.new.encode("latin-1").decode("utf-8", "surrogatepass") for one in found.spans)
            spans = [Edit(one.start, one.end, text) for one, text in zip(found.spans, texts, strict=True)]
            return FoundText(spans, found.rung, found.note)
    if found is None and not replace_all and (found := _but_for_endings(lines, old, new)) is None:
        one = _climb(lines, old, new) or _without_numbers(lines, old, new) or _without_escapes(lines, old, new)
        found = FoundText([one[0]], one[1], _NOTES[one[1]]) if one is not None else None
    if found is None:
        raise missing(lines, as_lines(old))
    return found if isinstance(source, str) else FoundText(in_bytes(lines.text, found.spans), found.rung, found.note)


def _as_bytes(text: str) -> str:
    return in_utf_8(text).decode("latin-1")


# To the letter


def _exact(lines: TextLines, old: str, new: str) -> FoundText | None:
    """The one place where the old text stands: there the new text takes its place literally."""
    text = lines.text
    start = text.find(old)
    if start >= 0:
        if text.find(old, start + 1) >= 0:
            starts = [one.start() for one in re.finditer(f"(?={re.escape(old)})", text)]  # also where they overlap
            apart = all(after - before >= len(old) for before, after in pairwise(starts))
            raise several(lines.numbers_at(starts), Rung.EXACT, every=apart)
        end = start + len(old)
        if "\r\n" not in (text[max(start - 1, 0) : start + 1], text[end - 1 : end + 1]):  # half an ending is no place
            literal = new.replace("\n", lines.style_at(end)) if _takes_endings(old, new) else new
            span = Edit(start, end, literal)
            return FoundText([span], Rung.EXACT, _to_check(lines, span, old, new))
    return None


def _but_for_endings(lines: TextLines, old: str, new: str) -> FoundText | None:
    """The same but for line endings: where those of the file are others, the new lines end as the file's do."""
    half = old.endswith("\r") and lines.has("\n")
    if half or not ("\r" in old or lines.has("\r")):
        return None
    wanted = as_lines(old)
    places = list(by_line_endings(lines, wanted)) if may_be_in(lines, wanted) else []
    if len(places) > 1:
        apart = all(one.end <= other.start for one, other in pairwise(places))
        raise several([place.first + 1 for place in places], Rung.LINE_ENDS, every=apart)
    for place in places:
        _require_its_endings(place, old, new)
        span = _span(place, as_lines(new))
        return FoundText(
            [span], Rung.LINE_ENDS, f"{_NOTES[Rung.LINE_ENDS]} {_to_check(lines, span, old, new)}".rstrip()
        )
    return None


def _takes_endings(old: str, new: str) -> bool:
    """Whether lines that take the place of a part of one end as the file's do: they bring no other ending."""
    return "\n" in new and not ("\n" in old or "\r" in old or "\r" in new)


def _to_check(lines: TextLines, span: Edit, old: str, new: str) -> str:
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
    ending, style = newline_of(span.new), lines.style_at(span.end)
    if ending in _ENDINGS and ending != style:
        return _CHECK_ENDINGS.format(new=_ENDINGS[ending], file=_ENDINGS[style], line=number() + len(mine) - 1)
    return ""


def _every(lines: TextLines, old: str, new: str) -> FoundText | None:
    """Every place, exactly or but for line endings."""
    text = lines.text
    if old in text and not ("\r\n" in text and (old[:1] == "\n" or old[-1:] == "\r")):
        takes, only = _takes_endings(old, new), lines.only_style
        spans = [
            Edit(match.start(), match.end(), new.replace("\n", only or lines.style_at(match.end())) if takes else new)
            for match in re.finditer(re.escape(old), text)
        ]
        return FoundText(spans, Rung.EXACT, _to_check_in_any(lines, spans, old, new))
    wanted = as_lines(old)
    spans = (
        [
            Edit(match.start(), match.end(), next(end for end in _ENDINGS if end in match[0]).join(as_lines(new)))
            for match in re.finditer(r"(?:\r\n|\n|\r)".join(map(re.escape, wanted)), text)
        ]
        if len(wanted) > 1
        else []
    )
    if not spans:
        return None
    note = f"{_NOTES[Rung.LINE_ENDS]} {_to_check_in_any(lines, spans, old, new)}"
    return FoundText(spans, Rung.LINE_ENDS, note.rstrip())


def _to_check_in_any(lines: TextLines, spans: list[Edit], old: str, new: str) -> str:
    """The first note among those of many places, of which some are looked at."""
    return next(filter(None, (_to_check(lines, span, old, new) for span in spans[:_LOOKED_AT])), "")


# With differences forgiven


def _climb(lines: TextLines, old: str, new: str) -> tuple[Edit, Rung] | None:
    wanted = as_lines(old)
    if not old.strip() or not may_be_in(lines, wanted):
        return None
    for rung, search, looser in _RUNGS:
        places = {(place.start, place.end): place for place in search(lines, wanted)}
        if len(places) == 1 and looser is not None:
            only = next(iter(places.values()))
            if _lacks_its_margin(only, as_lines(new)):
                # A place after mere blanks may also be a copy, without its margin, of another one: then there are two.
                found = {other.first + 1 for other in looser(lines, wanted)} | {only.first + 1}
                if len(found) > 1:
                    raise several(sorted(found), Rung.INDENTATION)
            if any(
                blanks_after(mine) != blanks_after(theirs) for mine, theirs in zip(only.old, only.file, strict=True)
            ):
                # Others that fit but for their indentation, where this one does not but for blanks at its lines' ends.
                others = (other for other in looser(lines, wanted) if other.first != only.first)
                places.update({(other.start, other.end): other for other in others})
        if len(places) > 1:
            raise several(sorted({place.first + 1 for place in places.values()}), rung)
        for place in places.values():
            _require_its_endings(place, old, new)
            if looser is not None and _lacks_its_margin(place, as_lines(new)):
                _require_lost_by_both(place, as_lines(new))
                break  # a copy of whole lines, to be found with the indentation forgiven or not at all
            return _settled(place, wanted, as_lines(new)), rung
    return None


def _lacks_its_margin(place: MatchPlace, new: list[str]) -> bool:
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


def _require_lost_by_both(place: MatchPlace, new: list[str]) -> None:
    """Raises where lines of the new text may stand as they are meant to: nothing shows that they lost a margin."""
    lines, own, later = place.lines, blanks_before(place.old[0]), any(line.strip(BLANKS) for line in new[1:])
    brings = blanks_before(new[0]) == place.before + own
    as_deep = new == [""] or (new[0].strip(BLANKS) and (brings or blanks_before(new[0]) == own))
    shown = not later or own or brings
    following = lines.next_with_words(place.end)
    if not as_deep or not (shown or shows_lost_margin(place.before, place.old[0], new, following)):
        raise _unclear(lines, place.first, place.old, Unclear(_LEFT_OUT))


def _require_its_endings(place: MatchPlace, old: str, new: str) -> None:
    """Raises where the old text has the line endings of the file and the new one others, perhaps on purpose."""
    lines = place.lines
    style = lines.style(place.first)
    if "\n" not in old or "\n" not in new or ("\r" in old) == ("\r" in new):
        return
    if ("\r" in old) == (style != "\n"):
        raise _unclear(lines, place.first, place.old, Unclear(phrase("the new text has other line endings than it")))


def _settled(place: MatchPlace, wanted: list[str], new: list[str]) -> Edit:
    """The span for the one place that fits."""
    lines = place.lines
    if len(place.old) < len(wanted) and len(new) > 1 and not new[-1]:
        new = new[:-1]
    before, follows = place.before, lines.after(place.end)
    try:
        if _lost_line_ending(place.old, new, before=before, follows=follows):
            new = [*new, ""]
    except Unclear as unclear:
        raise _unclear(lines, place.first, place.old, unclear) from None
    return _span(place, new)


def _span(place: MatchPlace, new: list[str]) -> Edit:
    """The place with the new lines, written as the file would."""
    lines = place.lines
    try:
        replacement = rebuild(place, new)
        if replacement == lines.text[place.start : place.end]:
            raise Unclear(phrase("the file would stay as it is"))
    except Unclear as unclear:
        raise _unclear(lines, place.first, place.old, unclear) from None
    return Edit(place.start, place.end, replacement)


def _unclear(lines: TextLines, first: int, old: list[str], unclear: Unclear) -> EditError:
    shown = excerpt(lines, first, len(old) - (len(old) > 1 and not old[-1]), around=first)
    return misfit(first + 1, unclear.reason, shown, unclear.suggestion or _WHOLE_LINES)


def _without_numbers(lines: TextLines, old: str, new: str) -> tuple[Edit, Rung] | None:
    stripped = without_numbers(old, new)
    if stripped is None or not stripped[0].strip():
        return None
    plain, plain_new = stripped
    if plain_new is None:
        wanted = as_lines(plain)
        rungs = _RUNGS if may_be_in(lines, wanted) else ()
        for place in (place for _, search, _ in rungs for place in search(lines, wanted)):
            why = phrase("whether the numbers at the start of its new lines are line numbers is not clear")
            raise _unclear(lines, place.first, place.old, Unclear(why))
        return None
    if plain == plain_new:
        raise identical()
    found = _climb(lines, plain, plain_new)
    # A number stands before a whole line: what is found within one is another text with another number.
    if found is None or lines.before(found[0].start).strip(BLANKS):
        return None
    return found[0], Rung.LINE_NUMBERS


def _without_escapes(lines: TextLines, old: str, new: str) -> tuple[Edit, Rung] | None:
    spans: list[Edit] = []
    for plain, plain_new in without_escapes(old, new):
        if not plain.strip() or not may_be_in(lines, as_lines(plain)):
            continue
        places = list(by_line_ends(lines, as_lines(plain)))
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
