"""A shell session: commands one after the other, each a bash of its own in a box of its own, with one state.

The state is data (`ShellState`): it goes into a command's bash and comes out at its end, and whoever ran the command
says with `keep` whether it becomes the session's. A command that ends its own shell, or is ended, leaves the state as
it was. When a result is given, everything that the command started is dead, unless it went on in the background.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import re
import weakref
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.loops import Posted
from ferrule.core.phrases import phrase
from ferrule.core.turns import Turns
from ferrule.process.output import KEPT_BYTES, OutputRecord, Piece
from ferrule.process.shell.running import RunningCommand, encoded, finished
from ferrule.process.shell.state import KEPT_STATE, ShellState

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from ferrule.process.box import Box
    from ferrule.process.output import LeftOut, SpillFolder
    from ferrule.process.sandbox.denials import Denial
    from ferrule.process.shell.background import BackgroundCommand, Notice
    from ferrule.process.shell.running import Opener, Size, Why

logger = logging.getLogger("ferrule.shells")

T = TypeVar("T")
DEFAULT_SECONDS = 120.0
_PATIENCE = 1.0
"""Seconds between asking processes to end and killing them."""
_MOST_RUNNING, _MOST_KEPT = 20, 100
"""Background commands of a session: how many may run, and how many are remembered."""
_OWN_ERROR = lazy_pattern(r"^(?:bash: eval|environment): line (?=\d+: )", re.MULTILINE)


@dataclass(slots=True, frozen=True)
class Ended:
    """What a command did and wrote, also when it was ended from outside or goes on."""

    exit_code: int | None
    """None when it was ended from outside, or has not ended yet."""
    stdout: str
    stderr: str
    pieces: list[Piece]
    """Both streams in the order they came."""
    left_out: LeftOut
    """What `pieces` leaves out."""
    spill: Path | None
    """The file with all of it, when there is more than is shown."""
    duration: float
    cwd: str
    """The folder that the command left its shell in; the session's own where it left no state."""
    box: Box
    state: ShellState | None = None
    """The state that came out of it, for `ShellSession.keep`; None where it left none."""
    timed_out: bool = False
    starved: bool = False
    """Whether it was ended because it waited for input without a terminal, where none can come."""
    moved_to_background: str | None = None
    """The number under which it goes on."""
    waiting_for_input: str | None = None
    """The last line it wrote before it began to wait for an answer."""
    denials: tuple[Denial, ...] = ()
    """What its box kept it from, or took back."""
    notes: tuple[str, ...] = field(default=())
    """What else a reader of the result should know, in sentences."""


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
                self._end_now(one)  # its end could not be reported
        return [*self._all.values()]

    def get(self, id: str) -> BackgroundCommand:  # noqa: A002 - what a model calls it
        """The one with this number."""
        listed = {one.id: one for one in self.list()}
        if id not in listed:
            known = ", ".join(f"`{one}`" for one in listed) or phrase("none")
            raise ToolError(
                phrase("There is no background command `{id}`.", id=id),
                kind=ErrorKind.NOT_FOUND,
                suggestion=phrase("Background commands: {known}.", known=known),
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
        from ferrule.process.shell.background import BackgroundCommand

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
        """Wait for its end, and see to what its box kept back, before its end is reported."""
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


class ShellSession:
    """Commands run one at a time; a second one waits for the first. Close it, and nothing of it goes on."""

    def __init__(
        self,
        *,
        folder: str,
        spills: SpillFolder | None = None,
        notice: Notice | None = None,
        kept: int = KEPT_BYTES,
        terminal_size: Size = (100, 30),
    ) -> None:
        self.state = ShellState(folder=folder)
        self.background = BackgroundCommands(self)
        self._notice = notice
        if notice is not None:
            self.background.on_change = self._renew_notice
        self._terminal_size = terminal_size
        self._spills = spills
        self._kept = kept
        self._turns = Turns()
        self._fronts: set[RunningCommand] = set()
        self._waiting: RunningCommand | None = None
        self._endings: set[asyncio.Task[Any]] = set()
        self._closed = False
        _all.add(self)

    @property
    def folder(self) -> str:
        """Where the next command starts."""
        return self.state.folder or "/"

    def new_record(self, *, spill_all: bool = False) -> OutputRecord:
        """A record for the output of one command."""
        return OutputRecord(self._spills, kept=self._kept, spill_all=spill_all)

    async def run(
        self,
        command: str,
        open_box: Opener,
        *,
        timeout: float = DEFAULT_SECONDS,
        on_output: Callable[[Piece], None] | None = None,
        terminal: bool = False,
        may_move: bool = False,
    ) -> Ended:
        """Run a command to its end, its time limit, or (on a terminal) until it waits for an answer.

        With `may_move` it goes on in the background when its time is up, instead of being ended.
        """
        encoded(command)  # refused before anything is waited for
        async with self._turns.of("the shell"):
            self.check_open()
            if terminal and self._waiting is not None:
                raise ToolError(
                    phrase("The previous command is still waiting for input."),
                    kind=ErrorKind.VALIDATION,
                    suggestion=phrase("Answer it, or send it Ctrl-C, before running another."),
                )
            size = self._terminal_size if terminal else None
            front = await RunningCommand.start(command, self.state, open_box, self.new_record(), size=size)
            front.reader.on_output = on_output
            return await self._see_through(front, timeout, may_move and not terminal)

    async def answer(
        self, text: str, *, timeout: float = DEFAULT_SECONDS, on_output: Callable[[Piece], None] | None = None
    ) -> Ended:
        r"""Give a command that waits for input an answer, as if typed: `yes\n`, `\x03` for Ctrl-C."""
        async with self._turns.of("the shell"):
            front = self._waiting
            if front is None:
                raise ToolError(
                    phrase("No command is waiting for input."),
                    kind=ErrorKind.VALIDATION,
                    suggestion=phrase("Run the command again."),
                )
            self._waiting = None
            front.reader.record = self.new_record()
            front.reader.on_output = on_output
            await front.type(text)
            return await self._see_through(front, timeout, False)

    def keep(self, ended: Ended, *, tainted: bool) -> None:
        """Go on in the state that came out of a command; `tainted` when that command was not approved."""
        if ended.state is not None:
            self.state = ended.state.after(self.state, tainted=tainted)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size, also that of a command that waits."""
        self._terminal_size = (columns, rows)
        if self._waiting is not None:
            self._waiting.resize(self._terminal_size)

    def check_open(self) -> None:
        """Refuse to start anything once the session is closed."""
        if self._closed:
            raise ToolError(phrase("This shell session is closed."), suggestion=phrase("Use another session."))

    def _renew_notice(self) -> None:
        try:
            if self._notice is not None and not self._closed:
                self._notice.renew(self.background.list())
        except OSError:
            # What runs is not held up because it could not be listed for others; that is worth a line in the log.
            logger.warning("The background commands could not be listed for `ferrule shells`", exc_info=True)

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """See work through even when the caller is cancelled, or given up on: `close` waits for it then."""
        return await finished(self._begin_to_finish(work))

    def _begin_to_finish(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task

    async def close(self) -> None:
        """End the session and everything that its commands started. Safe to call twice."""
        self._closed = True
        here = asyncio.get_running_loop()
        await asyncio.gather(*(finished(one.end(0)) for one in self._fronts if one.loop is here))
        await self.background.end_all()
        async with self._turns.of("the shell"):  # its caller has the result by then
            while unended := {one for one in self._endings if one.get_loop() is here}:
                await asyncio.wait(unended)
            self.close_now()

    def close_now(self) -> None:
        """The same without an event loop, for the end of the program."""
        self._closed = True
        self.background.end_now()
        fronts, self._fronts, self._waiting = self._fronts, set[RunningCommand](), None
        for front in fronts:
            front.end_now()
        if self._notice is not None:
            self._notice.remove()

    async def _see_through(self, front: RunningCommand, timeout: float, may_move: bool) -> Ended:
        self._fronts.add(front)
        try:
            if self._closed:
                await front.end(0)
            why = await front.news(timeout)
        except GeneratorExit:  # the caller is gone, and nothing can be awaited here
            self._begin_to_finish(self._settle(front, "time"))
            raise
        except BaseException:
            await self.finish(self._settle(front, "time"))
            raise
        if why == "waiting":
            self._waiting = front
            # The end of what it wrote, which is a prompt.
            line = front.reader.record.text("stdout").rstrip("\n").rpartition("\n")[2][-200:]
            return self._ended(front, waiting_for_input=line or "(no prompt)")
        if why == "time" and may_move and self.background.has_room():
            # Let the command go on behind the session, which stays in the state from before the command.
            self._fronts.discard(front)
            ended = self._ended(front, timed_out=True)
            kept = self.background.move(front)
            note = f"It goes on in the background as `{kept.id}`. {KEPT_STATE}"
            return replace(ended, moved_to_background=kept.id, notes=(*ended.notes, note))
        return await self.finish(self._settle(front, why))

    async def _settle(self, front: RunningCommand, why: Why) -> Ended:
        """Bring a command to its end, whichever way, and tell how it went."""
        try:
            if why != "ended":
                await front.end(_PATIENCE)
            await front.finish()
            denials = await asyncio.to_thread(front.box.denials)
            state, notes = await asyncio.to_thread(front.outcome)
            if why != "ended":
                state, notes = None, ()
            if state is not None and front.before is not self.state:
                state, notes = None, (*notes, f"Another command ran in the meantime. {KEPT_STATE}")
            return self._ended(
                front,
                exit_code=front.exit_code if why == "ended" else None,
                state=state,
                timed_out=why == "time",
                starved=why == "starved",
                denials=denials,
                notes=notes,
            )
        finally:
            self._fronts.discard(front)
            front.close()
            front.reader.record.close()

    def _ended(
        self,
        front: RunningCommand,
        *,
        exit_code: int | None = None,
        state: ShellState | None = None,
        notes: tuple[str, ...] = (),
        **how: Any,
    ) -> Ended:
        record = front.reader.record
        if record.problem:
            notes = (f"The output file is incomplete: {record.problem}.", *notes)
        mixed = front.master >= 0
        return Ended(
            exit_code=exit_code,
            stdout=_own_errors(record.text("stdout")) if mixed else record.text("stdout"),
            stderr=_own_errors(record.text("stderr")),
            pieces=[
                Piece(one.stream, _own_errors(one.text)) if mixed or one.stream == "stderr" else one
                for one in record.pieces()
            ],
            left_out=record.left_out(),
            spill=record.path,
            duration=monotonic() - front.began,
            cwd=(state or self.state).folder or "/",
            box=front.box,
            state=state,
            notes=notes,
            **how,
        )


def _own_errors(text: str) -> str:
    """Bash's own errors, without how the command came to it: `bash: line 3: …`."""
    return _OWN_ERROR.sub("bash: line ", text) if "line " in text else text


_all: weakref.WeakSet[ShellSession] = weakref.WeakSet()


def _close_all() -> None:
    """The launcher would end everything once we are gone; this way it is gone when we are."""
    for session in list(_all):
        session.close_now()


atexit.register(_close_all)
