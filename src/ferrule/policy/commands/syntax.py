"""The shape of a command as bash reads it: words made of pieces, simple commands, and what holds them together."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias


class Unreadable(Exception):  # noqa: N818 - it is a finding about the text, not a fault of ours
    """The text is not a command that can be read with certainty; the message says why."""


class Kind(Enum):
    """What a piece of a word is."""

    TEXT = "text"
    VARIABLE = "variable"
    UNKNOWN = "unknown"
    """An expansion whose outcome only the run shows."""


@dataclass(slots=True)
class Piece:
    """A stretch of a word that is one thing."""

    kind: Kind
    text: str
    """The literal text, the variable's name, or the source of an expansion."""
    quoted: bool
    script: Script | None = None
    """What a command substitution runs."""


@dataclass(slots=True, eq=False)
class Word:
    """One word. Most are plain text; the others have pieces."""

    start: int
    end: int
    text: str
    pieces: list[Piece] | None = None


@dataclass(slots=True)
class Arithmetic:
    """An arithmetic expression: bash evaluates the *values* of the variables it names, which can run code."""

    names: list[str]
    """In order; one that is set rather than read has a `=` before it."""
    doubt: str | None = None


@dataclass(slots=True)
class Assignment:
    """`name=value`, `name+=value`, `name[i]=value` or `name=(…)`."""

    name: str
    value: Word | None
    whole: bool
    """Whether the value replaces the variable: neither an element, an array nor an appending."""
    start: int
    end: int


@dataclass(slots=True)
class Redirect:
    """A redirection; a here-document has its text as `body` where nothing in it expands."""

    operator: str
    target: Word
    body: str | None = None
    inner: list[Script | Arithmetic] = field(default_factory=list["Script | Arithmetic"])


@dataclass(slots=True)
class Simple:
    """A simple command, with the scripts and sums that its words run before it."""

    source: str
    start: int
    end: int
    assignments: list[Assignment]
    words: list[Word]
    redirects: list[Redirect]
    inner: list[Script | Arithmetic]


@dataclass(slots=True)
class Condition:
    """`[[ … ]]`: its words and operators in order."""

    items: list[Word | str]
    source: str
    start: int
    end: int
    inner: list[Script | Arithmetic]
    redirects: list[Redirect]


@dataclass(slots=True)
class Compound:
    """A command made of commands: `kind` is its first word (`if`, `for`, `{`, `(`, `((`, `case`, `function`, …)."""

    kind: str
    source: str
    start: int
    end: int
    bodies: list[Script] = field(default_factory=list["Script"])
    name: str = ""
    words: list[Word] | None = None
    inner: list[Script | Arithmetic] = field(default_factory=list["Script | Arithmetic"])
    redirects: list[Redirect] = field(default_factory=list["Redirect"])


Command: TypeAlias = Simple | Condition | Compound


@dataclass(slots=True)
class Pipeline:
    """Commands joined by `|`; often just one. A negated one succeeds when it fails."""

    commands: list[Command]
    negated: bool = False


@dataclass(slots=True)
class Chain:
    """Pipelines joined by `&&` and `||`: each with the operator before it."""

    links: list[tuple[str, Pipeline]]
    background: bool = False


@dataclass(slots=True)
class Script:
    """Chains in a row."""

    chains: list[Chain]


@dataclass(slots=True)
class Reading:
    """One text as it was read, and where its commands begin.

    `blind` are the stretches that were read apart; `timed` says for a command behind the word `time` where that stands.
    """

    source: str
    script: Script
    starts: list[int]
    blind: list[tuple[int, int]]
    timed: dict[int, int]
