"""Reading a command before it runs, with tree-sitter's bash grammar: its parts, its dangers, what it would reach."""

from __future__ import annotations

import json
import re
import shlex
from bisect import bisect_right
from dataclasses import replace
from functools import cache
from itertools import pairwise
from posixpath import normpath
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import phrase
from ferrule.core.shown_text import cut, hidden_in
from ferrule.policy.commands.carried import (
    HOLDS_COMMAND,
    INTERPRETER,
    RUNS_DOWNLOAD,
    bare_commands,
    carried,
    code_dangers,
    code_of,
    commands_in,
    started,
)
from ferrule.policy.commands.dangers import STARTS_ITSELF, danger_of_writing, dangers_of, is_secret
from ferrule.policy.commands.network import HERE, reaches
from ferrule.policy.commands.parts import PRINTERS, Analysis, Danger, Guess, Part, likely_name, names
from ferrule.policy.commands.words import expansion_end, fields, is_assignment, plain_commands, split
from ferrule.policy.commands.wrappers import FEEDERS, SHELLS, Unwrapped, unwrap, wraps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tree_sitter import Node

MOST_CHARACTERS = 64_000
MOST_COMMANDS = 200
DEEPEST_SCRIPT = 8
_DEEPEST_WRAPPING = 20
_LONGEST_REASON = 200
_INSTALL = "the shell grammar is missing, so no command can be read; install `ferrule[shell]`"
_SIMPLE = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_TAKES_REDIRECTS = _SIMPLE | {"pipeline", "list"}
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_NO_FILE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/stdin"})
_INLINE = lazy_pattern(r"-\w*[ceEpr]\w*|--(eval|print|execute|run)\b.*|-exec")
_DISK = lazy_pattern(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk/|mapper/|sr|sg|mtd|ubi|vg\w*/|r?disk\d|ada)\w?")
_MAKES_PROGRAMS = lazy_pattern(r"[gmn]?awk|n?vim?|ex|(?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+|tcc|go|rustc)(?:-[\d.]+)?")
_LISTS = PRINTERS.union(("df", "lsblk")) - names("cat tee head tail sort tac od xxd hexdump gzip base64")
_BEGIN_STATEMENTS = frozenset(b"{ if for while until case select function ! time".split())
_SETS = lazy_pattern(r"\$\{([A-Za-z_]\w*):?=([^{}$`]*)\}")
_FEEDS_SHELL = lazy_pattern(r">\(\s*(?:sudo\s+)?(?:ba|da|z|k)?sh\s*(?:-s\b.*)?\)")
_UNBOUNDED = lazy_pattern(
    r"\bxargs\b.{0,200}\s(?:-P\s*|--max-procs[= ])0\b|\bparallel\b.{0,200}\s(?:-j\s*|--jobs[= ])0\b"
)
_CODED = lazy_pattern(r"\\[^n]|%[^%]")
_ENDLESS = lazy_pattern(r"(?:while\s+(?:true|:|\[\s*1|\(\(\s*1|sleep)|until\s+false|for\s*\(\([^;]*;\s*;)")
_BETWEEN = lazy_pattern(r"[;&|\n(){}`]+|\$\(")


class _Missing(Exception):  # noqa: N818 - a state of the machine, not a fault
    """The grammar is not installed."""


def analyse(command: str) -> Analysis:
    """What the text of a command says. Nothing is run, and nothing on the disk is looked at."""
    reading = _Reading()
    try:
        reading.text(command)
    except _Missing:
        return Analysis(command, unclear=(_INSTALL,))
    except RecursionError:
        reading.unclear.append("it nests too deep")
    except ValueError as doubt:
        reading.unclear.append(str(doubt))
    if reading.unclear:
        reading.rough(command)
    reading.finish()
    return Analysis(
        command,
        _checked(command, reading.parts),
        tuple(dict.fromkeys(reading.dangers)),
        tuple(dict.fromkeys(map(_brief, reading.unclear))),
        tuple(dict.fromkeys(reading.hosts)),
        reading.network,
    )


