"""Reading a simple command: assignments, words, redirections and the texts of here-documents."""

from __future__ import annotations

import re

from .quoting import PLAIN, WordReader
from .syntax import Assignment, Compound, Kind, Redirect, Simple, Unreadable, Word

MOST_COMMANDS = 200

_PLAIN_COMMAND = re.compile(r"[A-Za-z0-9_%+,./:@^-]++(?:[ \t]++[A-Za-z0-9_%+,./:@^=-]++)*+[ \t]*+(?=[;|\n)]|&(?!>)|\Z)")
_PLAIN_WORD = re.compile(r"[^ \t]+")
_BLANK = (" ", "\t", "\\")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
REDIRECT = re.compile(r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||[<>](?!\())")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(\+?=)|\[)")
FUNCTION_NAME = re.compile(r"[^ \t\n\\'\"`$|&;()<>{}]+")
PARENTHESES = re.compile(r"[ \t]*\([ \t]*\)")
_DECLARING = frozenset({"declare", "typeset", "local", "export", "readonly"})


class SimpleReader(WordReader):
    """Reads simple commands."""

    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self.pending: list[tuple[Redirect, str, bool, bool]] = []

    def defined(self, start: int) -> Compound:
        """A function, from its name on."""
        raise NotImplementedError

    def blanks(self) -> str:
        """Skip blanks; the character behind them, empty at the end."""
        here = self.text[self.at : self.at + 1]
        if here in _BLANK and (found := _BLANKS.match(self.text, self.at)) is not None:
            self.at = found.end()
            return self.text[self.at : self.at + 1]
        return here

    def lines(self) -> str:
        """Skip blanks, comments and newlines; texts of here-documents are taken as their line ends."""
        while True:
            here = self.blanks()
            if here == "#":
                self.comment()
            elif here == "\n":
                self.at += 1
                if self.pending:
                    self._here_documents()
            else:
                return here

    def comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def simple(self, start: int) -> Simple | Compound:
        text = self.text
        if (plain := _PLAIN_COMMAND.match(text, start)) is not None:
            return self._plain(start, plain.end())
        command = Simple(text, start, start, [], [], [], [])
        declaring = False
        while True:
            here = self.blanks()
            if command.words and not declaring and (plain := PLAIN.match(text, self.at)) is not None:
                command.words.append(Word(self.at, plain.end(), plain.group()))
                self.at = command.end = plain.end()
                continue
            if here in ("", "\n", ";", "|", ")"):
                break
            if here in "0123456789{<>&" and (found := REDIRECT.match(text, self.at)) is not None:
                command.redirects.append(self.redirect(found))
                command.end = self.at
                continue
            if here == "&":
                break
            if here == "#":
                self.comment()
                continue
            if (not command.words or declaring) and (found := _ASSIGNED.match(text, self.at)) is not None:
                assignment = self._assignment(found, allow_words=declaring)
                if assignment is not None:
                    command.assignments.append(assignment)
                    command.end = self.at
                    continue
            if here == "(":
                self.fail("a parenthesis stands where bash expects none")
            if not command.words and not command.redirects and not command.assignments and self._defines():
                return self.defined(start)
            word = self.word()
            if not command.words:
                self.count(word.start)
                declaring = word.text in _DECLARING
            command.words.append(word)
            command.end = self.at
        if not command.words and not command.assignments and not command.redirects:
            self.fail("a command is missing")
        return command

    def _plain(self, start: int, end: int) -> Simple:
        """Nothing but plain words: most commands are, and need no closer look."""
        words = [Word(*found.span(), found.group()) for found in _PLAIN_WORD.finditer(self.text, start, end)]
        self.count(start)
        self.at = end
        return Simple(self.text, start, words[-1].end, [], words, [], [])

    def count(self, start: int) -> None:
        self.starts.append(start)
        if len(self.starts) > MOST_COMMANDS:
            self.fail(f"it has more than {MOST_COMMANDS} commands")

    def _defines(self) -> bool:
        name = FUNCTION_NAME.match(self.text, self.at)
        return name is not None and PARENTHESES.match(self.text, name.end()) is not None

    def _assignment(self, found: re.Match[str], *, allow_words: bool) -> Assignment | None:
        """An assignment; None, going nowhere, where the text is an ordinary word after all."""
        start, known = self.at, len(self.inner)
        self.at = found.end()
        operator = found.group(2)
        if operator is None:
            try:
                self.sum("]")
            except Unreadable:
                self.fail("a subscript is more than a number or a name")
            operator = next((o for o in ("=", "+=") if self.text.startswith(o, self.at)), None)
            if operator is None:
                self.at = start
                del self.inner[known:]
                return None
            self.at += len(operator)
        whole = found.group(2) == "="
        here = self.text[self.at : self.at + 1]
        if here == "(":
            self._array()
            if self.text[self.at : self.at + 1] not in ("", " ", "\t", "\n", ";", "|", "&", ")", "<", ">"):
                self.fail("something sticks to an array")  # to bash it is all one word
            return Assignment(found.group(1), None, False, start, self.at)
        if allow_words and found.group(2):
            # `export a=b`: bash reads it as a word that happens to assign.
            self.at = start
            return None
        if here in ("", " ", "\t", "\n", ";", "|", "&", ")") or (here in "<>" and self.text[self.at + 1] != "("):
            value = Word(self.at, self.at, "")
        else:
            value = self.word()
        return Assignment(found.group(1), value, whole, start, self.at)

    def _array(self) -> None:
        self.at += 1
        while True:
            self.lines()
            if self.text.startswith(")", self.at):
                self.at += 1
                return
            if self.text.startswith("[", self.at):
                self.at += 1
                self.sum("]")
                if not self.text.startswith(("=", "+="), self.at):
                    self.fail("an element of an array is not plain")
                self.at = self.text.index("=", self.at) + 1
                if self.text[self.at : self.at + 1] in (" ", "\t", "\n", ")"):
                    continue
            if self.at >= len(self.text):
                self.fail("an array is never closed")
            self.word()

    def redirect(self, found: re.Match[str]) -> Redirect:
        operator = found.group(2)
        self.at = found.end()
        self.blanks()
        target = self.word()
        redirect = Redirect(operator, target)
        if operator in ("<<", "<<-"):
            source = self.text[target.start : target.end]
            quoted = any(mark in source for mark in "'\"\\")
            pieces = target.pieces or ()
            if any(piece.kind is not Kind.TEXT for piece in pieces) or "\n" in source or "$" in source:
                self.fail("a here-document's end is not a plain word")
            delimiter = "".join(piece.text for piece in pieces) if pieces else target.text
            self.pending.append((redirect, delimiter, quoted, operator == "<<-"))
        return redirect

    def _here_documents(self) -> None:
        pending, self.pending = self.pending, []
        for redirect, delimiter, quoted, tabs in pending:
            start = self.at
            redirect.body = self._text_until(delimiter, quoted=quoted, tabs=tabs)
            self.blind.append((start, self.at))
            if not quoted:
                self._expanding(redirect)

    def _text_until(self, delimiter: str, *, quoted: bool, tabs: bool) -> str:
        lines: list[str] = []
        line = ""
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line += self.text[self.at : end]
            self.at = min(end + 1, len(self.text))
            if not quoted and (len(line) - len(line.rstrip("\\"))) % 2:
                line = line[:-1]  # a line that ends in a backslash goes on, past the delimiter too
                continue
            if tabs:
                line = line.lstrip("\t")
            if line == delimiter:
                return "".join(f"{one}\n" for one in lines)
            lines.append(line)
            line = ""
        return self.fail("a here-document never ends")

    def _expanding(self, redirect: Redirect) -> None:
        reader = type(self)(redirect.body or "", self.depth + 1)
        pieces = reader.here_document()
        redirect.inner = reader.inner
        self.apart += reader.apart
        if any(piece.kind is not Kind.TEXT for piece in pieces):
            redirect.body = None
