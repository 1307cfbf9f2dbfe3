"""Reading a whole command as bash does: lists, pipes, groups, loops and functions.

This is the first of two readings. The second, by tree-sitter, must find the same commands in the same places (see
`witness.py`); what only one of them understands is not understood.
"""

from __future__ import annotations

import re

from .naming import names
from .simple import FUNCTION_NAME, PARENTHESES, REDIRECT, SimpleReader
from .syntax import Chain, Command, Compound, Condition, Pipeline, Reading, Redirect, Script, Simple, Unreadable, Word

MOST_CHARACTERS = 64_000

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|coproc|time|in|[{}!])"
    r"(?=[ \t\n;|&<>()]|\Z)|\[\[(?=[ \t\n])"
)
_ENDINGS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIME_OPTIONS = re.compile(r"(?:[ \t]+(?:-p|--)(?=[ \t\n;|&]))*")
_CONDITION_OPERATOR = re.compile(r"&&|\|\||[()]|[<>](?!\()|!(?=[ \t\n(])")
_CASE_END = re.compile(r";;&|;;|;&")
_COPROC_NAME = re.compile(r"([A-Za-z_]\w*)[ \t]+(?=[({]|(?:if|while|until|for|case|select)[ \t\n])")
_COMPARISONS = frozenset(names("-eq -ne -lt -le -gt -ge == = != =~ -v -R"))


def read(text: str) -> list[Reading]:
    """Every text that bash would read as a script when given `text`: itself first, then what stands in backticks."""
    if len(text) > MOST_CHARACTERS:
        raise Unreadable(f"it is longer than {MOST_CHARACTERS:,} characters")
    if (control := _CONTROL.search(text)) is not None:
        raise Unreadable(f"it holds the invisible character U+{ord(control.group()):04X}")
    reader = _Reader(text)
    script = reader.whole()
    return [reader.reading(script), *reader.apart]


