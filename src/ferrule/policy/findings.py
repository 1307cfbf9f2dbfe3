"""What was found about one thing that a call would do: which rule is about it, and by whose leave it may run."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.phrases import phrase
from ferrule.policy.commands.parts import Analysis
from ferrule.policy.rules import About

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation
    from ferrule.pipeline.authorise import Decision
    from ferrule.policy.rules import Rule, RuleSet
    from ferrule.policy.sensitive import Guarded

    Analyser = Callable[[str], Analysis]
    """Understands a command without running it."""


# What a call asks for, gathered from what its tool says it touches: paths, hosts, and commands that are understood.


_MOST_KEPT = 256
COMMAND = "command:"
"""A tool that runs a shell command says so with a touch of `command:` and the text; rules for `Bash` then hold."""


@dataclass(slots=True, frozen=True)
class Request:
    """Everything a rule can look at in one call. Paths are real ones."""

    roots: tuple[str, ...]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    commands: tuple[Analysis, ...] = ()
    directory: str = "/"
    writes_else: bool = False
    """Whether it writes what is neither a path nor a command: a host, a store, or anything at all."""


class Requests:
    """Makes requests, and remembers the commands it has understood."""

    def __init__(self, analyser: Analyser | None = None) -> None:
        self._analyser = analyser
        self._understood: OrderedDict[str, Analysis] = OrderedDict()

    def of(self, invocation: Invocation, session: Session) -> Request:
        roots = roots_of(session)
        if not invocation.tool.has_touches:
            return Request(roots, writes_else=not invocation.tool.read_only)
        if invocation.session is None:
            invocation.session = session
        reads: list[str] = []
        writes: list[str] = []
        hosts: list[str] = []
        commands: list[Analysis] = []
        other = False
        for resource, write in invocation.touches:
            scheme, _, name = resource.partition(":")
            if scheme == "command":
                commands.append(self.understood(name))
            elif scheme == "path":
                if "\0" in name:  # the system would refuse it in words that nobody can act on
                    raise StoppedError(
                        Stage.AUTHORISE,
                        ErrorKind.VALIDATION,
                        phrase("The path contains a NUL byte."),
                        phrase("Remove it."),
                    )
                (writes if write else reads).append(os.path.realpath(session.directory / name))
            elif scheme == "host":
                hosts.append(name)
                other |= write
            else:
                other |= write
        return Request(
            roots, tuple(reads), tuple(writes), tuple(hosts), tuple(commands), str(session.command_directory), other
        )

    def understood(self, command: str) -> Analysis:
        """What the text of a command says; the same one is read once."""
        found = self._understood.get(command)
        if found is None:
            if self._analyser is None:
                try:
                    self._analyser = cast("Analyser", import_module("ferrule.policy.commands.analyse").analyse)
                except ModuleNotFoundError:
                    self._analyser = _not_understood
            found = self._understood[command] = self._analyser(command)
            if len(self._understood) > _MOST_KEPT:
                self._understood.popitem(last=False)
        return found


def roots_of(session: Session) -> tuple[str, ...]:
    """The folders a session works in, its workspace first, as they really are."""
    return _real_roots(session.folders)


@lru_cache(maxsize=256)
def _real_roots(roots: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(os.path.realpath(root) for root in roots)


def _not_understood(command: str) -> Analysis:
    """Without its grammar nothing is known of a command's words."""
    why = "commands cannot be read on this machine; `pip install 'ferrule[shell]'` fixes that"
    return Analysis(command, unclear=(why,))


