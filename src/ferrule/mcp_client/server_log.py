"""What a server writes beside the protocol: the last of it is kept, for whoever asks why it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.core.secrets import redact_text
from ferrule.mcp_client.bounds import STDERR_KEPT

if TYPE_CHECKING:
    from ferrule.mcp_client.variables import Variables

_LONGEST_LINE = 300


class ServerLog:
    """A bounded tail of a server's standard error, and the first line on its output that was no message."""

    def __init__(self, variables: Variables | None = None) -> None:
        self._variables = variables
        self._kept = bytearray()
        self.left_out = 0
        self.garbage_lines = 0
        self._garbage = ""

    def add(self, piece: bytes) -> None:
        self._kept += piece
        over = len(self._kept) - STDERR_KEPT
        if over > 0:
            del self._kept[:over]
            self.left_out += over

    def add_garbage(self, line: bytes) -> None:
        self.garbage_lines += 1
        if not self._garbage:
            self._garbage = _one_line(line[: 4 * _LONGEST_LINE].decode(errors="replace"))

    @property
    def text(self) -> str:
        """What is kept, without secrets."""
        return self.clean(self._kept.decode(errors="replace"))

    @property
    def last_line(self) -> str:
        """The last thing that it said, shortened."""
        return _one_line(next((line for line in reversed(self.text.splitlines()) if line.strip()), ""))

    @property
    def garbage(self) -> str:
        """The first line of its output that was no message."""
        return self.clean(self._garbage)

    def clean(self, text: str) -> str:
        """Words about the server, or of it, without the secrets that it was given."""
        if self._variables is not None:
            text = self._variables.masked(text)
        return redact_text(text)


def _one_line(text: str) -> str:
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"
