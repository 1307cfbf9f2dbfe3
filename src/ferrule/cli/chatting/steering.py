"""What the person types while the agent works: a line of it goes to the agent, and nothing is echoed by the terminal.

The terminal gives single keys meanwhile; Ctrl-C stays a signal. A line that is not finished when the turn ends is kept
for the prompt.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

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
