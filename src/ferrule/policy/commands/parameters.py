"""Reading `${…}` and sums: both can run code, in places where one would not look for it."""

from __future__ import annotations

import re

from .scanning import Scanner
from .syntax import Arithmetic, Kind, Piece

_LONGEST_SUM = 2_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_POSITION = re.compile(r"[0-9]+|[@*#?$!_-]")
_IDENTIFIER_OR_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+#[0-9A-Za-z@_]+|[0-9]+|([A-Za-z_][A-Za-z0-9_]*)")
_SETS = re.compile(r"[ \t]*=(?!=)")
_SAFE_TRANSFORMS = frozenset("QEAaKkuUL")


class ParameterReader(Scanner):
    """Reads parameters and sums; what stands in them is read by the methods that `WordReader` has."""

    def single(self) -> str:
        """A text in single quotes."""
        raise NotImplementedError

    def double(self, pieces: list[Piece]) -> None:
        """The rest of a text in double quotes."""
        raise NotImplementedError

    def backticks(self, pieces: list[Piece], *, quoted: bool) -> None:
        """A command substitution in backticks."""
        raise NotImplementedError

    def dollar(self, pieces: list[Piece], *, quoted: bool) -> None:
        """Whatever a dollar sign begins."""
        raise NotImplementedError

    def process(self, pieces: list[Piece]) -> None:
        """A process substitution."""
        raise NotImplementedError

    def parameter(self, start: int, *, quoted: bool) -> Piece:
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
                self.sum("]")
        if text.startswith("}", self.at):
            self.at += 1
            if indirect:
                self.doubt("`${!…}` reads a variable whose name only the run shows")
            return Piece(
                Kind.VARIABLE if plain else Kind.UNKNOWN, name.group() if plain else text[start : self.at], quoted
            )
        if indirect and text[self.at : self.at + 2] in ("@}", "*}"):
            self.at += 2
            return Piece(Kind.UNKNOWN, text[start : self.at], quoted)
        if indirect:
            self.doubt("`${!…}` reads a variable whose name only the run shows")
        self._operator(name.group(), quoted=quoted)
        return Piece(Kind.UNKNOWN, text[start : self.at], quoted)

    def _operator(self, name: str, *, quoted: bool) -> None:
        text = self.text
        here = text[self.at : self.at + 1]
        if not here:
            self.fail("a `${` is never closed")
        if here == "@":
            if text[self.at + 1 : self.at + 2] not in _SAFE_TRANSFORMS:
                self.doubt("`${…@P}` runs what the variable holds")
        elif here == ":" and text[self.at + 1 : self.at + 2] not in ("-", "=", "?", "+"):
            self.at += 1
            self.sum("}")
            return
        elif here in ":=" and "=" in text[self.at : self.at + 2]:
            self.doubt(f"`${{{name}=…}}` sets a variable as it is read")
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
                self.single()
            elif here == '"':
                self.at += 1
                self.double(ignored)
            elif here == "`":
                self.backticks(ignored, quoted=quoted)
            elif here == "$":
                self.dollar(ignored, quoted=quoted)
            elif here in "<>" and text.startswith("(", self.at + 1) and not quoted:
                self.process(ignored)
            else:
                self.at += 1
        self.fail("a `${` is never closed")

    def is_sum(self, at: int) -> bool:
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

    def sum(self, closer: str) -> None:
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
                    sets = _SETS.match(text, self.at) is not None
                    names.append(f"={token.group(1)}" if sets else token.group(1))
            elif here == "$":
                before = len(ignored)
                self.dollar(ignored, quoted=True)
                names.extend(p.text if p.kind is Kind.VARIABLE else "$" for p in ignored[before:] if not _numeric(p))
            elif here == "`":
                self.backticks(ignored, quoted=False)
                names.append("$")
            elif here in " \t+-*/%<>=!&|^~?:,;@()[]":
                depth += (here in "([") - (here in ")]")
                self.at += 1
            else:
                self.fail("a sum holds more than numbers, names and operators")
        self.fail("a sum is never closed")


def _numeric(piece: Piece) -> bool:
    return piece.kind is Kind.UNKNOWN and piece.text.startswith(("$((", "${#"))
