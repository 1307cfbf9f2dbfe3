"""Commands behind a session, each in its own box: started there, or moved there when their time was up.

Each has a number, its whole output in a file, and a cursor for reading on. It stays until it ends, is stopped, or
its session is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Literal

from ferrule.core.files import unfinished_in, write_atomically
from ferrule.process import launcher
from ferrule.process.output import LeftOut, clean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.process.output import OutputRecord
    from ferrule.process.sandbox.denials import Denial
    from ferrule.process.shell.running import RunningCommand


# What a program runs in the background, written down where the person's other programs can see and stop it.


_PATIENCE = 1.0
_SECONDS_BETWEEN_LOOKS = 0.01
_SECONDS_TO_WRITE, _OLDEST_SECONDS = 60, 7 * 24 * 3600


@dataclass(slots=True, frozen=True)
class NotedProcess:
    """A process, told apart from a later one with the same number by when it started."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return started(self.pid) == self.started


def started(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None when there is no such process, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


@dataclass(slots=True, frozen=True)
class NotedCommand:
    """A background command of some program on this machine."""

    id: str
    program: NotedProcess
    workspace: str
    command: str
    status: str
    exit_code: int | None
    began: float
    output: Path | None
    box: NotedProcess | None
    """The first process of its box; None once it has ended."""

    async def stop(self) -> bool:
        """End it with all that it started; False when it goes on all the same."""
        if self.box is None or not self.box.alive:
            return True
        launcher.signal_all(launcher.descendants(self.box.pid), signal.SIGTERM)
        if not await self._has_ended():
            launcher.stop_and_kill([self.box.pid])
        return await self._has_ended()

    async def _has_ended(self) -> bool:
        end = monotonic() + _PATIENCE
        while self.box is not None and self.box.alive:
            if monotonic() > end:
                return False
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
        return True


class Notice:
    """The file of one set of shells. It is there as long as there are commands to tell of."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._token = os.urandom(3).hex()
        self._path = folder / f"{self._token}.json"
        self._workspace = os.path.realpath(workspace)
        noted_commands(folder)  # which clears away what a kill left

    def renew(self, commands: Iterable[BackgroundCommand]) -> None:
        """Write down what there is now."""
        me, listed = started(os.getpid()), [self._entry(one) for one in commands]
        if me is None or not listed:
            return  # a system that does not say when a process started: the file could not be trusted
        document = {"system": _system(), "program": [os.getpid(), me], "workspace": self._workspace, "commands": listed}
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._path, json.dumps(document).encode(), mode=0o600, durable=False)

    def remove(self) -> None:
        """The shells are gone."""
        self._path.unlink(missing_ok=True)

    def _entry(self, one: BackgroundCommand) -> dict[str, Any]:
        pid = one.running.box.pid if one.status == "running" else 0
        return {
            "id": f"{self._token}.{one.id}",
            "command": one.command,
            "status": one.status,
            "exit_code": one.exit_code,
            "began": time() - (monotonic() - one.began),
            "output": str(one.record.path) if one.record.path else None,
            "box": [pid, started(pid)] if pid else None,
        }


def noted_commands(folder: Path) -> list[NotedCommand]:
    """Those of all programs that still run here, oldest first. Files of the dead are cleared away."""
    found: list[NotedCommand] = []
    old = time() - _OLDEST_SECONDS
    for path in unfinished_in(folder):
        with suppress(OSError):
            if path.stat().st_mtime < time() - _SECONDS_TO_WRITE:
                path.unlink()  # it was killed while it wrote
    for path in folder.glob("*.json"):
        try:
            document = json.loads(path.read_bytes())
            if document["system"] != _system():
                # The folder is shared with another machine or container, whose processes are not seen here; or this
                # machine was started anew since.
                if path.stat().st_mtime < old:
                    path.unlink()
                continue
            program = NotedProcess(*document["program"])
            if not program.alive:
                path.unlink(missing_ok=True)
                continue
            for entry in document["commands"]:
                entry["box"] = NotedProcess(*entry["box"]) if entry["box"] else None
                entry["output"] = Path(entry["output"]) if entry["output"] else None
                found.append(NotedCommand(program=program, workspace=document["workspace"], **entry))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # removed meanwhile, or none of ours
    return sorted(found, key=lambda one: one.began)


@cache
def _system() -> str:
    """Which processes the numbers are about: this start of this machine, seen from this container."""
    parts: list[str] = []
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


Status = Literal["running", "ended", "stopped"]
_READ_AT_ONCE = 32_000
_SEARCHED_AT_ONCE, _LONGEST_LINE = 1 << 18, 16_384


@dataclass(slots=True, frozen=True)
class ReadOn:
    """What a background command wrote since it was last read."""

    text: str
    left_out: LeftOut
    """What was passed over, because it was too much for one reading; it is in the file."""
    spill: Path | None


@dataclass(slots=True, eq=False)
class BackgroundCommand:
    """One command behind the session."""

    id: str
    running: RunningCommand
    status: Status = "running"
    exit_code: int | None = None
    began: float = field(default_factory=monotonic)
    ended_at: float | None = None
    cursor: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    denials: tuple[Denial, ...] = ()
    """What its box kept it from, or took back; known once it is over."""
    stopping: bool = False
    watch: asyncio.Task[None] | None = None

    @property
    def command(self) -> str:
        """Its text."""
        return self.running.command

    @property
    def record(self) -> OutputRecord:
        """Its output."""
        return self.running.reader.record

    def finish(self, exit_code: int | None) -> None:
        """It has ended, with everything in its box."""
        self.status = "stopped" if self.stopping else "ended"
        self.exit_code = None if self.stopping else exit_code
        self.ended_at = monotonic()
        self.record.close()
        self.over.set()

    def read_on(self, *, since: int | None = None, most: int = _READ_AT_ONCE) -> ReadOn:
        """What came since the last reading, or since a cursor; the newest part where it is too much."""
        start = self.cursor if since is None else max(0, since)
        end = self._written
        first = max(start, end - most)
        data = self._bytes(first, end)
        if first > start and (line := data.find(b"\n")) >= 0:
            data, first = data[line + 1 :], first + line + 1
        passed = self._bytes(start, first).count(b"\n") if first > start else 0
        self.cursor = end
        text = clean(data.decode(errors="replace"))
        return ReadOn(text, LeftOut(first - start, passed), self.record.path)

    @property
    def _written(self) -> int:
        return self.record.spill.size if self.record.spill is not None else self.record.total

    def _bytes(self, start: int, end: int) -> bytes:
        if self.record.spill is not None:
            return self.record.spill.read(start, end - start)
        return "".join(piece.text for piece in self.record.pieces()).encode()[start:end]

    async def wait_for(self, text: str, *, timeout: float = 30.0, since: int = 0) -> str | None:
        """The first line with this text in it; None when the command ended, or time was up, without one."""
        place, rest, end = since, b"", monotonic() + timeout
        wanted = text.encode(errors="replace")
        while True:
            last = self.status != "running"
            while place < self._written and (data := self._bytes(place, min(self._written, place + _SEARCHED_AT_ONCE))):
                place += len(data)
                *lines, rest = (rest + data).split(b"\n")
                for line in (*lines, rest):
                    if wanted in line:
                        return clean(line[:_LONGEST_LINE].decode(errors="replace"))
                rest = rest[-_LONGEST_LINE:]
            if last or monotonic() >= end:
                return None
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
