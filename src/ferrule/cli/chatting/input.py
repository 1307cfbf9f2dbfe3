"""Where the user's words come from: whole lines of a terminal or a pipe, and what is typed while the agent works.

`PlainInput` is for pipes, dumb terminals and plain text; `PromptInput` (prompt_input.py) edits, remembers and
completes. Neither blocks the loop: what runs in the background goes on while the person thinks.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import sys
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TextIO

from ferrule.cli.ask import forget_what_was_typed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class PersonInput(Protocol):
    """Reads messages and answers. Ctrl-C raises `KeyboardInterrupt`, the end of the input `EOFError`."""

    @property
    def by_person(self) -> bool:
        """Whether a person is there; whoever fills a pipe is not asked for leave."""
        ...

    async def message(self, typed: str = "") -> str:
        """What to do next; `typed` was typed before."""
        ...

    async def answer(self, *, escapes: bool = False) -> str:
        """The answer to a question that is on the screen; nothing that was typed before it counts.

        With `escapes` the Esc key does what Ctrl-C does, where single keys are read.
        """
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

    async def message(self, typed: str = "") -> str:
        self._say("> ")
        line = await self._line()
        while line.endswith("\\"):
            self._say("… ")
            line = f"{line[:-1]}\n{await self._line()}"
        if not self.by_person:
            self._say(f"{line}\n")  # nobody typed it here, and the page should read like a conversation
        return line

    async def answer(self, *, escapes: bool = False) -> str:
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


# What the person types while the agent works: a line of it goes to the agent, and nothing is echoed by the terminal.


_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
_MOST = 10_000
_JOINERS = "\u200c\u200d"  # between the parts of one emoji, or of one syllable


class TypedLine:
    """The line as it grows; keys that move or complete are passed over."""

    def __init__(self) -> None:
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._kept = ""

    def feed(self, data: bytes) -> list[str]:
        """The lines that were finished."""
        keys = _SEQUENCE.sub("", self._kept + self._decoder.decode(data))
        self._kept = ""
        if cut := _UNFINISHED.search(keys):
            self._kept, keys = cut[0], keys[: cut.start()]
        lines: list[str] = []
        for key in keys:
            if key in "\r\n":
                if self.text.strip():
                    lines.append(self.text.strip())
                self.text = ""
            else:
                self._press(key)
        return lines

    def _press(self, key: str) -> None:
        if key in "\x7f\x08":
            self.text = _without_last(self.text)
        elif key == "\x15":
            self.text = ""
        elif key == "\x17":
            self.text = self.text.rstrip().rpartition(" ")[0]
        elif (key.isprintable() or key in _JOINERS) and len(self.text) < _MOST:
            self.text += key


def _without_last(text: str) -> str:
    from wcwidth import iter_graphemes

    return "".join(list(iter_graphemes(text))[:-1])


class Steering:
    """Listens at a terminal; `off` is for places where nobody types, or where lines are read whole."""

    def __init__(
        self, descriptor: int | None, on_line: Callable[[str], None], on_change: Callable[[str], None]
    ) -> None:
        self._descriptor = descriptor
        self._on_line = on_line
        self._on_change = on_change
        self._line = TypedLine()
        self._before: list[object] | None = None

    @contextmanager
    def listening(self) -> Generator[None]:
        self._listen()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def paused(self) -> Generator[None]:
        """While a question is open: its answer is read in another way."""
        listened = self._before is not None
        self._stop()
        try:
            yield
        finally:
            if listened:
                self._listen()

    def unfinished(self) -> str:
        """What was typed and not sent; it is given once."""
        text, self._line = self._line.text, TypedLine()
        self._on_change("")
        return text

    def _listen(self) -> None:
        if self._descriptor is None or self._before is not None or os.name == "nt":
            return
        import termios

        with suppress(termios.error):
            before = termios.tcgetattr(self._descriptor)
            silent = list(before)
            silent[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, silent)
            self._before = before
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def _stop(self) -> None:
        if self._descriptor is None or self._before is None:
            return
        import termios

        asyncio.get_running_loop().remove_reader(self._descriptor)
        before, self._before = self._before, None
        with suppress(termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)  # pyright: ignore[reportArgumentType]

    def _read(self) -> None:
        assert self._descriptor is not None  # noqa: S101 - it listens
        try:
            data = os.read(self._descriptor, 4096)
        except OSError:
            data = b""
        if not data:  # the terminal is gone; a signal says so
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        for line in self._line.feed(data):
            self._on_line(line)
        self._on_change(self._line.text)
