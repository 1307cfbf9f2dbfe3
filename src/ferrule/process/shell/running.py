"""One command in a box: its bash, its streams and its private file, from the start to the end of everything in it."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import fcntl
import os
import platform
import struct
import termios
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.files import private_file, start_of, write_all
from ferrule.core.phrases import advice, phrase
from ferrule.process.output import Piece, StreamCleaner
from ferrule.process.shell import state as states

if TYPE_CHECKING:
    from ferrule.process.box import Box
    from ferrule.process.output import OutputRecord, Stream
    from ferrule.process.profile import Profile
    from ferrule.process.sandbox.sandbox import Sandbox
    from ferrule.process.shell.state import ShellState


# Reads what a command writes, as it comes, into its record, and shows it to those who watch.


_CHUNK = 1 << 18
_SECONDS_BETWEEN_LOOKS = 0.002


class OutputReader:
    """Two pipes, or a terminal, which are the caller's. Never keeps a writer waiting longer than a turn of the loop."""

    def __init__(self, sources: dict[int, Stream], record: OutputRecord) -> None:
        self._sources = sources
        self.record = record
        self.on_output: Callable[[Piece], None] | None = None
        self._open = set(sources)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._decoders = {number: codecs.getincrementaldecoder("utf-8")("replace") for number in sources}
        self._cleaners = {number: StreamCleaner() for number in sources}

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on, read what comes."""
        self._loop = loop
        for number in self._sources:
            loop.add_reader(number, self._read, number)

    def stop(self) -> None:
        """Read no more; the descriptors stay open."""
        if self._loop is not None and not self._loop.is_closed():
            for number in self._open:
                self._loop.remove_reader(number)
        self._loop = None

    def take_rest(self) -> None:
        """Read what has been written by now. Whoever could write more has ended."""
        for number in list(self._open):
            while self._read(number):
                continue
        if self.on_output is not None:
            for number in self._sources:
                self._show(number, self._decoders[number].decode(b"", final=True), last=True)

    async def until_closed(self, seconds: float) -> None:
        """A terminal hands on what was written to it a little later, and then says that it is closed."""
        end = monotonic() + seconds
        while self._open and monotonic() < end:  # noqa: ASYNC110 - it is read as it comes
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)

    def pipe_files(self) -> frozenset[tuple[int, int]]:
        """Its pipes, as the kernel tells them apart."""
        found = [os.fstat(number) for number in self._sources]
        return frozenset((one.st_dev, one.st_ino) for one in found)

    def _read(self, number: int) -> int:
        try:
            data = os.read(number, _CHUNK)
        except BlockingIOError:
            return 0
        except OSError:  # a terminal whose other side is closed
            data = b""
        if not data:
            self._open.discard(number)
            if self._loop is not None:
                self._loop.remove_reader(number)
            return 0
        self.record.add(self._sources[number], data)
        if self.on_output is not None:
            self._show(number, self._decoders[number].decode(data))
        return len(data)

    def _show(self, number: int, text: str, *, last: bool = False) -> None:
        cleaner = self._cleaners[number]
        text = cleaner.feed(text) + (cleaner.rest() if last else "")
        if text and self.on_output is not None:
            self.on_output(Piece(self._sources[number], text))


# Tells a command that waits for someone to type from one that is quietly at work.


_READS = {"x86_64": {0}, "aarch64": {63}}
_WAITS_FOR_SEVERAL = {"x86_64": {7, 23, 232, 270, 271, 281, 441}, "aarch64": {22, 72, 73, 441}}
_TERMINAL_PLACES = frozenset({b"n_tty_read", b"wait_woken"})
_SECONDS_SILENT_FOR_SEVERAL = 2.0
_LOOKS = 2
_OWN_TERMINAL = os.makedev(5, 0)  # `/dev/tty`, whichever that is for a process


class InputWatch:
    """Looks at a command's processes now and then; `waits` becomes true when it is sure."""

    def __init__(self, processes: Callable[[], list[int]], reader: OutputReader, device: int = 0) -> None:
        """`device` is the number of the terminal that the command runs on; 0 without one."""
        self._processes = processes
        self._reader = reader
        self._terminals = {device, _OWN_TERMINAL} if device else set[int]()
        self._pipes = frozenset[tuple[int, int]]() if device else reader.pipe_files()
        self._machine = platform.machine()
        self._seen = 0
        self._written = -1
        self._silent_since = monotonic()

    def waits(self) -> bool:
        """Whether it has been waiting for input at this look and at the one before."""
        written = self._reader.record.total
        if written != self._written:
            self._written, self._silent_since, self._seen = written, monotonic(), 0
            return False
        if self._pipes and monotonic() - self._silent_since < _SECONDS_SILENT_FOR_SEVERAL:
            return False
        waits = any(self._process_waits(pid) for pid in self._processes())
        self._seen = self._seen + 1 if waits else 0
        return self._seen >= _LOOKS

    def _process_waits(self, pid: int) -> bool:
        for thread in _listed(f"/proc/{pid}/task"):
            words = start_of(f"/proc/{pid}/task/{thread}/syscall", 256).split()
            if words and words[0].isdigit():
                if self._call_waits(pid, int(words[0]), int(words[1], 16)):
                    return True
            elif (
                not words and self._terminals and start_of(f"/proc/{pid}/task/{thread}/wchan", 256) in _TERMINAL_PLACES
            ):
                return self._is_terminal(pid, 0)  # a kernel that does not tell which call it is
        return False

    def _call_waits(self, pid: int, call: int, descriptor: int) -> bool:
        if self._pipes:
            reads = call in _READS.get(self._machine, ()) and descriptor == 0
            found = _stat(pid, 0) if reads or call in _WAITS_FOR_SEVERAL.get(self._machine, ()) else None
            return found is not None and (found.st_dev, found.st_ino) in self._pipes
        if call in _READS.get(self._machine, ()):
            return self._is_terminal(pid, descriptor)
        if call not in _WAITS_FOR_SEVERAL.get(self._machine, ()) or not self._is_terminal(pid, 0):
            return False
        if monotonic() - self._silent_since < _SECONDS_SILENT_FOR_SEVERAL:
            return False
        shown = self._reader.record.text("stdout")
        return bool(shown) and not shown.endswith("\n")

    def _is_terminal(self, pid: int, descriptor: int) -> bool:
        found = _stat(pid, descriptor)
        return found is not None and found.st_rdev in self._terminals


