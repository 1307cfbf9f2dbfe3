"""Keeps a file in the encoding it was read in, or refuses the change.

What a file in an old encoding is written in is told by its characters alone. So a change may take away the ones that
tell, and a new character may have to be written in an encoding that is no more than a good guess.
"""

from __future__ import annotations

from ferrule.core.phrases import phrase
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.texts.encodings import likely
from ferrule.workspace.texts.text import UNICODE, Text, decode

_TO_UTF_8 = phrase("or ask the person whether the file should become UTF-8.")


def require_same_encoding(before: Text | None, after: bytes) -> None:
    """Refuse a change after which the file would be taken for one in another encoding, and read as nonsense."""
    if before is None or before.encoding in UNICODE:
        return
    now = decode(after)
    if now is None or now.text != after.decode(before.encoding):
        taken = phrase("one in {encoding}", encoding=now.encoding) if now else phrase("a binary one")
        raise PathProblem(
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
            raise PathProblem(
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
