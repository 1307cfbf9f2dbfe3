"""Runs a program for a tool: no shell, a clean environment, its output as it comes, and nothing of it left behind."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import threading
from time import monotonic
from typing import IO, TYPE_CHECKING

from ferrule.core.errors import ToolError, out_of_resources
from ferrule.core.phrases import phrase
from ferrule.process.landlock import Confinement, confine_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from ferrule.process.arguments import CommandLine

_CHUNK = 1 << 18
_GATHERED = 1 << 15
_ROOM = 1 << 20
_SHORTEST_PAUSE, _LONGEST_PAUSE, _LONGEST_BLIND_PAUSE = 0.0005, 0.025, 0.003
_MOST_COMPLAINTS = 1 << 16
_MOST_GIVEN = 4096  # what every pipe takes before anything is read from it
_SECONDS_TO_END = 2.0


class Child:
    """A running program. Leaving the block kills it and whatever it started."""

    def __init__(
        self,
        arguments: CommandLine,
        *,
        folder: Path,
        environment: Mapping[str, str],
        opened: int | None = None,
        confinement: Confinement | None = None,
        given: bytes = b"",
    ) -> None:
        if len(given) > _MOST_GIVEN:
            raise ValueError(f"a program is given {len(given):,} bytes to read; at most {_MOST_GIVEN:,} go in at once")
        self._given = given
        self._arguments = arguments
        self._folder = folder
        self._opened = opened
        self._environment = environment
        self._confinement = confinement
        self._complaints = bytearray()
        self._process: subprocess.Popen[bytes]
        self._out = self._err = -1
        self._waiting: asyncio.Future[None] | None = None
        self._exit: int | None = None
        self._has_exited = False
        self._leaves_a_core = False
        self.confined = False
        """Whether the kernel holds it to its confinement."""

    async def __aenter__(self) -> Child:
        try:
            read_end = self._input()  # opened while we still may
            try:
                self._start_reading(read_end)
            finally:
                os.close(read_end)
        except OSError as error:
            if not out_of_resources(error):
                raise
            raise ToolError(
                phrase("A program that this needs could not be started: {error}.", error=error.strerror),
                suggestion=phrase("Try again when less is running, or allow more open files (`ulimit -n`)."),
            ) from None
        loop = asyncio.get_running_loop()
        os.set_blocking(self._out, False)
        os.set_blocking(self._err, False)
        loop.add_reader(self._err, self._hear)
        with contextlib.suppress(OSError, AttributeError):  # Linux: room for much, and news of the end
            fcntl.fcntl(self._out, fcntl.F_SETPIPE_SZ, _ROOM)
            self._exit = os.pidfd_open(self._process.pid)
            loop.add_reader(self._exit, self._see_exit)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._out)
        loop.remove_reader(self._err)
        if self._exit is not None:
            loop.remove_reader(self._exit)
            os.close(self._exit)
        # The group's leader is not waited for yet, so its number cannot belong to anyone else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pipe in self._pipes:
            pipe.close()
        self._process.wait()

    @property
    def _pipes(self) -> list[IO[bytes]]:
        return [pipe for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def complaints(self) -> str:
        """What it wrote to standard error, up to a bound."""
        return self._complaints.decode(errors="replace")

    async def output(self) -> AsyncIterator[bytes]:
        """Its standard output in pieces: the first as soon as it is there, later ones gathered for a moment."""
        loop = asyncio.get_running_loop()
        pause = _SHORTEST_PAUSE
        while True:
            try:
                piece = os.read(self._out, _CHUNK)
            except BlockingIOError:
                self._waiting = loop.create_future()
                loop.add_reader(self._out, self._wake)
                try:
                    await self._waiting
                finally:
                    loop.remove_reader(self._out)
                continue
            if not piece:
                return
            handed_over = monotonic()
            yield piece
            if len(piece) < _GATHERED:  # many small writes would cost a turn of the loop each
                left = pause - (monotonic() - handed_over)  # while the piece was being used, more has gathered
                if left > 0:
                    await self._gather(left)
                pause = min(2 * pause, _LONGEST_PAUSE if self._exit is not None else _LONGEST_BLIND_PAUSE)

    async def ended(self) -> int:
        """Its exit code; call it after its output has ended."""
        end = monotonic() + _SECONDS_TO_END
        while (code := self._code()) is None:
            await asyncio.sleep(0.001)
            if monotonic() > end:
                self._process.kill()
        self._hear()
        return code

    def leave_a_core(self) -> None:
        """Keep it off one of the cores, where it uses all of them: what it gives has to be worked on as well."""
        if self._leaves_a_core or not hasattr(os, "sched_setaffinity"):
            return
        self._leaves_a_core = True
        with contextlib.suppress(OSError):  # it has ended
            cores = sorted(os.sched_getaffinity(self._process.pid))
            for thread in os.listdir(f"/proc/{self._process.pid}/task"):  # noqa: PTH208 - no Path on the hot path
                os.sched_setaffinity(int(thread), cores[1:] or cores)

    def _code(self) -> int | None:
        """How it ended, without letting go of its number: the group must still be its own when it is killed."""
        if not hasattr(os, "waitid"):
            return self._process.poll()
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    async def _gather(self, pause: float) -> None:
        """Let output gather for a moment, but not past the end of the program."""
        if self._has_exited:
            return
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(pause, self._wake)
        try:
            await self._waiting
        finally:
            timer.cancel()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _see_exit(self) -> None:
        self._has_exited = True
        if self._exit is not None:
            asyncio.get_running_loop().remove_reader(self._exit)
        self._wake()

    def _hear(self) -> None:
        """Take in what it complains of, so that it never waits for a reader."""
        try:
            while piece := os.read(self._err, _CHUNK):
                self._complaints += piece[: max(0, _MOST_COMPLAINTS - len(self._complaints))]
        except BlockingIOError:
            return
        asyncio.get_running_loop().remove_reader(self._err)

    def _input(self) -> int:
        """What it reads from: the few bytes it was given, or nothing."""
        if not self._given:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        read_end, write_end = os.pipe()
        try:
            os.write(write_end, self._given)
        finally:
            os.close(write_end)
        return read_end

    def _start_reading(self, read_end: int) -> None:
        if self._confinement is None:
            self._open(read_end)
            return
        failure: list[Exception] = []

        def start(confinement: Confinement) -> None:
            try:
                self.confined = confine_thread(confinement)
                self._open(read_end)
            except Exception as error:  # noqa: BLE001 - carried out of the thread, and raised there
                failure.append(error)

        thread = threading.Thread(target=start, args=(self._confinement,), name="ferrule-child")
        thread.start()
        thread.join()
        if failure:
            raise failure[0]

    def _open(self, read_end: int) -> None:
        folder = str(self._folder)
        if self._opened is not None and os.path.isdir("/proc/self/fd"):  # noqa: PTH112 - no Path on the hot path
            folder = f"/proc/self/fd/{self._opened}"  # the very folder that was looked at, whatever its name is now
        self._process = subprocess.Popen(  # noqa: S603 - arguments, never a shell line
            self._arguments,
            stdin=read_end,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=dict(self._environment),
            process_group=0,
            bufsize=0,
        )
        self._out, self._err = (pipe.fileno() for pipe in self._pipes)
