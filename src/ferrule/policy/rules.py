"""A rule: `Tool`, or `Tool(specifier)` for some of what a tool can do.

The names before the brackets are kinds of resource. `Bash(…)` is about commands, whichever tool runs them; `Read(…)`
about every read of a path, by Read, Grep or `cat`; `Edit(…)` and `Write(…)` about every write of one; and
`WebFetch(domain:…)` about every host. Any other tool's brackets hold what the tool itself says of a call.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.nearest import is_named
from ferrule.core.phrases import joined, phrase
from ferrule.pipeline.stages import Verdict
from ferrule.policy.patterns import CommandPattern, HostPattern, PathPattern, RuleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from ferrule.policy.commands.parts import Part

_ANY = "[^/]*"
T = TypeVar("T")


# Where a rule comes from: it decides what its paths start from, and what a refusal names.


class SourceKind(StrEnum):
    ORGANISATION = "organisation"
    USER = "user"
    PROJECT = "project"
    ENVIRONMENT = "environment"
    FLAG = "flag"
    PROGRAM = "program"
    ROLE = "role"
    SESSION = "session"
    BUILT_IN = "built-in"


_WITHOUT_FILE = {
    SourceKind.ORGANISATION: phrase("the organisation's settings"),
    SourceKind.USER: phrase("the user's settings"),
    SourceKind.PROJECT: phrase("the project's settings"),
    SourceKind.ENVIRONMENT: phrase("the environment"),
    SourceKind.FLAG: phrase("the command line"),
    SourceKind.PROGRAM: phrase("the program"),
    SourceKind.ROLE: phrase("the user's roles"),
    SourceKind.SESSION: phrase('an earlier "always" in this session'),
    SourceKind.BUILT_IN: phrase("Ferrule itself"),
}


@dataclass(slots=True, frozen=True)
class Source:
    """Who made a rule, and in which file."""

    kind: SourceKind = SourceKind.PROGRAM
    file: Path | None = None

    @property
    def root(self) -> Path | None:
        """What `/x` in a path rule starts from: the folder of a project's file; None for the workspace."""
        return self.file.parent if self.kind is SourceKind.PROJECT and self.file is not None else None

    @property
    def words(self) -> str:
        """For a model, who need not know where a person keeps their settings."""
        if self.file is None:
            return _WITHOUT_FILE[self.kind]
        name = self.file.name
        if self.kind is SourceKind.PROJECT:
            return phrase("the project's `{file}`", file=name)
        if self.kind is SourceKind.ORGANISATION:
            return phrase("the organisation's `{file}`", file=name)
        if self.kind is SourceKind.USER:
            return phrase("the user's `{file}`", file=name)
        return joined(" ", [_WITHOUT_FILE[self.kind], f"`{name}`"])

    @property
    def place(self) -> str:
        """For a person: the file itself where there is one."""
        return str(self.file) if self.file is not None else _WITHOUT_FILE[self.kind]


BUILT_IN = Source(SourceKind.BUILT_IN)
SESSION = Source(SourceKind.SESSION)


_FORM = lazy_pattern(r"(?P<tool>[^\s()]+)(?:\((?P<inner>.*)\))?", re.DOTALL)
_OPEN_HOST = lazy_pattern(r"[A-Z*]+ +[^/]*://[^/]*(?:\*|\Z)")
"""A method and a URL whose host is not written out."""
_MCP = "mcp__"
BASH = "Bash"
READ = "Read"
EDITS = ("Edit", "Write")
FETCH = "WebFetch"
# Tools that reach paths under names of their own. Their rules would look as if they held for one tool alone.
_FILE_TOOLS = {
    **dict.fromkeys(("Grep", "Glob", "LS", "readFile", "listFiles", "searchFiles", "NotebookRead"), READ),
    **dict.fromkeys(("MultiEdit", "FileSearch", "NotebookEdit"), "Edit"),
}


class About(StrEnum):
    """What a rule looks at."""

    TOOL = "tool"
    COMMAND = "command"
    READ = "read"
    WRITE = "write"
    HOST = "host"
    CALL = "call"
    """What a tool says of a call (its signature), or the command it runs."""