def _checked(command: str, parts: list[Part]) -> tuple[Part, ...]:
    """Parts are literal only where a second, much narrower reading finds the very same words."""
    typed = list({id(part.typed): list(part.typed) for part in parts}.values())
    if plain_commands(command) == typed:
        return tuple(parts)
    return tuple(replace(part, literal=False) for part in parts)


def _brief(reason: str) -> str:
    return cut(reason, _LONGEST_REASON)


@cache
def _grammar() -> Callable[[bytes], Node]:
    try:
        import tree_sitter_bash
        from tree_sitter import Language, Parser
    except ImportError as missing:
        raise _Missing from missing
    parser = Parser(Language(tree_sitter_bash.language()))
    return lambda text: parser.parse(text).root_node


def _tree(script: bytes) -> Node:
    """The grammar's tree. Behind `!` and `time` it takes a group or statement for a command, so these are left out."""
    for _ in range(DEEPEST_SCRIPT):
        root = _grammar()(script)
        marks = list(_misread(root)) if b"!" in script or b"time" in script else []
        if not marks:
            return root
        for start, end in marks:
            script = script[:start] + b" " * (end - start) + script[end:]
    return _grammar()(script)


def _misread(node: Node) -> Iterator[tuple[int, int]]:
    """Where a `!` or `time` stands before a word that begins a group or statement."""
    if node.type in ("negated_command", "command") and len(node.children) > 1:
        mark, behind = node.children[0], (node.children[1].text or b"").split(maxsplit=1)
        if mark.text in (b"!", b"time") and behind and behind[0] in _BEGIN_STATEMENTS:
            yield mark.start_byte, mark.end_byte
    for child in node.children:
        yield from _misread(child)


# Builtins that take a word for a variable, a number or a prompt, and run what is in its subscript: `x[$(…)]`.
_EVALUATES = names("test [ [[ printf let declare typeset local export readonly read unset mapfile readarray wait")
_HOLDS_CODE = lazy_pattern(r"\$\(|`")


