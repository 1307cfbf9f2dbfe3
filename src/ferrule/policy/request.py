"""What a call asks for, gathered from what its tool says it touches: paths, hosts, and commands that are understood."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from ferrule.core.errors import ErrorKind, Stage, Stopped
from ferrule.core.phrases import phrase
from ferrule.policy.commands.parts import Analysis

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.call import Invocation
    from ferrule.core.context import Session

_MOST_KEPT = 256
COMMAND = "command:"
"""A tool that runs a shell command says so with a touch of `command:` and the text; rules for `Bash` then hold."""


class Analyser(Protocol):
    """Understands a command without running it."""

    def __call__(self, command: str) -> Analysis: ...


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
                    raise Stopped(
                        Stage.AUTHORISE,
                        ErrorKind.VALIDATION,
                        phrase("The path holds a NUL byte."),
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
                self._analyser = _default_analyser()
            found = self._understood[command] = self._analyser(command)
            if len(self._understood) > _MOST_KEPT:
                self._understood.popitem(last=False)
        return found


def roots_of(session: Session) -> tuple[str, ...]:
    """The folders a session works in, its workspace first, as they really are."""
    added = cast("tuple[Path, ...]", session.config.get("roots", ()))
    return _real_roots((session.workspace, *added))


@lru_cache(maxsize=256)
def _real_roots(roots: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(os.path.realpath(root) for root in roots)


def _default_analyser() -> Analyser:
    try:
        return cast("Analyser", import_module("ferrule.policy.commands.analyse").analyse)
    except ModuleNotFoundError:
        return _not_understood


def _not_understood(command: str) -> Analysis:
    """Without its grammar nothing is known of a command's words."""
    why = "commands cannot be read on this machine; `pip install 'ferrule[shell]'` mends that"
    return Analysis(command, unclear=(why,))
