"""One command, one box: a program under a profile, of which nothing runs any more once its end is told.

Boxes are started by the launcher, a process of Ferrule's own. Each has a socket to it: over it come the start and the
end, and when our side of it is closed, by whatever means, the launcher ends the box.
"""

from __future__ import annotations

import array
import asyncio
import atexit
import contextlib
import marshal
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from ferrule.core.files import private_file, start_of, write_all
from ferrule.core.phrases import phrase
from ferrule.process import launcher
from ferrule.process.folder_index import is_quiet
from ferrule.process.owned_folders import remove_tree
from ferrule.process.sandbox.denials import Denial, SandboxRefused, too_large_layer
from ferrule.process.sandbox.limits import could_not_join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ferrule.process.profile import Profile
    from ferrule.process.sandbox.sandbox import Launch, Prepared, Sandbox

_SECONDS_TO_KILL, _SECONDS_TO_END = 10.0, 30.0
_SECONDS_TO_START = 60.0
_SECONDS_BETWEEN_SIZES = 1.0
_SILENT = "the launcher does not answer"
_KILLED = "the launcher was killed"
_MOST_ENTRIES, _LONG_PATH, _MOST_OPENED = 500_000, 3_000, 64
_SECONDS_OF_LOOP, _MOST_KNOWN, _MOST_WORDS = 0.005, 1_000, 4 << 20
_took: dict[tuple[Path, ...], float] = {}
"""How long preparing took, by the folders it is about."""


class BoxFailed(SandboxRefused):
    """The box could not be set up, and nothing was started; `step` is what failed."""

    def __init__(self, step: str, why: str) -> None:
        super().__init__(
            phrase("The command was not started: setting up its sandbox failed ({step}: {why}).", step=step, why=why),
            phrase("Run `ferrule doctor` to see what the sandbox needs."),
        )
        self.step, self.why = step, why


