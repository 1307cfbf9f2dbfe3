"""What a program runs in the background, written down where the person's other programs can see and stop it.

One small file for each set of shells, renewed whenever a command starts or ends and removed with the shells. A program
that was killed leaves its file behind; whoever looks next sees that the process is gone, and clears it away.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from ferrule.process import launcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.process.shell.background import BackgroundCommand

_PATIENCE = 1.0
_SECONDS_BETWEEN_LOOKS = 0.01


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
        if not await self._has_ended(_PATIENCE):
            launcher.stop_and_kill([self.box.pid])
        return await self._has_ended(_PATIENCE)

    async def _has_ended(self, seconds: float) -> bool:
        end = monotonic() + seconds
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

    def renew(self, commands: Iterable[BackgroundCommand]) -> None:
        """Write down what there is now."""
        me, listed = started(os.getpid()), [self._entry(one) for one in commands]
        if me is None or not listed:
            return  # a system that does not tell when a process started; nobody could trust the file
        document = {
            "system": _system(),
            "program": [os.getpid(), me],
            "workspace": self._workspace,
            "commands": listed,
        }
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        opened = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(document, file)
        fresh.replace(self._path)

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
    for path in folder.glob("*.json"):
        try:
            document = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
            if document["system"] != _system():
                continue  # the folder is shared with another machine or container, whose processes are not seen here
            program = NotedProcess(*document["program"])
            if not program.alive:
                path.unlink(missing_ok=True)
                continue
            found += [_noted(entry, program, document["workspace"]) for entry in document["commands"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # removed meanwhile, or none of ours
    return sorted(found, key=lambda one: one.began)


def _noted(entry: dict[str, Any], program: NotedProcess, workspace: str) -> NotedCommand:
    box = NotedProcess(*entry["box"]) if entry["box"] else None
    output = Path(entry["output"]) if entry["output"] else None
    return NotedCommand(
        entry["id"], program, workspace, entry["command"], entry["status"], entry["exit_code"], entry["began"],
        output, box,
    )  # fmt: skip


@cache
def _system() -> str:
    """Which processes the numbers are about: this start of this machine, seen from this container."""
    parts: list[str] = []
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)