class _Reader(SimpleReader):
    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self.timed: dict[int, int] = {}
        self._reserved_at = (-1, "")

    def reading(self, script: Script) -> Reading:
        return Reading(self.text, script, self.starts, self.blind, self.timed)

    def whole(self) -> Script:
        script = self._script()
        if self.at < len(self.text):
            self.fail(f"`{self.text[self.at : self.at + 8].split()[0]}` stands where bash expects a command")
        if self.pending:
            self.fail("a here-document has no text")
        return script

    def separate(self, text: str) -> Script:
        reader = _Reader(text, self.depth + 1)
        script = reader.whole()
        self.apart += [reader.reading(script), *reader.apart]
        return script

    def script_until(self, closer: str) -> Script:
        start = self.at
        inner, pending = self.inner, self.pending
        self.inner, self.pending = [], []
        self.deeper(1)
        script = self._script()
        if not self.text.startswith(closer, self.at):
            self.fail(f"`{closer}` is missing")
        if self.pending or (pending and "\n" in self.text[start : self.at]):
            self.fail("a here-document and the end of a substitution cross")
        self.at += len(closer)
        self.deeper(-1)
        self.inner, self.pending = inner, pending
        return script

    def _reserved(self) -> str:
        if self._reserved_at[0] != self.at:
            found = _RESERVED.match(self.text, self.at)
            self._reserved_at = (self.at, found.group() if found is not None else "")
        return self._reserved_at[1]

    def _expect(self, word: str) -> None:
        self.lines()
        if self._reserved() != word:
            self.fail(f"`{word}` is missing")
        self.at += len(word)

    def _script(self) -> Script:
        script = Script([])
        while True:
            here = self.lines()
            if not here or here == ")" or (here == ";" and self.text[self.at + 1 : self.at + 2] in (";", "&")):
                return script
            if self._reserved() in _ENDINGS:
                return script
            script.chains.append(self._chain())

    def _chain(self) -> Chain:
        chain = Chain([("", self._pipeline())])
        while True:
            here = self.blanks()
            following = self.text[self.at + 1 : self.at + 2]
            if here == following and here in ("&", "|"):
                self.at += 2
                self.lines()
                chain.links.append((here * 2, self._pipeline()))
                continue
            if here == "#":
                self.comment()
            elif here == "&":
                self.at += 1
                chain.background = True
            elif here == ";" and following not in (";", "&"):
                self.at += 1
            elif here not in ("", "\n", ")", ";"):
                self.fail(f"`{here}` stands where a command should have ended")
            return chain

    def _pipeline(self) -> Pipeline:
        timed, negated = None, False
        while (word := self._reserved()) in ("!", "time"):
            if word == "time" and timed is None:
                timed = self.at
            negated = negated or word == "!"
            self.at += len(word)
            if word == "time" and (options := _TIME_OPTIONS.match(self.text, self.at)) is not None:
                self.at = options.end()
            self.blanks()
        if self.at >= len(self.text) or self.text[self.at] in "\n;&|)":
            self.fail("a command is missing")
        if timed is not None:
            self.timed[self.at] = timed
        commands = [self._command()]
        while True:
            following = self.text[self.at + 1 : self.at + 2] if self.blanks() == "|" else "|"
            if following == "|":
                return Pipeline(commands, negated)
            self.at += 2 if following == "&" else 1
            self.lines()
            commands.append(self._command())

    def _command(self) -> Command:
        self.deeper(1)
        start = self.at
        outer, self.inner = self.inner, []
        word = self._reserved()
        if word == "[[":
            command: Command = self._condition(start)
        elif word and word not in ("time", "in"):
            if word in _ENDINGS or word == "!":
                self.fail(f"`{word}` stands where bash expects a command")
            self.at += len(word)
            command = self._compound(word, start)
        elif self.text.startswith("((", start) and self.is_sum(start + 2):
            self.at += 2
            self.sum("))")
            command = Compound("((", self.text, start, self.at)
        elif self.text.startswith("(", start):
            self.at += 1
            command = Compound("(", self.text, start, 0, [self.script_until(")")])
        else:
            command = self.simple(start)
        if not isinstance(command, Simple):
            self._trailing_redirects(command.redirects)
            command.end = self.at
        command.inner, self.inner = self.inner, outer
        self.deeper(-1)
        return command

    def _trailing_redirects(self, redirects: list[Redirect]) -> None:
        while True:
            self.blanks()
            if (found := REDIRECT.match(self.text, self.at)) is None:
                return
            redirects.append(self.redirect(found))

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
                self.blanks()
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
            self.lines()
            word = self._reserved()
            self.at += len(word)
            if word == "else":
                compound.bodies.append(self._body("fi"))
            elif word not in ("elif", "fi"):
                self.fail("`fi` is missing")
            if word != "elif":
                return

    def _for(self, compound: Compound) -> None:
        self.blanks()
        if self.text.startswith("((", self.at):
            self.at += 2
            self.sum("))")
        else:
            name = _PARAMETER_NAME.match(self.text, self.at)
            if name is None:
                self.fail("a loop has no variable")
            compound.name, self.at = name.group(), name.end()
            self.lines()
            if self._reserved() == "in":
                self.at += 2
                compound.words = self._words_of_line()
        self.blanks()
        if self.text.startswith(";", self.at):
            self.at += 1
        self.lines()
        word = self._reserved()
        if word not in ("do", "{"):
            self.fail("a loop has no body")
        self.at += len(word)
        compound.bodies.append(self._body("done" if word == "do" else "}"))

    def _words_of_line(self) -> list[Word]:
        words: list[Word] = []
        while True:
            self.blanks()
            here = self.text[self.at : self.at + 1]
            if here in ("", "\n", ";", "#"):
                return words
            words.append(self.word())

    def _case(self, compound: Compound) -> None:
        self.blanks()
        compound.words = [self.word()]
        self._expect("in")
        while True:
            self.lines()
            if self._reserved() == "esac":
                self.at += 4
                return
            if self.text.startswith("(", self.at):
                self.at += 1
            while True:
                self.blanks()
                self.word()
                self.blanks()
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

    def defined(self, start: int) -> Compound:
        compound = Compound("function", self.text, start, 0)
        self._function(compound)
        return compound

    def _function(self, compound: Compound) -> None:
        """From its name on, whichever way it is defined."""
        name = FUNCTION_NAME.match(self.text, self.at)
        if name is None:
            self.fail("a function has no plain name")
        compound.kind, compound.name, self.at = "function", name.group(), name.end()
        if (parentheses := PARENTHESES.match(self.text, self.at)) is not None:
            self.at = parentheses.end()
        self.lines()
        body = self._command()
        if isinstance(body, Simple):
            self.fail("a function's body is not a group")
        compound.bodies.append(Script([Chain([("", Pipeline([body]))])]))

    def _coproc(self, compound: Compound) -> None:
        self.blanks()
        named = _COPROC_NAME.match(self.text, self.at)
        if named is not None:
            compound.name, self.at = named.group(1), named.end()
        if self._reserved() in ("coproc", "function", "time"):
            self.fail(f"`{self._reserved()}` stands where bash expects a command")
        compound.bodies.append(Script([Chain([("", Pipeline([self._command()]))])]))

    def _condition(self, start: int) -> Condition:
        self.count(start)
        self.at += 2
        items: list[Word | str] = []
        while True:
            self.lines()
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
