"""Commands behind a session, each in its own box: started there, or moved there when their time was up.

Each has a number, its whole output in a file, and a cursor for whoever reads on. It stays until it ends, is stopped, or
its session is closed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Literal

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.loops import Posted
from ferrule.core.phrases import phrase
from ferrule.process.output import LeftOut
from ferrule.process.shell.running import RunningCommand, finished
from ferrule.process.terminal_escapes import clean

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ferrule.process.output import OutputRecord
    from ferrule.process.sandbox.sandbox import Denial
    from ferrule.process.shell.running import Opener
    from ferrule.process.shell.session import ShellSession

Status = Literal["running", "ended", "stopped"]
_PATIENCE = 1.0
_MOST_RUNNING = 20
_MOST_KEPT = 100
_READ_AT_ONCE = 32_000
_SECONDS_BETWEEN_LOOKS = 0.02
_SEARCHED_AT_ONCE, _LONGEST_LINE = 1 << 18, 16_384


@dataclass(slots=True, frozen=True)
class ReadOn:
    """What a background command wrote since it was last read."""

    id: str
    status: Status
    exit_code: int | None
    text: str
    left_out: LeftOut
    """What was passed over, because it was too much for one reading; it is in the file."""
    spill: Path | None
    cursor: int
    """Where the next reading begins, in bytes."""


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
        return ReadOn(self.id, self.status, self.exit_code, text, LeftOut(first - start, passed), self.record.path, end)

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


class BackgroundCommands:
    """Those of one session."""

    def __init__(self, session: ShellSession) -> None:
        self._session = session
        self._all: dict[str, BackgroundCommand] = {}
        self._count = 0
        self._starting = 0
        self.on_change: Callable[[], None] | None = None
        """Called when a command was added, and when one has ended."""

    def list(self) -> list[BackgroundCommand]:
        """All of them, those that have ended too."""
        for one in self._all.values():
            if one.status == "running" and one.running.loop.is_closed():
                self._end_now(one)  # nobody would ever hear of its end
        return [*self._all.values()]

    def get(self, id: str) -> BackgroundCommand:  # noqa: A002 - what a model calls it
        """The one with this number."""
        listed = {one.id: one for one in self.list()}
        if id not in listed:
            known = ", ".join(f"`{one}`" for one in listed) or phrase("none")
            raise ToolError(
                phrase("There is no background command `{id}`.", id=id),
                kind=ErrorKind.NOT_FOUND,
                suggestion=phrase("Those there are: {known}.", known=known),
            )
        return listed[id]

    def has_room(self) -> bool:
        """Whether another one may run."""
        return sum(one.status == "running" for one in self.list()) + self._starting < _MOST_RUNNING

    async def start(self, command: str, open_box: Opener) -> BackgroundCommand:
        """Start a command behind the session, in the session's state; what it changes of that is its own."""
        self._session.check_open()
        if not self.has_room():
            raise ToolError(
                phrase("Too many commands run in the background of this shell session."),
                suggestion=phrase("Stop some of them first; each is listed with its number."),
            )
        self._starting += 1
        try:
            record = self._session.new_record(spill_all=True)
            running = await RunningCommand.start(command, self._session.state, open_box, record)
        finally:
            self._starting -= 1
        kept = self._add(running)
        try:
            self._session.check_open()
        except ToolError:
            await self.end(kept)
            raise
        return kept

    def move(self, running: RunningCommand) -> BackgroundCommand:
        """Take a command from the front."""
        running.reader.on_output = None
        running.reader.record.spill_from_now()
        kept = self._add(running)
        kept.cursor = running.reader.record.total
        return kept

    async def stop(self, id: str) -> BackgroundCommand:  # noqa: A002
        """End a command with all that it started."""
        kept = self.get(id)
        await self.end(kept)
        return kept

    async def end(self, kept: BackgroundCommand) -> None:
        """End one, and return when it is over."""
        if kept.status != "running":
            return
        kept.stopping = True
        loop = kept.running.loop
        if loop.is_closed():
            self._end_now(kept)
        elif loop is asyncio.get_running_loop():
            await self._session.finish(self._end(kept))
        else:
            await asyncio.wrap_future(Posted(self._end(kept), loop).ended)

    async def _end(self, kept: BackgroundCommand) -> None:
        await kept.running.end(_PATIENCE)
        if kept.watch is not None:
            await asyncio.wait({kept.watch})

    async def end_all(self) -> None:
        """End all of them."""
        await asyncio.gather(*(self.end(one) for one in self.list()))

    def end_now(self) -> None:
        """The same without an event loop, for the end of the program."""
        for one in self._all.values():
            if one.status == "running":
                self._end_now(one)

    def _end_now(self, kept: BackgroundCommand) -> None:
        kept.stopping = True
        kept.running.end_now()
        kept.finish(None)
        self._tell()

    def _add(self, running: RunningCommand) -> BackgroundCommand:
        self._count += 1
        kept = BackgroundCommand(f"bash_{self._count}", running, began=running.began)
        over = [one.id for one in self._all.values() if one.status != "running"]
        for one in over[: max(0, len(self._all) - _MOST_KEPT)]:
            del self._all[one]  # what ended long ago is only in its file any more
        self._all[kept.id] = kept
        kept.watch = running.loop.create_task(self._watch(kept))
        self._tell()
        return kept

    async def _watch(self, kept: BackgroundCommand) -> None:
        """Wait for its end, and see to what its box kept back, before anyone is told of it."""
        running = kept.running
        await asyncio.wait({running.box.ended})
        await finished(running.finish())
        kept.denials = await asyncio.to_thread(running.box.denials)
        running.close()
        if kept.status == "running":
            kept.finish(running.exit_code)
            self._tell()

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change()
