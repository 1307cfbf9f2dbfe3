"""What a server writes beside the protocol: the last of it is kept, for whoever asks why it failed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ferrule.core.phrases import Phrase
from ferrule.core.secrets import redact_text
from ferrule.mcp_client.bounds import STDERR_KEPT

if TYPE_CHECKING:
    from ferrule.mcp_client.variables import Variables

_LONGEST_LINE = 300
_LONGEST_SAMPLE = 120
_SAMPLES = 20


class ServerLog:
    """A bounded tail of a server's standard error, and of the lines on its output that were no messages."""

    def __init__(self, variables: Variables | None = None) -> None:
        self._variables = variables
        self._kept = bytearray()
        self.left_out = 0
        self.garbage_lines = 0
        self._garbage: deque[str] = deque(maxlen=_SAMPLES)

    def add(self, piece: bytes) -> None:
        self._kept += piece
        over = len(self._kept) - STDERR_KEPT
        if over > 0:
            del self._kept[:over]
            self.left_out += over

    def add_garbage(self, line: bytes) -> None:
        self.garbage_lines += 1
        self._garbage.append(line[: 4 * _LONGEST_SAMPLE].decode(errors="replace"))

    @property
    def text(self) -> str:
        """What is kept, without secrets."""
        return self.clean(self._kept.decode(errors="replace"))

    @property
    def last_line(self) -> str:
        """The last thing that it said, shortened."""
        return _one_line(next((line for line in reversed(self.text.splitlines()) if line.strip()), ""))

    def garbage(self, since: int = 0) -> str:
        """A sample of what it wrote that was no message, after so many lines; of many, from the last few."""
        fresh = min(self.garbage_lines - since, len(self._garbage))
        lines = list(self._garbage)[len(self._garbage) - fresh :]
        return _one_line(self.clean("\n".join(dict.fromkeys(lines))), _LONGEST_SAMPLE)

    def clean(self, text: str) -> str:
        """Words about the server, or of it, without the secrets that it was given."""
        if isinstance(text, Phrase):
            return text.mapped(self.clean)
        if self._variables is not None:
            text = self._variables.masked(text)
        return redact_text(text)


def _one_line(text: str, most: int = _LONGEST_LINE) -> str:
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= most else line[: most - 1] + "…"
