"""Going through a command in the order in which it runs: variables, folders, functions and wrappers followed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .expansion import Loose, expand, holds_number, is_number
from .finding import READS, RUNS, WRITES, Finding, Inner, worse
from .hazards import danger_of_writing, is_secret, loads_code
from .parts import Danger, Effect, Part
from .programs import describe_call
from .reader import MOST_COMMANDS, read
from .syntax import (
    Arithmetic,
    Chain,
    Command,
    Compound,
    Condition,
    Piece,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Unreadable,
    Word,
)
from .witness import disagreement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DEEPEST_SCRIPT = 8
"""How many scripts within scripts (`sh -c "sh -c …"`) are followed."""
_MOST_FOLDERS = 4
_NOTHING = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/stdin", "/dev/zero", "/dev/full"})
_SUMS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Walker:
    """Gathers the parts, dangers and doubts of a command."""

    def __init__(self, directory: str | None, home: str | None) -> None:
        self.parts: list[Part] = []
        self.dangers: list[Danger] = []
        self.unclear: list[str] = []
        self.home = home or "~"
        self.variables: dict[str, str] = {"HOME": self.home}
        if directory is not None:
            self.variables["PWD"] = directory
        self.folders: tuple[str, ...] | None = (directory or "",)
        self.functions: set[str] = set()
        self._defining: list[tuple[str, bool]] = []
        self._depth = 0
        self._wrappers: tuple[str, ...] = ()
        self._floor: tuple[Effect, str] = (READS, "")

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
            folders = self.folders
            self._pipeline(chain.links[0][1], background=chain.background)
            self._either(folders)
            return
        before, folders, first = dict(self.variables), self.folders, True
        for operator, pipeline in chain.links:
            if operator == "||":
                self._either(folders)
            self._pipeline(pipeline, background=chain.background)
            if first:
                # What the first one sets is set whatever follows; what the others set may never come to be.
                before, first = dict(self.variables), False
        self._forget_changes(before)
        self._either(folders)

    def _pipeline(self, pipeline: Pipeline, *, background: bool) -> None:
        if len(pipeline.commands) == 1:
            if background and self._defining:
                self._branching(lambda: self._command(pipeline.commands[0]))
            else:
                self._command(pipeline.commands[0])
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

    def _fed(self, began: list[int]) -> None:
        """A shell or interpreter at the end of a pipe runs what comes through it."""
        for at in range(1, len(began) - 1):
            for index in range(began[at], began[at + 1]):
                part = self.parts[index]
                if part.effect is RUNS and part.why.endswith("runs what it reads"):
                    earlier = self.parts[: began[at]][began[0] :]
                    loaded = any(one.hosts for one in earlier)
                    why = "it runs what was downloaded" if loaded else "it runs text that another command makes"
                    self.dangers.append(Danger(part.text, why))

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
            if inner.doubt is not None:
                self.unclear.append(inner.doubt)
            for name in inner.names:
                if not holds_number(name, self.variables):
                    self.unclear.append(f"a sum works out `{name}`, which may hold anything and so run code")
                elif name not in self.variables or not isinstance(self.variables[name], Loose):
                    self.variables[name] = Loose(name, option=False, number=True)
        else:
            self._aside(lambda: self.script(inner))

    def _condition(self, command: Condition) -> None:
        items = command.items
        for at, item in enumerate(items):
            if item in ("-v", "-R"):
                following = items[at + 1] if at + 1 < len(items) else ""
                if not isinstance(following, Word) or following.pieces or not _NAME.fullmatch(following.text):
                    self.unclear.append("`[[ -v ]]` looks at a variable whose name is not plain, which can run code")
            elif item in _SUMS:
                for side in items[max(0, at - 1) : at] + items[at + 1 : at + 2]:
                    if not isinstance(side, Word) or not self._numeric(side, command.source):
                        self.unclear.append(f"`[[ {item} ]]` works out what may be more than a number, and so run code")
        self._redirected(command.source[command.start : command.end], ("[[",), command.redirects, command.source)

    def _numeric(self, word: Word, source: str) -> bool:
        if word.pieces is None and holds_number(word.text, self.variables):
            return True
        return all(is_number(value) for value in expand(word, self.variables, source))

    def _redirected(self, text: str, words: tuple[str, ...], redirects: list[Redirect], source: str) -> None:
        """A part of its own for what is no program but is redirected."""
        finding = Finding(READS, "it only redirects", reads=[], writes=[])
        self._redirects(redirects, source, finding)
        if redirects and (finding.reads or finding.writes or finding.effect is not READS):
            self._part(text, words, finding)

    def _compound(self, command: Compound) -> None:
        if command.redirects:
            self._redirected(command.source[command.start : command.end], (), command.redirects, command.source)
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
        if loops:
            self._forget_in(command.source[command.start : command.end])
        if command.kind in ("for", "select") and command.name:
            if loads_code(command.name):
                self.unclear.append(f"a loop sets `{command.name}`, which can make programs run other code")
            self.variables.pop(command.name, None)
            value = self._loop_value(command)
            if value is not None:
                self.variables[command.name] = value
        before, folders = dict(self.variables), self.folders
        if loops and "cd" in command.source[command.start : command.end]:
            self.folders = None if _moves(command) else self.folders
        for body in command.bodies:
            self.script(body)
        self._forget_changes(before)
        self._either(folders)
        if command.kind in ("for", "select"):
            self.variables.pop(command.name, None)

    def _loop_value(self, command: Compound) -> Loose | None:
        if command.kind == "select" or command.words is None:
            return None
        values = [value for word in command.words for value in expand(word, self.variables, command.source)]
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
        name = command.name
        variables, folders, known = self.variables, self.folders, self.functions
        self.variables, self.folders = {"HOME": self.home}, None
        self.functions = known | {name}
        self._defining.append((name, False))
        self._bodies(command)
        self._defining.pop()
        self.variables, self.folders = variables, folders
        body = command.source[command.start : command.end]
        for variable in list(self.variables):
            if variable != "HOME" and re.search(rf"\b{variable}\b", body):
                del self.variables[variable]
        if _moves(command):
            self.folders = None

    # -- what is known so far

    def _aside(self, work: Callable[[], None]) -> None:
        """In a subshell: nothing that it sets or where it goes stays."""
        variables, folders, functions = dict(self.variables), self.folders, self.functions
        work()
        self.variables, self.folders, self.functions = variables, folders, functions

    def _either(self, before: tuple[str, ...] | None) -> None:
        """What came between may have failed: the folder is the one before or the one after."""
        if self.folders is not before:
            if self.folders is None or before is None:
                self.folders = None
            else:
                both = tuple(dict.fromkeys((*self.folders, *before)))
                self.folders = both if len(both) <= _MOST_FOLDERS else None

    def _forget_changes(self, before: dict[str, str]) -> None:
        for name in [name for name, value in self.variables.items() if before.get(name) is not value]:
            value = self.variables.pop(name)
            if is_number(value) and name in before and is_number(before[name]):
                self.variables[name] = Loose(name, option=False, number=True)

    def _forget_in(self, body: str) -> None:
        """Before a loop: forget the variables that its text may set."""
        for name in list(self.variables):
            found = re.compile(rf"(?<![\w$])(?<!\$\{{){re.escape(name)}\b").finditer(body)
            shapes = [_stays_number(body, one) for one in found]
            if not shapes:
                continue
            if is_number(self.variables[name]) and all(shapes):
                self.variables[name] = Loose(name, option=False, number=True)
            else:
                del self.variables[name]

    # -- simple commands

    def _simple(self, command: Simple) -> None:
        source = command.source
        values = [self._assigned(one.name, one.value, source, whole=one.whole) for one in command.assignments]
        words: list[str] = []
        spans: list[tuple[int, int]] = []
        for word in command.words:
            if word.pieces is None:
                words.append(word.text)
                spans.append((word.start, word.end))
                continue
            for value in expand(word, self.variables, source):
                words.append(value)
                spans.append((word.start, word.end))
        risky = [one.name for one in command.assignments if loads_code(one.name)]
        if not words:
            for one, value in zip(command.assignments, values, strict=True):
                self._set(one.name, value)
            self._bare(command, risky)
            return
        floor = self._floor
        if risky and not (risky == ["IFS"] and words[0] == "read"):
            self._floor = (RUNS, f"`{risky[0]}=…` can make the program run other code")
        self._call(words, spans, source, command)
        self._floor = floor

    def _assigned(self, name: str, value: Word | None, source: str, *, whole: bool) -> str | None:
        if value is None or not whole:
            return None
        if value.pieces is None:
            return value.text
        # An assignment neither splits nor matches files, so all of it counts as quoted.
        quoted = Word(value.start, value.end, value.text, [_quoted(piece) for piece in value.pieces])
        fields = expand(quoted, self.variables, source)
        return fields[0] if len(fields) == 1 else None

    def _set(self, name: str, value: str | None) -> None:
        if value is None or loads_code(name):
            self.variables.pop(name, None)
        else:
            self.variables[name] = value

    def _bare(self, command: Simple, risky: list[str]) -> None:
        finding = Finding(
            READS,
            "it sets variables of this shell" if command.assignments else "it only redirects",
            reads=[],
            writes=[],
        )
        if risky:
            finding.effect, finding.why = RUNS, f"`{risky[0]}=…` can make programs run other code"
        if command.words:
            self.unclear.append(f"what `{command.source[command.start : command.end]}` runs is only known at run time")
        self._redirects(command.redirects, command.source, finding)
        self._part(command.source[command.start : command.end], (), finding)

    def _call(self, words: list[str], spans: list[tuple[int, int]], source: str, command: Simple | None) -> None:
        """One program with its words, wherever it stands."""
        name = words[0]
        text = _slice(source, spans, words)
        if isinstance(name, Loose):
            self.unclear.append(f"which program `{name}` is, is only known at run time")
            finding = Finding(RUNS, "which program it is, is only known at run time")
        elif name in self.functions:
            finding = Finding(READS, f"`{name}` is a function of this command")
            self._recursion(name, text)
        else:
            finding = describe_call(words)
        if command is not None and command.redirects:
            finding.reads, finding.writes = list(finding.reads), list(finding.writes)
            if finding.wrapper:
                self._redirected(text, tuple(words), command.redirects, command.source)
            else:
                self._redirects(command.redirects, command.source, finding)
        self._sets(finding)
        if finding.from_input and command is not None:
            self._from_input(finding, command)
        self.dangers += [Danger(text, why) for why in finding.dangers]
        floor, wrappers, folders = self._floor, self._wrappers, self.folders
        if not finding.wrapper:
            self._part(text, tuple(words), finding)
        elif worse(finding.effect, floor[0]) is not floor[0]:
            self._floor = (finding.effect, finding.why)
        if finding.moves is not None:
            self._move(finding.moves)
        if finding.inner:
            self._wrappers = (*wrappers, name)
            for inner in finding.inner:
                self._start(inner, words, spans, source, command)
        if finding.wrapper and finding.moves is not None:
            self.folders = folders
        self._floor, self._wrappers = floor, wrappers

    def _recursion(self, name: str, text: str) -> None:
        for defined, beside in self._defining:
            if defined == name:
                if beside or self._defining[-1][1]:
                    self.dangers.append(Danger(text, "it starts itself again and again until the machine stands still"))
                else:
                    self.unclear.append(f"`{name}` calls itself, perhaps without end")

    def _start(
        self, inner: Inner, words: list[str], spans: list[tuple[int, int]], source: str, command: Simple | None
    ) -> None:
        if inner.script is not None:
            self._nested(inner)
        elif inner.first is not None:
            at = inner.first + 1
            if at < len(words):
                self._call(words[at:], spans[at:], source, None)
        elif inner.words:
            self._call(inner.words, [], " ".join(inner.words), None)

    def _nested(self, inner: Inner) -> None:
        self._depth += 1
        if self._depth > DEEPEST_SCRIPT:
            raise Unreadable(f"it has more than {DEEPEST_SCRIPT} scripts within scripts")
        script = inner.script or ""
        if inner.here:
            self.text(script)
        else:

            def apart() -> None:
                self.variables = {"HOME": self.home}
                self.text(script)

            self._aside(apart)
        self._depth -= 1

    def _from_input(self, finding: Finding, command: Simple) -> None:
        """A shell that reads its commands from a here-document or here-string."""
        finding.why = f"`{command.words[0].text}` runs what it reads"
        for redirect in command.redirects:
            body = redirect.body if redirect.operator.startswith("<<") and redirect.operator != "<<<" else None
            if redirect.operator == "<<<" and redirect.target.pieces is None:
                body = redirect.target.text
            if body is not None and command.words[0].text in ("sh", "bash", "dash"):
                floor = self._floor
                self._floor = (RUNS, finding.why)
                self._nested(Inner(script=body))
                self._floor = floor

    def _sets(self, finding: Finding) -> None:
        for name, value in finding.sets:
            if loads_code(name) and not (name == "IFS" and finding.wrapper):
                finding.effect, finding.why = RUNS, f"`{name}=…` can make programs run other code"
                if finding.wrapper:
                    self._floor = (RUNS, finding.why)
            if not finding.wrapper:
                self._set(name, value)

    def _move(self, folder: str) -> None:
        if folder == "" or self.folders is None and not folder.startswith(("/", "~")):
            self.folders = None
        elif folder == "~":
            self.folders = (self.home,)
        else:
            self.folders = tuple(_joined(one, folder) for one in self.folders or ("",))
        self.variables.pop("PWD", None)

    # -- redirections and parts

    def _redirects(self, redirects: Iterable[Redirect], source: str, finding: Finding) -> None:
        reads, writes = list(finding.reads), list(finding.writes)
        for redirect in redirects:
            operator = redirect.operator
            if operator.startswith("<<"):
                continue
            targets = expand(redirect.target, self.variables, source)
            target = targets[0] if len(targets) == 1 else Loose(source[redirect.target.start : redirect.target.end])
            if operator in ("<&", ">&") and (target == "-" or target.rstrip("-").isdigit()):
                continue
            if target.startswith(("/dev/tcp/", "/dev/udp/")) or (
                isinstance(target, Loose) and target.start.startswith("/dev/")
            ):
                finding.effect, finding.why = RUNS, f"`{operator} {target}` talks to another machine"
                finding.hosts = [*finding.hosts, target.split("/")[3] if target.count("/") > 3 else None]
                continue
            if operator in ("<", "<>", "<&"):
                reads.append(target)
            if operator not in ("<", "<&") and (target not in _NOTHING or isinstance(target, Loose)):
                writes.append(target)
                if finding.effect is READS:
                    finding.effect, finding.why = WRITES, f"`{operator} {target}` writes a file"
        finding.reads, finding.writes = reads, writes

    def _part(self, text: str, words: tuple[str, ...], finding: Finding) -> None:
        effect, why = finding.effect, finding.why
        if self._floor[0] is not READS and worse(self._floor[0], effect) is not effect:
            effect, why = self._floor
        globs: list[str] = []
        reads = self._paths(finding.reads, globs)
        writes = self._paths(finding.writes, [])
        for path in writes:
            if path is not None and (danger := danger_of_writing(path)):
                self.dangers.append(Danger(text, danger))
        fixed = not any(isinstance(word, Loose) for word in words)
        self.parts.append(
            Part(text, words, effect, why, reads, writes, tuple(finding.hosts), fixed, self._wrappers, tuple(globs))
        )

    def _paths(self, paths: Iterable[str], globs: list[str]) -> tuple[str | None, ...]:
        found: list[str | None] = []
        for path in paths:
            if path in _NOTHING or path == "-":
                continue
            if not isinstance(path, Loose):
                found += self._placed(path)
            elif path.known:
                for choice in path.choices:
                    found += self._placed(choice)
                for glob in path.globs:
                    globs += [one for one in self._placed(glob) if one is not None]
            else:
                found.append(None)
        return tuple(dict.fromkeys(found))

    def _placed(self, path: str) -> list[str | None]:
        if path.startswith(("/", "~")):
            return [path]
        if self.folders is None:
            return [None]
        return [_joined(folder, path) for folder in self.folders]

    def finish(self) -> None:
        """What only the whole shows: secrets read in a command that also reaches the network."""
        if not any(part.hosts for part in self.parts):
            return
        for part in self.parts:
            for path in part.reads:
                if path is not None and is_secret(path):
                    self.dangers.append(Danger(part.text, f"what `{path}` holds could leave over the network"))
            if part.program in ("env", "printenv") or part.words[:1] == ("set",):
                self.dangers.append(
                    Danger(part.text, "the environment, with its secrets, could leave over the network")
                )


def _quoted(piece: Piece) -> Piece:
    # A leading `~` still means home.
    return piece if piece.quoted or piece.text.startswith("~") else Piece(piece.kind, piece.text, True, piece.script)


def _joined(folder: str, path: str) -> str:
    if not folder or path.startswith(("/", "~")):
        return path
    return f"{folder.rstrip('/')}/{path}" if folder != "/" else f"/{path}"


def _slice(source: str, spans: list[tuple[int, int]], words: list[str]) -> str:
    return source[spans[0][0] : spans[-1][1]] if spans else " ".join(words)


def _moves(command: Compound) -> bool:
    return re.search(r"\b(cd|pushd|popd|chdir)\b", command.source[command.start : command.end]) is not None


_NUMBER_FOLLOWS = re.compile(r"\s*[-+*/%]?=\s*(?:\$\(\(|-?[0-9]+(?:\b|$)|=)")


def _stays_number(body: str, found: re.Match[str]) -> bool:
    """Whether a bare name in a loop's text is one that leaves a number a number."""
    after = body[found.end() : found.end() + 12]
    if re.match(r"\s*[-+*/%]?=(?!=)", after):
        return _NUMBER_FOLLOWS.match(after) is not None
    before = body[: found.start()].rstrip()[-1:]
    return before in ("(", "+", "-", "*", "/", "%", "<", ">", "=", "!", "&", "|", "?", ":", ",", "~", "^", "[", ";")
