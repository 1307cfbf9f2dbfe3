"""The shell behind a session: started when needed, renewed when lost, its state carried from one to the next.

Whoever uses it holds `turn`, so that commands come one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any, TypeVar

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.pipeline.turns import Turns
from ferrule.process.output import KEPT_BYTES, OutputRecord
from ferrule.process.shell.background import BackgroundCommands
from ferrule.process.shell.kept_guard import KeptGuard, ShellLost
from ferrule.process.shell.placed_shell import PlacedShell, State

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ferrule.process.shell.kept_guard import Prepare
    from ferrule.process.spill import SpillFolder

T = TypeVar("T")
_SECONDS_TO_SAVE = 5.0


class SessionShell:
    """One guard, the shell in front, and the commands behind it."""

    def __init__(
        self,
        prepare: Prepare,
        *,
        name: str = "main",
        spills: SpillFolder | None = None,
        kept: int = KEPT_BYTES,
        terminal_size: tuple[int, int] | None = None,
    ) -> None:
        self.name = name
        self.terminal_size = terminal_size
        self.state = State()
        self.notes: list[str] = []
        """What the next result must tell."""
        self.saving: asyncio.Future[str] | None = None
        """Set while the shell saves its state after a command."""
        self.others = False
        """Whether anything that a command started may still run."""
        self.turn = Turns().of("the shell")
        self.background = BackgroundCommands(self)
        self.guard: KeptGuard | None = None
        self._shell: PlacedShell | None = None
        self._pair: tuple[int, tuple[int, int]] | None = None
        self._prepare = prepare
        self._spills = spills
        self._kept = kept
        self._closed = False
        self._endings: set[asyncio.Task[Any]] = set()

    def new_record(self, *, spill_all: bool = False) -> OutputRecord:
        """A record for the output of one command."""
        return OutputRecord(self._spills, kept=self._kept, spill_all=spill_all)

    async def finish(self, work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> T:
        """See work through even when the caller is cancelled, or given up on: the next command waits for it then."""
        task = asyncio.ensure_future(work)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return await finished(task)

    async def settled(self) -> None:
        """Until nothing of an earlier command is being ended any more."""
        here = asyncio.get_running_loop()
        while unended := {one for one in self._endings if one.get_loop() is here}:
            await asyncio.wait(unended)

    async def ready(self) -> PlacedShell:
        """The shell for the next command, with the state that the last one left."""
        await self.settled()
        if self._closed:
            raise ToolError(phrase("This shell session is closed."), suggestion=phrase("Use another session."))
        await self._take_saved()
        guard = self.guard
        if guard is not None and (guard.lost or guard.loop is not asyncio.get_running_loop() or guard.prepared.stale):
            if why := guard.prepared.stale:
                self.notes.append(f"The sandbox was renewed, because {why}.{self._ended_behind()}")
            elif not guard.lost and (ended := self._ended_behind()):
                self.notes.append(f"The shell was started afresh, because another event loop uses it now.{ended}")
            await self.lose(guard)
            guard = None
        try:
            return await self._any_shell(guard)
        except ShellLost as error:
            await self.lose(self.guard)
            raise ToolError(phrase("The shell could not be started: {error}.", error=error)) from error
        except asyncio.CancelledError:
            await self.lose(self.guard)  # half a start is no start
            raise

    async def _any_shell(self, guard: KeptGuard | None) -> PlacedShell:
        """One that runs, whatever a command has broken: the guard that the next shell needs, or the state itself."""
        try:
            return await self._running_shell(guard)
        except ShellLost:
            self.notes += [f"The shell was started afresh.{ended}"] if (ended := self._ended_behind()) else []
            await self.lose(self.guard)
        try:
            return await self._running_shell(None)
        except ShellLost:
            if not self.state.lines:
                raise
            await self.lose(self.guard)
        self.state = State(folder=self.state.folder)
        self.notes.append(
            "No shell could be started with the variables, functions and options there were; they are gone."
        )
        return await self._running_shell(None)

    def _ended_behind(self) -> str:
        running = [f"`{one.id}`" for one in self.background.known() if one.status == "running"]
        return f" What ran in the background was ended: {', '.join(running)}." if running else ""

    async def _running_shell(self, guard: KeptGuard | None) -> PlacedShell:
        if guard is None:
            guard = self.guard = await KeptGuard.start(self._prepare, terminal_size=self.terminal_size)
        shell = self._shell
        if shell is None or shell.death.done():
            shell = await self._fresh_shell(guard, shell)
        return shell

    async def _fresh_shell(self, guard: KeptGuard, shell: PlacedShell | None) -> PlacedShell:
        shell = self._shell = shell or PlacedShell(guard, guard.free_places.pop(0))
        wanted = self.state.folder
        where = await shell.start(self.state)
        self.state.traps = ""
        self.state.folder = where
        if wanted is not None and where != wanted:
            self.notes.append(f"The folder `{wanted}` is gone; the shell is in `{where}` now.")
        return shell

    async def _take_saved(self) -> None:
        """What the shell saved after its last command, which it did while nobody waited."""
        saving, self.saving = self.saving, None
        if saving is None or self._shell is None:
            return
        if not saving.done() and saving.get_loop() is not asyncio.get_running_loop():
            await self._until_saved(self._shell)
        elif not saving.done():
            await asyncio.wait({saving}, timeout=_SECONDS_TO_SAVE)
            if not saving.done():
                return
        if saving.done() and saving.exception() is not None:
            return
        if (state := self._shell.saved(self.state)) is not None:
            self.state = state
        self._shell.clear_saved()

    async def _until_saved(self, shell: PlacedShell) -> None:
        """The event loop that was to hear of it has ended, and the shell goes on: look at what it has saved."""
        clock = asyncio.get_running_loop().time
        end = clock() + _SECONDS_TO_SAVE
        while shell.saved(self.state) is None and clock() < end:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.005)

    async def front_pair(self, guard: KeptGuard) -> tuple[int, tuple[int, int]]:
        """The output pipes of the command in front; the same again and again, unless one left something behind."""
        if self._pair is None:
            self._pair = await self.take_pair(guard)
        return self._pair

    def give_up_pair(self) -> None:
        """The pipes of the command in front belong to what it left behind now."""
        self._pair = None

    def give_up_shell(self) -> None:
        """The shell goes on behind the session, with its command."""
        self._shell = None
        self.give_up_pair()

    async def take_pair(self, guard: KeptGuard) -> tuple[int, tuple[int, int]]:
        """A pair of output pipes that nothing else writes to."""
        if not guard.free_pairs:
            self.background.reclaim()
        if not guard.free_pairs:
            raise ToolError(
                phrase("Too many commands run in the background of this shell session."),
                suggestion=phrase("Stop some of them first; each is listed with its number."),
            )
        place = guard.free_pairs.pop(0)
        # Seen through also when cancelled: an answer that nobody took would be taken for that to the next question.
        asking = asyncio.ensure_future(guard.reading_pair(place))
        try:
            return place, await self.finish(asking)
        except ShellLost as error:
            raise ToolError(phrase("The shell could not run the command: {error}.", error=error)) from error
        except asyncio.CancelledError:
            if not asking.cancelled() and asking.exception() is None:
                for number in asking.result():
                    os.close(number)
                guard.free_pairs.append(place)
            raise

    async def lose(self, guard: KeptGuard | None) -> None:
        """Give up a guard with everything below it."""
        self._drop_readers()
        self.guard = self._shell = self.saving = None
        if guard is not None:
            await finished(guard.close())

    async def close(self) -> None:
        """End everything, for good. Safe to call twice."""
        self._closed = True
        await self.settled()
        await self.lose(self.guard)

    def close_now(self) -> None:
        """The same without an event loop, for the end of the program."""
        self._closed = True
        guard, self.guard = self.guard, None
        self._drop_readers()
        if guard is not None:
            guard.close_now()

    def _drop_readers(self) -> None:
        self.background.drop_all()
        pair, self._pair = self._pair, None
        for number in pair[1] if pair else ():
            with contextlib.suppress(OSError):
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


async def finished(work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> T:
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
