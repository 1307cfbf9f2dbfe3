"""Names of files: how a model reads them, which ones a path may hold, and which other one may be meant."""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import phrase
from ferrule.core.shown_text import JOINERS, hidden_in, quoted
from ferrule.workspace.problems import PathError

if TYPE_CHECKING:
    from collections.abc import Iterable


def decoded(name: bytes) -> str:
    """The name as text. Bytes that are not UTF-8 become U+FFFD."""
    return name.decode(errors="replace")


def one_line(name: str) -> str:
    """The name as it is shown in a list: in quotes, as JSON writes it, where it would break the line or hide."""
    return quoted(name) if "\n" in name or "\t" in name or hidden_in(name) else name


def about_names(names: Iterable[str]) -> list[str]:
    """What must be said of names that are not shown as they are."""
    strange = sum("\ufffd" in name for name in names)
    if not strange:
        return []
    noun, verb = ("name", "is") if strange == 1 else ("names", "are")
    return [f"{strange} {noun} {verb} not UTF-8: � stands for the bytes that cannot be shown."]


# How many of something, in words.


def amount(number: int, what: str) -> str:
    """`1 line`, `1,200 lines`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


# Which names a path may hold, and which other name may be meant where nothing has the one that was given.


_LONGEST_NAME, _LONGEST_PATH = 255, 4096
# Characters that look like a slash, a backslash or a dot, and are none.
_LOOK_ALIKES = frozenset("\u2044\u2215\u29f8\uff0f\u29f5\ufe68\uff3c\u2024\u2025\uff0e\u3002")
_URL = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://")


def check_text(given: str) -> None:
    """Refuse what cannot be a path on any system."""
    if not given:
        raise _refused(phrase("The path is empty."), phrase("Give a path, or `.` for the working directory."))
    if "\0" in given:
        raise _refused(phrase("The path contains a NUL byte."), phrase("Remove it."))
    if url := _URL.match(given):
        raise _refused(
            phrase("`{given}` is a URL, not a path.", given=one_line(given)),
            phrase("Give the path alone, without `{url}`.", url=url[0]),
        )
    encoded = os.fsencode(given)
    longest = max((len(part) for part in encoded.split(b"/")), default=0)
    if len(encoded) >= _LONGEST_PATH or longest > _LONGEST_NAME:
        raise _refused(
            phrase(
                "The path is too long: {count} bytes, its longest name {longest}.",
                count=f"{len(encoded):,}",
                longest=f"{longest:,}",
            ),
            phrase(
                "A path has at most {longest_path} bytes and a name at most {longest_name}.",
                longest_path=f"{_LONGEST_PATH:,}",
                longest_name=_LONGEST_NAME,
            ),
        )


def check_new_names(names: Iterable[str]) -> None:
    """Refuse to make a file or folder whose name would mislead."""
    for name in names:
        for position, character in enumerate(name):
            around = name[position - 1 : position] + name[position + 1 : position + 2]
            joins = character in JOINERS and len(around) == 2 and not any(one.isascii() for one in around)
            if character in _LOOK_ALIKES or character in "\n\t" or (hidden_in(character) and not joins):
                said = unicodedata.name(character, "CONTROL")
                raise _refused(
                    phrase(
                        "`{name}` contains U+{character} {said}, which is misleading.",
                        name=escaped(name),
                        character=f"{ord(character):04X}",
                        said=said,
                    ),
                    phrase("Write the name with ordinary characters."),
                )
        if "\\" in name:
            raise _refused(
                phrase("`{name}` contains a backslash, which other systems take for a slash.", name=name),
                phrase("Write `/` between folders."),
            )
        if name.endswith((" ", ".")):
            raise _refused(
                phrase("`{name}` ends with a dot, which some systems drop.", name=name)
                if name.endswith(".")
                else phrase("`{name}` ends with a space, which some systems drop.", name=name),
                phrase("Use `{name}`.", name=bare) if (bare := name.rstrip(" .")) else phrase("Give it a name."),
            )


def _refused(message: str, suggestion: str) -> PathError:
    return PathError("name", message, kind=ErrorKind.VALIDATION, suggestion=suggestion)


def same_letters(name: str, among: Iterable[str]) -> list[str]:
    """Other names made of the same letters, written with other code points (NFC and NFD)."""
    if name.isascii():
        return []
    normal = unicodedata.normalize("NFC", name)
    return [other for other in among if other != name and unicodedata.normalize("NFC", other) == normal]


def unicode_form(name: str) -> str:
    """How its letters are written."""
    return next((form for form in ("NFC", "NFD") if unicodedata.is_normalized(form, name)), "a mixed form")


def slips(name: str, among: Iterable[str]) -> list[str]:
    """Names that differ only in what is easily lost: letters written otherwise, dots or spaces at the end."""
    normal = unicodedata.normalize("NFC", name).rstrip(". ")
    return [one for one in among if one != name and unicodedata.normalize("NFC", one).rstrip(". ") == normal]


def look_alikes(given: str) -> str | None:
    """Which characters of a path only look like a slash or a dot."""
    strange = sorted(_LOOK_ALIKES & set(given))
    return ", ".join(f"U+{ord(one):04X} {unicodedata.name(one)}" for one in strange) or None


def escaped(name: str) -> str:
    """A name with its code points shown, for telling apart what looks the same."""
    return ascii(name)[1:-1].replace("\\'", "'")