class _Reading:
    """Goes through a command in order and gathers what it finds."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.dangers: list[Danger] = []
        self.unclear: list[str] = []
        self.hosts: list[str] = []
        self.network = ""
        self._serves = False  # what it started beside itself may be what it then talks to on this machine
        self._values: dict[str, str] = {"IFS": " "}
        self._defining: list[tuple[str, bool]] = []
        self._starts: dict[str, set[tuple[str, bool]]] = {}  # of each function, and whether beside it
        self._given: list[str] = []  # what the input of the command is known to hold
        self._written: dict[str, str] = {}  # what it wrote to files
        self._aliases: dict[str, str] = {}
        self._set: list[str] = []  # what its variables are set to
        self._inherited: list[str] = []  # and those of what it is started by
        self._printed: list[str] = []  # what the earlier commands of a pipeline print
        self._wrappers: tuple[str, ...] = ()
        self._into = ""  # where the last `cd` went
        self._typed: tuple[str, ...] | None = None
        self._within: list[str] = []
        self._reads_input: list[int] = []
        self._read: list[str] = []

    def text(self, script: str) -> None:
        """Read a text as bash would."""
        if len(script) > MOST_CHARACTERS:
            raise ValueError(f"it is longer than {MOST_CHARACTERS:,} characters")
        if hidden := hidden_in(script):
            self.unclear.append(f"it contains the invisible character U+{ord(hidden[0]):04X}")
        root = _tree(script.encode("utf-8", "replace"))
        if root.has_error:
            self.unclear.append("the shell grammar finds an error in it")
        self._visit(root)

    def rough(self, command: str) -> None:
        """Look at a text that could not be read for what is dangerous in it, wherever commands may begin."""
        for piece in _BETWEEN.split(command[:MOST_CHARACTERS])[:MOST_COMMANDS]:
            try:
                words = [word for raw in split(piece) for word in fields(raw, self._values)]
            except ValueError:
                words = piece.replace("'", " ").replace('"', " ").split()
            while words and (words[0] in ("then", "do", "else", "!", "time") or is_assignment(words[0])):
                words = words[1:]
            if words:
                self.dangers += [Danger(_brief(piece.strip()), why) for why in dangers_of(words)]
        found = [why for one in commands_in(command) for why in dangers_of(one)]
        if any(map(INTERPRETER.fullmatch, command.split())):
            found += code_dangers(command)
        if re.search(rf">\s*{_DISK.pattern}", command):
            found.append(phrase("it writes straight to a device"))
        self.dangers += [Danger(_brief(command), why) for why in found]
        if "{" in command and " " not in command.strip():
            try:
                self.dangers += [Danger(_brief(command), why) for why in dangers_of(fields(command.strip(), {}))]
            except ValueError:
                return

    # -- what holds commands together

    def _visit(self, node: Node, redirects: Iterable[Node] = (), *, fed: bool = False) -> None:
        kind = node.type
        if kind in _SIMPLE:
            self._simple(node, list(redirects), fed=fed)
        elif kind == "redirected_statement":
            self._redirected(node, fed=fed)
        elif kind == "pipeline":
            self._pipeline(node, redirects, fed=fed)
        elif kind in ("variable_assignment", "variable_assignments"):
            self._inside(node)
            self._given, self._set = [], self._assign([_said(child) for child in _assignments(node)])
            self._add(_said(node), [], tuple(_said(child) for child in _assignments(node)), literal=False)
        elif kind == "function_definition":
            self._function(node)
        elif _said(node).startswith("(("):
            self._inside_statement(node, fed=fed)
            for quoted in _quoted(node):
                self._substitutions(quoted)
        else:
            self._inside_statement(node, redirects if kind == "list" else (), fed=fed)

    def _inside_statement(self, node: Node, redirects: Iterable[Node] = (), *, fed: bool) -> None:
        """Groups, loops, conditions and lists: every command in them may run."""
        if node.type == "for_statement" and (variable := node.child_by_field_name("variable")) is not None:
            values = node.children_by_field_name("value")
            self._assign([f"{_said(variable)}={_said(value)}" for value in values])
        endless = _ENDLESS.match(_said(node))
        if endless and re.search(r"[^&>]&(?![&>])\s*(done|\n|;|[)}]|$)|& *done|\bsetsid\s+-", _said(node)):
            self.dangers.append(Danger(_brief(_said(node)), phrase("it may start processes endlessly")))
        children = node.children
        for at, child in enumerate(children):
            if child.is_named and child.type not in ("comment", "heredoc_end", "heredoc_start"):
                beside = at + 1 < len(children) and children[at + 1].type == "&"
                last = redirects if at == len(children) - 1 else ()
                self._beside(lambda child=child, last=last: self._visit(child, last, fed=fed), beside=beside)
                self._serves |= beside

    def _redirected(self, node: Node, *, fed: bool) -> None:
        redirects = node.children_by_field_name("redirect")
        body = node.child_by_field_name("body")
        if body is not None:
            self._visit(body, redirects, fed=fed)
        if body is None or (body.type not in _TAKES_REDIRECTS and not all(map(_goes_nowhere, redirects))):
            self._simple(None, redirects, fed=fed)
        # Behind a here-document's mark the grammar hangs what else stands on that line.
        for redirect in redirects:
            for child in redirect.children:
                if child.type == "pipeline":
                    self._pipeline(child, (), fed=True)
                elif redirect.field_name_for_child(redirect.children.index(child)) == "right":
                    self._visit(child)

    def _pipeline(self, node: Node, redirects: Iterable[Node], *, fed: bool) -> None:
        began: list[int] = []
        printed, self._printed = self._printed, [] if not fed else self._printed
        commands = [child for child in node.children if child.is_named and child.type != "comment"]
        for at, child in enumerate(commands):
            began.append(len(self.parts))
            last = redirects if at == len(commands) - 1 else ()
            self._beside(
                lambda child=child, last=last, at=at: self._visit(child, last, fed=fed or at > 0),
                beside=len(commands) > 1,
            )
        self._printed = printed
        first = began[0] if began else 0
        if any(part.program == "yes" for part in self.parts[first:]) and _UNBOUNDED.search(_said(node)):
            self.dangers.append(Danger(_brief(_said(node)), phrase("it may start processes endlessly")))
        for index in [index for index in self._reads_input if index >= first]:
            if (said := self._known_output(began, index)) is not None:
                if self.parts[index].program in SHELLS:
                    self._nested(said)
            elif self.parts[index].fed:
                loaded = any(reaches(list(part.words))[0] for part in self.parts[:index])
                why = RUNS_DOWNLOAD if loaded else phrase("it runs text that another command makes")
                self.dangers.append(Danger(self.parts[index].text, why))

    def _known_output(self, began: list[int], index: int) -> str | None:
        """What the command before a part in its pipeline prints, where that is nothing but its own literal words."""
        at = bisect_right(began, index) - 1
        before = self.parts[began[at - 1] : began[at]] if at > 0 else []
        if len(before) != 1 or before[0].program not in ("echo", "printf") or not before[0].known:
            return None
        said = " ".join(before[0].words[1:])
        return None if _CODED.search(said) else said.replace("\\n", "\n")

    def _beside(self, work: Callable[[], None], *, beside: bool) -> None:
        """Within a function, mark what runs beside it: calling itself so is a bomb."""
        if not beside or not self._defining:
            work()
            return
        name, _ = self._defining[-1]
        self._defining[-1] = (name, True)
        work()
        self._defining[-1] = (name, False)

    def _function(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        self._defining.append((_said(name) if name is not None else "", False))
        self._starts.setdefault(self._defining[-1][0], set())
        body = node.child_by_field_name("body")
        if body is not None:
            self._visit(body, node.children_by_field_name("redirect"))
        self._defining.pop()

    def _inside(self, node: Node) -> None:
        """The substitutions in a word: what they run comes first."""
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                if (said := _said(child)).startswith("`"):
                    self._substitutions(said)  # the grammar does not always see where these end
                else:
                    self._inside_statement(child, fed=False)
                if _FEEDS_SHELL.match(said):
                    self.dangers.append(Danger(_brief(said), phrase("it runs text that another command makes")))
            elif child.type == "subshell":
                self._visit(child)
            elif child.type == "heredoc_body":
                # A here-document with a quoted mark is taken literally; any other runs its substitutions.
                marks = [_said(child) for child in node.children if child.type == "heredoc_start"]
                if not any(set(mark) & set("'\"\\") for mark in marks):
                    self._substitutions(_said(child))
            elif child.type not in ("pipeline",):
                self._inside(child)

    def _substitutions(self, text: str) -> None:
        at = 0
        while at < len(text):
            if text[at] == "\\":
                at += 2
            elif text[at] in "$`" and (end := expansion_end(text, at)) > at + 1:
                inner = re.sub(r"\\([$`\\])", r"\1", text[at + 1 : end - 1])
                self._nested(inner if text[at] == "`" else f": {text[at:end]}")
                at = end
            else:
                at += 1

    # -- simple commands

    def _simple(self, node: Node | None, redirects: list[Node], *, fed: bool) -> None:
        if len(self.parts) >= MOST_COMMANDS:
            raise ValueError(f"it has more than {MOST_COMMANDS} commands")
        more: list[str] = []
        cut = list(redirects)
        if node is not None:
            self._inside(node)
            cut += [child for child in node.children if child.type in _REDIRECTS]
        # Behind a here-document's mark the grammar hangs the redirections that follow.
        cut += [
            child for one in cut if one.type == "heredoc_redirect" for child in one.children_by_field_name("redirect")
        ]
        for redirect in cut:
            self._inside(redirect)
            # What stands behind a redirection's target is a word of the command again.
            more += [_said(one) for one in redirect.children_by_field_name("destination")[1:]]
            more += [_said(one) for one in redirect.children_by_field_name("argument")]
        raws = [*split(_without(node, cut) if node is not None else ""), *more]
        while raws[:1] == ["!"]:
            raws = raws[1:]
        count = next((at for at, raw in enumerate(raws) if not is_assignment(raw)), len(raws))
        self._set = [*self._inherited, *self._assign(raws[:count])]
        assigned = [" ".join(fields(raw, self._values)) for raw in raws[:count]]
        words = [word for raw in raws[count:] for word in fields(raw, self._values)]
        if words[:1] and words[0] in ("export", "declare", "typeset", "local", "readonly"):
            self._set += self._assign([raw for raw in raws[count + 1 :] if is_assignment(raw)])
            given = raws[count + 1 :]
            flags = {letter for raw in given if re.match(r"-[a-zA-Z]", raw) for letter in raw[1:]}
            for name in (raw.partition("=")[0] for raw in given if is_assignment(raw)):
                value = self._values.get(name, "")
                if "n" in flags:
                    self._values[name] = "…"
                elif "l" in flags or "u" in flags:
                    self._values[name] = value.lower() if "l" in flags else value.upper()
        self._values |= {name: value for name, value in _SETS.findall(" ".join(raws)) if name not in self._values}
        text = _said(node) if node is not None else " ".join(_said(one) for one in cut)
        outer = self._typed
        self._typed = (*assigned, *words) if outer is None else outer
        first = len(self.parts)
        self._given = [*self._texts(cut), *(self._printed if fed else ())]
        self._call(
            text, words, all(map(_goes_nowhere, cut)), fed=fed or any(one.type != "file_redirect" for one in cut)
        )
        self._typed = outer
        reads, writes = self._redirect(cut)
        if (reads or writes) and first < len(self.parts):
            self.parts[first] = replace(self.parts[first], reads=reads, writes=writes)
        lines = words[2:] if words[:2] in (["printf", "%s\\n"], ["printf", "%s\n"]) else [" ".join(words[1:])]
        said = "\n".join((*self._given, *lines))
        files = [*writes, *(words[1:] if likely_name(words) == "tee" else ())]
        self._written |= {path.removeprefix("./"): said.replace("\\n", "\n") for path in files}
        for found in re.finditer(r"`([^`]*)`", re.sub(r"'[^']*'", "", " ".join(raw for raw in raws if "${" in raw))):
            self._nested(found[1])  # the grammar does not look into these
        if likely_name(words) in SHELLS:
            for script in self._texts(cut):
                self._nested(script)
        if first in self._reads_input and any(path.startswith("<(") for path in reads):
            self.dangers.append(Danger(_brief(text), phrase("it runs text that another command makes")))

    def _call(self, text: str, words: list[str], literal: bool, *, fed: bool) -> None:
        """One program with its words: a simple command, or what a wrapper starts."""
        if len(self._wrappers) > _DEEPEST_WRAPPING:
            raise ValueError(f"it wraps a command more than {_DEEPEST_WRAPPING} times")
        while words[:1] == ["{"] and not isinstance(words[0], Guess):  # `time -p { …`, `coproc { …`
            words = words[1:]
        name = likely_name(words)
        if name.startswith("git-"):
            words = ["git", name.removeprefix("git-"), *words[1:]]
            name = "git"
        answered = ["-f"] if fed and name in ("rm", "grm") else []  # its questions, by what it reads
        self.dangers += [Danger(_brief(text), why) for why in dangers_of([*words[:1], *answered, *words[1:]])]
        if name in _EVALUATES:
            for flag, word in pairwise(["", *words[1:]]):
                if flag == "-C":  # `mapfile` calls it for every few lines
                    self._nested(word)
                elif _HOLDS_CODE.search(word) and not isinstance(word, Guess):
                    self._substitutions(word)
        if name in ("read", "mapfile", "readarray"):
            self._values |= dict.fromkeys(filter(str.isidentifier, words[1:]), "…")
        elif name == "printf" and words[1:2] == ["-v"]:
            self._values |= {one: " ".join(words[3:]) for one in words[2:3]}
        elif name == "alias":
            self._aliases |= {one: text for one, _, text in (word.partition("=") for word in words[1:]) if text}
        elif name in self._aliases:
            words = [*self._aliases.pop(name).split(), *words[1:]]
            name = likely_name(words)
            self.dangers += [Danger(_brief(text), why) for why in dangers_of(words)]
        if self._defining:
            defined, _ = self._defining[-1]
            self._starts[defined].add((name, any(beside for _, beside in self._defining)))
        inner = unwrap(words) if words else Unwrapped()
        if any(word.startswith("BASH_FUNC_") for word in words):
            self.dangers.append(Danger(_brief(text), phrase("it runs text that is only known at run time")))
        if name == "coproc" and not SHELLS.isdisjoint(words):
            self.dangers.append(Danger(_brief(text), phrase("it runs text that another command makes")))
        if inner.unknown:
            self.unclear.append(f"what `{name}` runs is only known once it runs")
            if name in SHELLS or name == "eval":
                self.dangers.append(Danger(_brief(text), phrase("it runs text that is only known at run time")))
        if not inner.stands_for_it:
            runs_input = inner.reads_input or _runs_input(name, words)
            if runs_input:
                self._reads_input.append(len(self.parts))
            self._look(text, name, words[1:], runs_input=runs_input)
            if self._written and words:
                self._run_file(name, words)
            self._add(text, words, (), literal=literal, fed=fed, runs_input=runs_input)
        elif name in SHELLS:  # behind the script stand its parameters
            self._look(text, "", words[3:], runs_input=False)
        wrappers = self._wrappers
        self._wrappers = (*wrappers, name)
        for one in inner.inner:
            if one.script:
                self._nested(one.script)
            else:
                self._call(_joined(one.words), one.words, literal, fed=fed)
        self._wrappers = wrappers

    def _add(
        self,
        text: str,
        words: list[str],
        typed: tuple[str, ...],
        *,
        literal: bool,
        fed: bool = False,
        runs_input: bool = False,
    ) -> None:
        typed = self._typed if self._typed is not None else typed
        if self._wrappers and not FEEDERS.isdisjoint(self._wrappers):
            literal = False
        given = carried(likely_name(words), words[1:], self._given, runs_input=runs_input)
        texts = tuple(filter(None, (given, *self._set)))
        self.parts.append(Part(_brief(text), tuple(words), typed, self._wrappers, literal, fed, carries=texts))
        if words[:1] == ["cd"] and words[1:]:
            self._into = words[1]
        certain, hosts = reaches(words)
        self.hosts += hosts
        if certain and not self.network and not (self._serves and hosts and HERE.issuperset(hosts)):
            self.network = _brief(text)

    def _look(self, text: str, name: str, words: list[str], *, runs_input: bool) -> None:
        """What is dangerous in what a program is given and may run."""
        if name in PRINTERS:
            self._printed += [" ".join(words), *self._given]
        run = started(name, words, self._given, runs_input=runs_input)
        found = [why for one in commands_in(run) for why in dangers_of(one)]
        if name not in PRINTERS and not wraps(name):  # a wrapper that nobody knows
            found += [why for one in bare_commands(words) for why in dangers_of(one)]
        places = [normpath(word) if "/." in word else word for word in map(self._from_here, words)]
        if _DISK.search(run) or (name not in _LISTS and any(map(_DISK.search, places))):
            found.append(phrase("it writes straight to a device"))
        if self._given and not found:
            found += dangers_of([name, *self._given]) if name not in PRINTERS else []
        if _MAKES_PROGRAMS.fullmatch(name):
            found += code_dangers(code_of(words if re.search("awk|ex|vi", name) else (), self._given))
        if INTERPRETER.fullmatch(name):
            found += code_dangers(code_of(words, self._given if runs_input else ()))
            if any(word.startswith("<(") for word in words[:1]):
                found.append(phrase("it runs text that another command makes"))
            inline = any(map(_INLINE.fullmatch, words))
            if inline and any(isinstance(word, Guess) and word.startswith(("$(", "`")) for word in words):
                found.append(phrase("it runs text that is only known at run time"))
        self.dangers += [Danger(_brief(text), why) for why in found]

    def _run_file(self, name: str, words: list[str]) -> None:
        """What this very text has written to a file is known when the file is run."""
        places = [words[0]] if "/" in words[0] else words[1:] if name in SHELLS or name in ("source", ".") else []
        runs_code = INTERPRETER.fullmatch(name) or words[:2] == ["go", "run"]
        if runs_code:
            places = words[1:]
        if name in ("npm", "pnpm", "yarn", "bun"):
            scripts = _package_scripts(self._written.get("package.json", ""))
            for word in words[1:]:
                self._nested(scripts.get(word, ""))
        for place in places:
            script = self._written.get(place.removeprefix("./"))
            if script is not None and runs_code:
                self.dangers += [Danger(_brief(" ".join(words)), why) for why in code_dangers(script)]
            elif script is not None:
                self._nested(script)

    def _nested(self, script: str) -> None:
        if script in self._within:
            self.dangers.append(Danger(_brief(script), STARTS_ITSELF))
            return
        if len(self._within) >= DEEPEST_SCRIPT:
            raise ValueError(f"it has more than {DEEPEST_SCRIPT} scripts within scripts")
        self._within.append(script)
        inherited, self._inherited = self._inherited, self._set
        self.text(script)
        self._inherited = inherited
        self._within.pop()

    def _assign(self, assignments: list[str]) -> list[str]:
        """Keep what variables are set to; programs may run those values that hold more than a word."""
        texts: list[str] = []
        for one in assignments:
            name, _, value = one.partition("=")
            try:
                listed = split(value[1:-1]) if value.startswith("(") else [value]
                words = [word for raw in listed for word in fields(raw, self._values)]
            except ValueError:
                continue
            for word in words:  # where the variable is a number or a prompt later, this runs
                if _HOLDS_CODE.search(word) and not isinstance(word, Guess):
                    self._substitutions(word)
            if name.startswith("BASH_ALIASES["):
                self._nested(" ".join(words))
            name = name.rstrip("+").partition("[")[0]
            between = self._values["IFS"] or " "
            held = self._values[name] = " ".join(words) if name == "IFS" else " ".join(words).replace(between, " ")
            if name in ("BASH_ENV", "ENV") and held in self._written:
                self._nested(self._written[held])
            if HOLDS_COMMAND.fullmatch(name):
                self._look(one, "=", [f"{held} "], runs_input=False)
                texts.append(held)
        return texts

    # -- redirections

    def _redirect(self, redirects: list[Node]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The files that redirections read and write, and the dangers of that."""
        reads: list[str] = []
        writes: list[str] = []
        for node in redirects:
            operator = next((child.type for child in node.children if not child.is_named), "")
            targets = node.children_by_field_name("destination")[:1] if node.type == "file_redirect" else []
            for path in (path for target in targets for path in fields(_said(target), self._values)):
                if path.startswith(("/dev/tcp/", "/dev/udp/")):
                    why = phrase("it connects directly to another machine")
                    self.dangers.append(Danger(_said(node), why))
                    self.hosts += [path.split("/")[3]] if path.count("/") > 3 else []
                elif not _goes_nowhere(node):
                    (reads if operator.startswith("<") else writes).append(path)
                    if not operator.startswith("<") and (danger := danger_of_writing(self._from_here(path))):
                        self.dangers.append(Danger(_said(node), danger))
        self._read += reads
        return tuple(reads), tuple(writes)

    def _from_here(self, path: str) -> str:
        """A path as it is meant after `cd` into the devices or the kernel's own files."""
        special = self._into.startswith(("/dev", "/proc", "/sys"))
        return f"{self._into}/{path}" if special and path[:1] not in "/~$" else path

    def _texts(self, redirects: list[Node]) -> Iterator[str]:
        """What here-documents and here-strings hold."""
        for redirect in redirects:
            if redirect.type == "herestring_redirect":
                said = _said(redirect).removeprefix("<<<").strip()
                yield " ".join(fields(said, self._values))
            elif redirect.type == "heredoc_redirect":
                yield from (_said(body) for body in redirect.children if body.type == "heredoc_body")

    def finish(self) -> None:
        """What only the whole shows: functions that call each other, secrets read where the network is reached."""
        # Functions that call themselves, directly or through others, and in the background.
        for first in self._starts:
            ahead, seen = [(first, False)], set[tuple[str, bool]]()
            while ahead:
                one, beside = ahead.pop()
                for name, also in self._starts.get(one, ()):
                    if (step := (name, beside or also)) not in seen:
                        seen.add(step)
                        ahead.append(step)
            if (first, True) in seen:
                self.dangers.append(Danger(_brief(first), STARTS_ITSELF))
        if not self.network and not self.hosts:
            return
        named = [(part.text, re.split(r"[@=]", word)[-1]) for part in self.parts for word in part.words[1:]]
        for text, path in (*named, *((f"< {path}", path) for path in self._read)):
            if is_secret(path):
                why = phrase("the contents of `{path}` could leave over the network", path=path)
                self.dangers.append(Danger(text, why))
        for at, part in enumerate(self.parts):
            names = {
                value for flag, value in pairwise(part.words) if flag in ("-o", "-O", "--output", "--output-document")
            }
            fetched = names - {"-", "/dev/null"} if part.program in ("curl", "wget") else set[str]()
            for later in self.parts[at + 1 :] if fetched else []:
                runs = later.program in SHELLS or INTERPRETER.fullmatch(later.program) or later.program == "source"
                if later.words[:1] and (
                    later.words[0].removeprefix("./") in fetched or (runs and fetched & {*later.words})
                ):
                    self.dangers.append(Danger(later.text, RUNS_DOWNLOAD))
            if part.program in ("env", "printenv") and len(part.words) == 1:
                why = phrase("the environment, with its secrets, could leave over the network")
                self.dangers.append(Danger(part.text, why))