@dataclass(slots=True, frozen=True)
class Rule:
    """One line of a permission list, understood. `verdict` is the list it stands in."""

    verdict: Verdict
    text: str
    tool: str
    about: About
    source: Source
    command: CommandPattern | None = None
    path: PathPattern | None = None
    host: HostPattern | None = None

    @property
    def words(self) -> str:
        """The rule and where it stands, for a model."""
        return phrase("`{rule}` from {source}", rule=self.text, source=self.source.words)

    def names(self, tool: str) -> bool:
        """Whether its name is this tool's: the same, with `*`, or the MCP server that the tool is of."""
        return is_named(tool, (self.tool,))


def parse_rule(text: object, verdict: Verdict = Verdict.ALLOW, source: Source | None = None) -> Rule:
    """Read a rule; raises `RuleError` for one that could never match."""
    source = source or Source()
    if not isinstance(text, str) or not text.strip():
        raise RuleError(phrase("{text} is not a rule; write `Tool` or `Tool(specifier)`", text=repr(text)))
    text = text.strip()
    found = _FORM.fullmatch(text)
    if found is None:
        raise RuleError(
            phrase("it is not written as `Tool` or `Tool(specifier)`, with nothing before, between or after")
        )
    tool, inner = found["tool"], found["inner"]
    if inner is None:
        return Rule(verdict, text, tool, About.TOOL, source)
    if not inner.strip():
        raise RuleError(phrase("the brackets are empty; write `{tool}` to mean every call of it", tool=tool))
    if "*" in tool:
        raise RuleError(phrase("a name with `*` takes no brackets"))
    if tool.startswith(_MCP):
        raise RuleError(phrase("a tool of an MCP server takes no brackets; write `{tool}`", tool=tool))
    if tool in _FILE_TOOLS:
        raise RuleError(
            phrase("rules for paths apply to every tool; write `{kind}({inner})`", kind=_FILE_TOOLS[tool], inner=inner)
        )
    if tool == FETCH:
        return Rule(verdict, text, tool, About.HOST, source, host=HostPattern(inner))
    if tool == READ or tool in EDITS:
        path = PathPattern(inner, source.root)
        return Rule(verdict, text, tool, About.READ if tool == READ else About.WRITE, source, path=path)
    command = CommandPattern(inner)
    if verdict is Verdict.ALLOW and command.spans_parts:
        raise RuleError(
            phrase(
                "each part of a command is matched on its own, so none ever contains `&&`, `|`, `;` or `>`; write a "
                "rule for each part, and `Edit(path)` for what is written to"
            )
        )
    if verdict is Verdict.ALLOW and tool != BASH and _OPEN_HOST.match(inner):
        raise RuleError(
            phrase(
                "it does not say which host, and `*` would stand for other hosts too; write the host out, with `/` "
                "after it"
            )
        )
    if tool == BASH and command.everything:
        return Rule(verdict, text, tool, About.TOOL, source)
    return Rule(verdict, text, tool, About.COMMAND if tool == BASH else About.CALL, source, command=command)


def parse_rules(texts: Iterable[str], verdict: Verdict, source: Source | None = None) -> list[Rule]:
    """Rules of one list; an error names the rule."""
    listed = [texts] if isinstance(texts, str) else list(texts)
    return [named(text, lambda text=text: parse_rule(text, verdict, source)) for text in listed]


def named(text: object, parse: Callable[[], T]) -> T:
    """What `parse` gives for a rule, or its error with the rule's text before it."""
    try:
        return parse()
    except RuleError as error:
        said = (
            phrase("The rule `{text}` cannot work: {error}", text=text, error=error)
            if str(error).endswith("?")
            else phrase("The rule `{text}` cannot work: {error}.", text=text, error=error)
        )
        raise RuleError(said) from None


_MOST_KNOWN = 50_000
_LETTER = lazy_pattern(r"\\.|[^\\.^$*+?{}\[\]|()]", re.DOTALL)
"""One that stands for itself in a regular expression."""


# Rules of one list, sorted by what they look at, so that a call meets only those that can be about it.


