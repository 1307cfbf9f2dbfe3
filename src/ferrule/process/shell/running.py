"""One command in a box: its bash, its streams and its private file, from the start to the end of everything in it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import tempfile
import termios
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.process.shell import state as states
from ferrule.process.shell.output_reader import OutputReader
from ferrule.process.shell.waiting import InputWatch

if TYPE_CHECKING:
    from ferrule.process.box import Box
    from ferrule.process.output import OutputRecord, Stream
    from ferrule.process.profile import Profile
    from ferrule.process.sandbox.sandbox import Sandbox
    from ferrule.process.shell.state import ShellState

T = TypeVar("T")
_PRIVATE, _PAUSE = 10, 11
"""Under which numbers a command's shell has the file for its state, and the pipe that it waits on."""
Size = tuple[int, int]
"""The columns and rows of a terminal."""
Why = Literal["ended", "time", "waiting", "starved"]

_OUTPUT_ROOM = 1 << 18
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_SHOW = 1.0


@dataclass(slots=True, frozen=True)
class Streams:
    """The descriptors that a command is started with. They stay the caller's, who closes them once the box is open."""

    stdin: int
    stdout: int
    stderr: int
    passed: Mapping[int, int]
    """Further ones, by the numbers under which its shell has them."""
    terminal: int = -1
    """The terminal, where all three are that."""


Opener = Callable[[Sequence[str], Mapping[str, str], Streams], Awaitable["Box"]]
"""Opens a box for arguments, with these variables over its environment. Which box that is, the caller has decided."""


def boxes(sandbox: Sandbox, profile: Profile) -> Opener:
    """Opens boxes of one profile."""

    async def open_one(arguments: Sequence[str], environment: Mapping[str, str], streams: Streams) -> Box:
        from ferrule.process.box import open_box

        return await open_box(
            sandbox,
            replace(profile, environment={**profile.environment, **environment}),
            arguments,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            passed=streams.passed,
            terminal=streams.terminal,
        )

    return open_one


