r"""Text files as they are: encoding, byte order mark and line endings stay, and an edit changes its own bytes alone.

Lines end with `\n`, `\r\n` or a lone `\r`, and with nothing else: form feeds and Unicode separators are characters of a
line. Every line number that Ferrule shows or takes follows this rule.
"""

from __future__ import annotations

import codecs
import unicodedata
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import advice, phrase
from ferrule.workspace.problems import PathError
from ferrule.workspace.texts.encodings import likely

if TYPE_CHECKING:
    from collections.abc import Iterable


Newline = Literal["\n", "\r\n", "\r", "mixed", ""]

# UTF-32 first: its little-endian mark begins with the one of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
UNICODE = ("utf-8", *_WIDE)
_LARGE, _PIECE = 2 << 20, 1 << 20
_ENOUGH_CHARACTERS = 16
_MOST_TRIES = 6


@dataclass(slots=True, frozen=True)
class Text:
    """What a text file holds and how it is written; `newline` is empty when there is no line ending at all."""

    source: str | bytes
    """The text; of a large UTF-8 file its bytes, so that nobody who keeps this keeps the content twice."""
    encoding: str
    bom: bytes
    newline: Newline
    final_newline: bool

    @property
    def text(self) -> str:
        """What the file says, decoded at each call where it is large."""
        return self.source if isinstance(self.source, str) else self.source.decode()


@dataclass(slots=True, frozen=True)
class Edit:
    """Replace the characters from `start` up to `end` of a text."""

    start: int
    end: int
    new: str


class UnencodableError(PathError):
    """The file's encoding has no bytes for a character of the new text. The file is untouched."""

    def __init__(self, character: str, position: int, encoding: str) -> None:
        point = f"U+{ord(character):04X}"
        half = "\ud800" <= character <= "\udfff"
        shown = (
            phrase("half of a surrogate pair") if half else f"`{character}` {unicodedata.name(character, '')}".rstrip()
        )
        super().__init__(
            "unencodable",
            phrase(
                "The file is in {encoding}, which cannot hold {point} ({shown}), character {n} of the new text. "
                "The file is untouched.",
                encoding=encoding,
                point=point,
                shown=shown,
                n=f"{position + 1:,}",
            ),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Send the whole character.")
            if half
            else advice(
                "Write it with characters that the encoding has, or as an escape of the "
                "file's language; or ask the user whether the file should become UTF-8.",
                "Write it with characters that the encoding has, or as an escape of the "
                "file's language; or save the file as UTF-8 first.",
            ),
            details={"character": point, "position": position, "encoding": encoding},
        )


# Reading


