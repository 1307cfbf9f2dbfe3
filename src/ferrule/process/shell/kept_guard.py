"""A guard under its keeper: started, spoken to over private descriptors, and ended with all that it started.

    Ferrule  --socket-->  keeper  -->  (sandbox)  -->  guard  -->  shell  -->  commands
             --lines----------------------------------------------->
             <-reports------------------------------------|---------|
             <-output of each command------------------------------------------|

A shell that a command ended is replaced by a fresh one under the same guard. When the guard or the keeper is gone, all
of it is: `lost` says so, and whoever holds this starts another.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import marshal
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ToolError
from ferrule.core.phrases import phrase
from ferrule.process.shell import keeper
from ferrule.process.shell.bash_lines import Lines, guard_script
from ferrule.process.shell.descriptors import Descriptors
from ferrule.process.shell.family import Family

if TYPE_CHECKING:
    from ferrule.process.sandbox.sandbox import Prepared

Prepare = Callable[[Sequence[str]], "Prepared"]
"""What makes a program ready to start, in a sandbox or without one."""

_OUTPUT_ROOM = 1 << 18
_SECONDS_TO_START = 20.0
_SECONDS_TO_END = 25.0
_LONGEST_REPORT = 1 << 16


class ShellLost(Exception):  # noqa: N818 - says what happened
    """The shell, with its guard or its keeper, is gone."""


class KeptGuard:
    """Descriptors, reports and processes below one keeper. It belongs to the event loop it was started on."""

    def __init__(self, prepared: Prepared, descriptors: Descriptors) -> None:
        self.prepared = prepared
        self.descriptors = descriptors
        self.loop = asyncio.get_running_loop()
        self.lost: str = ""
        """Why it can no longer be used; empty while it can."""
        self.family = Family(0)
        self.guard = 0
        self.free_places = list(range(len(descriptors.numbers.places)))
        self.free_pairs = list(range(len(descriptors.numbers.outputs)))
        self._expected: dict[tuple[str, str], asyncio.Future[str]] = {}
        self._packets: dict[str, asyncio.Future[tuple[Any, list[int]]]] = {}
        self._heard = b""
        self._keeper: subprocess.Popen[bytes] | None = None
        self._port, self._far_port = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    @classmethod
    async def start(cls, prepare: Prepare, *, terminal_size: tuple[int, int] | None = None) -> KeptGuard:
        """Start keeper, sandbox and guard; shells are started below it as they are needed."""
        descriptors = Descriptors(terminal_size)
        try:
            script = guard_script(descriptors.numbers)
            arguments = (_bash(), "--noprofile", "--norc", "-c", script, "ferrule-guard")
            prepared = await _beside_the_loop(prepare, arguments)
        except BaseException:
            descriptors.close()
            raise
        kept = cls(prepared, descriptors)
        try:
            await kept._start()
        except BaseException:
            await kept.close()
            raise
        return kept

    async def _start(self) -> None:
        launch, theirs = self.prepared.launch, self.descriptors
        given = [*launch.descriptors, *theirs.of_guard, *theirs.of_keeper]
        for end in (self._port, self._far_port):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, keeper.LARGEST_REQUEST)
        self._keeper = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program; it starts at once
            (sys.executable, "-I", "-S", str(Path(keeper.__file__))),
            stdin=self._far_port.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            pass_fds=given,
            start_new_session=True,
        )
        self._far_port.close()
        self.family = Family(self._keeper.pid)
        self._port.setblocking(False)
        self.loop.add_reader(self._port, self._hear_keeper)
        self.loop.add_reader(theirs.reports, self.hear_reports)
        guard = self.expect("", "guard")
        order = {
            "arguments": list(launch.arguments),
            "environment": dict(launch.environment),
            "folder": launch.folder,
            "inherited": [*launch.descriptors, *theirs.of_guard],
            "given": given,
            "kept": theirs.of_keeper,
            # A sandbox makes a session of its own; the terminal would rule, and Ctrl-C end, only the sandbox itself.
            "terminal": -1 if launch.descriptors else theirs.numbers.terminal,
        }
        try:
            packet, _ = await self._ask("started", order)
            if packet[0] == "failed":
                raise ToolError(phrase("The shell could not be started: {error}.", error=packet[1]))
            self.guard = int(await asyncio.wait_for(guard, _SECONDS_TO_START))
        except (TimeoutError, ShellLost) as error:
            raise ToolError(
                phrase("The shell did not start."),
                suggestion=phrase("Ask the person to run `ferrule doctor`: does the sandbox work?"),
            ) from error
        self.family.take_for_frame()
        for place in theirs.numbers.places:
            lines = Lines(self.guard, theirs.numbers, place)
            theirs.write_for_good(place.library, lines.library())
            theirs.write_for_good(place.epilogue, lines.epilogue())
        theirs.close_handed_over()

    @staticmethod
    def nonce() -> str:
        """A word that no command can guess."""
        return secrets.token_hex(8)

    def expect(self, nonce: str, kind: str) -> asyncio.Future[str]:
        """What will be reported under this word."""
        made: asyncio.Future[str] = self.loop.create_future()
        if self.lost:
            made.set_exception(ShellLost(self.lost))
            made.exception()
        else:
            self._expected[nonce, kind] = made
        return made

    def forget(self, nonce: str, *kinds: str) -> None:
        """Nobody waits for these any more."""
        for kind in kinds:
            self._expected.pop((nonce, kind), None)

    def order(self, nonce: str, lines: int, *, afresh: bool) -> None:
        """Have the guard start a shell that reads its lines there; `afresh` gives it no variables but its state's."""
        with contextlib.suppress(BrokenPipeError):  # then it is lost, and everyone who waits is told so
            os.write(self.descriptors.orders, f"\n{nonce} {lines} {'-c' if afresh else ''}\n".encode())

    async def reading_pair(self, place: int) -> tuple[int, int]:
        """Our ends of a pair of output pipes; they belong to whoever asked."""
        _, given = await self._ask("taken", list(self.descriptors.reading[place]))
        if len(given) != 2:
            raise ShellLost("the keeper gave no pipes")
        for number in given:
            os.set_blocking(number, False)
            with contextlib.suppress(OSError):  # the system's bound on pipes is reached: smaller ones do
                fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, _OUTPUT_ROOM)
        return given[0], given[1]

    async def close(self) -> None:
        """End everything. Returns when it is gone."""
        self._let_go()
        end = self.loop.time() + _SECONDS_TO_END
        # Its pid may belong to a loop that is closing, so it is looked at instead of waited for.
        while self._keeper is not None and self._keeper.poll() is None and self.loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        self._make_sure()

    def close_now(self) -> None:
        """The same where there is no event loop any more."""
        self._let_go()
        if self._keeper is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._keeper.wait(_SECONDS_TO_END)
        self._make_sure()

    def _let_go(self) -> None:
        """Close our ends: for the keeper that is the order to end everything."""
        self._lose("it was closed")
        if self._port.fileno() < 0:
            return
        if not self.loop.is_closed():
            self.loop.remove_reader(self._port)
            if self.descriptors.reports >= 0:
                self.loop.remove_reader(self.descriptors.reports)
        self._port.close()
        self._far_port.close()
        self.descriptors.close()
        self.prepared.close()

    def _make_sure(self) -> None:
        if self._keeper is not None and self._keeper.poll() is None:
            keeper.stop_and_kill(self._keeper.pid)
            self._keeper.kill()
            self._keeper.wait()

    def _lose(self, why: str) -> None:
        self.lost = self.lost or why
        for waiting in (*self._expected.values(), *self._packets.values()):
            if not waiting.done() and not self.loop.is_closed():
                waiting.set_exception(ShellLost(why))
                waiting.exception()  # perhaps nobody looks
        self._expected.clear()
        self._packets.clear()

    async def _ask(self, kind: str, request: Any) -> tuple[Any, list[int]]:
        if self.lost:
            raise ShellLost(self.lost)
        made: asyncio.Future[tuple[Any, list[int]]] = self.loop.create_future()
        self._packets[kind] = made
        self._port.send(marshal.dumps(request))
        try:
            return await asyncio.wait_for(made, _SECONDS_TO_START)
        except TimeoutError:
            self._lose("its keeper does not answer")  # what it says later would answer another question
            raise ShellLost(self.lost) from None

    def _hear_keeper(self) -> None:
        try:
            data, given, _, _ = socket.recv_fds(self._port, 1 << 16, 8)
        except BlockingIOError:
            return
        except OSError:
            data, given = b"", []
        if not data:
            self.loop.remove_reader(self._port)
            self._lose("its keeper is gone")
            return
        packet = marshal.loads(data)  # noqa: S302 - from our own keeper, over a private socket
        if packet[0] == "ended":
            self._lose("its guard has ended")
            return
        waiting = self._packets.pop("started" if packet[0] == "failed" else packet[0], None)
        if waiting is not None and not waiting.done():
            waiting.set_result((packet, given))
            return
        for number in given:
            os.close(number)

    def hear_reports(self) -> None:
        """Take in what has been reported by now: all of it, since no pipe holds more than is read at once."""
        if self.descriptors.reports < 0:
            return
        try:
            data = os.read(self.descriptors.reports, _LONGEST_REPORT)
        except BlockingIOError:
            return
        if not data:
            self.loop.remove_reader(self.descriptors.reports)
            return
        *whole, self._heard = (self._heard + data).split(b"\0")
        self._heard = self._heard[-_LONGEST_REPORT:]
        for report in whole:
            words = report.decode(errors="surrogateescape")
            nonce, _, rest = words.partition(" ")
            if nonce == "guard":
                nonce, rest = "", words
            kind, _, news = rest.partition(" ")
            waiting = self._expected.pop((nonce, kind), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(news)


async def _beside_the_loop(prepare: Prepare, arguments: Sequence[str]) -> Prepared:
    """Preparing goes through the workspace, which may be large; whoever is cancelled meanwhile leaves nothing open."""
    making = asyncio.ensure_future(asyncio.to_thread(prepare, arguments))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_close_made)
        raise


def _close_made(making: asyncio.Future[Prepared]) -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().close()


def _bash() -> str:
    for path in ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"):
        if os.access(path, os.X_OK):
            return path
    raise ToolError(phrase("There is no bash on this machine."), suggestion=phrase("Ask the person to install bash."))
