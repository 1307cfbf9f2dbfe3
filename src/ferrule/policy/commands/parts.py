"""What is known of a command before it runs: its parts, and what each would do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """The worst that a part can do, as far as can be proven."""

    READS = "reads"
    """Provably reads alone: it may run without asking."""
    WRITES = "writes"
    """Changes files, processes or settings, in ways that are known."""
    RUNS = "runs"
    """May do anything: an interpreter, a build, a program nobody described."""


@dataclass(slots=True, frozen=True)
class Part:
    """One simple command as it would run, wrappers taken off: `env X=1 nice rm -rf a` has the part `rm -rf a`.

    `words` are its literal words, quotes removed; a word that is only known at run time stands as it was written, and
    makes `fixed` false. Paths are as the command names them, `~` and `cd` of earlier parts already followed where they
    are known; a path that cannot be known is None.
    """

    text: str
    words: tuple[str, ...]
    effect: Effect
    why: str
    """Why it has that effect, in a person's words: "`sort -o` writes a file"."""
    reads: tuple[str | None, ...] = ()
    writes: tuple[str | None, ...] = ()
    hosts: tuple[str | None, ...] = ()
    fixed: bool = True
    wrappers: tuple[str, ...] = ()
    """The words of what it is wrapped in, outermost first: `("env", "nice")`."""
    reads_matching: tuple[str, ...] = ()
    """Patterns whose matches it reads, as the shell fills them in: `*.py`. They are placed as paths are.

    Of a part that does more than read, these are all patterns among its words: it may change what they match."""

    @property
    def program(self) -> str:
        """The program's name without its folder; empty for a bare assignment or redirect."""
        return self.words[0].rpartition("/")[2] if self.words else ""


@dataclass(slots=True, frozen=True)
class Danger:
    """Something that always asks (S2), and why."""

    part: str
    why: str


@dataclass(slots=True, frozen=True)
class Analysis:
    """A whole command, understood. What was not understood is said in `unclear`, and asks."""

    command: str
    parts: tuple[Part, ...] = ()
    dangers: tuple[Danger, ...] = ()
    unclear: tuple[str, ...] = ()

    @property
    def read_only(self) -> bool:
        """Whether every part provably reads alone."""
        return not self.unclear and not self.dangers and all(part.effect is Effect.READS for part in self.parts)
