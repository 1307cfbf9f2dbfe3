"""Reading one word as bash does: quotes, escapes, and every expansion that can run something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .parameters import ParameterReader
from .syntax import Kind, Piece, Word

if TYPE_CHECKING:
    from collections.abc import Callable

    from .syntax import Script

PLAIN = re.compile(r"[A-Za-z0-9_%+,./:@^=-]+(?=[ \t\n;|&)]|\Z)")
_UNQUOTED = re.compile(r"[^ \t\n\\'\"`$|&;()<>]+")
_IN_QUOTES = re.compile(r"[^\"\\$`]+")
_IN_HERE_DOCUMENT = re.compile(r"[^\\$`]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-]")
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(c.))"
)
_ANSI_CHARACTERS = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))


class WordReader(ParameterReader):
    """Reads words."""

    def script_until(self, closer: str) -> Script:
        """Read a nested script up to and over `closer`."""
        raise NotImplementedError

    def separate(self, text: str) -> Script:
        """Read `text` as a script of its own."""
        raise NotImplementedError

    def word(self) -> Word:
        plain = PLAIN.match(self.text, self.at)
        if plain is not None:
            start, self.at = self.at, plain.end()
            return Word(start, self.at, plain.group())
        return self._pieced(_unquoted_ends)

    def pattern(self) -> Word:
        """A pattern or regular expression within `[[ ]]`: blanks end it, parentheses and bars belong to it."""
        return self._pieced(_pattern_ends, pattern=True)

    def _pieced(self, ends: Callable[[str, int], bool], *, pattern: bool = False) -> Word:
        text, start, length, open_parentheses = self.text, self.at, len(self.text), 0
        pieces: list[Piece] = []
        while self.at < length:
            here = text[self.at]
            if (not open_parentheses or here == "\n") and ends(text, self.at):
                break
            if here == "\\":
                self._escape(pieces)
            elif here == "'":
                pieces.append(Piece(Kind.TEXT, self.single(), quoted=True))
            elif here == '"':
                self.at += 1
                self.double(pieces)
            elif here == "`":
                self.backticks(pieces, quoted=False)
            elif here == "$":
                self.dollar(pieces, quoted=False)
            elif here in "<>" and text.startswith("(", self.at + 1):
                self.process(pieces)
            elif pattern and here in "()|<>& \t;":
                open_parentheses += (here == "(") - (here == ")")
                if open_parentheses < 0:
                    break
                self.at += 1
                pieces.append(Piece(Kind.TEXT, here, quoted=False))
            elif here in "()":
                self.fail("a parenthesis stands where bash expects none")
            else:
                run = _UNQUOTED.match(text, self.at)
                if run is None:
                    self.fail(f"`{here}` stands where bash expects a word")
                self.at = run.end()
                pieces.append(Piece(Kind.TEXT, run.group(), quoted=False))
        if not pieces:
            self.fail("a word is missing")
        if len(pieces) == 1 and pieces[0].kind is Kind.TEXT and pieces[0].quoted:
            return Word(start, self.at, pieces[0].text)
        return Word(start, self.at, text[start : self.at], pieces)

    def _escape(self, pieces: list[Piece]) -> None:
        escaped = self.text[self.at + 1 : self.at + 2]
        if not escaped:
            self.fail("it ends in a backslash")
        if escaped == "\n":
            self.fail("a line is continued in the middle of a word")
        self.at += 2
        pieces.append(Piece(Kind.TEXT, escaped, quoted=True))

    def single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.fail("a single quote is never closed")
        content, self.at = self.text[self.at + 1 : end], end + 1
        return content

    def double(self, pieces: list[Piece]) -> None:
        before = len(pieces)
        text, length = self.text, len(self.text)
        while self.at < length:
            run = _IN_QUOTES.match(text, self.at)
            if run is not None:
                self.at = run.end()
                pieces.append(Piece(Kind.TEXT, run.group(), quoted=True))
                continue
            here = text[self.at]
            if here == '"':
                self.at += 1
                if len(pieces) == before:
                    pieces.append(Piece(Kind.TEXT, "", quoted=True))
                return
            if here == "\\":
                self._quoted_escape(pieces, '$`"\\')
            elif here == "`":
                self.backticks(pieces, quoted=True)
            else:
                self.dollar(pieces, quoted=True)
        self.fail("a double quote is never closed")

    def _quoted_escape(self, pieces: list[Piece], special: str) -> None:
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if escaped != "\n":
            pieces.append(Piece(Kind.TEXT, escaped if escaped and escaped in special else "\\" + escaped, quoted=True))

    def here_document(self) -> list[Piece]:
        """The pieces of a here-document's text whose delimiter was not quoted."""
        pieces: list[Piece] = []
        while self.at < len(self.text):
            run = _IN_HERE_DOCUMENT.match(self.text, self.at)
            if run is not None:
                self.at = run.end()
                pieces.append(Piece(Kind.TEXT, run.group(), quoted=True))
            elif self.text[self.at] == "\\":
                self._quoted_escape(pieces, "$`\\")
            elif self.text[self.at] == "`":
                self.backticks(pieces, quoted=False)
            else:
                self.dollar(pieces, quoted=True)
        return pieces

    def backticks(self, pieces: list[Piece], *, quoted: bool) -> None:
        start = self.at
        special = '$`\\"' if quoted else "$`\\"
        content: list[str] = []
        at = start + 1
        while True:
            here = self.text[at : at + 1]
            if not here:
                self.fail("a backtick is never closed")
            if here == "`":
                break
            if here == "\\" and self.text[at + 1 : at + 2] in special:
                at += 1
                here = self.text[at : at + 1]
            content.append(here)
            at += 1
        self.at = at + 1
        self.blind.append((start, self.at))
        script = self.separate("".join(content))
        self.inner.append(script)
        pieces.append(Piece(Kind.UNKNOWN, self.text[start : self.at], quoted, script))

    def process(self, pieces: list[Piece]) -> None:
        start = self.at
        self.at += 2
        self.inner.append(self.script_until(")"))
        pieces.append(Piece(Kind.UNKNOWN, self.text[start : self.at], quoted=True))

    def dollar(self, pieces: list[Piece], *, quoted: bool) -> None:
        self.deeper(1)
        self._expansion(pieces, quoted=quoted)
        self.deeper(-1)

    def _expansion(self, pieces: list[Piece], *, quoted: bool) -> None:
        text, start = self.text, self.at
        following = text[start + 1 : start + 2]
        if following == "(":
            if text.startswith("((", start + 1) and self.is_sum(start + 3):
                self.at = start + 3
                self.sum("))")
                pieces.append(Piece(Kind.UNKNOWN, "$((", quoted))
                return
            self.at = start + 2
            script = self.script_until(")")
            self.inner.append(script)
            pieces.append(Piece(Kind.UNKNOWN, text[start : self.at], quoted, script))
        elif following == "{":
            self.at = start + 2
            pieces.append(self.parameter(start, quoted=quoted))
        elif following == "[":
            self.fail("the old form `$[…]` of a sum stands in it")
        elif following == "'" and not quoted:
            pieces.append(Piece(Kind.TEXT, self._ansi(), quoted=True))
        elif following == '"' and not quoted:
            self.at = start + 2
            self.double(pieces)
        elif (name := _VARIABLE.match(text, start + 1)) is not None:
            self.at = name.end()
            pieces.append(Piece(Kind.VARIABLE, name.group(), quoted))
        else:
            self.at = start + 1
            pieces.append(Piece(Kind.TEXT, "$", quoted=True))

    def _ansi(self) -> str:
        end = self.at + 2
        while True:
            here = self.text[end : end + 1]
            if not here:
                self.fail("a `$'` quote is never closed")
            if here == "'":
                break
            end += 2 if here == "\\" else 1
        content, self.at = self.text[self.at + 2 : end], end + 1
        try:
            return _ANSI.sub(_ansi_character, content)
        except (ValueError, OverflowError):
            self.fail("a `$'` quote holds a character that cannot be")


def _unquoted_ends(text: str, at: int) -> bool:
    here = text[at]
    return here in " \t\n;|&)" or (here in "<>" and text[at + 1 : at + 2] != "(")


def _pattern_ends(text: str, at: int) -> bool:
    return text[at] in " \t\n"


def _ansi_character(match: re.Match[str]) -> str:
    simple, octal, short, middle, long, control = match.groups()
    if simple:
        return _ANSI_CHARACTERS.get(simple, simple)
    if control:
        raise ValueError(control)
    code = int(octal, 8) & 0xFF if octal else int(short or middle or long, 16)
    if code == 0 or (code > 0x7F and (octal or short)):
        raise ValueError(code)
    return chr(code)