@dataclass(slots=True)
class RuleSet:
    """Rules of one list. Every question gives the rule that answers it, or None."""

    rules: list[Rule] = field(default_factory=list["Rule"])
    _of: dict[About, list[Rule]] = field(default_factory=dict[About, "list[Rule]"])
    _names: dict[str, Rule | None] = field(default_factory=dict[str, "Rule | None"])
    _concerning: dict[tuple[object, ...], Rule | None] = field(default_factory=dict[tuple[object, ...], "Rule | None"])
    _unions: dict[tuple[object, ...], re.Pattern[str]] = field(
        default_factory=dict[tuple[object, ...], "re.Pattern[str]"]
    )
    _glances: dict[tuple[object, ...], tuple[tuple[str, ...], frozenset[str], tuple[re.Pattern[str], ...]]] = field(
        default_factory=dict[tuple[object, ...], "tuple[tuple[str, ...], frozenset[str], tuple[re.Pattern[str], ...]]"]
    )
    """Where paths begin that rules are about, the folders above that, and the last names of those that are anywhere."""

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> RuleSet:
        made = cls()
        for rule in rules:
            made.add(rule)
        return made

    def add(self, rule: Rule) -> None:
        self.rules.append(rule)
        self._of.setdefault(rule.about, []).append(rule)
        self._names.clear()
        self._unions.clear()
        self._glances.clear()
        self._concerning.clear()

    def __bool__(self) -> bool:
        return bool(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def about(self, *subjects: About) -> bool:
        """Whether any rule looks at one of these."""
        return any(subject in self._of for subject in subjects)

    def listed(self, subject: About) -> Sequence[Rule]:
        return self._of.get(subject, ())

    def tool(self, name: str, *, runs_commands: bool = False) -> Rule | None:
        """The rule that names a tool; `Bash` names every tool that runs commands."""
        if not self.about(About.TOOL):
            return None
        key = f"{name}\0{runs_commands}"
        if key not in self._names:
            if len(self._names) > 10_000:
                self._names.clear()
            self._names[key] = next(
                (rule for rule in self._of[About.TOOL] if rule.names(name) or (runs_commands and rule.tool == BASH)),
                None,
            )
        return self._names[key]

    # For an allow list: it must fit

    def covering_part(self, part: Part, tool: str) -> Rule | None:
        return next((rule for rule in self.commands(tool) if rule.command and rule.command.covers(part)), None)

    def covering_command(self, command: str, tool: str) -> Rule | None:
        """The rule that is this very command, to the letter."""
        return next((rule for rule in self.commands(tool) if rule.command and rule.command.is_whole(command)), None)

    def covering_path(
        self, path: str, roots: Sequence[str], *, write: bool, naming: Rule | None = None, is_folder: bool = False
    ) -> Rule | None:
        """The rule that covers a path, or all that is in it where it `is_folder`. Where Ferrule itself asks about it
        (`naming`), a rule for all paths is not enough to write it: it must name the place.
        """
        place = naming.path if naming is not None and write else None
        return next(
            (
                rule
                for rule in self._paths(write)
                if rule.path
                and (rule.path.covers_all_in(path, roots) if is_folder else rule.path.covers(path, roots))
                and (place is None or place.is_named_by(rule.path, roots))
            ),
            None,
        )

    def covering_host(self, host: str) -> Rule | None:
        return next((rule for rule in self.listed(About.HOST) if rule.host and rule.host.covers(host)), None)

    # For a deny or ask list: it must be about it

    def concerning_part(self, part: Part, command: str, tool: str) -> Rule | None:
        return next(
            (rule for rule in self.commands(tool) if rule.command and rule.command.concerns(part, command)), None
        )

    def concerning_path(self, path: str, roots: Sequence[str], *, write: bool) -> Rule | None:
        rules = self._paths(write)
        # One look at all of them first: a search asks about every file, and hardly any has a rule.
        if not rules or not self.any_path(roots, write=write).fullmatch(path):
            return None
        key = path, write, os.environ.get("HOME"), *roots
        if key not in self._concerning:
            if len(self._concerning) > _MOST_KNOWN:
                self._concerning.clear()
            found = (rule for rule in rules if rule.path and rule.path.concerns(path, roots))
            self._concerning[key] = next(found, None)
        return self._concerning[key]

    def concerning_host(self, host: str) -> Rule | None:
        return next((rule for rule in self.listed(About.HOST) if rule.host and rule.host.concerns(host)), None)

    # For any list

    def call(self, tool: str, signature: str, *, any_case: bool = False) -> Rule | None:
        """The rule that fits what a tool says of a call."""
        return next(
            (
                rule
                for rule in self.listed(About.CALL)
                if rule.tool == tool and rule.command and rule.command.matches_text(signature, any_case=any_case)
            ),
            None,
        )

    def commands(self, tool: str) -> Iterator[Rule]:
        """The rules about commands that hold for a tool which runs them."""
        yield from self.listed(About.COMMAND)
        yield from (rule for rule in self.listed(About.CALL) if rule.tool == tool)

    def may_concern_any(self, folders: Iterable[str], names: str, roots: Sequence[str], *, write: bool) -> bool:
        """Whether a rule may be about something in these folders that has one of these names, with `/` around each. One
        look at all names of a folder costs a tenth of a look at each path.
        """
        starts, above, lasts = self._glance(roots, write=write)
        for last in lasts:
            if last.search(names):
                return True
        concerned = self.any_path(roots, write=write).fullmatch
        return any(folder in above or folder.startswith(starts) or concerned(folder) for folder in folders)

    def may_concern_in(self, folder: str, listing: str, roots: Sequence[str], *, write: bool) -> set[int] | None:
        r"""Where in a listing of the paths below a folder, each as `\0./a/b`, one stands that a rule may be about; None
        if that may be any of them. One look at a hundred thousand paths costs a tenth of a look at each.
        """
        starts, _, lasts = self._glance(roots, write=write)
        inside = f"{folder.rstrip('/')}/"
        above = tuple(f"{start.rstrip('/')}/" for start in starts)
        if inside.startswith(above) or self.any_path(roots, write=write).fullmatch(folder):
            return None
        begin = [re.escape(start.removeprefix(inside)) for start in starts if start.startswith(inside)]
        names = listing.replace("\0", "/")
        found = {one.start() for last in lasts for one in last.finditer(names)}
        return found.union(one.end() for way in begin for one in re.finditer(f"\0\\./{way}", listing))

    def _glance(
        self, roots: Sequence[str], *, write: bool
    ) -> tuple[tuple[str, ...], frozenset[str], tuple[re.Pattern[str], ...]]:
        key = write, os.environ.get("HOME"), *roots
        if key not in self._glances:
            found = [rule.path for rule in self._paths(write) if rule.path]
            starts = {base for path in found if path.inner is None for base in path.bases(roots)}
            above = frozenset(start[:at] for start in starts for at, letter in enumerate(start) if letter == "/")
            lasts = [path.last for path in found if path.inner is not None]
            # What begins with anything is found by how it goes on.
            shapes = [one.removeprefix(_ANY) if one.startswith(_ANY) else f"/{one}" for one in lasts]
            self._glances[key] = tuple(starts), above, tuple(_by_first_letter(shapes))
        return self._glances[key]

    def any_path(self, roots: Sequence[str], *, write: bool) -> re.Pattern[str]:
        """What fits every path that a rule may be about, and few others."""
        key = write, os.environ.get("HOME"), *roots
        if key not in self._unions:
            paths = [rule.path for rule in self._paths(write) if rule.path]
            shapes = [shape for path in paths if path.inner is None for shape in path.wide_shapes(roots)]
            # Most rules hold at any depth. Those are looked for together, once at each part of a path, and what many of
            # them begin with (`*.pem`) is passed over once.
            inner = [path.inner for path in paths if path.inner is not None]
            either = [one for one in inner if not one.startswith(_ANY)]
            if ends := [one.removeprefix(_ANY) for one in inner if one.startswith(_ANY)]:
                either.append(f"{_ANY}(?:{'|'.join(ends)})")
            if either:
                shapes.append(f"/(?:.*/)?(?:{'|'.join(either)})(?:/.*)?")
            self._unions[key] = re.compile("|".join(f"(?:{shape})" for shape in shapes), re.DOTALL)
        return self._unions[key]

    def _paths(self, write: bool) -> Sequence[Rule]:
        return self.listed(About.WRITE if write else About.READ)


def _by_first_letter(shapes: Iterable[str]) -> Iterator[re.Pattern[str]]:
    """What finds any of these with `/` behind it. A look for one letter passes over all others quickly."""
    for first, rests in _sorted(shapes).items():
        yield re.compile(f"{first}{_either(rests, 2 if first else 0)}(?=/)")


def _either(shapes: Sequence[str], letters: int) -> str:
    """Any of these, told apart by so many of their letters before each is tried."""
    by_first = _sorted(shapes)
    if not letters or "" in by_first:
        return f"(?:{'|'.join(shapes)})"
    each = "|".join(first + _either(rests, letters - 1) for first, rests in by_first.items())
    return f"(?=[{''.join(by_first)}])(?:{each})"


def _sorted(shapes: Iterable[str]) -> dict[str, list[str]]:
    """What follows the letter that each begins with; all of those that begin otherwise."""
    found: dict[str, list[str]] = {}
    for shape in dict.fromkeys(shapes):
        letter = _LETTER.match(shape)
        first = letter[0] if letter else ""
        found.setdefault(first, []).append(shape[len(first) :])
    return found
