"""Going through a command in the order in which it runs: variables, folders, functions and wrappers followed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase

from .expansion import Loose, expand, is_number
from .finding import READS, RUNS, Finding, Inner, worse
from .gathering import Gatherer
from .hazards import loads_code
from .parts import Danger
from .programs import describe_call
from .reader import read
from .simple import MOST_COMMANDS
from .sums import doubts_of_condition, doubts_of_sum
from .syntax import (
    Arithmetic,
    Chain,
    Command,
    Compound,
    Condition,
    Piece,
    Pipeline,
    Script,
    Simple,
    Unreadable,
    Word,
)
from .witness import disagreement

if TYPE_CHECKING:
    from collections.abc import Callable

DEEPEST_SCRIPT = 8
"""How many scripts within scripts (`sh -c "sh -c …"`) are followed."""
DEEPEST_WRAPPING = 16
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "/bin/sh", "/bin/bash", "/usr/bin/bash"})
_SAME_SHELL = frozenset({"eval", "command", "builtin"})
"""Wrappers whose command runs in this very shell, and can change its folder and variables."""
_FEEDERS = frozenset({"find", "gfind", "fd", "fdfind", "xargs", "gxargs"})


class Walker(Gatherer):
    """Goes through a command and gathers what it would do."""

    def __init__(self, directory: str | None, home: str | None) -> None:
        super().__init__(directory, home)
        self._defining: list[tuple[str, bool]] = []
        self._from_input: set[int] = set()
        self._depth = 0

    # -- scripts, chains, pipelines

    def text(self, text: str) -> None:
        """Read a text and go through it."""
        readings = read(text)
        for reading in readings:
            if (doubt := disagreement(reading)) is not None:
                self.unclear.append(doubt)
        self.script(readings[0].script)

    def script(self, script: Script) -> None:
        for chain in script.chains:
            self._chain(chain)

    def _chain(self, chain: Chain) -> None:
        if chain.background:
            self._aside(lambda: self._links(chain))
        else:
            self._links(chain)

    def _links(self, chain: Chain) -> None:
        if len(chain.links) == 1:
            folders = self.here.folders
            self._pipeline(chain.links[0][1], background=chain.background)
            self.here.may_have_stayed(folders)
            return
        folders = self.here.folders
        self._pipeline(chain.links[0][1], background=chain.background)
        # What the first one sets is set whatever follows; what the others set may never come to be.
        before = self.here.kept()
        for operator, pipeline in chain.links[1:]:
            if operator == "||":
                self.here.maybe_since(before)
                self.here.may_have_stayed(folders)
            reached = self.here.kept()
            self._pipeline(pipeline, background=chain.background)
            if operator == "||":
                self.here.maybe_since(reached)
        self.here.maybe_since(before)
        self.here.may_have_stayed(folders)

    def _pipeline(self, pipeline: Pipeline, *, background: bool) -> None:
        if len(pipeline.commands) == 1:
            folders = self.here.folders
            if background and self._defining:
                self._branching(lambda: self._command(pipeline.commands[0]))
            else:
                self._command(pipeline.commands[0])
            if pipeline.negated:
                self.here.may_have_stayed(folders)
            return
        began = [len(self.parts)]
        for command in pipeline.commands:
            self._branching(lambda command=command: self._aside(lambda: self._command(command)))
            began.append(len(self.parts))
        self._fed(began)

    def _branching(self, work: Callable[[], None]) -> None:
        """Within a function, mark that what is called now runs beside it: calling itself so is a bomb."""
        if self._defining:
            name, _ = self._defining[-1]
            self._defining[-1] = (name, True)
            work()
            self._defining[-1] = (name, False)
        else:
            work()

    def _aside(self, work: Callable[[], None]) -> None:
        """In a subshell: nothing that it sets or where it goes stays."""
        kept = self.here.kept()
        work()
        self.here.back_to(kept)

    def _fed(self, began: list[int]) -> None:
        """A shell or interpreter at the end of a pipe runs what comes through it."""
        for at in range(1, len(began) - 1):
            for index in self._from_input.intersection(range(began[at], began[at + 1])):
                loaded = any(part.hosts for part in self.parts[began[0] : began[at]])
                why = (
                    phrase("it runs what was downloaded")
                    if loaded
                    else phrase("it runs text that another command makes")
                )
                self.dangers.append(Danger(self.parts[index].text, why))

    # -- commands

    def _command(self, command: Command) -> None:
        if len(self.parts) > 2 * MOST_COMMANDS:
            raise Unreadable(f"it has more than {MOST_COMMANDS} commands")
        for inner in command.inner:
            self._inner(inner)
        for redirect in command.redirects:
            for inner in redirect.inner:
                self._inner(inner)
        if isinstance(command, Simple):
            self._simple(command)
        elif isinstance(command, Condition):
            self._condition(command)
        else:
            self._compound(command)

    def _inner(self, inner: Script | Arithmetic) -> None:
        if isinstance(inner, Arithmetic):
            self.unclear += doubts_of_sum(inner, self.here)
        else:
            self._aside(lambda: self.script(inner))

    def _condition(self, command: Condition) -> None:
        self.unclear += doubts_of_condition(command, self.here)
        if command.redirects:
            self.redirected(command.source[command.start : command.end], command.redirects, command.source)

    def _compound(self, command: Compound) -> None:
        if command.redirects:
            self.redirected(command.source[command.start : command.end], command.redirects, command.source)
        kind = command.kind
        if kind == "function":
            self._function(command)
        elif kind == "(" or kind == "coproc":
            self._aside(lambda: self._bodies(command))
        elif kind == "{":
            self._bodies(command)
        elif kind != "((":
            self._conditional(command)

    def _bodies(self, command: Compound) -> None:
        for body in command.bodies:
            self.script(body)

    def _conditional(self, command: Compound) -> None:
        """`if`, `case` and loops: what they set may be set or not, and a loop sees it before it is set."""
        loops = command.kind in ("for", "while", "until", "select")
        text = command.source[command.start : command.end]
        if loops:
            self.here.forget_set_in(text)
        if command.kind in ("for", "select") and command.name:
            if loads_code(command.name):
                self.unclear.append(f"a loop sets `{command.name}`, which can make programs run other code")
            self.here.set(command.name, self._loop_value(command))
        if loops:
            self.here.lost_in(text)
        endless = command.kind in ("while", "until") or (command.kind == "for" and not command.name)
        if endless and any(chain.background for body in command.bodies for chain in body.chains):
            self.dangers.append(Danger(text, phrase("it may start processes without end")))
        before = self.here.kept()
        for body in command.bodies:
            self.script(body)
            self.here.maybe_since(before)
        if command.name:
            self.here.set(command.name, None)

    def _loop_value(self, command: Compound) -> Loose | None:
        if command.kind == "select" or command.words is None:
            return None
        values = [value for word in command.words for value in expand(word, self.here.variables, command.source)]
        choices: list[str] = []
        globs: list[str] = []
        for value in values:
            if not isinstance(value, Loose):
                choices.append(value)
            elif value.known:
                choices += value.choices
                globs += value.globs
            elif not value.number:
                return Loose(f"${command.name}", option=value.option)
        number = all(is_number(value) for value in values)
        option = any(value.option if isinstance(value, Loose) else value.startswith("-") for value in values)
        if any(re.search(r"[ \t\n*?\[]", choice) for choice in choices):
            return None
        return Loose(f"${command.name}", option=option, number=number, choices=tuple(choices), globs=tuple(globs))

    def _function(self, command: Compound) -> None:
        text = command.source[command.start : command.end]
        kept = self.here.kept()
        self.here.start_over()
        self.here.folders, self.here.functions = None, kept[2]
        self.here.define(command.name, text)
        self._defining.append((command.name, False))
        self._bodies(command)
        self._defining.pop()
        self.here.back_to(kept)
        self.here.define(command.name, text)

    # -- simple commands

    def _simple(self, command: Simple) -> None:
        source = command.source
        words: list[str] = []
        spans: list[tuple[int, int]] = []
        for word in command.words:
            if word.pieces is None:
                words.append(word.text)
                spans.append((word.start, word.end))
                continue
            for value in expand(word, self.here.variables, source):
                words.append(value)
                spans.append((word.start, word.end))
        if words and not command.assignments:
            self._call(words, spans, source, command)
            return
        values = [self._assigned(one.value, source) if one.whole else None for one in command.assignments]
        risky = [one.name for one in command.assignments if loads_code(one.name)]
        if not words:
            for one, value in zip(command.assignments, values, strict=True):
                self.here.set(one.name, value)
            self._bare(command, risky)
            return
        floor = self.floor
        if risky and not (risky == ["IFS"] and words[0] == "read"):
            self.floor = (RUNS, f"`{risky[0]}=…` can make the program run other code")
        for one, value in zip(command.assignments, values, strict=True):
            self.here.set(one.name, value)
        self._call(words, spans, source, command)
        for one in command.assignments:
            self.here.set(one.name, None)  # gone in bash, kept for some builtins in other shells
        self.floor = floor

    def _assigned(self, value: Word | None, source: str) -> str | None:
        if value is None:
            return None
        if value.pieces is None:
            return value.text
        # An assignment neither splits nor matches files, so all of it counts as quoted.
        quoted = Word(value.start, value.end, value.text, [_quoted(piece) for piece in value.pieces])
        fields = expand(quoted, self.here.variables, source)
        return fields[0] if len(fields) == 1 else None

    def _bare(self, command: Simple, risky: list[str]) -> None:
        finding = Finding(READS, "it sets variables of this shell" if command.assignments else "it only redirects")
        if risky:
            finding.effect, finding.why = RUNS, f"`{risky[0]}=…` can make programs run other code"
        if command.words:
            self.unclear.append(f"what `{command.source[command.start : command.end]}` runs is only known at run time")
        self.redirects(command.redirects, command.source, finding)
        self.part(command.source[command.start : command.end], (), finding)

    def _call(self, words: list[str], spans: list[tuple[int, int]], source: str, command: Simple | None) -> None:
        """One program with its words: a simple command, or what a wrapper starts."""
        name = words[0]
        if len(self.wrappers) > DEEPEST_WRAPPING:
            raise Unreadable(f"it wraps a command more than {DEEPEST_WRAPPING} times")
        text = source[spans[0][0] : spans[-1][1]] if spans else " ".join(words)
        floor, wrappers, folders = self.floor, self.wrappers, self.here.folders
        finding = self._described(words, text, direct=command is not None)
        if finding.sets:
            self._sets(finding)
        if command is not None and command.redirects:
            if finding.wrapper:
                self.redirected(text, command.redirects, source)
            else:
                self.redirects(command.redirects, source, finding)
        self.dangers += [Danger(text, why) for why in finding.dangers]
        if finding.unclear:
            self.unclear.append(finding.unclear)
        if name in _SHELLS and not _FEEDERS.isdisjoint(wrappers):
            finding.effect, finding.why = RUNS, f"`{wrappers[-1]}` starts a shell with words that only the run shows"
        if not finding.wrapper:
            if finding.from_input:
                self._from_input.add(len(self.parts))
            self.part(text, tuple(words), finding)
        else:
            if finding.reads or finding.writes:
                self.part(text, tuple(words), finding)
            if worse(finding.effect, self.floor[0]) is not self.floor[0]:
                self.floor = (finding.effect, finding.why)
        if finding.moves is not None:
            self.here.move(finding.moves)
        if finding.inner:
            kept = self.here.kept()
            self.wrappers = (*wrappers, name)
            for inner in finding.inner:
                self._start(inner, words, spans, source)
            if name not in _SAME_SHELL:
                self.here.back_to(kept)
        if finding.from_input and command is not None:
            self._fed_by_redirect(command)
        if finding.wrapper and finding.moves is not None:
            self.here.folders = folders
        self.floor, self.wrappers = floor, wrappers

    def _described(self, words: list[str], text: str, *, direct: bool) -> Finding:
        name = words[0]
        if isinstance(name, Loose):
            self.unclear.append(f"which program `{name}` is, is only known at run time")
            return Finding(RUNS, "which program it is, is only known at run time")
        if direct and name in self.here.functions:
            self._recursion(name, text)
            self.here.called()
            return Finding(READS, f"`{name}` is a function of this command")
        return describe_call(words)

    def _recursion(self, name: str, text: str) -> None:
        for defined, beside in self._defining:
            if defined == name:
                if beside or self._defining[-1][1]:
                    self.dangers.append(
                        Danger(text, phrase("it starts itself again and again until the machine stands still"))
                    )
                else:
                    self.unclear.append(f"`{name}` calls itself, perhaps without end")

    def _start(self, inner: Inner, words: list[str], spans: list[tuple[int, int]], source: str) -> None:
        if inner.script is not None:
            self._nested(inner.script, here=inner.here)
        elif inner.first is not None:
            at = inner.first + 1
            if at < len(words):
                self._call(words[at:], spans[at:], source, None)
        elif inner.words:
            self._call(inner.words, [], "", None)

    def _nested(self, script: str, *, here: bool) -> None:
        self._depth += 1
        if self._depth > DEEPEST_SCRIPT:
            raise Unreadable(f"it has more than {DEEPEST_SCRIPT} scripts within scripts")
        if here:
            self.text(script)
        else:
            kept = self.here.kept()
            self.here.start_over()
            self.text(script)
            self.here.back_to(kept)
        self._depth -= 1

    def _fed_by_redirect(self, command: Simple) -> None:
        """A shell that reads its commands from a here-document or here-string runs these."""
        for redirect in command.redirects:
            script = redirect.body
            if redirect.operator == "<<<" and redirect.target.pieces is None:
                script = redirect.target.text
            if script is not None and command.words[0].text in _SHELLS:
                self.floor = (RUNS, "a shell reads it as its input")
                self._nested(script, here=False)

    def _sets(self, finding: Finding) -> None:
        for name, value in finding.sets:
            if loads_code(name):
                finding.effect, finding.why = RUNS, f"`{name}=…` can make programs run other code"
            if not finding.wrapper:
                self.here.set(name, value)


def _quoted(piece: Piece) -> Piece:
    # A leading `~` still means home.
    return piece if piece.quoted or piece.text.startswith("~") else Piece(piece.kind, piece.text, True, piece.script)
