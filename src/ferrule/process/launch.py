"""How a program is started once everything about it has been decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.process.profile import LayerMount


@dataclass(slots=True, frozen=True)
class Launch:
    """Arguments, environment, folder and descriptors, ready for exec. Nothing of the parent's environment is added."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: str = "/"
    descriptors: tuple[int, ...] = ()
    """Open descriptors the program inherits besides the first three, under their own numbers."""
    contains_all: bool = False
    """Whether ending the program surely ends whatever it started (it is the first of a process namespace)."""
    limits: tuple[tuple[int, int], ...] = ()
    """Of the `resource` module: which, and how much."""
    joins: str = ""
    """The file that a process writes to, to join its control group."""
    overlays: tuple[LayerMount, ...] = ()
    user_namespace: bool = False
    """Whether an ordinary user's program starts in a user namespace of its own, where its processes are counted."""
    takes_terminal: bool = False
    """Whether its standard input becomes its controlling terminal."""
    rules: int = -1
    """Of `descriptors`, the one with Landlock rules that bind the program."""
    filter: bytes = b""
    """The filter of system calls that goes with the rules."""
    info: int = -1
    """Of `descriptors`, the file in which bubblewrap names the first process of its namespace."""
