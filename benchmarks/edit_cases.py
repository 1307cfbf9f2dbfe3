"""Edits taken from real changes, and the forms of files they are made in."""

from __future__ import annotations

import codecs
import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from edit_damage import Case, trailing_dropped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from edit_sources import Change

Encode = Callable[[str], bytes]
_LARGEST = 120_000
_IDEOGRAPH = re.compile("[\u4e00-\u9fff]")
_OTHER_LINE_ENDS = set("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")


def _utf_8(text: str) -> bytes:
    return text.encode()


def _bom(text: str) -> bytes:
    return codecs.BOM_UTF8 + text.encode()


def _utf_16(text: str) -> bytes:
    return codecs.BOM_UTF16_LE + text.encode("utf-16-le")


def _gb18030(text: str) -> bytes:
    return text.encode("gb18030")


FORMS: dict[str, Encode] = {
    "utf-8": _utf_8,
    "crlf": _utf_8,
    "crlf seen as lf": _utf_8,
    "mixed endings": _utf_8,
    "bom": _bom,
    "utf-16": _utf_16,
    "gb18030": _gb18030,
    "no last newline": _utf_8,
    "trailing": _utf_8,
    "trailing crlf": _utf_8,
}


def forms_of(case: Case) -> Iterator[tuple[str, Encode, Case]]:
    """The case in every form that it can have."""
    lf = "\r" not in case.before + case.after
    for form, encode in FORMS.items():
        shown: Case | None = case
        if "crlf" in form or form == "mixed endings":
            shown = _with_endings(case, form) if lf else None
        elif form == "gb18030" and case.before.isascii() and not case.after.isascii():
            shown = None  # nobody could know what the new characters should be written in
        elif form == "gb18030" and not (case.before.isascii() or _IDEOGRAPH.search(case.before)):
            shown = None  # Spanish, say, is not written in it
        elif form == "no last newline":
            # Each text without its last line ending, as lines that were joined.
            whole = case.old.endswith("\n") and case.new.endswith("\n") and case.new.count("\n") > 1
            shown = replace(case, old=case.old[:-1], new=case.new[:-1]) if whole and lf else None
            if shown is not None and (not shown.old.strip() or case.before.count(shown.old) != 1):
                shown = None
        if shown is not None and "trailing" in form:
            shown = _with_trailing(shown)
        if shown is not None:
            yield form, encode, shown


def _with_endings(case: Case, form: str) -> Case | None:
    if form == "mixed endings":
        return _half_and_half(case)
    if "\n" not in case.before and form == "crlf seen as lf":
        return None  # nothing shows which line endings the file would have
    crlf = _mapped(case, lambda line: line.replace("\n", "\r\n"))
    return replace(crlf, old=case.old, new=case.new) if form == "crlf seen as lf" else crlf


def _half_and_half(case: Case) -> Case | None:
    """Some stretches of the file with other line endings; the edit lies within one of them."""
    start = case.before.find(case.old)
    first, last = case.before.count("\n", 0, start), case.before.count("\n", 0, start + len(case.old))
    stretch, end = first // 20, max(last - 1, first) // 20
    if stretch != end:
        return None
    crlf = _chance(str(stretch), 2)
    old, new = (text.replace("\n", "\r\n") if crlf else text for text in (case.old, case.new))
    head, tail = _by_stretch(case.before[:start], 0), _by_stretch(case.before[start + len(case.old) :], last)
    before, after = head + old + tail, head + new + tail
    return replace(case, before=before, after=after, old=case.old, new=case.new)


def _by_stretch(text: str, first: int) -> str:
    """Lines from number `first` on, each with the ending of its stretch."""
    lines = enumerate(text.splitlines(keepends=True), first)
    return "".join(line.replace("\n", "\r\n") if _chance(str(at // 20), 2) else line for at, line in lines)


def _with_trailing(case: Case) -> Case:
    """Some lines, always the same ones, with blanks at the end."""
    if trailing_dropped(case.old, case) != case.old:
        return case
    was, will = (Counter(text.splitlines(keepends=True)) for text in (case.before, case.after))
    known = {line for line in was if was[line] == 1 >= will[line]}

    def with_blanks(line: str) -> str:
        body = line.rstrip("\r\n")
        if line not in known or len(body.strip()) < 12 or not _chance(body, 4):
            return line
        return f"{body}  {line[len(body) :]}"

    return _mapped(case, with_blanks)


def _chance(line: str, of: int) -> bool:
    return hashlib.blake2b(line.encode(), digest_size=1).digest()[0] % of == 0


def _mapped(case: Case, change: Callable[[str], str]) -> Case:
    def whole(text: str) -> str:
        return "".join(map(change, text.splitlines(keepends=True)))

    return replace(case, before=whole(case.before), after=whole(case.after), old=whole(case.old), new=whole(case.new))


def cases(changes: Iterable[Change], most: int, seed: int) -> list[Case]:
    """Edits of one hunk each, with as little context as makes them unique, or a little more."""
    chance = random.Random(seed)
    found: list[Case] = []
    for path, before, after in texts_of(changes):
        found += _hunks(path, before, after, chance)
    chance.shuffle(found)
    return found[:most]


def texts_of(changes: Iterable[Change]) -> Iterator[tuple[str, str, str]]:
    """The changes of text files that can be given every form."""
    for path, before_bytes, after_bytes in changes:
        try:
            before, after = before_bytes.decode(), after_bytes.decode()
        except UnicodeDecodeError:
            continue
        if "\0" in before or max(len(before), len(after)) > _LARGEST or set(before) & _OTHER_LINE_ENDS:
            continue
        if "\r" in before.replace("\r\n", "") or "\r" in after.replace("\r\n", "") or before.startswith("\ufeff"):
            continue
        yield path, before, after


def _hunks(path: str, before: str, after: str, chance: random.Random) -> Iterator[Case]:
    olds, news = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, olds, news, autojunk=False).get_opcodes():
        if tag == "equal" or i2 - i1 > 60 or j2 - j1 > 60:
            continue
        above, below = chance.choice(((0, 0), (0, 0), (1, 1), (1, 1), (2, 2), (3, 3), (1, 0), (0, 1), (3, 0)))
        for context in range(8):
            first, last = max(i1 - context - above, 0), min(i2 + context + below, len(olds))
            old = "".join(olds[first:last])
            if old and before.find(old) == before.rfind(old):
                new = "".join([*olds[first:i1], *news[j1:j2], *olds[i2:last]])
                expected = "".join([*olds[:i1], *news[j1:j2], *olds[i2:]])
                yield Case(f"{path}:{first + 1}", before, expected, old, new, first + 1)
                break
