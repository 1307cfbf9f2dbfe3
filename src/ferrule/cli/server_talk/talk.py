"""Where a server's question is put, and how it is told apart from ours: who asks, and their words behind a bar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ferrule.cli.ask import Line
from ferrule.cli.words import _
from ferrule.policy.shown_text import disguises, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

YES = ("y", "yes", "是")
NO = ("n", "no", "否")
BAR = "│ "
"""Stands before every line that the server wrote: none of them can pass for one of ours."""


class Talk(Protocol):
    """A person who is shown lines, and answers. Esc and Ctrl-C raise `KeyboardInterrupt`, Ctrl-D `EOFError`."""

    @property
    def cancelled_by(self) -> str:
        """The keys that cancel the question."""
        ...

    def tell(self, lines: Sequence[Line]) -> None: ...

    async def answer(self) -> str: ...


def ours(words: str) -> Line:
    return Line(words)


def warning(words: str) -> Line:
    return Line(words, warning=True)


def theirs(text: str) -> list[Line]:
    """What the server wrote, with everything in it made visible, and a warning where it is not what it looks like."""
    if not text.strip():
        return []
    lines = [Line(f"{BAR}{line}", of_the_call=True) for line in shown(text.strip().expandtabs(4)).split("\n")]
    if found := disguises(text.strip()):
        lines.append(warning(_("it holds {what}").format(what=_(", ").join(_(one) for one in found))))
    return lines


def one_row(text: str, most: int = 200) -> str:
    """A server's word in the middle of a row of ours."""
    row = shown(" ".join(text.split()))
    return row if len(row) <= most else f"{row[: most - 1]}…"
