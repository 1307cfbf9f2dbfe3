"""Files that are text, but not in UTF-8: a pattern beyond ASCII has other bytes there, and is not found by them.

ripgrep reads all files of a run in one encoding. So for a pattern beyond ASCII, and for no other, a second run finds
the files whose bytes are not UTF-8. Each is looked at as Read does it, which says what it is written in; ripgrep then
searches those of one encoding at a time. In most trees there are none.

UTF-16 without a byte order mark stays out: ripgrep takes it for binary and stops at its first zero byte, as it does
with pictures and archives, and to look into all of those would cost more than the search.
"""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from ferrule.workspace.names import decoded
from ferrule.workspace.paths import Place
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.searching.ripgrep import counted, ripgrep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.workspace.paths import Paths
    from ferrule.workspace.searching.globs import Fit

_NOT_UTF_8 = (
    r"(?-u)(?:^|[\x00-\x7f])[\x80-\xbf]|[\xc0-\xff](?:$|[\x00-\x7f\xc0-\xff])|"
    r"[\xe0-\xff][\x80-\xbf](?:$|[\x00-\x7f\xc0-\xff])|[\xc0\xc1\xf5-\xff]"
)
"""A byte that goes on without one that begins, one that begins without enough that go on, or one that UTF-8 never has:
no text in an older encoding is long without any.
"""
_LABELS = {
    "gb18030": "gb18030",
    "big5": "big5",
    "cp950": "big5",
    "big5hkscs": "big5",
    "cp932": "shift_jis",
    "shift_jis": "shift_jis",
    "euc_jp": "euc-jp",
    "cp949": "euc-kr",
    "cp1250": "windows-1250",
    "cp1251": "windows-1251",
    "cp1252": "windows-1252",
    "cp1253": "windows-1253",
    "cp1254": "windows-1254",
    "cp1255": "windows-1255",
    "cp1256": "windows-1256",
    "cp874": "windows-874",
    "koi8_r": "koi8-r",
    "cp866": "ibm866",
}
"""What ripgrep calls the encodings that are told apart here."""
NOT_LOOKED_AT = "Only UTF-8 was searched: to look for older encodings as well takes long here. Narrow with `path`."
_NAMES_OTHERS = re.compile(r"\\[pPuU]|\\x\{")
_MOST_FILES = 500
_MOST_BYTES_OF_NAMES = 500_000  # they are arguments of a program, of which a system takes 2 MB or more
_LARGEST = 4_000_000
_SECONDS = 10.0


def beyond_ascii(pattern: str) -> bool:
    """Whether a pattern may be meant for characters that older encodings write otherwise than UTF-8."""
    return not pattern.isascii() or _NAMES_OTHERS.search(pattern) is not None


@dataclass(slots=True)
class OlderFiles:
    """Files by what ripgrep calls their encoding; how many are in none that is clear; how many were not looked at."""

    by_encoding: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    unclear: int = 0
    passed_over: int = 0
    complete: bool = True

    @property
    def names(self) -> set[bytes]:
        return {name for names in self.by_encoding.values() for name in names}

    def notes(self) -> list[str]:
        """What must be said of files that were not searched for this pattern."""
        if not self.complete:
            return [f"Whether files are in older encodings than UTF-8 was not known after {_SECONDS:g} s."]
        said: list[str] = []
        if self.unclear:
            files = f"{counted(self.unclear, 'file')} {'is' if self.unclear == 1 else 'are'}"
            said.append(f"{files} not in UTF-8, and in what else is not clear: only ASCII is found there.")
        if self.passed_over:
            files = f"{counted(self.passed_over, 'file')} {'is' if self.passed_over == 1 else 'are'}"
            why = (
                "too large or too many to look at" if self.passed_over > 1 else "too large, or one too many, to look at"
            )
            said.append(f"{files} not in UTF-8, and {why}: only ASCII is found there. Narrow with `path`.")
        return said

    def not_in_time(self) -> list[str]:
        """What must be said where there was no time left to search them."""
        files = f"{counted(len(self.names), 'file')} {'is' if len(self.names) == 1 else 'are'}"
        return [
            f"{files} not in UTF-8, and only ASCII was found there: there was no time for more. Narrow with `path`."
        ]

    def not_replaced(self) -> list[str]:
        """What must be said where files in older encodings are not changed."""
        count = self.unclear + self.passed_over + len(self.names)
        if not count:
            return self.notes()
        verb, them = ("is", "it") if count == 1 else ("are", "them")
        return [
            f"{counted(count, 'file')} {verb} not in UTF-8, and only ASCII was looked for there. Use Edit for {them}."
        ]


async def find_older_files(
    program: str, paths: Paths, place: Place, flags: Sequence[str], fit: Fit | None
) -> OlderFiles:
    """The files below `place` that are not UTF-8, out of those that a search with these flags reads."""
    import asyncio

    found = OlderFiles()
    names: list[bytes] = []
    rest = b""
    try:
        async with (
            asyncio.timeout(_SECONDS),
            ripgrep(program, place, ["--files-with-matches", *flags], _NOT_UTF_8) as running,
        ):
            async for piece in running.output():
                *new, rest = (rest + piece).split(b"\0")
                names += new if fit is None else [name for name, fits in zip(new, fit(new), strict=True) if fits]
    except TimeoutError:
        found.complete = False
        return found
    names.sort()
    chosen = names[: bisect(list(accumulate(map(len, names))), _MOST_BYTES_OF_NAMES)][:_MOST_FILES]
    found.passed_over = len(names) - len(chosen)
    await asyncio.to_thread(_tell_encodings, found, paths, place, chosen)
    return found


def _tell_encodings(found: OlderFiles, paths: Paths, place: Place, names: Sequence[bytes]) -> None:
    from ferrule.workspace.texts.text import UNICODE, decode  # few searches need it

    for name in names:
        inner = decoded(name.removeprefix(b"./"))
        try:
            data = paths.read(Place(place.root, place.root.path / inner, inner), _LARGEST + 1)
        except (OSError, PathProblem):
            continue  # the search itself says what cannot be read
        if len(data) > _LARGEST:
            found.passed_over += 1
            continue
        text = decode(data)
        label = None if text is None else _LABELS.get(text.encoding)
        if label is not None:
            found.by_encoding.setdefault(label, []).append(name)
        elif text is None or text.encoding not in UNICODE:
            found.unclear += 1