def decode(data: bytes) -> Text | None:
    """The text of a file, or None when it is binary. What comes back always encodes to the very same bytes."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            text = _exactly(data[len(mark) :], encoding)
            if text is not None and "\0" not in text:
                return _described(text, encoding, mark)
    if b"\0" in data:
        for encoding in _WIDE:
            text = _exactly(data, encoding)
            if text is not None and _convinces(text):
                return _described(text, encoding, b"")
        return None
    try:
        if len(data) <= _LARGE:
            return _described(data.decode("utf-8"), "utf-8", b"")
        decoder = codecs.getincrementaldecoder("utf-8")()
        for at in range(0, len(data), _PIECE):
            decoder.decode(data[at : at + _PIECE], final=at + _PIECE >= len(data))
        return _described(data, "utf-8", b"")
    except UnicodeDecodeError:
        pass
    for tried, encoding in enumerate(likely(data)):
        if tried == _MOST_TRIES:
            break
        text = _exactly(data, encoding)
        if text is not None:
            return _described(text, encoding, b"")
    return None


def lines_of(text: str) -> list[str]:
    """The lines of a text, each with its ending."""
    return list(StringIO(text, newline=""))  # twice as fast as splitting, and by the same rule


def newline_of(text: str | bytes) -> Newline:
    """How the lines of a text, or of its bytes in UTF-8, end."""
    if isinstance(text, bytes):
        feeds, returns, both = text.count(b"\n"), text.count(b"\r"), text.count(b"\r\n")
    else:
        feeds, returns, both = text.count("\n"), text.count("\r"), text.count("\r\n")
    counts: dict[Newline, int] = {"\n": feeds - both, "\r\n": both, "\r": returns - both}
    used: list[Newline] = [newline for newline, count in counts.items() if count]
    if len(used) > 1:
        return "mixed"
    return used[0] if used else ""


def _described(text: str | bytes, encoding: str, bom: bytes) -> Text:
    ends = text.endswith((b"\n", b"\r")) if isinstance(text, bytes) else text.endswith(("\n", "\r"))
    return Text(text, encoding, bom, newline_of(text), ends)


def _exactly(data: bytes, encoding: str) -> str | None:
    """The decoded text if encoding it again gives back the same bytes."""
    try:
        text = data.decode(encoding)
        return text if text.encode(encoding) == data else None
    except (UnicodeError, LookupError):
        return None


def _convinces(text: str) -> bool:
    """Whether wide characters without a byte order mark read like text and not like numbers that happen to decode."""
    if not all(character.isprintable() or character in "\t\n\r\f\u3000\xa0\ufeff" for character in set(text)):
        return False
    plain = sum(character < "\x80" for character in text)
    if plain >= len(text) * 0.7:
        return True
    scripts = {unicodedata.name(character, "?").split()[0] for character in set(text) if character.isalpha()}
    return len(text) >= _ENOUGH_CHARACTERS and plain >= len(text) * 0.04 and len(scripts) <= 4


# Writing


def splice(data: bytes, text: Text, edits: Iterable[Edit]) -> bytes:
    """The file's bytes with some characters replaced; every byte outside the edited spans is the same as before.

    `text` is what `decode(data)` gave. The edits must not overlap; their order does not matter.
    """
    whole = text.text
    length = len(whole)
    ordered = _in_order(edits, length)
    bounds = [0, *(place for edit in ordered for place in (edit.start, edit.end)), length]
    # Kept and replaced pieces in turn. They are proven to be the file's bytes by being encoded again, a part at a time
    # where no state of the encoder goes from one to the next.
    most = _PIECE if text.encoding in UNICODE else max(length, 1)
    if not data.startswith(text.bom):
        raise _inseparable(text.encoding)
    at = len(text.bom)
    places: list[int] = [at]
    for start, end in pairwise(bounds):
        for part in range(start, end, most):
            encoded = whole[part : min(part + most, end)].encode(text.encoding)
            if not data.startswith(encoded, at):
                raise _inseparable(text.encoding)
            at += len(encoded)
        places.append(at)
    if at != len(data):
        raise _inseparable(text.encoding)
    del whole  # a large one would be held beside the file's old and new bytes
    view = memoryview(data)
    pieces: list[bytes | memoryview] = [view[start:end] for start, end in pairwise(places)]
    for place, edit in enumerate(ordered):
        pieces[2 * place + 1] = _encoded(edit.new, text.encoding)
    changed = b"".join([text.bom, *pieces])
    if text.encoding not in UNICODE and (
        changed[len(text.bom) :].decode(text.encoding, "replace") != apply_edits(text.text, ordered)
    ):
        raise _inseparable(text.encoding)
    return changed


def splice_utf_8(data: bytes, edits: Iterable[Edit]) -> bytes:
    """The same for bytes of UTF-8 without a mark, where the edits are of bytes."""
    ordered = _in_order(edits, len(data))
    view, done = memoryview(data), 0
    pieces: list[bytes | memoryview] = []
    for edit in ordered:
        if any(data[at : at + 1] and data[at] & 0xC0 == 0x80 for at in (edit.start, edit.end)):
            raise ValueError(f"an edit from {edit.start} to {edit.end} is of parts of a character")
        pieces += (view[done : edit.start], _encoded(edit.new, "utf-8"))
        done = edit.end
    return b"".join((*pieces, view[done:]))


def in_bytes(text: str, edits: Iterable[Edit]) -> list[Edit]:
    """Edits of a text, which are in order, as edits of its bytes in UTF-8."""
    at = size = 0
    found: list[Edit] = []
    for edit in edits:
        size += _size(text, at, edit.start)
        end = size + _size(text, edit.start, edit.end)
        found.append(Edit(size, end, edit.new))
        at, size = edit.end, end
    return found


def _size(text: str, start: int, end: int) -> int:
    """Of a part of a text in UTF-8."""
    return sum(len(text[at : min(at + _PIECE, end)].encode()) for at in range(start, end, _PIECE))


def _in_order(edits: Iterable[Edit], length: int) -> list[Edit]:
    """The edits by place; they must lie in a text of so many characters or bytes, and not overlap."""
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    for edit in ordered:
        if not 0 <= edit.start <= edit.end <= length:
            raise ValueError(f"an edit from {edit.start} to {edit.end} of a text of {length} characters")
    for before, after in pairwise(ordered):
        if after.start < before.end:
            raise ValueError(f"edits overlap: one ends at {before.end}, the next starts at {after.start}")
    return ordered


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with some characters replaced; the edits are in order and do not overlap."""
    pieces: list[str] = []
    done = 0
    for edit in edits:
        pieces += (text[done : edit.start], edit.new)
        done = edit.end
    return "".join((*pieces, text[done:]))


