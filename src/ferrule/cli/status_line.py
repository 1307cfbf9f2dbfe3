"""A few rows at the end of the terminal that say what is going on now, and are gone when that is over.

It stands on standard error, so that standard output has the result alone. In a pipe there is nothing; on a terminal
that takes no escape codes, or whose person wants none, what is worth a line of its own is said once.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Protocol

from ferrule.cli.output import clear_before_writing, write

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from ferrule.cli.chatting.live_screen import LiveScreen
    from ferrule.cli.chatting.screen import Screen

_SECONDS_BETWEEN_LOOKS = 0.1
_ECHO = "^C"
"""What terminals write at the end of the row when the person stops it; a row that wraps could not be taken back."""


class Going(Protocol):
    """What goes on: asked for its words again and again."""

    def rows(self, screen: Screen) -> list[str]:
        """What to show now; none where there is nothing to say."""
        ...

    def remark(self) -> str:
        """What to say once, where no row can be taken back; empty where that was said, or is not worth a line."""
        ...


class StatusLine:
    """The rows. Whoever else writes to the terminal takes them `away` first; `output.write` does so by itself."""

    def __init__(self) -> None:
        stream = sys.stderr
        self._seen = stream is not None and stream.isatty()  # pyright: ignore[reportUnnecessaryComparison] - closed
        self._screen: LiveScreen | None = _live_screen() if self._seen else None
        self._others = 0

    @property
    def live(self) -> bool:
        """Whether rows can be shown and taken back."""
        return self._screen is not None

    @asynccontextmanager
    async def showing(self, going: Going) -> AsyncGenerator[None]:
        """Show what goes on until the block is left, however it is."""
        if not self._seen:
            yield
            return
        looking = asyncio.create_task(self._look_again_and_again(going))
        clear_before_writing(self.clear)
        try:
            yield
        finally:
            looking.cancel()
            clear_before_writing(None)
            self.clear()

    @contextmanager
    def away(self) -> Generator[None]:
        """Nothing is shown while somebody else has the terminal."""
        self._others += 1
        self.clear()
        try:
            yield
        finally:
            self._others -= 1

    def clear(self) -> None:
        """Take the rows away; the next look may bring them back."""
        if self._screen is not None:
            self._screen.show(())

    async def _look_again_and_again(self, going: Going) -> None:
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            if self._others:
                continue
            if self._screen is not None:
                self._screen.show(going.rows(self._screen))
            elif remark := going.remark():
                write(remark, err=True)


def _live_screen() -> LiveScreen | None:
    from ferrule.cli.chatting.live_screen import LiveScreen, wraps_again
    from ferrule.cli.chatting.screen import wants_plain

    if wants_plain(sys.stderr, os.environ):
        return None
    return LiveScreen(sys.stderr, wraps_again=wraps_again(os.environ), size=_size)


def _size() -> os.terminal_size:
    """Of the terminal behind standard error: standard output may be a pipe."""
    try:
        size = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        size = shutil.get_terminal_size()
    return os.terminal_size((size.columns - len(_ECHO), size.lines))