@dataclass(slots=True)
class Finding:
    """One thing a call would do. Without `leave` it asks, and `need` says why."""

    what: str
    effect: str
    why: str = ""
    denied: Rule | None = None
    asked: Rule | None = None
    leave: str = ""
    rule: Rule | None = None
    """The allow rule that gave leave."""
    need: str = ""
    path_asked: Rule | None = None
    """Of a part of a command: the rule that asks about a path it names."""
    names_kept: bool = False
    """Of a part of a command: whether it names a path that asks, so that a rule for the command is not enough."""
    unsure: bool = False
    """Whether a rule is about it only because some of it is not known before it runs."""
    guarded: bool = False
    """Whether it would write what other programs run or obey, which no mode allows."""

    def lacks(self, why: str) -> None:
        """Take back its leave; the first reason stands."""
        self.need = self.need or why
        self.leave = ""


@dataclass(slots=True, frozen=True)
class Lists:
    """The three lists in force for one call, and what Ferrule itself brings. `allow` holds more specific grants too."""

    deny: RuleSet
    ask: RuleSet
    allow: tuple[RuleSet, ...]
    guarded: Guarded
    accepts_edits: bool

    def denying_below(self, folder: str, request: Request) -> Rule | None:
        """The rule that denies writing something which lies in a folder, and would go with it."""
        roots = request.roots
        below = (rule for rule in self.deny.listed(About.WRITE) if rule.path and rule.path.lies_in(folder, roots))
        return next(below, None) or self.guarded.own_file_in(folder, roots)


def inside(path: str, roots: tuple[str, ...]) -> bool:
    """Whether a real path lies in the workspace or a folder added to it."""
    return any(path == root or path.startswith(root if root.endswith("/") else f"{root}/") for root in roots)


def shown(path: str, roots: tuple[str, ...]) -> str:
    """A path as a model knows it: from the workspace on where it lies in it."""
    if roots and path != roots[0] and inside(path, roots[:1]):
        return os.path.relpath(path, roots[0])
    return path


def weigh_path(
    path: str, request: Request, lists: Lists, *, write: bool, guards: bool = True, is_folder: bool = False
) -> Finding:
    """What the lists say of one path, or of all in it where it `is_folder`. Without a word from them its leave is the
    tool's. Unless it `guards`, Ferrule itself does not ask.
    """
    place = shown(path, request.roots)
    what = phrase("write {path}", path=place) if write else phrase("read {path}", path=place)
    finding = Finding(what, "writes" if write else "reads")
    finding.denied = lists.deny.concerning_path(path, request.roots, write=write)
    if finding.denied is None and write:
        finding.denied = lists.guarded.never.concerning_path(path, request.roots, write=True)
    finding.asked = lists.ask.concerning_path(path, request.roots, write=write)
    guard = lists.guarded.asking(path, request.roots, write=write) if guards else None
    found = (
        rules.covering_path(path, request.roots, write=write, naming=guard, is_folder=is_folder)
        for rules in lists.allow
    )
    finding.rule = next((rule for rule in found if rule is not None), None)
    if finding.rule is not None:
        finding.leave = phrase("{rule} allows it", rule=finding.rule.words)
    elif guard is not None:
        finding.need, finding.guarded = guarded_words(shown(path, request.roots), write=write), write
    elif write and lists.accepts_edits and inside(path, request.roots):
        finding.leave = phrase("mode accept-edits lets tools write in the workspace")
    return finding


def guarded_words(path: str, *, write: bool) -> str:
    """Why Ferrule itself asks about a path."""
    if write:
        return phrase("`{path}` contains what other programs run or obey, so writing it asks first", path=path)
    return phrase("`{path}` may hold secrets, so reading it asks first", path=path)


@dataclass(slots=True, frozen=True)
class Judgement:
    """A decision with all that led to it."""

    decision: Decision
    request: Request
    findings: list[Finding]
    by: Rule | None = None
    """The rule that decided, if one did."""
    can_be_always: bool = True
    """Whether a grant could change it: not what is dangerous, and not what a rule of the person's asks about."""


class Judge(Protocol):
    """Decides about calls, also as if further rules allowed them."""

    guarded: Guarded

    def judge(self, invocation: Invocation, session: Session, extra: Iterable[Rule] = ()) -> Judgement: ...
