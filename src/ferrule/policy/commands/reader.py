"""Reading a whole command as bash does: lists, pipes, groups, loops, functions and here-documents.

This is the first of two readings. The second, by tree-sitter, must find the same commands in the same places (see
`witness.py`); what only one of them understands is not understood.
"""

from __future__ import annotations

import re

from .quoting import DEEPEST, WordReader
from .syntax import (
    Arithmetic,
    Assignment,
    Chain,
    Command,
    Compound,
    Condition,
    Kind,
    Pipeline,
    Reading,
    Redirect,
    Script,
    Simple,
    Unreadable,
    Word,
)

MOST_COMMANDS = 200
MOST_CHARACTERS = 64_000

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|coproc|time|in|[{}!])(?=[ \t\n;|&<>()]|\Z)"
    r"|\[\[(?=[ \t\n])"
)
_ENDINGS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_REDIRECT = re.compile(r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||[<>](?!\())")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(\+?=)|\[)")
_FUNCTION_NAME = re.compile(r"[^ \t\n\\'\"`$|&;()<>{}]+")
_PARENTHESES = re.compile(r"[ \t]*\([ \t]*\)")
_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIME_OPTIONS = re.compile(r"(?:[ \t]+(?:-p|--)(?=[ \t\n;|&]))*")
_CONDITION_OPERATOR = re.compile(r"&&|\|\||[()]|[<>](?!\()|!(?=[ \t\n(])")
_CASE_END = re.compile(r";;&|;;|;&")
_COPROC_NAME = re.compile(r"([A-Za-z_]\w*)[ \t]+(?=[({]|(?:if|while|until|for|case|select)[ \t\n])")
_DECLARING = frozenset({"declare", "typeset", "local", "export", "readonly"})


def read(text: str) -> list[Reading]:
    """Every text that bash would read as a script when given `text`: itself first, then what stands in backticks."""
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"it is longer than {MOST_CHARACTERS:,} characters")
    if (control := _CONTROL.search(text)) is not None:
        raise Unreadable(f"it holds the control character U+{ord(control.group()):04X}")
    reader = _Reader(text)
    script = reader.whole()
    return [reader.reading(script), *reader.apart]


