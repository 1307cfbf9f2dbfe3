"""A program that is spoken to over its standard streams, and of which nothing is left when Ferrule lets go of it.

It runs below a keeper of its own, as shells do: whatever it starts stays below the keeper, also what makes a session
of its own, and all of it ends with Ferrule, however that ends. Where there is no `/proc` the program leads a group of
processes instead, and that group is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.process.shell import keeper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SECONDS_TO_START = 10.0
_SECONDS_TO_END = 10.0
_HAS_KEEPER = sys.platform == "linux"


class CannotStart(Exception):  # noqa: N818 - reads as what it says
    """The program could not be started; says why."""


class KeptProgram:
    """A running program. `stdin`, `stdout` and `stderr` are our ends of its streams; whoever takes one closes it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int | None] = self._loop.create_future()
        """The exit code once it has ended; None where nobody could tell."""
        self.pid = 0
        self.stdin = self.stdout = self.stderr = -1
        self._theirs: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._port: socket.socket | None = None
        self._started: asyncio.Future[tuple[str, int | str]] = self._loop.create_future()

    @classmethod
    async def start(cls, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> KeptProgram:
        """Start it; raises `CannotStart`."""
        program = cls()
        executable = _must_find(arguments[0], folder, environment)
        program._open_streams()
        try:
            words = [executable, *arguments[1:]]
            await (program._start_kept if _HAS_KEEPER else program._start_in_group)(words, folder, environment)
        except BaseException:
            await program.end(patience=0)
            raise
        finally:
            program._close_theirs()
        return program

    async def end(self, patience: float = 1.0, *, to_notice: float | None = None) -> None:
        """End it with all that it started: its input is closed, then it is asked to, then all is killed.

        It has `patience` seconds for each, or `to_notice` for the first: to see that its input has ended.
        """
        self._close_streams()
        for number, seconds in ((None, patience if to_notice is None else to_notice), (signal.SIGTERM, patience)):
            if self.pid and not self.ended.done() and patience > 0:
                if number is not None:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(self.pid, number)  # below a keeper that has not reaped it: the number is its own
                await asyncio.wait({self.ended}, timeout=seconds)
        await self._let_go()
        if not self.ended.done():
            self.ended.set_result(None)

    # Below a keeper

    async def _start_kept(self, words: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._port, far_port = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._port, far_port):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, keeper.LARGEST_REQUEST)
        with far_port:
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program; it starts at once
                (sys.executable, "-I", "-S", str(Path(keeper.__file__))),
                stdin=far_port.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=self._theirs,
                start_new_session=True,
            )
        self._port.setblocking(False)
        self._loop.add_reader(self._port, self._hear)
        order = {
            "arguments": words,
            "environment": dict(environment),
            "folder": str(folder),
            "inherited": [],
            "given": self._theirs,
            "kept": [],
            "terminal": -1,
            "standard": self._theirs,
        }
        try:
            self._port.send(marshal.dumps(order))
            said, detail = await asyncio.wait_for(self._started, _SECONDS_TO_START)
        except (TimeoutError, OSError) as error:
            raise CannotStart(phrase("its keeper did not answer: {error}", error=error)) from None
        if said == "failed":
            raise CannotStart(str(detail))
        self.pid = int(detail)

    def _hear(self) -> None:
        if self._port is None:
            return
        try:
            data = self._port.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # the keeper is gone, and with it all that it kept
            self._loop.remove_reader(self._port)
            self._tell_ended(None)
            if not self._started.done():
                self._started.set_result(("failed", "its keeper ended"))
            return
        kind, detail = marshal.loads(data)  # noqa: S302 - from our own keeper, over a private socket
        if kind == "ended":
            self._tell_ended(detail)
        elif not self._started.done():
            self._started.set_result((kind, detail))

    def _tell_ended(self, code: int | None) -> None:
        if not self.ended.done():
            self.ended.set_result(code)

    # In a group of its own

    async def _start_in_group(self, words: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        reading, writing, complaining = self._theirs
        try:
            self._process = subprocess.Popen(  # noqa: S603, ASYNC220 - arguments, never a shell line
                words,
                stdin=reading,
                stdout=writing,
                stderr=complaining,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise CannotStart(str(error)) from None
        self.pid = self._process.pid
        self._watch()

    def _watch(self) -> None:
        code = self._process.poll() if self._process is not None else None
        if code is not None:
            self._tell_ended(code)
        elif not self.ended.done():
            self._loop.call_later(0.05, self._watch)

    # Letting go

    async def _let_go(self) -> None:
        """For a keeper the end of its socket is the order to end everything."""
        if self._port is not None:
            self._loop.remove_reader(self._port)
            self._port.close()
        process = self._process
        if process is None:
            return
        if not _HAS_KEEPER:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        end = self._loop.time() + _SECONDS_TO_END
        while process.poll() is None and self._loop.time() < end:  # noqa: ASYNC110 - as for shells
            await asyncio.sleep(0.002)
        if process.poll() is None:
            if _HAS_KEEPER:
                keeper.stop_and_kill(process.pid)
            process.kill()
            process.wait()

    def _open_streams(self) -> None:
        reading, self.stdin = os.pipe()
        self.stdout, writing = os.pipe()
        self.stderr, complaining = os.pipe()
        self._theirs = [reading, writing, complaining]

    def _close_theirs(self) -> None:
        for descriptor in self._theirs:
            os.close(descriptor)
        self._theirs = []

    def _close_streams(self) -> None:
        for name in ("stdin", "stdout", "stderr"):
            if getattr(self, name) >= 0:
                os.close(getattr(self, name))
                setattr(self, name, -1)

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
