"""How a program is started once everything about it has been decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


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