def _runs_input(name: str, words: list[str]) -> bool:
    """Whether a program runs what it reads: an interpreter that is given no code, or one told to read it there."""
    if re.fullmatch(r"g?make|[gmn]?awk|g?sed", name):
        return bool(re.search(r" (-f|--file)[ =]?(-|/dev/stdin)( |$)", " ".join(words)))
    if not INTERPRETER.fullmatch(name):
        return False
    return words[1:2] == ["-"] or not any(
        not word.startswith("-") or re.match(r"-\w*[cemr]|--", word) for word in words[1:]
    )


def _joined(words: list[str]) -> str:
    return " ".join(word if isinstance(word, Guess) else shlex.quote(word) for word in words)


def _said(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _quoted(node: Node) -> Iterator[str]:
    """The texts in single quotes below a node."""
    for child in node.children:
        if child.type == "raw_string":
            yield _said(child)[1:-1]
        else:
            yield from _quoted(child)


def _assignments(node: Node) -> list[Node]:
    return [node] if node.type == "variable_assignment" else [one for one in node.children if one.is_named]


def _package_scripts(package: str) -> dict[str, str]:
    """The commands that a `package.json` names."""
    try:
        scripts = json.loads(package)["scripts"].items()
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}
    return {name: script for name, script in scripts if isinstance(script, str)}


def _without(node: Node, cut: list[Node]) -> str:
    """The text of a command without its redirections."""
    source, start = node.text or b"", node.start_byte
    for one in sorted(cut, key=lambda one: one.start_byte, reverse=True):
        if node.start_byte <= one.start_byte and one.end_byte <= node.end_byte:
            source = source[: one.start_byte - start] + b" " + source[one.end_byte - start :]
    return source.decode("utf-8", "replace")


def _goes_nowhere(redirect: Node) -> bool:
    """Whether a redirection leads to no file: to another descriptor, or to `/dev/null`."""
    if redirect.type != "file_redirect":
        return False
    targets = redirect.children_by_field_name("destination")
    said = _said(targets[0]) if targets else "-"
    duplicates = any(child.type in (">&", "<&", ">&-", "<&-") for child in redirect.children)
    return said in _NO_FILE or (duplicates and (said.isdigit() or said == "-"))
