"""Where the user's words come from: whole lines of a terminal or a pipe.

`PlainInput` is for pipes, dumb terminals and plain text; `PromptInput` (prompt_input.py) edits, remembers and
completes, also while the agent works. Neither blocks the loop: what runs in the background goes on while the person
thinks.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable


class PersonInput(Protocol):
    """Reads messages and answers. Ctrl-C raises `KeyboardInterrupt`, the end of the input `EOFError`."""

    @property
    def by_person(self) -> bool:
        """Whether a person is there; whoever fills a pipe is not asked for leave."""
        ...

    def reading(self) -> AbstractAsyncContextManager[None]:
        """Whatever has to be there while words are read."""
        ...

    def away(self) -> AbstractAsyncContextManager[None]:
        """Leave the terminal to another program, as this one found it; what is written meanwhile comes afterwards."""
        ...

    async def message(self) -> str:
        """What to do next."""
        ...

    async def answer(self) -> str:
        """The answer to a question that is on the screen; nothing that was typed before it counts.

        The Esc key does what Ctrl-C does, where single keys are read.
        """
        ...

    def put_back(self, text: str) -> None:
        """A message that was not sent after all, where it can be edited."""
        ...

    def interrupt(self) -> None:
        """Ctrl-C came as a signal."""
        ...


class PlainInput:
    """Whole lines. A backslash at the end of one takes the next along.

    `seen` says whether what is written here is on a terminal: nobody can agree to what they do not see.
    """

    def __init__(self, stream: TextIO, say: Callable[[str], None] | None = None, *, seen: bool = True) -> None:
        self._stream = stream
        self._descriptor = stream.fileno()
        self.by_person = stream.isatty() and seen
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._reading: asyncio.Future[bytes] | None = None
        self._ended = False
        self._say = say or _say

    def reading(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def away(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def put_back(self, text: str) -> None:
        """Whole lines are read: none can be edited once more."""

    async def message(self) -> str:
        self._say("> ")
        line = await self._line()
        while line.endswith("\\"):
            self._say("… ")
            line = f"{line[:-1]}\n{await self._line()}"
        if not self.by_person:
            self._say(f"{line}\n")  # nobody typed it here, and the page should read like a conversation
        return line

    async def answer(self) -> str:
        from ferrule.cli.ask import forget_what_was_typed

        forget_what_was_typed()
        self._rest = ""
        self._say("? ")
        try:
            return await self._line()
        except (asyncio.CancelledError, KeyboardInterrupt, EOFError):
            self._say("\n")  # what comes next does not belong to the answer
            raise

    def interrupt(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_exception(KeyboardInterrupt())

    async def _line(self) -> str:
        while "\n" not in self._rest:
            piece = b"" if self._ended else await self._read()
            self._rest += self._decoder.decode(piece, final=not piece)
            if not piece:
                self._ended = not self.by_person  # a terminal can go on after Ctrl-D
                if not self._rest:
                    raise EOFError
                self._rest += "\n"
        line, _, self._rest = self._rest.partition("\n")
        return line.removesuffix("\r")

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        self._reading = loop.create_future()
        try:
            loop.add_reader(self._descriptor, self._ready)
        except OSError:  # a file on disk is always ready
            return os.read(self._descriptor, 65_536)
        try:
            return await self._reading
        finally:
            loop.remove_reader(self._descriptor)
            self._reading = None

    def _ready(self) -> None:
        if self._reading is None or self._reading.done():
            return
        try:
            self._reading.set_result(os.read(self._descriptor, 65_536))
        except OSError:  # the terminal is gone
            self._reading.set_result(b"")


def _say(words: str) -> None:
    sys.stdout.write(words)
    sys.stdout.flush()


# Ctrl-C: once stops what runs, twice within two seconds leaves.


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

    @property
    def recent(self) -> bool:
        """Whether one came so shortly ago that the next means to leave."""
        return self._last is not None and self._now() - self._last <= SECONDS
