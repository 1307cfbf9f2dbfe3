"""One shell below a guard, in one of its places: started with a state, given commands, asked what it saved."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.process.shell.bash_lines import SAVE_AND_END, Lines
from ferrule.process.shell.family import Running, parent, started
from ferrule.process.shell.kept_guard import ShellLost

if TYPE_CHECKING:
    from ferrule.process.shell.kept_guard import KeptGuard

_SECONDS_TO_START = 8.0
_SECONDS_TO_REPORT = 0.1
_MOST_SAVED_EACH_TIME = 4 << 20


@dataclass(slots=True)
class State:
    """What a shell hands on to the one after it."""

    lines: bytes = b""
    folder: str | None = None
    traps: str = ""
    """What of Ferrule's own traps a command has taken away, as lines that set them again."""
    status: int = 0
    large: bool = field(default=False)
    """Whether it is so much that it is only saved when the shell ends."""


class PlacedShell:
    """A shell that runs, or ran."""

    def __init__(self, guard: KeptGuard, place: int) -> None:
        self.guard = guard
        self.place = place
        numbers = guard.descriptors.numbers
        self.lines = Lines(guard.guard, numbers, numbers.places[place])
        self.process: Running | None = None
        self.death: asyncio.Future[str] = guard.loop.create_future()
        """The news of its end, with the exit code where there is one."""
        self.retired = False
        self.lines_sent = 0
        """Since it started: bash numbers the lines of the whole session."""
        self._nonce = ""

    async def start(self, state: State) -> str:
        """Begin with a state; the folder it is in then."""
        guard, numbers = self.guard, self.lines.place
        self.drop_unread()
        guard.descriptors.write(numbers.saved, state.lines)
        guard.forget(self._nonce, "died")
        self._nonce = guard.nonce()
        ready = guard.expect(self._nonce, "ready")
        self.death = guard.expect(self._nonce, "died")
        self.lines_sent = 0
        guard.order(self._nonce, numbers.lines, afresh=bool(state.lines))
        self.send(self.lines.restore(self._nonce, state.folder))
        await asyncio.wait({ready, self.death}, timeout=_SECONDS_TO_START, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise ShellLost("it ended as it started" if self.death.done() else "it did not answer")
        inner, _, where = ready.result().partition(" ")
        pid = guard.family.find(int(inner))
        when = started(pid) if pid is not None else None
        if pid is None or when is None:
            raise ShellLost("its process cannot be found")
        self.process = Running(pid, when)
        guard.family.add_frame(pid)
        self._watch(pid)
        self.clear_saved()
        return where

    @property
    def exit_code(self) -> int | None:
        """How it ended; None when that is not known."""
        told = self.death.result() if self.death.done() and self.death.exception() is None else ""
        return int(told) if told else None

    def _watch(self, pid: int) -> None:
        """Notice its end also when whoever should report that was killed first."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return
        loop, death = self.guard.loop, self.death
        reporter = parent(pid)

        def gone() -> None:
            loop.remove_reader(handle)
            look_again()

        def look_again() -> None:
            if death.done():
                return
            if reporter is not None and reporter.alive:
                loop.call_later(_SECONDS_TO_REPORT, look_again)
            else:
                loop.call_later(_SECONDS_TO_REPORT, give_up)

        def give_up() -> None:
            if not death.done():
                death.set_result("")

        def forget(_: object) -> None:
            if not loop.is_closed():
                loop.remove_reader(handle)
            os.close(handle)

        loop.add_reader(handle, gone)
        death.add_done_callback(forget)

    def send(self, lines: bytes) -> None:
        """Lines for it to read; they are short, and the pipe is empty when they come."""
        if self.guard.lost:
            raise ShellLost(self.guard.lost)
        self.lines_sent += lines.count(b"\n")
        os.write(self.guard.descriptors.line_ends[self.place], lines)

    def give_text(self, text: bytes) -> None:
        """The command that the next lines are about, of any length."""
        self.guard.descriptors.write(self.lines.place.text, text + b"\0")

    @property
    def unread_lines(self) -> int:
        """Bytes that it has yet to read. While a command runs, the line that ends it is among them."""
        return self.guard.descriptors.unread(self.lines.place.lines)

    def drop_unread(self) -> None:
        """Take back what it did not read: a command that ended it, or someone else wrote it."""
        if waiting := self.unread_lines:
            os.read(self.lines.place.lines, waiting)

    def saved(self, state: State) -> State | None:
        """What it saved since `clear_saved`, all of it; `state` is what was known before."""
        memory = self.lines.place.saved
        content = os.pread(memory, os.fstat(memory).st_size, 0)
        trap, first, rest = content.partition(b"\0")
        lines, second, rest = rest.partition(b"\0")
        folder, last, _ = rest.partition(b"\0")
        if not (first and second and last):
            return None
        traps = ""
        if not trap or self.lines.signal_trap not in lines:
            traps = self.lines.traps(on_exit=not trap)  # but one that the command has set itself stays
        return State(
            lines,
            os.fsdecode(folder.removesuffix(b"\n")) or state.folder,
            traps=traps,
            status=state.status,
            large=len(lines) > _MOST_SAVED_EACH_TIME,
        )

    def clear_saved(self) -> None:
        """So that what is found there later was saved from now on."""
        os.ftruncate(self.lines.place.saved, 0)

    def signal(self, number: int) -> None:
        """Signal it, if it still runs."""
        if self.process is not None and self.process.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def heeds(self, number: int) -> bool:
        """Whether it has a trap on this signal; a command may have taken it away."""
        if self.process is None:
            return False
        try:
            told = Path(f"/proc/{self.process.pid}/status").read_text(errors="replace")
        except OSError:
            return False
        caught = next((line for line in told.splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
        return bool(int(caught.split()[1], 16) >> (number - 1) & 1)

    def ask_to_end(self) -> None:
        """Have it save its state and exit. One that does not heed that would go on with the rest of its command as soon
        as its children are ended, and is killed.
        """
        self.signal(SAVE_AND_END if self.heeds(SAVE_AND_END) else signal.SIGKILL)

    async def kill(self, seconds: float) -> bool:
        """End it by force; False when its guard does not tell of its end."""
        self.signal(signal.SIGKILL)
        return await self.has_died(seconds)

    async def has_died(self, seconds: float) -> bool:
        """Whether it ends within this time."""
        await asyncio.wait({self.death}, timeout=seconds)
        return self.death.done()

    def retire(self) -> None:
        """End it and give its place back: its one command is over, and nothing more will run in it."""
        if self.retired:
            return
        self.retired = True
        self.signal(signal.SIGKILL)

        def give_back(_: object) -> None:
            self.guard.free_places.append(self.place)

        if self.death.done():
            give_back(None)
        else:
            self.death.add_done_callback(give_back)
