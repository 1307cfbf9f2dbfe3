"""Going forward through a command's text: where the reading stands, what it found on the way, and how deep it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from .syntax import Arithmetic, Unreadable

if TYPE_CHECKING:
    from .syntax import Reading, Script

DEEPEST = 60
"""More nesting than any person writes; well below what Python's stack bears."""


class Scanner:
    """Reads `text`, going forward from `at`.

    `inner` gathers what the words of the command at hand run before it; `starts`, `blind` and `apart` are what a
    `Reading` needs.
    """

    def __init__(self, text: str, depth: int = 0) -> None:
        self.text = text
        self.at: int = 0
        self.depth: int = depth
        self.inner: list[Script | Arithmetic] = []
        self.starts: list[int] = []
        self.blind: list[tuple[int, int]] = []
        self.apart: list[Reading] = []
        self.deeper(0)

    def fail(self, why: str) -> NoReturn:
        """Stop reading: the text is not understood."""
        raise Unreadable(f"{why} (at character {self.at + 1:,})")

    def deeper(self, levels: int) -> None:
        """Go `levels` deeper, or with a negative number back up."""
        self.depth += levels
        if self.depth > DEEPEST:
            self.fail(f"it nests deeper than {DEEPEST} levels")

    def doubt(self, why: str) -> None:
        """Read on, but remember that something was not understood."""
        self.inner.append(Arithmetic([], why))
