"""What is found out about one program and its arguments, before it is set in the place where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .parts import Effect

if TYPE_CHECKING:
    from collections.abc import Sequence

READS, WRITES, RUNS = Effect.READS, Effect.WRITES, Effect.RUNS
_RANK = {READS: 0, WRITES: 1, RUNS: 2}


def worse(one: Effect, other: Effect) -> Effect:
    """The worse of two effects."""
    return one if _RANK[one] >= _RANK[other] else other


@dataclass(slots=True)
class Inner:
    """A command that a program starts: words of its own arguments from `first` on, other words, or a script."""

    words: list[str] | None = None
    first: int | None = None
    script: str | None = None
    here: bool = False
    """A script that runs in the same shell and can change its variables and folder."""


@dataclass(slots=True)
class Finding:
    """What a program would do with these arguments. Paths are as its arguments name them."""

    effect: Effect
    why: str
    reads: list[str] | tuple[str, ...] = ()
    writes: list[str] | tuple[str, ...] = ()
    hosts: list[str | None] | tuple[str | None, ...] = ()
    dangers: Sequence[str] = ()
    inner: list[Inner] | tuple[Inner, ...] = ()
    wrapper: bool = False
    """It is nothing but a wrapper: what it starts stands in its place, with at least its effect."""
    from_input: bool = False
    """It runs what comes on its standard input."""
    unclear: str = ""
    """What it runs that is only known at run time."""
    sets: list[tuple[str, str | None]] | tuple[tuple[str, str | None], ...] = ()
    """Variables that it sets in this shell, with their values where these are known."""
    moves: str | None = None
    """The folder that it changes to; empty for one that is not known."""
