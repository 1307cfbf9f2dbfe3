"""Reading one word as bash does: quotes, escapes, and every expansion that can run something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

from .syntax import Arithmetic, Kind, Piece, Reading, Script, Unreadable, Word

if TYPE_CHECKING:
    from collections.abc import Callable

DEEPEST = 60
"""More nesting than any person writes; well below what Python's stack bears."""

_LONGEST_SUM = 2_000
_PLAIN = re.compile(r"[A-Za-z0-9_%+,./:@^=-]+(?=[ \t\n;|&)]|\Z)")
_UNQUOTED = re.compile(r"[^ \t\n\\'\"`$|&;()<>]+")
_IN_QUOTES = re.compile(r"[^\"\\$`]+")
_IN_HERE_DOCUMENT = re.compile(r"[^\\$`]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL = re.compile(r"[0-9@*#?$!_-]")
_POSITION = re.compile(r"[0-9]+|[@*#?$!_-]")
_IDENTIFIER_OR_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+#[0-9A-Za-z@_]+|[0-9]+|([A-Za-z_][A-Za-z0-9_]*)")
_ANSI = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|(c.))"
)
_ANSI_CHARACTERS = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_SAFE_TRANSFORMS = frozenset("QEAaKkuUL")


class WordReader:
    """Reads words from `text`, going forward from `at`."""

    def __init__(self, text: str, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise Unreadable(f"it nests deeper than {DEEPEST} levels")
        self.text = text
        self.at = 0
        self.depth = depth
        self.inner: list[Script | Arithmetic] = []
        self.starts: list[int] = []
        self.blind: list[tuple[int, int]] = []
        self.apart: list[Reading] = []

    def fail(self, why: str) -> NoReturn:
        raise Unreadable(f"{why} (at character {self.at + 1:,})")

    def script_until(self, closer: str) -> Script:
        """Read a nested script up to and over `closer`."""
        raise NotImplementedError

    def separate(self, text: str) -> Script:
        """Read `text` as a script of its own."""
        raise NotImplementedError

    def word(self) -> Word:
        plain = _PLAIN.match(self.text, self.at)
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
                pieces.append(Piece(Kind.TEXT, self._single(), quoted=True))
            elif here == '"':
                self.at += 1
                self._double(pieces)
            elif here == "`":
                self._backticks(pieces, quoted=False)
            elif here == "$":
                self._dollar(pieces, quoted=False)
            elif here in "<>" and text.startswith("(", self.at + 1):
                self._process(pieces)
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

    def _single(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.fail("a single quote is never closed")
        content, self.at = self.text[self.at + 1 : end], end + 1
        return content

    def _double(self, pieces: list[Piece]) -> None:
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
                self._backticks(pieces, quoted=True)
            else:
                self._dollar(pieces, quoted=True)
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
                self._backticks(pieces, quoted=False)
            else:
                self._dollar(pieces, quoted=True)
        return pieces

    def _backticks(self, pieces: list[Piece], *, quoted: bool) -> None:
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

    def _process(self, pieces: list[Piece]) -> None:
        start = self.at
        self.at += 2
        self.inner.append(self.script_until(")"))
        pieces.append(Piece(Kind.UNKNOWN, self.text[start : self.at], quoted=True))

    def _dollar(self, pieces: list[Piece], *, quoted: bool) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(f"it nests deeper than {DEEPEST} levels")
        self._expansion(pieces, quoted=quoted)
        self.depth -= 1

    def _expansion(self, pieces: list[Piece], *, quoted: bool) -> None:
        text, start = self.text, self.at
        following = text[start + 1 : start + 2]
        if following == "(":
            if text.startswith("((", start + 1) and self._is_sum(start + 3):
                self.at = start + 3
                self._sum("))")
                pieces.append(Piece(Kind.UNKNOWN, "$((", quoted))
                return
            self.at = start + 2
            script = self.script_until(")")
            self.inner.append(script)
            pieces.append(Piece(Kind.UNKNOWN, text[start : self.at], quoted, script))
        elif following == "{":
            self.at = start + 2
            pieces.append(self._parameter(start, quoted=quoted))
        elif following == "[":
            self.fail("the old form `$[…]` of a sum stands in it")
        elif following == "'" and not quoted:
            pieces.append(Piece(Kind.TEXT, self._ansi(), quoted=True))
        elif following == '"' and not quoted:
            self.at = start + 2
            self._double(pieces)
        elif (name := _NAME.match(text, start + 1) or _SPECIAL.match(text, start + 1)) is not None:
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

    def _parameter(self, start: int, *, quoted: bool) -> Piece:
        """`${…}`, from behind the brace."""
        text = self.text
        indirect = text.startswith("!", self.at) and not text.startswith("!}", self.at)
        length = text.startswith("#", self.at) and text[self.at + 1 : self.at + 2] not in ("}", "-", ":", "%", "#", "?")
        self.at += indirect or length
        name = _NAME.match(text, self.at) or _POSITION.match(text, self.at)
        if name is None:
            self.fail("a `${` does not name a variable")
        self.at = name.end()
        plain = not indirect and not length
        if text.startswith("[", self.at):
            plain = False
            self.at += 1
            if text[self.at : self.at + 2] in ("@]", "*]"):
                self.at += 2
            else:
                self._sum("]")
        if text.startswith("}", self.at):
            self.at += 1
            if indirect:
                self._doubt("`${!…}` reads a variable whose name only the run shows")
            return Piece(
                Kind.VARIABLE if plain else Kind.UNKNOWN, name.group() if plain else text[start : self.at], quoted
            )
        if indirect and text[self.at : self.at + 2] in ("@}", "*}"):
            self.at += 2
            return Piece(Kind.UNKNOWN, text[start : self.at], quoted)
        if indirect:
            self._doubt("`${!…}` reads a variable whose name only the run shows")
        self._operator(name.group(), quoted=quoted)
        return Piece(Kind.UNKNOWN, text[start : self.at], quoted)

    def _operator(self, name: str, *, quoted: bool) -> None:
        text = self.text
        here = text[self.at]
        if here == "@":
            if text[self.at + 1 : self.at + 2] not in _SAFE_TRANSFORMS:
                self._doubt("`${…@P}` runs what the variable holds")
        elif here == ":" and text[self.at + 1 : self.at + 2] not in ("-", "=", "?", "+"):
            self.at += 1
            self._sum("}")
            return
        elif here in ":=" and "=" in text[self.at : self.at + 2]:
            self._doubt(f"`${{{name}=…}}` sets a variable as it is read")
        elif here not in ":-?+#%/^,=":
            self.fail("a `${…}` has an operator that bash does not know")
        self._rest_of_parameter(quoted=quoted)

    def _rest_of_parameter(self, *, quoted: bool) -> None:
        """The word of an operator within `${…}`, up to and over the brace."""
        text, ignored = self.text, list[Piece]()
        while self.at < len(text):
            here = text[self.at]
            if here == "}":
                self.at += 1
                return
            if here == "\\":
                self.at += 2
            elif here == "'":
                if quoted:
                    self.fail("a single quote stands in a quoted `${…}`, where its meaning varies")
                self._single()
            elif here == '"':
                self.at += 1
                self._double(ignored)
            elif here == "`":
                self._backticks(ignored, quoted=quoted)
            elif here == "$":
                self._dollar(ignored, quoted=quoted)
            elif here in "<>" and text.startswith("(", self.at + 1) and not quoted:
                self._process(ignored)
            else:
                self.at += 1
        self.fail("a `${` is never closed")

    def _doubt(self, why: str) -> None:
        self.inner.append(Arithmetic([], why))

    def _is_sum(self, at: int) -> bool:
        """Whether the text from `at`, behind `((`, closes with `))` as a sum does."""
        depth, furthest = 0, min(len(self.text), at + _LONGEST_SUM)
        while at < furthest:
            here = self.text[at]
            if here == "(":
                depth += 1
            elif here == ")":
                if not depth:
                    return self.text.startswith("))", at)
                depth -= 1
            elif here in "'\"\\\n#;" and not (here == "#" and self.text[at - 1 : at].isalnum()):
                return here == ";"
            at += 1
        return False

    def _sum(self, closer: str) -> None:
        """An arithmetic expression up to and over `closer`; what it names is evaluated in turn."""
        text, ignored, names, depth = self.text, list[Piece](), list[str](), 0
        while self.at < len(text):
            here = text[self.at]
            if not depth and text.startswith(closer, self.at):
                self.at += len(closer)
                self.inner.append(Arithmetic(names))
                return
            token = _IDENTIFIER_OR_NUMBER.match(text, self.at)
            if token is not None:
                self.at = token.end()
                if token.group(1):
                    names.append(token.group(1))
            elif here == "$":
                before = len(ignored)
                self._dollar(ignored, quoted=True)
                names.extend(p.text if p.kind is Kind.VARIABLE else "$" for p in ignored[before:] if not _numeric(p))
            elif here == "`":
                self._backticks(ignored, quoted=False)
                names.append("$")
            elif here in " \t+-*/%<>=!&|^~?:,;@()[]":
                depth += (here in "([") - (here in ")]")
                self.at += 1
            else:
                self.fail("a sum holds more than numbers, names and operators")
        self.fail("a sum is never closed")


def _numeric(piece: Piece) -> bool:
    return piece.kind is Kind.UNKNOWN and piece.text.startswith(("$((", "${#"))


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