def _stat(pid: int, descriptor: int) -> os.stat_result | None:
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH116 - not a path
    return None


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []


T = TypeVar("T")
_PRIVATE, _PAUSE = 10, 11
"""Under which numbers a command's shell has the file for its state, and the pipe that it waits on."""
Size = tuple[int, int]
"""The columns and rows of a terminal."""
Why = Literal["ended", "time", "waiting", "starved"]

_OUTPUT_ROOM = 1 << 18
_SECONDS_BETWEEN_WATCHES = 0.5
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
            self._private = self._keep(private_file())
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
        except GeneratorExit:  # the caller is gone, and nothing can be awaited here
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
        write_all(self._private, content)
        os.lseek(self._private, 0, os.SEEK_SET)
        places = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")
        bash = next((path for path in places if os.access(path, os.X_OK)), None)
        if bash is None:
            raise ToolError(
                phrase("There is no bash on this machine."),
                suggestion=advice("Ask the user to install bash.", "Install bash."),
            )
        arguments = states.program(self.before, bash, _PRIVATE, _PAUSE)
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
            await asyncio.wait({self.box.ended}, timeout=max(0.0, min(left, _SECONDS_BETWEEN_WATCHES)))
            if self.box.ended.done():
                return "ended"
            if left <= _SECONDS_BETWEEN_WATCHES:
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
        if self.box.lost:
            said = f"The process of Ferrule that starts commands was killed, and this one with it. {states.KEPT_STATE}"
            return None, (said,)
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