def encode_new(text: str, like: Text | None) -> bytes:
    r"""The bytes of a file whose whole content is new.

    A new file is UTF-8, as given. One that replaces another keeps its encoding and byte order mark, and, when every
    line of it ended with `\r\n` or every one with `\r`, its line endings for content that has `\n` alone. Content that
    brings a `\r` of its own, and content for a file with mixed endings, is written as given.
    """
    if like is None:
        return _encoded(text, "utf-8")
    if like.newline in ("\r\n", "\r") and "\r" not in text:
        text = text.replace("\n", like.newline)
    # The mark is not part of the text; one that was pasted with it would be there twice.
    return like.bom + _encoded(text.removeprefix("\ufeff") if like.bom else text, like.encoding)


def _encoded(text: str, encoding: str) -> bytes:
    try:
        encoded = text.encode(encoding)
    except UnicodeEncodeError as error:
        raise UnencodableError(error.object[error.start], error.start, encoding) from None
    # Some encoders write a similar character instead: `¥` becomes a backslash in Shift-JIS.
    if encoding not in UNICODE and (back := encoded.decode(encoding, "replace")) != text:
        place = next(place for place, (was, now) in enumerate(zip(text, back + "\0", strict=False)) if was != now)
        raise UnencodableError(text[place], place, encoding)
    return encoded


def _inseparable(encoding: str) -> PathError:
    return PathError(
        "unverified",
        phrase(
            "The file is in {encoding}, and this change would alter bytes beside it. The file is untouched.",
            encoding=encoding,
        ),
        suggestion=phrase("Change whole lines, or write the whole file."),
    )


# Keeps a file in the encoding it was read in, or refuses the change.


_TO_UTF_8 = advice("or ask the user whether the file should become UTF-8.", "or save the file as UTF-8 first.")


def require_same_encoding(before: Text | None, after: bytes) -> None:
    """Refuse a change after which the file would be taken for one in another encoding, and read as nonsense."""
    if before is None or before.encoding in UNICODE:
        return
    now = decode(after)
    if now is None or now.text != after.decode(before.encoding):
        taken = phrase("one in {encoding}", encoding=now.encoding) if now else phrase("a binary one")
        raise PathError(
            "encoding",
            phrase(
                "The file is in {encoding}. After this change it would be taken for {taken}, since "
                "too little would be left to tell. The file is untouched.",
                encoding=before.encoding,
                taken=taken,
            ),
            suggestion=phrase("Keep more of its text beyond ASCII, {alternative}", alternative=_TO_UTF_8),
            details={"encoding": before.encoding},
        )


def require_sure_encoding(data: bytes, text: Text, new: str) -> None:
    """Refuse new characters that another encoding, which may well be the file's, writes in another way."""
    if text.encoding in UNICODE or new.isascii():
        return
    added = "".join(sorted(set(new) - set(text.text)))
    if added.isascii():
        return
    for other in likely(data):
        written = _written(added, other)
        if written is not None and written != _written(added, text.encoding):
            shown = next(character for character in added if not character.isascii())
            raise PathError(
                "encoding",
                phrase(
                    "The file is in {encoding} or in {other}; too little of it is beyond ASCII to "
                    "tell, and `{shown}` of the new text is not the same in both. The file is "
                    "untouched.",
                    encoding=text.encoding,
                    other=other,
                    shown=shown,
                ),
                suggestion=phrase(
                    "Write it in ASCII, as an escape of the file's language, {alternative}", alternative=_TO_UTF_8
                ),
                details={"encoding": text.encoding},
            )


def _written(text: str, encoding: str) -> bytes | None:
    try:
        return text.encode(encoding)
    except (UnicodeError, LookupError):
        return None