class RunningCommand:
    """A command, running or just ended. It belongs to the event loop it was started on."""

    def __init__(self, command: str, before: ShellState, record: OutputRecord, size: Size | None) -> None:
        self.command = command
        self.before = before
        self.loop = asyncio.get_running_loop()
        self.began = monotonic()
        self.box: Box
        self.reader: OutputReader
        self.device = 0
        """The number of its terminal, by which processes that read from it are known."""
        self._given = 0
        self._ours: list[int] = []
        self._theirs: list[int] = []
        try:
            self._private = self._keep(_private_file())
            pause, held = os.pipe()
            self._pause = self._lend(pause)
            self._keep(held)
            self.master = -1
            self._streams = self._on_pipes(record) if size is None else self._on_terminal(record, size)
        except BaseException:
            self.close()
            raise

    @classmethod
    async def start(
        cls, command: str, before: ShellState, open_box: Opener, record: OutputRecord, *, size: Size | None = None
    ) -> RunningCommand:
        """Start it; with a `size`, on a terminal. Whoever is cancelled meanwhile leaves nothing running."""
        text = encoded(command)
        made = cls(command, before, record, size)
        opening = asyncio.ensure_future(made._open(text, open_box))
        try:
            made.box = await finished(opening)
        except GeneratorExit:  # whoever waited is gone, and nothing can be waited for here
            opening.add_done_callback(made._give_up)
            raise
        except BaseException:
            if not opening.cancelled() and opening.exception() is None:
                made.box = opening.result()
                await finished(made.end(0))
            made.close()
            raise
        made._close_lent()
        made.reader.start(made.loop)
        return made

    def _give_up(self, opening: asyncio.Future[Box]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self.box = opening.result()
        self.close()

    async def _open(self, text: bytes, open_box: Opener) -> Box:
        content = states.given(self.before, text, _PRIVATE, _PAUSE)
        self._given = len(content)
        _write_all(self._private, content)
        os.lseek(self._private, 0, os.SEEK_SET)
        arguments = states.program(self.before, _bash(), _PRIVATE, _PAUSE)
        return await open_box(arguments, states.environment(self.before), self._streams)

    def _on_pipes(self, record: OutputRecord) -> Streams:
        sources: dict[int, Stream] = {}
        writing: list[int] = []
        for stream in ("stdout", "stderr"):
            reading, other = os.pipe()
            sources[self._keep(reading)] = stream
            writing.append(self._lend(other))
            os.set_blocking(reading, False)
            with contextlib.suppress(OSError):  # the system's bound on pipes is reached: smaller ones do
                fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, _OUTPUT_ROOM)
        nothing = self._lend(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        self.reader = OutputReader(sources, record)
        return Streams(nothing, *writing, passed={_PRIVATE: self._private, _PAUSE: self._pause})

    def _on_terminal(self, record: OutputRecord, size: Size) -> Streams:
        master, slave = os.openpty()
        self.master = self._keep(master)
        self._lend(slave)
        self.device = os.fstat(slave).st_rdev
        os.set_blocking(master, False)
        self.resize(size)
        self.reader = OutputReader({master: "stdout"}, record)
        return Streams(slave, slave, slave, passed={_PRIVATE: self._private, _PAUSE: self._pause}, terminal=slave)

    def resize(self, size: Size) -> None:
        """Give its terminal another size."""
        columns, rows = size
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def type(self, text: str) -> None:
        """Type into its terminal."""
        data = text.encode(errors="surrogateescape")
        while data and not self.box.ended.done():
            try:
                data = data[os.write(self.master, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.005)
            except OSError:
                return  # its other side was closed

    async def news(self, seconds: float) -> Why:
        """Wait for its end, the end of its time, or until it waits for input."""
        end = monotonic() + seconds
        watch = InputWatch(self.box.processes, self.reader, self.device)
        while True:
            left = end - monotonic()
            await asyncio.wait({self.box.ended}, timeout=max(0.0, min(left, _SECONDS_BETWEEN_LOOKS)))
            if self.box.ended.done():
                return "ended"
            if left <= _SECONDS_BETWEEN_LOOKS:
                return "time"
            if watch.waits():
                return "waiting" if self.master >= 0 else "starved"

    async def end(self, patience: float) -> None:
        """End everything in its box, and return when that is dead."""
        await self.box.end(patience)

    async def finish(self) -> None:
        """Take in the rest of its output, once its box has ended."""
        if self.master >= 0:
            await self.reader.until_closed(_SECONDS_TO_SHOW)
        self.reader.take_rest()
        self.reader.stop()

    @property
    def exit_code(self) -> int | None:
        """As a shell counts: 128 and the number of a signal that ended it. None while it runs."""
        if not self.box.ended.done():
            return None
        code = self.box.ended.result()
        return 128 - code if code < 0 else code

    def outcome(self) -> tuple[ShellState | None, tuple[str, ...]]:
        """The state that came out of it, and notes for the reader of its result."""
        dump = os.pread(self._private, states.MOST_BYTES + 1, self._given)
        return states.parse(dump, self.before)

    def close(self) -> None:
        """Let go of every descriptor; what still runs is ended. Safe to call twice."""
        self._close_lent()
        if hasattr(self, "reader"):
            self.reader.stop()
        if hasattr(self, "box"):
            self.box.close()
        ours, self._ours = self._ours, []
        for number in ours:
            os.close(number)

    def end_now(self) -> None:
        """End it where there is no event loop any more."""
        self.box.end_now()
        with contextlib.suppress(OSError):
            self.reader.take_rest()
        self.close()

    def _keep(self, number: int) -> int:
        self._ours.append(number)
        return number

    def _lend(self, number: int) -> int:
        self._theirs.append(number)
        return number

    def _close_lent(self) -> None:
        theirs, self._theirs = self._theirs, []
        for number in theirs:
            os.close(number)


def encoded(command: str) -> bytes:
    """A command as bash gets it."""
    if "\0" in command:
        raise ToolError(
            phrase("The command has a NUL character in it, which no shell can run."),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Write it as `printf '\\\\0'` where the command needs one."),
        )
    return command.encode(errors="surrogateescape")


async def finished(work: Coroutine[Any, Any, T] | asyncio.Future[T]) -> T:
    """See work through even when the caller is cancelled; the cancellation goes on afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            cancelled = True
        except Exception:  # noqa: BLE001 - raised below, from the task itself
            break
    if cancelled:
        task.exception()
        raise asyncio.CancelledError
    return task.result()


def _private_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("shell", os.MFD_CLOEXEC)
    made, path = tempfile.mkstemp()
    os.unlink(path)  # noqa: PTH108
    return made


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _bash() -> str:
    for path in ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"):
        if os.access(path, os.X_OK):
            return path
    raise ToolError(phrase("There is no bash on this machine."), suggestion=phrase("Ask the person to install bash."))
