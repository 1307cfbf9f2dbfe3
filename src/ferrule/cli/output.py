"""Text that a tool or a file gave, written so that it cannot drive the terminal and a pipe gets exactly that text."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Marks that turn the order of what is read, or that nobody sees: what they stand in is not what it looks like. The
# joiners of emoji and of Persian (U+200C, U+200D) are not among them.
_DECEIVING = re.compile(
    r"[\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

_clear_row: Callable[[], None] | None = None


def clear_before_writing(clear: Callable[[], None] | None) -> None:
    """What takes a row away that stands at the end of the terminal for a while, so that no line is written into it."""
    global _clear_row
    _clear_row = clear


def write(text: str, *, err: bool = False) -> None:
    """A line of output. On a terminal control characters are shown and not obeyed; in a pipe nothing is changed."""
    stream = sys.stderr if err else sys.stdout
    if stream is None:  # pyright: ignore[reportUnnecessaryComparison] - it is None when the caller closed it
        return
    if _clear_row is not None:
        _clear_row()
    stream.write(f"{for_stream(text, stream)}\n")
    stream.flush()


def write_json(document: Any) -> None:
    """A document. On a terminal what could steer or deceive is written as JSON's own escapes, and means the same."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    if sys.stdout is not None and sys.stdout.isatty():  # pyright: ignore[reportUnnecessaryComparison] - as above
        for marks in (_CONTROLS, _DECEIVING):
            text = marks.sub(lambda found: json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f", text)
    write(text)


def for_stream(text: str, stream: TextIO) -> str:
    """The text as it goes there: made safe for a terminal, unchanged for a pipe."""
    return shown(text) if stream.isatty() else text


def shown(text: str) -> str:
    """The text with all that would steer a terminal or deceive an eye made visible; line ends and tabs stay."""
    if text.isprintable():
        return text
    text = _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    return _DECEIVING.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)
