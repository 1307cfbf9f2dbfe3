r"""What a program wrote for a terminal, as the words it would have left there.

Escape sequences are gone, and a line that was written over (`\r`, backspaces, erase-to-end-of-line) reads as it ended.
Characters that are part of the text stay, also those that nobody sees or that turn its order: a model that is to mend
a file must get what the file holds. What a person sees of it is made visible where it is shown (`ferrule.cli.output`).
It is linear in the length of the text, whatever that holds.
"""

from __future__ import annotations

import re

_STRING_END = r"(?:\x07|\x1b\\|\x9c)?"
# Strings (titles, links, clipboard, device control) end at their terminator, or at the line's end if it never comes.
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n]*" + _STRING_END
_SEQUENCE = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
_SHORT = r"\x1b[ -/]*[0-~]?"
_ERASE_TO_END = re.compile(r"(?:\x1b\[|\x9b)0?K")
_ESCAPES = re.compile(f"{_STRING}|{_SEQUENCE}|{_SHORT}")
_CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ERASE = "\x00"  # stands for erase-to-end-of-line while a line is folded; NULs are taken out first
_UNFINISHED = re.compile(rf"(?:{_STRING}|{_SEQUENCE}|{_SHORT}|\r)\Z")
_LONGEST_UNFINISHED = 4096


def clean(text: str) -> str:
    """The text as a terminal would show it in the end, without anything that is for a terminal alone."""
    if text.isprintable():
        return text
    if _ERASE in text:
        text = text.replace(_ERASE, "")
    if "\x1b" in text or "\x9b" in text:
        text = _ERASE_TO_END.sub(_ERASE, text)
    text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = re.sub(r"\r+\n", "\n", text)
    if "\r" in text or "\b" in text or _ERASE in text:
        text = "\n".join(_folded(line) for line in text.split("\n"))
    return _CONTROLS.sub("", text)


def _folded(line: str) -> str:
    """A line as it ends after everything that was written over it."""
    if "\r" not in line and "\b" not in line:
        return line.replace(_ERASE, "")
    shown: list[str] = []
    column = 0
    for character in line:
        if character == "\r":
            column = 0
        elif character == "\b":
            column = max(0, column - 1)
        elif character == _ERASE:
            del shown[column:]
        else:
            if column < len(shown):
                shown[column] = character
            else:
                shown.append(character)
            column += 1
    return "".join(shown).rstrip(" ") if _ERASE in line else "".join(shown)


class StreamCleaner:
    """Cleans text that comes in pieces; a sequence cut in two is kept back until its other half is there."""

    def __init__(self) -> None:
        self._kept = ""

    def feed(self, text: str) -> str:
        """What can be shown by now."""
        text = self._kept + text
        self._kept = ""
        cut = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_UNFINISHED))
        if cut is not None and not _is_whole(cut[0]):
            self._kept = text[cut.start() :]
            text = text[: cut.start()]
        return clean(text)

    def rest(self) -> str:
        """What was kept back, when nothing more comes."""
        text, self._kept = self._kept, ""
        return clean(text)


def _is_whole(sequence: str) -> bool:
    if sequence == "\r":
        return False  # perhaps the first half of a line's end
    if re.match(r"\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f]", sequence):
        return sequence.endswith(("\x07", "\x1b\\", "\x9c"))
    if re.match(r"\x1b\[|\x9b", sequence):
        return re.fullmatch(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]", sequence) is not None
    return re.fullmatch(r"\x1b[ -/]*[0-~]", sequence) is not None and sequence != "\x1b["
