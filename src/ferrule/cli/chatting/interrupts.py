"""Ctrl-C: once stops what runs, twice within two seconds leaves."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 2.0


class Interrupts:
    """Remembers when Ctrl-C was pressed last."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._last: float | None = None

    def again(self) -> bool:
        """Note one more, and say whether it came so soon after the one before that it means to leave."""
        last, self._last = self._last, self._now()
        return last is not None and self._last - last <= SECONDS