class Box:
    """A running box. It belongs to the event loop it was opened on."""

    def __init__(self, prepared: Prepared, profile: Profile | None, port: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._prepared = prepared
        self._profile = profile
        self._port: socket.socket | None = port
        self._info = os.dup(prepared.launch.info) if prepared.launch.info >= 0 else -1
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._failure = ""
        self._denials: tuple[Denial, ...] | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._sizing: asyncio.TimerHandle | asyncio.Future[None] | None = None
        self._too_large: Denial | None = None
        self.lost = False
        """Whether it ended only because the launcher did."""
        self.pid = 0
        """The box's first process, as the host counts."""
        self.ended: asyncio.Future[int] = self._loop.create_future()
        """The exit code, or the negative number of the signal that ended it; by then everything in it is dead.

        To wait for it where the waiting may be cancelled, use `asyncio.wait`, which leaves it alone.
        """
        port.setblocking(False)
        self._loop.add_reader(port.fileno(), self._hear)  # a number: of a socket asyncio makes a text first

    @property
    def contains_all(self) -> bool:
        """Whether a process namespace holds it together."""
        return self._prepared.launch.contains_all

    @property
    def layered(self) -> bool:
        """Whether writes to the workspace land in layers."""
        return bool(self._prepared.launch.overlays)

    def processes(self) -> list[int]:
        """Every living process that the command started, itself included, as the host counts them."""
        if not self.pid or self.ended.done():
            return []
        frame = launcher.children(self.pid) if self.contains_all else ()
        found = [pid for pid in launcher.descendants(self.pid) if pid not in frame]
        if (mark := self._prepared.forwarder) is not None:
            found = [pid for pid in found if mark not in start_of(f"/proc/{pid}/cmdline", _MOST_WORDS)]
        return found

    def signal(self, number: int) -> None:
        """Send a signal to everything in it."""
        launcher.signal_all(self.processes(), number)

    async def end(self, patience: float = 1.0) -> None:
        """Ask everything in it to end, kill what has not after `patience` seconds, and return when all is dead."""
        if patience > 0 and not self.ended.done():
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
            await asyncio.wait({self.ended}, timeout=patience)
        self._kill()
        await asyncio.wait({self.ended}, timeout=_SECONDS_TO_KILL)
        if not self.ended.done():  # the launcher does not do its work: it may have been stopped
            launcher.stop_and_kill([pid for pid in (self.pid, self._inner()) if pid])
            self._lose()
            await asyncio.wait({self.ended}, timeout=_SECONDS_TO_END)

    def end_now(self) -> None:
        """The same without patience and without an event loop, as for the end of the program."""
        self._kill()
        port, end = self._port, monotonic() + _SECONDS_TO_END
        if port is None:
            return
        port.setblocking(True)
        port.settimeout(_SECONDS_TO_END)
        with contextlib.suppress(OSError):
            while monotonic() < end and (data := port.recv(launcher.PACKET)):
                if launcher.understand(data)[0] == launcher.ENDED:
                    break
        self._let_go()

    def denials(self) -> tuple[Denial, ...]:
        """What it was kept from, as far as is known: what it did to guarded places was undone just now. For a thread,
        once the box has ended.
        """
        with self._lock:
            if self._denials is None:
                found = self._prepared.after_command()
                if self._too_large is not None and self._profile is not None:
                    found = (*found, self._too_large)
                    if self._too_large.kind == "temporary size" and self._profile.temporary is not None:
                        _empty(self._profile.temporary)
                self._denials = found
            return self._denials

    @property
    def guards(self) -> bool:
        """Whether there are guarded places in what it may write."""
        return self._prepared.guards

    def take_back(self) -> tuple[Denial, ...]:
        """What it did to guarded places since the last time, undone just now. For a thread; the box may go on."""
        with self._lock:
            found = () if self._closed else self._prepared.after_command()
        return tuple(one for one in found if one.kind == "guarded")

    def close(self) -> None:
        """Let go of everything; a box that has not ended is ended."""
        self._let_go()
        with self._lock:
            self._closed = True
            self._prepared.close()

    # What the launcher tells

    def _hear(self) -> None:
        if self._port is None:
            return
        try:
            data = self._port.recv(launcher.PACKET)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        kind, number, text = launcher.understand(data)
        if kind == launcher.STARTED:
            self.pid = number
            self._tell_started()
            if self._profile is not None:
                self._sizing = self._loop.call_later(_SECONDS_BETWEEN_SIZES, self._look_at_size)
        elif kind == launcher.FAILED:
            self._failure = text
            self._tell_started()
        elif kind == launcher.ENDED:
            self._over(number)

    def _tell_started(self) -> None:
        if not self._started.done():
            self._started.set_result(None)

    async def started(self) -> None:
        """Wait until it runs; raises what kept it from that."""
        await asyncio.wait({self._started}, timeout=_SECONDS_TO_START)
        if not self._started.done():
            _end_launcher(_Connection.kill)  # it was stopped, or hangs: the next order starts another one
            raise BoxFailed("start", _SILENT)
        if self._failure:
            await asyncio.wait({self.ended}, timeout=_SECONDS_TO_END)
            step, _, why = self._failure.partition(": ")
            raise BoxFailed(step, why)

    def _over(self, code: int) -> None:
        self._let_go()
        for layer in self._prepared.launch.overlays:
            # Let the folders that the kernel made for a layer be entered by their owner, who may want to remove them.
            folder = f"{layer.work}/work"
            with contextlib.suppress(OSError):
                for name in ("", "/incompat", "/volatile"):
                    folder += name
                    os.chmod(folder, 0o700)  # noqa: PTH101 - at every end
        self._tell_started()
        if not self.ended.done():
            self.ended.set_result(code)

    def _lose(self) -> None:
        """The launcher was killed: the kernel kills what it started, which takes a moment."""
        if self._port is not None:
            self._loop.remove_reader(self._port.fileno())
        if self._started.done():
            self.lost = True
        else:
            self._failure = self._failure or f"start: {_KILLED}"
        self._wait_until_gone(monotonic() + _SECONDS_TO_END)

    def _wait_until_gone(self, end: float) -> None:
        if any(launcher.alive(pid) for pid in (self.pid, self._inner()) if pid) and monotonic() < end:
            self._loop.call_later(0.005, self._wait_until_gone, end)
        else:
            self._over(-signal.SIGKILL)

    def _inner(self) -> int:
        """The first process of its namespace."""
        with contextlib.suppress(OSError):
            return launcher.named_in(self._info)
        return 0

    def _kill(self) -> None:
        if self._port is not None:
            with contextlib.suppress(OSError):
                self._port.send(launcher.KILL.encode().ljust(launcher.PACKET, b"\0"))

    def _let_go(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(port.fileno())
            port.close()
        if self._info >= 0:
            os.close(self._info)
            self._info = -1
        if self._sizing is not None:
            self._sizing.cancel()
            self._sizing = None

    # How large its layers and its temporary files grow

    def _look_at_size(self) -> None:
        profile = self._profile
        if profile is None:
            return
        uppers = [layer.upper for layer in self._prepared.launch.overlays]
        temporary = [Path(one) for one in (profile.temporary, self._prepared.private) if one]
        began = monotonic()
        looking = self._loop.run_in_executor(None, lambda: _too_much(uppers, temporary, profile, self.processes()))

        def judge(done: asyncio.Future[Denial | None]) -> None:
            if done.cancelled() or done.exception() is not None or self.ended.done():
                return
            self._too_large = done.result()
            if self._too_large is not None:
                self._kill()
                return
            # Looking at many files takes long, and must not become the main work.
            pause = max(_SECONDS_BETWEEN_SIZES, 20 * (monotonic() - began))
            self._sizing = self._loop.call_later(pause, self._look_at_size)

        looking.add_done_callback(judge)


async def open_box(
    sandbox: Sandbox,
    profile: Profile,
    arguments: Sequence[str],
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    passed: Mapping[int, int] | None = None,
    terminal: int = -1,
) -> Box:
    """Start a command in a box; raises `SandboxRefused` where that cannot be as the profile asks.

    Streams stay the caller's, and may be closed once this has returned; `passed` are further descriptors that the
    command inherits, by the numbers under which it knows them, below `RESERVED`. With a `terminal`, all three streams
    are that one, and it becomes the command's controlling terminal. Where layers cannot be mounted over just these
    folders, the workspace is read-only: `Box.layered` tells.
    """
    if terminal >= 0:
        stdin = stdout = stderr = terminal
    streams = (stdin, stdout, stderr)
    prepared = await _prepare(sandbox, profile, arguments, terminal=terminal >= 0)
    try:
        return await start_box(prepared, streams, passed, profile)
    except BoxFailed as failure:
        # A launcher that is gone has started nothing: that is told before a command begins.
        if failure.step == "overlay":
            profile = replace(profile, layers=())
        elif failure.step == "control group":
            could_not_join(prepared.launch.joins)
        elif failure.why != _KILLED:
            raise
        prepared = await _prepare(sandbox, profile, arguments, terminal=terminal >= 0)
        return await start_box(prepared, streams, passed, profile)


async def start_box(
    prepared: Prepared, streams: Iterable[int], passed: Mapping[int, int] | None = None, profile: Profile | None = None
) -> Box:
    """Start what was prepared, which belongs to the box from here on."""
    near, far = socket.socketpair(socket.AF_UNIX, launcher.KIND)
    box: Box | None = None
    try:
        with far:
            box = Box(prepared, profile, near)
            _order(prepared.launch, far.fileno(), tuple(streams), passed or {})
        prepared.release()
        await box.started()
    except BaseException:
        if box is None:
            near.close()
            prepared.close()
        else:
            await box.end(patience=0)
            box.close()
        raise
    return box


async def _prepare(sandbox: Sandbox, profile: Profile, arguments: Sequence[str], *, terminal: bool) -> Prepared:
    """In a thread, if it took some time when it was last done, or may take some now."""
    began, roots = monotonic(), profile.writable
    if _took.get(roots, 1.0) < _SECONDS_OF_LOOP and is_quiet():
        made = sandbox.prepare(profile, arguments, terminal=terminal)
    else:
        making = asyncio.get_running_loop().run_in_executor(
            None, lambda: sandbox.prepare(profile, arguments, terminal=terminal)
        )
        try:
            made = await asyncio.shield(making)
        except asyncio.CancelledError:
            making.add_done_callback(lambda made: made.cancelled() or made.exception() or made.result().close())
            raise
    if len(_took) > _MOST_KNOWN:
        _took.clear()
    _took[roots] = monotonic() - began
    return made


def _size(folders: Iterable[Path]) -> tuple[int, int]:
    """Bytes on the disk, and entries."""
    size = entries = 0
    waiting = [str(folder) for folder in folders]
    opened: list[int] = []
    try:
        while waiting and entries <= _MOST_ENTRIES:
            path = waiting.pop()
            with contextlib.suppress(OSError):
                if len(path) > _LONG_PATH:  # from an open folder on, paths are short again
                    opened.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
                    path = f"/proc/self/fd/{opened[-1]}"
                with os.scandir(path) as found:
                    for entry in found:
                        entries += 1
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        else:
                            size += entry.stat(follow_symlinks=False).st_blocks * 512
            if len(opened) > _MOST_OPENED:
                return size, _MOST_ENTRIES + 1
    finally:
        for one in opened:
            os.close(one)
    return size, entries


def _size_of_unlinked(pids: Iterable[int]) -> int:
    """Bytes of files that no folder names any more, and that some process has still open."""
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    state = entry.stat()
                    if (
                        not state.st_nlink
                        and stat.S_ISREG(state.st_mode)
                        and "memfd:" not in str(Path(entry.path).readlink())
                    ):
                        found[state.st_dev, state.st_ino] = state.st_blocks * 512
    return sum(found.values())


def _too_much(uppers: list[Path], temporary: list[Path], profile: Profile, pids: Iterable[int]) -> Denial | None:
    """Why a box has to be ended, if what it wrote is more than it may."""
    size, entries = _size(uppers)
    bound = profile.bounds.layer
    if size > bound or entries > _MOST_ENTRIES:
        return too_large_layer(bound)
    size, entries = _size(temporary)
    bound = profile.bounds.temporary
    if size + _size_of_unlinked(pids) > bound or entries > _MOST_ENTRIES:
        return Denial(
            "temporary size",
            "",
            f"The command was ended and its temporary files were removed: they took more than {bound:,} bytes.",
            "Write less there, or write to the workspace.",
        )
    return None


def _empty(folder: Path) -> None:
    """Remove all that is in a folder."""
    with os.scandir(folder) as entries:
        for entry in list(entries):
            with contextlib.suppress(OSError):
                remove_tree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)  # noqa: PTH108


# The connection to the launcher: one for the whole process


class _Connection:
    def __init__(self) -> None:
        self._port, far = socket.socketpair(socket.AF_UNIX, launcher.KIND)
        with far:
            self._process = subprocess.Popen(  # noqa: S603 - our own program; it starts at once
                (os.path.realpath(sys.executable), "-I", "-S", launcher.__file__),
                stdin=far.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def order(self, launch: Launch, port: int, streams: tuple[int, ...], passed: Mapping[int, int]) -> None:
        """Have something started; what comes of it is told over its own socket."""
        inherited = {number: number for number in launch.descriptors} | dict(passed)
        if len(inherited) + 5 > launcher.MOST_DESCRIPTORS:
            raise BoxFailed("start", f"{len(inherited)} descriptors are more than can be passed on")
        content = {
            "arguments": list(launch.arguments),
            "environment": dict(launch.environment),
            "folder": launch.folder,
            "numbers": [0, 1, 2, *inherited],
            "contained": launch.contains_all,
            "limits": list(launch.limits),
            "joins": list(launch.joins),
            "overlays": [
                (str(one.root), str(one.upper), str(one.work), [str(below) for below in one.below])
                for one in launch.overlays
            ],
            "mounts": list(launch.mounts),
            "covered": launch.covered,
            "user_namespace": launch.user_namespace,
            "takes_terminal": launch.takes_terminal,
            "rules": launch.rules,
            "filter": launch.filter,
            # Layers are used again at once: their box is over when nothing has them mounted any more.
            "info": [5 + list(inherited).index(launch.info)] if launch.info >= 0 and not launch.overlays else [],
        }
        text = private_file()
        try:
            write_all(text, marshal.dumps(content))
            descriptors = array.array("i", (port, text, *streams, *inherited.values()))
            self._port.sendmsg([b"\0" * launcher.PACKET], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        finally:
            os.close(text)

    def drop(self) -> None:
        """Close our copy; in a fork, where it is not ours to end anything."""
        self._port.close()

    def kill(self) -> None:
        """End the launcher and all below it, whatever state they are in."""
        self._port.close()
        launcher.stop_and_kill([self.pid])
        self._process.wait()

    def stop(self) -> None:
        """End every box, and the launcher."""
        self._port.close()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_connection_lock = threading.Lock()
_open_connection: _Connection | None = None


def _connection() -> _Connection:
    global _open_connection
    with _connection_lock:
        if _open_connection is None or not _open_connection.alive():
            if _open_connection is not None:
                _open_connection.drop()
            _open_connection = _Connection()
        return _open_connection


def _order(launch: Launch, port: int, streams: tuple[int, ...], passed: Mapping[int, int]) -> None:
    try:
        try:
            _connection().order(launch, port, streams, passed)
        except (BrokenPipeError, ConnectionResetError):  # it was killed just now
            _connection().order(launch, port, streams, passed)
    except OSError as error:
        raise BoxFailed("start", str(error)) from None


def _end_launcher(end: Callable[[_Connection], None]) -> None:
    """What it started ends with it."""
    global _open_connection
    with _connection_lock:
        connection, _open_connection = _open_connection, None
    if connection is not None:
        end(connection)


def _forget() -> None:
    """In a fork: the launcher is the parent's, and a lock may be held that nobody will open."""
    global _connection_lock, _open_connection
    connection, _open_connection = _open_connection, None
    _connection_lock = threading.Lock()
    if connection is not None:
        connection.drop()


atexit.register(_end_launcher, _Connection.stop)
os.register_at_fork(after_in_child=_forget)