class _Reader(WordReader):
    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self.timed: dict[int, int] = {}
        self._pending: list[tuple[Redirect, str, bool, bool]] = []

    def reading(self, script: Script) -> Reading:
        return Reading(self.text, script, self.starts, self.blind, self.timed)

    def whole(self) -> Script:
        script = self._script()
        if self.at < len(self.text):
            self.fail(f"`{self.text[self.at : self.at + 8].split()[0]}` stands where bash expects a command")
        if self._pending:
            self.fail("a here-document has no text")
        return script

    def separate(self, text: str) -> Script:
        reader = _Reader(text, self.depth + 1)
        script = reader.whole()
        self.apart += [reader.reading(script), *reader.apart]
        return script

    def script_until(self, closer: str) -> Script:
        start = self.at
        inner, pending = self.inner, self._pending
        self.inner, self._pending = [], []
        self._deeper(1)
        script = self._script()
        if not self.text.startswith(closer, self.at):
            self.fail(f"`{closer}` is missing")
        if self._pending or (pending and "\n" in self.text[start : self.at]):
            self.fail("a here-document and the end of a substitution cross")
        self.at += len(closer)
        self._deeper(-1)
        self.inner, self._pending = inner, pending
        return script

    def _deeper(self, levels: int) -> None:
        self.depth += levels
        if self.depth > DEEPEST:
            self.fail(f"it nests deeper than {DEEPEST} levels")

    # -- between the words

    def _blanks(self) -> None:
        found = _BLANKS.match(self.text, self.at)
        if found is not None:
            self.at = found.end()

    def _lines(self) -> None:
        """Skip blanks, comments and newlines; texts of here-documents are taken as their line ends."""
        while True:
            self._blanks()
            here = self.text[self.at : self.at + 1]
            if here == "#":
                self._comment()
            elif here == "\n":
                self.at += 1
                self._here_documents()
            else:
                return

    def _comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _reserved(self) -> str:
        found = _RESERVED.match(self.text, self.at)
        return found.group() if found is not None else ""

    def _expect(self, word: str) -> None:
        self._lines()
        if self._reserved() != word:
            self.fail(f"`{word}` is missing")
        self.at += len(word)

    # -- scripts, chains, pipelines

    def _script(self) -> Script:
        script = Script()
        while True:
            self._lines()
            here = self.text[self.at : self.at + 1]
            if not here or here == ")" or self.text.startswith(";;", self.at) or self.text.startswith(";&", self.at):
                return script
            if self._reserved() in _ENDINGS:
                return script
            script.chains.append(self._chain())

    def _chain(self) -> Chain:
        chain = Chain([("", self._pipeline())])
        while True:
            self._blanks()
            text, at = self.text, self.at
            if text.startswith(("&&", "||"), at):
                self.at += 2
                self._lines()
                chain.links.append((text[at : at + 2], self._pipeline()))
                continue
            here = text[at : at + 1]
            if here == "#":
                self._comment()
            elif here == "&":
                self.at += 1
                chain.background = True
            elif here == ";" and text[at + 1 : at + 2] not in (";", "&"):
                self.at += 1
            elif here not in ("", "\n", ")", ";"):
                self.fail(f"`{here}` stands where a command should have ended")
            return chain

    def _pipeline(self) -> Pipeline:
        timed = None
        while (word := self._reserved()) in ("!", "time"):
            if word == "time" and timed is None:
                timed = self.at
            self.at += len(word)
            if word == "time" and (options := _TIME_OPTIONS.match(self.text, self.at)) is not None:
                self.at = options.end()
            self._blanks()
        if self.at >= len(self.text) or self.text[self.at] in "\n;&|)":
            self.fail("a command is missing")
        if timed is not None:
            self.timed[self.at] = timed
        commands = [self._command()]
        while True:
            self._blanks()
            if not self.text.startswith("|", self.at) or self.text.startswith("||", self.at):
                return Pipeline(commands)
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            self._lines()
            commands.append(self._command())

    def _command(self) -> Command:
        self._deeper(1)
        start = self.at
        outer, self.inner = self.inner, []
        word = self._reserved()
        if word == "[[":
            command: Command = self._condition(start)
        elif word and word not in ("!", "time", "in"):
            if word in _ENDINGS:
                self.fail(f"`{word}` stands where bash expects a command")
            self.at += len(word)
            command = self._compound(word, start)
        elif self.text.startswith("((", start) and self._is_sum(start + 2):
            self.at += 2
            self._sum("))")
            command = Compound("((", self.text, start, self.at)
        elif self.text.startswith("(", start):
            self.at += 1
            command = Compound("(", self.text, start, 0, [self.script_until(")")])
        else:
            command = self._simple(start)
        if not isinstance(command, Simple):
            self._trailing_redirects(command.redirects)
        command.end = self.at if not isinstance(command, Simple) else command.end
        command.inner, self.inner = self.inner, outer
        self._deeper(-1)
        return command

    def _trailing_redirects(self, redirects: list[Redirect]) -> None:
        while True:
            self._blanks()
            if (found := _REDIRECT.match(self.text, self.at)) is None:
                return
            redirects.append(self._redirect(found))

    # -- compound commands

    def _compound(self, word: str, start: int) -> Compound:
        compound = Compound(word, self.text, start, 0)
        match word:
            case "{":
                compound.bodies.append(self._body("}"))
            case "if":
                self._if(compound)
            case "while" | "until":
                compound.bodies.append(self._script())
                self._expect("do")
                compound.bodies.append(self._body("done"))
            case "for" | "select":
                self._for(compound)
            case "case":
                self._case(compound)
            case "function":
                self._blanks()
                self._function(compound)
            case _:
                self._coproc(compound)
        return compound

    def _body(self, end: str) -> Script:
        script = self._script()
        if not script.chains:
            self.fail("a body has no commands")
        self._expect(end)
        return script

    def _if(self, compound: Compound) -> None:
        while True:
            compound.bodies.append(self._script())
            self._expect("then")
            compound.bodies.append(self._script())
            self._lines()
            word = self._reserved()
            self.at += len(word)
            if word == "else":
                compound.bodies.append(self._body("fi"))
            elif word not in ("elif", "fi"):
                self.fail("`fi` is missing")
            if word != "elif":
                return

    def _for(self, compound: Compound) -> None:
        self._blanks()
        if self.text.startswith("((", self.at):
            self.at += 2
            self._sum("))")
        else:
            name = _PARAMETER_NAME.match(self.text, self.at)
            if name is None:
                self.fail("a loop has no variable")
            compound.name, self.at = name.group(), name.end()
            self._lines()
            if self._reserved() == "in":
                self.at += 2
                compound.words = self._words_of_line()
        self._blanks()
        if self.text.startswith(";", self.at):
            self.at += 1
        self._lines()
        word = self._reserved()
        if word not in ("do", "{"):
            self.fail("a loop has no body")
        self.at += len(word)
        compound.bodies.append(self._body("done" if word == "do" else "}"))

    def _words_of_line(self) -> list[Word]:
        words: list[Word] = []
        while True:
            self._blanks()
            here = self.text[self.at : self.at + 1]
            if here in ("", "\n", ";", "#"):
                return words
            words.append(self.word())

    def _case(self, compound: Compound) -> None:
        self._blanks()
        compound.words = [self.word()]
        self._expect("in")
        while True:
            self._lines()
            if self._reserved() == "esac":
                self.at += 4
                return
            if self.text.startswith("(", self.at):
                self.at += 1
            while True:
                self._blanks()
                self.word()
                self._blanks()
                here = self.text[self.at : self.at + 1]
                self.at += 1
                if here == ")":
                    break
                if here != "|":
                    self.fail("a `case` pattern does not end")
            compound.bodies.append(self._script())
            ending = _CASE_END.match(self.text, self.at)
            if ending is not None:
                self.at = ending.end()
            elif self._reserved() != "esac":
                self.fail("`esac` is missing")

    def _function(self, compound: Compound) -> None:
        """From its name on, whichever way it is defined."""
        name = _FUNCTION_NAME.match(self.text, self.at)
        if name is None:
            self.fail("a function has no plain name")
        compound.kind, compound.name, self.at = "function", name.group(), name.end()
        if (parentheses := _PARENTHESES.match(self.text, self.at)) is not None:
            self.at = parentheses.end()
        self._lines()
        body = self._command()
        if isinstance(body, Simple):
            self.fail("a function's body is not a group")
        compound.bodies.append(Script([Chain([("", Pipeline([body]))])]))

    def _coproc(self, compound: Compound) -> None:
        self._blanks()
        named = _COPROC_NAME.match(self.text, self.at)
        if named is not None:
            compound.name, self.at = named.group(1), named.end()
        compound.bodies.append(Script([Chain([("", Pipeline([self._command()]))])]))

    def _condition(self, start: int) -> Condition:
        self._count(start)
        self.at += 2
        items: list[Word | str] = []
        while True:
            self._lines()
            text, at = self.text, self.at
            if text.startswith("]]", at) and text[at + 2 : at + 3] in (
                "",
                " ",
                "\t",
                "\n",
                ";",
                "|",
                "&",
                ")",
                ">",
                "<",
            ):
                self.at += 2
                return Condition(items, text, start, self.at, [], [])
            if at >= len(text):
                self.fail("`]]` is missing")
            if items and items[-1] in ("=~", "==", "=", "!="):
                items.append(self.pattern())
            elif (operator := _CONDITION_OPERATOR.match(text, at)) is not None:
                self.at = operator.end()
                items.append(operator.group())
            else:
                word = self.word()
                source = text[word.start : word.end]
                items.append(source if source in _COMPARISONS else word)

    # -- simple commands

    def _simple(self, start: int) -> Command:
        command = Simple(self.text, start, start)
        text = self.text
        declaring = False
        while True:
            self._blanks()
            here = text[self.at : self.at + 1]
            if here in ("", "\n", ";", "|", ")"):
                break
            if here in "0123456789{<>&" and (found := _REDIRECT.match(text, self.at)) is not None:
                command.redirects.append(self._redirect(found))
                command.end = self.at
                continue
            if here == "&":
                break
            if here == "#":
                self._comment()
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
                compound = Compound("function", text, start, 0)
                self._function(compound)
                return compound
            word = self.word()
            if not command.words:
                self._count(word.start)
                declaring = word.text in _DECLARING
            command.words.append(word)
            command.end = self.at
        if not command.words and not command.assignments and not command.redirects:
            self.fail("a command is missing")
        return command

    def _count(self, start: int) -> None:
        self.starts.append(start)
        if len(self.starts) > MOST_COMMANDS:
            self.fail(f"it has more than {MOST_COMMANDS} commands")

    def _defines(self) -> bool:
        name = _FUNCTION_NAME.match(self.text, self.at)
        return name is not None and _PARENTHESES.match(self.text, name.end()) is not None

    def _assignment(self, found: re.Match[str], *, allow_words: bool) -> Assignment | None:
        """An assignment; None, going nowhere, where the text is an ordinary word after all."""
        start, known = self.at, len(self.inner)
        self.at = found.end()
        operator = found.group(2)
        if operator is None:
            try:
                self._sum("]")
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
            self._lines()
            if self.text.startswith(")", self.at):
                self.at += 1
                return
            if self.text.startswith("[", self.at):
                self.at += 1
                self._sum("]")
                if not self.text.startswith(("=", "+="), self.at):
                    self.fail("an element of an array is not plain")
                self.at = self.text.index("=", self.at) + 1
                if self.text[self.at : self.at + 1] in (" ", "\t", "\n", ")"):
                    continue
            if self.at >= len(self.text):
                self.fail("an array is never closed")
            self.word()

    # -- redirections and here-documents

    def _redirect(self, found: re.Match[str]) -> Redirect:
        operator = found.group(2)
        self.at = found.end()
        self._blanks()
        target = self.word()
        redirect = Redirect(operator, target)
        if operator in ("<<", "<<-"):
            source = self.text[target.start : target.end]
            quoted = any(mark in source for mark in "'\"\\")
            pieces = target.pieces or ()
            if any(piece.kind is not Kind.TEXT for piece in pieces) or "\n" in source or "$" in source:
                self.fail("a here-document's end is not a plain word")
            delimiter = "".join(piece.text for piece in pieces) if pieces else target.text
            self._pending.append((redirect, delimiter, quoted, operator == "<<-"))
        return redirect

    def _here_documents(self) -> None:
        pending, self._pending = self._pending, []
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
        self.fail("a here-document never ends")

    def _expanding(self, redirect: Redirect) -> None:
        reader = _Reader(redirect.body or "", self.depth + 1)
        pieces = reader.here_document()
        redirect.inner = reader.inner
        self.apart += reader.apart
        if any(piece.kind is not Kind.TEXT for piece in pieces):
            redirect.body = None


_COMPARISONS = frozenset("-eq -ne -lt -le -gt -ge == = != =~ -v -R".split())
