"""The processes of one session, seen from outside: which there are, which a command left behind, and ending them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from ferrule.process.shell.keeper import descendants, signal_all, stop_and_kill

_SECONDS_BETWEEN_LOOKS = 0.01
_SECONDS_TO_KILL = 5.0


@dataclass(slots=True, frozen=True)
class Running:
    """A process, told apart from a later one with the same number by when it started."""

    pid: int
    started: int

    @property
    def command(self) -> str:
        """Its command line, as far as it can be read."""
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            return b" ".join(words).decode(errors="replace")[:200]
        return ""

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return started(self.pid) == self.started


def started(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None when there is no such process, or only its remains."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in (b"Z", b"X") else int(fields[19])


def parent(pid: int) -> Running | None:
    """The process above another."""
    fields = _stat(pid)
    above = int(fields[1]) if fields is not None else 0
    when = started(above) if above else None
    return None if when is None else Running(above, when)


def _stat(pid: int) -> list[bytes] | None:
    """What the kernel tells of a process, from its state on."""
    content = _read(f"/proc/{pid}/stat")
    return None if content is None else content.rpartition(b")")[2].split()


def _read(path: str) -> bytes | None:
    """A small file of the kernel's; plain calls, because this is asked for after every command."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(opened, 1 << 16)
    except OSError:
        return None
    finally:
        os.close(opened)


class Family:
    """Everything below one keeper. Its frame is what runs no command of anyone: sandbox, guard and shells."""

    def __init__(self, keeper: int) -> None:
        self.keeper = keeper
        self._frame: set[Running] = set()

    @property
    def frame(self) -> frozenset[int]:
        """The frame's processes that still run."""
        self._frame = {one for one in self._frame if one.alive}
        return frozenset(one.pid for one in self._frame)

    def add_frame(self, shell: int) -> None:
        """A shell, and what lies between it and the keeper."""
        pid = shell
        while pid not in (self.keeper, 0, 1) and (fields := _stat(pid)) is not None:
            self._frame.add(Running(pid, int(fields[19])))
            pid = int(fields[1])

    def take_for_frame(self) -> None:
        """All there is before the first shell: the sandbox, the guard, and what passes its network on."""
        found = ((pid, started(pid)) for pid in descendants(self.keeper))
        self._frame.update(Running(pid, when) for pid, when in found if when is not None)

    def find(self, inner: int) -> int | None:
        """The process that knows itself under this number, inside whatever namespace it is."""
        for pid in descendants(self.keeper):
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text(errors="replace")
                numbers = next((line for line in status.splitlines() if line.startswith("NSpid:")), "")
                if numbers.split()[-1:] == [str(inner)]:
                    return pid
        return None

    def left_behind(self) -> list[int]:
        """Processes that hang below the frame beside it. A few small reads, so it can be asked after every command."""
        found: list[int] = []
        frame = {one.pid for one in self._frame}
        for pid in (self.keeper, *frame):
            children = _read(f"/proc/{pid}/task/{pid}/children")
            if children is None and started(pid) is not None:  # a kernel without this list
                return descendants(self.keeper, past=self.frame)
            found += [int(child) for child in (children or b"").split()]
        beside = [pid for pid in found if pid not in frame]
        if beside:
            frame = self.frame  # a number may have been a shell's and be a command's now
            beside = [pid for pid in found if pid not in frame and started(pid) is not None]
        return beside

    def roots(self) -> frozenset[Running]:
        """The same, each told apart from later ones."""
        found = ((pid, started(pid)) for pid in self.left_behind())
        return frozenset(Running(pid, when) for pid, when in found if when is not None)

    def running(self) -> list[Running]:
        """All that commands have started and that still runs."""
        found = ((pid, started(pid)) for pid in descendants(self.keeper, past=self.frame))
        return [Running(pid, when) for pid, when in found if when is not None]

    def running_as(self, inner: int) -> Running | None:
        """The process that knows itself under this number."""
        pid = self.find(inner)
        when = started(pid) if pid is not None else None
        return Running(pid, when) if pid is not None and when is not None else None

    def interrupt(self, shell: Running | None) -> None:
        """What Ctrl-C does where a terminal rules its processes: the shell and what it started are told.

        The shell first: it ends with a child that an interruption ended only if it was interrupted too.
        """
        own = [shell.pid] if shell is not None and shell.alive else []
        signal_all([*own, *descendants(self.keeper, past=self.frame)], signal.SIGINT)

    def holds_output(self, pipes: frozenset[str]) -> bool:
        """Whether a command's process, or one of its copies of the shell, can still write to one of these pipes."""
        return bool(self.writers(pipes))

    def writers(self, pipes: frozenset[str]) -> frozenset[Running]:
        """Those that can; a command's own pipes tell whose a process is that has no parent any more."""
        found = {pid: started(pid) for pid in descendants(self.keeper, past=self.frame) if _has_open(pid, pipes)}
        return frozenset(Running(pid, when) for pid, when in found.items() if when is not None)

    def below(self, roots: frozenset[Running]) -> list[Running]:
        """Those of `roots` that still run, with all that is below them."""
        alive = frozenset(root.pid for root in roots if root.alive)
        ours: set[int] = set(alive)
        for root in alive:
            ours.update(descendants(root))
        return [one for one in self.running() if one.pid in ours]

    async def end(self, spared: frozenset[Running], patience: float) -> None:
        """End what commands have started, all but the spared and what is below those: asked first, then killed."""
        signal_all(self._ours(spared), signal.SIGTERM)
        end = monotonic() + patience
        while self._ours(spared) and monotonic() < end:  # noqa: ASYNC110 - nobody tells when others' children end
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        end = monotonic() + _SECONDS_TO_KILL
        while stop_and_kill(self.keeper, past=self.frame, without=_alive(spared)) and monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    async def end_these(self, roots: frozenset[Running], patience: float) -> None:
        """End these and what is below them."""
        chosen = set(self.below(roots))
        signal_all([one.pid for one in chosen], signal.SIGTERM)
        end = monotonic() + patience
        while any(one.alive for one in chosen) and monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        end = monotonic() + _SECONDS_TO_KILL
        while monotonic() < end:
            chosen.update(self.below(frozenset(chosen)))
            left = [one.pid for one in chosen if one.alive]
            if not left:
                return
            signal_all(left, signal.SIGSTOP)
            chosen.update(self.below(frozenset(chosen)))
            signal_all([one.pid for one in chosen if one.alive], signal.SIGKILL)
            await asyncio.sleep(0.001)

    def _ours(self, spared: frozenset[Running]) -> list[int]:
        return descendants(self.keeper, past=self.frame, without=_alive(spared))


def _has_open(pid: int, pipes: frozenset[str]) -> bool:
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - names alone
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{number}") in pipes:  # noqa: PTH115 - not a path
                    return True
    return False


def _alive(spared: frozenset[Running]) -> frozenset[int]:
    return frozenset(one.pid for one in spared if one.alive)
