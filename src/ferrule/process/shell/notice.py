"""What a program runs in the background, written down where the person's other programs can see and stop it.

One small file for each set of shells, renewed whenever a command starts or ends and removed with the shells. A program
that was killed leaves its file behind; whoever looks next sees that the process is gone, and clears it away.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from ferrule.process.shell.family import Family, Running, started

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.process.shell.background import BackgroundCommand

_PATIENCE = 1.0


@dataclass(slots=True, frozen=True)
class Noted:
    """A background command of some program on this machine."""

    id: str
    program: Running
    workspace: str
    command: str
    status: str
    exit_code: int | None
    began: float
    output: Path | None
    keeper: int
    roots: frozenset[Running]

    async def stop(self) -> bool:
        """End it with all that it started; False when something of it goes on all the same."""
        await Family(self.keeper).end_these(self.roots, _PATIENCE)
        return not any(root.alive for root in self.roots)


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
        return {
            "id": f"{self._token}.{one.id}",
            "command": one.command,
            "status": one.status,
            "exit_code": one.exit_code,
            "began": time() - (monotonic() - one.began),
            "output": str(one.record.path) if one.record.path else None,
            "keeper": one.guard.family.keeper,
            "roots": [[root.pid, root.started] for root in one.roots],
        }


def noted_commands(folder: Path) -> list[Noted]:
    """Those of all programs that still run here, oldest first. Files of the dead are cleared away."""
    found: list[Noted] = []
    for path in folder.glob("*.json"):
        try:
            document = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
            if document["system"] != _system():
                continue  # the folder is shared with another machine or container, whose processes are not seen here
            program = Running(*document["program"])
            if not program.alive:
                path.unlink(missing_ok=True)
                continue
            found += [_noted(entry, program, document["workspace"]) for entry in document["commands"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue  # removed meanwhile, or none of ours
    return sorted(found, key=lambda one: one.began)


def _noted(entry: dict[str, Any], program: Running, workspace: str) -> Noted:
    roots = frozenset(Running(*root) for root in entry["roots"])
    output = Path(entry["output"]) if entry["output"] else None
    return Noted(
        entry["id"], program, workspace, entry["command"], entry["status"], entry["exit_code"], entry["began"],
        output, entry["keeper"], roots,
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
