"""How a command ended, as a tool tells it to a model and a person."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.process.output import LeftOut, Piece
    from ferrule.process.sandbox.sandbox import Denial
    from ferrule.process.shell.family import Running


@dataclass(slots=True, frozen=True)
class Ended:
    """What a command did and wrote, also when it was ended from outside."""

    exit_code: int | None
    """None when it was ended from outside, or has not ended yet."""
    stdout: str
    stderr: str
    pieces: list[Piece]
    """Both streams in the order they came."""
    left_out: LeftOut
    """What `pieces` leaves out."""
    spill: Path | None
    """The file with all of it, when there is more than is shown."""
    duration: float
    cwd: str
    """The session's folder afterwards."""
    timed_out: bool = False
    starved: bool = False
    """Whether it was ended because it waited for input without a terminal, where none can come."""
    moved_to_background: str | None = None
    """The number under which it goes on."""
    waiting_for_input: str | None = None
    """The last line it wrote before it began to wait for an answer."""
    still_running: tuple[Running, ...] = ()
    """What it left running behind it."""
    denials: tuple[Denial, ...] = ()
    """What the sandbox kept it from, or took back."""
    notes: tuple[str, ...] = field(default=())
    """What else a reader of the result should know, in sentences."""
