"""The command in front: how long it has run, what it wrote, and the news that ends the waiting for it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Literal

from ferrule.process.shell.waiting import InputWatch

if TYPE_CHECKING:
    import asyncio

    from ferrule.process.shell.family import Running
    from ferrule.process.shell.output_reader import OutputReader
    from ferrule.process.shell.placed_shell import PlacedShell

Why = Literal["ended", "died", "lost", "time", "mute", "waiting", "starved", "cancelled"]

_SECONDS_BETWEEN_LOOKS = 0.5
_LOOKS_UNTIL_MUTE = 4
_OWN_ERROR = re.compile(r"^bash: (?:eval: )?line (\d+): ", re.MULTILINE)


@dataclass(slots=True)
class Foreground:
    """One command while it runs."""

    command: str
    shell: PlacedShell
    reader: OutputReader
    place: int
    """Which pair of output pipes it has; -1 on a terminal."""
    nonce: str
    before: frozenset[Running]
    """What ran in the session before it."""
    first_line: int
    """The number bash gives the command's first line."""
    began: float = field(default_factory=monotonic)
    settled: bool = False
    ended: asyncio.Future[str] = field(init=False)
    saved: asyncio.Future[str] = field(init=False)

    def __post_init__(self) -> None:
        self.ended = self.shell.guard.expect(self.nonce, "ended")
        self.saved = self.shell.guard.expect(self.nonce, "saved")

    async def news(self, seconds: float, *, terminal: bool) -> Why:
        """Wait for its end, the shell's end, the end of its time, or until it waits for input."""
        loop = self.shell.guard.loop
        woken: asyncio.Future[Why] = loop.create_future()
        watch = InputWatch(self)
        mute = 0

        def wake(why: Why) -> None:
            if not woken.done():
                woken.set_result(why)

        def look() -> None:
            nonlocal mute, ticker
            # While a command runs, the line that reports its end has not been read. If it has, no report will come.
            mute = 0 if self.shell.unread_lines else mute + 1
            if mute >= _LOOKS_UNTIL_MUTE:
                wake("mute")
            elif watch.waits():
                wake("waiting" if terminal else "starved")
            ticker = loop.call_later(_SECONDS_BETWEEN_LOOKS, look)

        def on_end(future: asyncio.Future[str]) -> None:
            wake("lost" if future.exception() is not None else "ended")

        def on_death(future: asyncio.Future[str]) -> None:
            wake("lost" if future.exception() is not None else "died")

        timer = loop.call_later(seconds, wake, "time")
        ticker = loop.call_later(_SECONDS_BETWEEN_LOOKS, look)
        self.ended.add_done_callback(on_end)
        self.shell.death.add_done_callback(on_death)
        try:
            return await woken
        finally:
            timer.cancel()
            ticker.cancel()
            self.ended.remove_done_callback(on_end)
            self.shell.death.remove_done_callback(on_death)

    def last_line(self) -> str:
        """The end of what it wrote, which is a prompt if it waits for an answer."""
        shown = self.reader.record.text("stdout")
        return shown.rstrip("\n").rpartition("\n")[2][-200:]


def error_lines_from_one(text: str, first: int) -> str:
    """Bash counts the lines of the whole session; in a command's errors they count from its own first line."""
    if "bash: " not in text:
        return text

    def renumber(found: re.Match[str]) -> str:
        number = int(found[1])
        return f"bash: line {number - first + 1}: " if number >= first else found[0]

    return _OWN_ERROR.sub(renumber, text)
