"""Commands behind a session: started there, moved there when their time was up, or left there by another command.

Each has a number, its whole output in a file, a cursor for whoever reads on, and its processes, so that it can be
stopped with all that it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Literal

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.process.output import LeftOut, OutputRecord
from ferrule.process.shell.kept_guard import KeptGuard, ShellLost
from ferrule.process.shell.output_reader import OutputReader
from ferrule.process.shell.patterns import LineSearch
from ferrule.process.terminal_escapes import clean

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ferrule.process.shell.family import Running
    from ferrule.process.shell.foreground import Foreground
    from ferrule.process.shell.placed_shell import PlacedShell
    from ferrule.process.shell.session_shell import SessionShell

Status = Literal["running", "ended", "stopped"]
_PATIENCE = 1.0
_SECONDS_TO_START = 20.0
_TRIES_TO_END = 5
_READ_AT_ONCE = 32_000
_MOST_KEPT = 100


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
    command: str
    guard: KeptGuard
    place: int
    reader: OutputReader
    roots: frozenset[Running]
    status: Status = "running"
    exit_code: int | None = None
    began: float = field(default_factory=monotonic)
    ended_at: float | None = None
    cursor: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ending: Callable[[], None] | None = None
    on_end: Callable[[], None] | None = None
    stopping: bool = False
    reports_end: bool = False
    """Whether its end will be reported, with its exit code, after its processes are gone."""
    report: asyncio.Future[str] | None = None
    """Its exit code, which it tells just before its last process ends."""

    @property
    def record(self) -> OutputRecord:
        """Its output."""
        return self.reader.record

    def end_without_processes(self) -> None:
        """Nothing of it runs any more: what it told before that lies in the pipe by now, or will never come."""
        if self.report is not None:
            self.guard.hear_reports()
        told = self.report is not None and self.report.done() and self.report.exception() is None
        if self.place >= 0:
            self.reader.take_rest()
        self.finish("ended", int(self.report.result()) if self.report is not None and told else self.exit_code)

    def has_changed(self) -> None:
        """Wake whoever waits for output."""
        self.changed.set()

    def finish(self, status: Status, exit_code: int | None) -> None:
        """It has ended, or is given up."""
        if self.status == "running":
            self.status, self.exit_code = ("stopped", None) if self.stopping else (status, exit_code)
            self.ended_at = monotonic()
            if self.ending is not None:
                self.ending()
            self.over.set()
            self.changed.set()
            if self.on_end is not None:
                self.on_end()

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

    async def wait_for(self, pattern: str, *, regex: bool = False, timeout: float = 30.0, since: int = 0) -> str | None:
        """The first line with the pattern in it; None when the command ended, or time was up, without one."""
        search = LineSearch(pattern, regex=regex)
        place = since
        end = monotonic() + timeout
        try:
            while True:
                self.changed.clear()
                last = self.status != "running"
                while place < self._written:
                    data = self._bytes(place, min(self._written, place + (1 << 18)))
                    place += len(data)
                    if (found := await search.feed(data.decode(errors="replace"), end - monotonic())) is not None:
                        return clean(found)
                if last:
                    found = await search.rest(end - monotonic())
                    return clean(found) if found is not None else None
                try:
                    await asyncio.wait_for(self.changed.wait(), max(0.0, end - monotonic()))
                except TimeoutError:
                    return None
        finally:
            search.close()


class BackgroundCommands:
    """Those of one session."""

    def __init__(self, session: SessionShell) -> None:
        self._session = session
        self._all: dict[str, BackgroundCommand] = {}
        self._count = 0
        self.on_change: Callable[[], None] | None = None
        """Called when a command was added, and when one has ended."""

    def list(self) -> list[BackgroundCommand]:
        """All of them, those that have ended too."""
        self.reclaim()
        return [*self._all.values()]

    def get(self, id: str) -> BackgroundCommand:  # noqa: A002 - what a model calls it
        """The one with this number."""
        if id not in self._all:
            known = ", ".join(f"`{one}`" for one in self._all) or phrase("none")
            raise ToolError(
                phrase("There is no background command `{id}`.", id=id),
                kind=ErrorKind.NOT_FOUND,
                suggestion=phrase("Those there are: {known}.", known=known),
            )
        return self._all[id]

    def roots(self) -> frozenset[Running]:
        """The processes that belong to them."""
        return frozenset(root for one in self._all.values() if one.status == "running" for root in one.roots)

    async def start(self, command: str) -> BackgroundCommand:
        """Start a command behind the session, in the session's state; what it changes of that is its own."""
        from ferrule.process.shell.session_shell import encoded

        text = encoded(command)
        session = self._session
        async with session.turn:
            shell = await session.ready()
            starting = asyncio.ensure_future(self._start(shell, command, text))
            try:
                return await session.finish(starting)
            except asyncio.CancelledError:  # it runs by now, and nobody knows of it
                if not starting.cancelled() and starting.exception() is None:
                    await session.finish(self.stop(starting.result().id))
                raise

    async def _start(self, shell: PlacedShell, command: str, text: bytes) -> BackgroundCommand:
        session, guard = self._session, shell.guard
        place, (out, err) = await session.take_pair(guard)
        reader = OutputReader({out: "stdout", err: "stderr"}, session.new_record(spill_all=True))
        reader.start(guard.loop)
        nonce, end_nonce = guard.nonce(), guard.nonce()
        begun, over = guard.expect(nonce, "begun"), guard.expect(end_nonce, "over")
        saved = guard.expect(nonce, "saved")
        shell.give_text(text)
        session.others = True
        try:
            shell.send(shell.lines.background(nonce, end_nonce, guard.descriptors.numbers.outputs[place]))
            inner = int((await asyncio.wait_for(begun, _SECONDS_TO_START)).split(" ")[0])
            await asyncio.wait_for(saved, _SECONDS_TO_START)
        except (TimeoutError, ShellLost) as error:
            if not guard.lost:
                # It may run by now, or as soon as the shell reads on, and nobody would ever know of it.
                await self._end_shell(shell)
                await guard.family.end(self.roots(), 0)
                reader.take_rest()
                guard.free_pairs.append(place)
            reader.close()
            raise ToolError(phrase("The command could not be started in the background.")) from error
        root = guard.family.running_as(inner)
        kept = self._add(command, guard, place, reader, frozenset({root} if root else ()))
        kept.report = over
        over.add_done_callback(lambda future: self._has_ended(kept, future))
        if root is None or not self._watch(kept, root):
            kept.end_without_processes()
        return kept

    async def _end_shell(self, shell: PlacedShell) -> None:
        """End the shell, which saves its state if it can; the next command has one that begins with that."""
        shell.ask_to_end()
        if not await shell.has_died(_PATIENCE):
            await shell.kill(_PATIENCE)
        self._session.state = shell.saved(self._session.state) or self._session.state

    def adopt(
        self, command: str, guard: KeptGuard, place: int, reader: OutputReader, roots: frozenset[Running]
    ) -> BackgroundCommand:
        """Keep what a command left behind, and read on what it writes."""
        reader.record = self._session.new_record(spill_all=True)
        reader.on_output = None
        reader.start(guard.loop)
        return self._add(command, guard, place, reader, roots)

    def move(self, front: Foreground) -> BackgroundCommand:
        """Take a command from the front, with its shell."""
        shell = front.shell
        record = front.reader.record
        record.spill_from_now()
        process = frozenset({shell.process} if shell.process else ())
        self._session.others = True
        kept = self._add(front.command, shell.guard, front.place, front.reader, process)
        kept.cursor = record.total
        kept.reports_end = True
        front.reader.on_output = None

        def on_end(future: asyncio.Future[str]) -> None:
            words = future.result().split(" ") if future.exception() is None else [""]
            if kept.place >= 0:
                kept.reader.take_rest()
            kept.finish("ended", int(words[0]) if words[0] else None)
            shell.retire()

        front.ended.add_done_callback(on_end)
        shell.death.add_done_callback(on_end)
        return kept

    async def stop(self, id: str) -> BackgroundCommand:  # noqa: A002
        """End a command with all that it started."""
        kept = self.get(id)
        if kept.status == "running":
            kept.stopping = True
            await self._end(kept)
            kept.reader.take_rest()
            kept.finish("stopped", None)
        self.reclaim()
        return kept

    async def _end(self, kept: BackgroundCommand) -> None:
        """End its processes, also those whose parents ended: they write to its pipes, which no other command has."""
        family, pipes = kept.guard.family, kept.reader.pipes()
        await family.end_these(kept.roots | family.writers(pipes), _PATIENCE)
        for _ in range(_TRIES_TO_END):
            if not (left := family.writers(pipes)):  # started while those were ending
                return
            await family.end_these(left, 0)

    def reclaim(self) -> None:
        """Take back the pipes that nothing writes to any more."""
        for one in self._all.values():
            if one.place >= 0 and not one.guard.lost:
                left = frozenset(root for root in one.roots if root.alive)
                silent = one.status == "running" and not one.reports_end
                if silent and not left and not one.guard.family.below(one.roots):
                    one.end_without_processes()
                if one.status != "running" and not one.guard.family.holds_output(one.reader.pipes()):
                    one.reader.take_rest()
                    one.reader.close()
                    one.record.close()
                    one.guard.free_pairs.append(one.place)
                    one.place = -1

    def drop_all(self) -> None:
        """Their guard is gone, and so are they."""
        for one in self._all.values():
            if one.place >= 0:
                with contextlib.suppress(OSError):
                    one.reader.take_rest()
                one.reader.close()
                one.record.close()
                one.place = -1
            one.finish("stopped", None)

    def _add(
        self, command: str, guard: KeptGuard, place: int, reader: OutputReader, roots: frozenset[Running]
    ) -> BackgroundCommand:
        self._count += 1
        kept = BackgroundCommand(f"{self._session.name}_{self._count}", command, guard, place, reader, roots)
        reader.on_change = kept.has_changed
        self._forget_oldest()
        self._all[kept.id] = kept
        kept.on_end = self._tell
        self._tell()
        return kept

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def known(self) -> list[BackgroundCommand]:
        """All of them, as they were last seen."""
        return [*self._all.values()]

    def _forget_oldest(self) -> None:
        """What ended long ago is only in its file any more."""
        over = [one for one in self._all.values() if one.status != "running" and one.place < 0]
        for one in over[: max(0, len(self._all) - _MOST_KEPT)]:
            del self._all[one.id]

    def _has_ended(self, kept: BackgroundCommand, future: asyncio.Future[str]) -> None:
        if kept.place >= 0:
            kept.reader.take_rest()
        kept.finish("ended", int(future.result()) if future.exception() is None else None)

    def _watch(self, kept: BackgroundCommand, root: Running) -> bool:
        """Notice its end also when it was killed before it could report that; False when it has ended already."""
        try:
            handle = os.pidfd_open(root.pid)
        except OSError:
            return False
        loop = kept.guard.loop

        def gone() -> None:
            forget()
            kept.end_without_processes()

        def forget() -> None:
            nonlocal handle
            if handle >= 0:
                if not loop.is_closed():
                    loop.remove_reader(handle)
                os.close(handle)
                handle = -1

        kept.ending = forget
        loop.add_reader(handle, gone)
        return True
