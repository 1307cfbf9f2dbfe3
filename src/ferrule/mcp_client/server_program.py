"""An MCP server that is a program: spoken to over its standard streams, and nothing of it is left behind.

It runs in a box without a sandbox: whatever it starts, also what makes a session of its own, ends with it, and all of
it ends with Ferrule, however that ends.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.process import launcher
from ferrule.process.box import BoxFailed, start_box
from ferrule.process.sandbox.sandbox import Launch, Prepared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.process.box import Box


class CannotStart(Exception):  # noqa: N818 - reads as what it says
    """The program could not be started; says why."""


class ServerProgram:
    """A running program. `stdin`, `stdout` and `stderr` are our ends of its streams; whoever takes one closes it."""

    def __init__(self, box: Box, stdin: int, stdout: int, stderr: int) -> None:
        self._box = box
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr

    @property
    def pid(self) -> int:
        """The process that everything of it is below."""
        return self._box.pid

    @property
    def ended(self) -> asyncio.Future[int]:
        """The exit code, or the negative number of a signal, once it has ended with all that it started."""
        return self._box.ended

    @classmethod
    async def start(cls, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> ServerProgram:
        """Start it; raises `CannotStart`."""
        executable = _must_find(arguments[0], folder, environment)
        (reading, stdin), (stdout, writing), (stderr, complaining) = os.pipe(), os.pipe(), os.pipe()
        launch = Launch((executable, *arguments[1:]), environment, str(folder))
        try:
            box = await start_box(Prepared(launch), (reading, writing, complaining))
        except BaseException as error:
            for ours in (stdin, stdout, stderr):
                os.close(ours)
            if isinstance(error, BoxFailed):
                raise CannotStart(error.why) from None
            if isinstance(error, (OSError, ValueError)):
                raise CannotStart(str(error)) from None
            raise
        finally:
            for theirs in (reading, writing, complaining):
                os.close(theirs)
        return cls(box, stdin, stdout, stderr)

    async def end(self, patience: float = 1.0, *, to_notice: float | None = None) -> None:
        """End it with all that it started: its input is closed, then it is asked to, then all is killed.

        It has `patience` seconds for each, or `to_notice` for the first: to see that its input has ended.
        """
        for name in ("stdin", "stdout", "stderr"):
            if (descriptor := self.take(name)) >= 0:
                os.close(descriptor)
        for number, seconds in ((0, patience if to_notice is None else to_notice), (signal.SIGTERM, patience)):
            if not self.ended.done() and patience > 0:
                if number:
                    launcher.signal_all(self._box.processes()[:1], number)
                await asyncio.wait({self.ended}, timeout=seconds)
        await self._box.end(patience=0)
        self._box.close()

    def take(self, name: str) -> int:
        """Our end of a stream, for whoever will close it."""
        descriptor = getattr(self, name)
        setattr(self, name, -1)
        return descriptor


def _must_find(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    executable = find_executable(command, folder, environment)
    if executable is None:
        raise CannotStart(_why_not(command, folder))
    if not folder.is_dir():
        raise CannotStart(phrase("there is no folder `{folder}`", folder=folder))
    return executable


def _why_not(command: str, folder: Path) -> str:
    """What is the matter with a command that is no program."""
    if os.sep in command:
        path = folder / Path(command).expanduser()
        if path.is_dir():
            return phrase("`{command}` is a folder, and no program", command=command)
        if path.exists():
            return phrase("`{command}` may not be executed; if it is a program: chmod +x", command=command)
    if " " in command.strip():
        return phrase(
            "there is no program `{command}`; a command's arguments are given one by one, and not in its name",
            command=command,
        )
    return phrase("there is no program `{command}`", command=command)


def find_executable(command: str, folder: Path, environment: Mapping[str, str]) -> str | None:
    """Where a command lies: a path as seen from the folder, a name as the environment's `PATH` has it."""
    if os.sep in command:
        path = folder / Path(command).expanduser()
        return str(path) if os.access(path, os.X_OK) and path.is_file() else None
    found = shutil.which(command, path=environment.get("PATH", os.defpath))
    return str(folder / found) if found else None
