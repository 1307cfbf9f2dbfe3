"""A bash session: one command after another in a shell that keeps its folder, variables, functions and options.

A command's end is told on a private channel, so what it leaves in the background never holds its result up. A command
that ends the shell (`exit 3`, `set -e`, `exec ls`) ends with that exit code, and the next one finds a fresh shell in
the same state, as far as it could be saved. When time is up or nobody waits any more, everything that the command
started is ended before anyone is told.
"""

from __future__ import annotations

import asyncio
import os
from time import monotonic
from typing import TYPE_CHECKING, Any

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.process.output import KEPT_BYTES, Piece
from ferrule.process.shell.bash_lines import SHELL
from ferrule.process.shell.ended import Ended
from ferrule.process.shell.foreground import Foreground, Why, error_lines_from_one
from ferrule.process.shell.kept_guard import KeptGuard, ShellLost
from ferrule.process.shell.output_reader import OutputReader
from ferrule.process.shell.session_shell import SessionShell, encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.process.sandbox.sandbox import Denial
    from ferrule.process.shell.family import Running
    from ferrule.process.shell.kept_guard import Prepare
    from ferrule.process.spill import SpillFolder

DEFAULT_SECONDS = 120.0
_PATIENCE = 1.0
"""Seconds between asking processes to end and killing them."""
_SECONDS_TO_SHOW = 1.0
_SECONDS_TO_SETTLE = 0.05
_KEPT_STATE = "Variables, functions and options are as they were before this command."


class ShellSession:
    """Commands run one at a time; a second one waits for the first. Use it on one event loop, and close it."""

    def __init__(
        self,
        prepare: Prepare,
        *,
        spills: SpillFolder | None = None,
        kept: int = KEPT_BYTES,
        terminal_size: tuple[int, int] | None = None,
        name: str = "main",
    ) -> None:
        self._shell = SessionShell(prepare, name=name, spills=spills, kept=kept, terminal_size=terminal_size)
        self._front: Foreground | None = None
        self.background = self._shell.background

    @property
    def folder(self) -> str | None:
        """Where the next command starts; None before the first."""
        return self._shell.state.folder

    async def run(
        self,
        command: str,
        *,
        timeout: float = DEFAULT_SECONDS,
        on_output: Callable[[Piece], None] | None = None,
        move_to_background: bool = False,
    ) -> Ended:
        """Run a command to its end, its time limit, or (on a terminal) until it waits for an answer.

        With `move_to_background` it goes on behind the session when time is up, instead of being ended.
        """
        text = encoded(command)
        async with self._shell.turn:
            if self._front is not None:
                raise ToolError(
                    phrase("The command before this one still waits for input."),
                    kind=ErrorKind.VALIDATION,
                    suggestion=phrase("Answer it, or send it Ctrl-C, before running another."),
                )
            front = await self._begin(command, text)
            front.reader.on_output = on_output
            return await self._see_through(front, timeout, move_to_background)

    async def answer(
        self, text: str, *, timeout: float = DEFAULT_SECONDS, on_output: Callable[[Piece], None] | None = None
    ) -> Ended:
        r"""Give a command that waits for input an answer, as if typed: `yes\n`, `\x03` for Ctrl-C."""
        async with self._shell.turn:
            await self._shell.settled()
            front = self._front
            if front is None:
                raise ToolError(
                    phrase("No command waits for input."),
                    kind=ErrorKind.VALIDATION,
                    suggestion=phrase("Run the command again."),
                )
            front.reader.record = self._shell.new_record()
            front.reader.on_output = on_output
            await self._type(front, text)
            return await self._see_through(front, timeout, False)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        self._shell.terminal_size = (columns, rows)
        if self._shell.guard is not None and self._shell.guard.descriptors.master >= 0:
            self._shell.guard.descriptors.resize((columns, rows))

    async def close(self) -> None:
        """End the session and everything that its commands started. Safe to call twice."""
        self._drop_front()
        await self._shell.close()

    def close_now(self) -> None:
        """The same without an event loop, for the end of the program."""
        self._drop_front()
        self._shell.close_now()

    def _drop_front(self) -> None:
        front, self._front = self._front, None
        if front is not None:
            front.reader.stop()

    async def _begin(self, command: str, text: bytes) -> Foreground:
        shell = await self._shell.ready()
        guard = shell.guard
        record = self._shell.new_record()
        nonce = guard.nonce()
        if guard.descriptors.master >= 0:
            reader = OutputReader({guard.descriptors.master: "stdout"}, record)
            reader.marker = nonce.encode()
            place, writing = -1, (-1, -1)
        else:
            place, (out, err) = await self._shell.front_pair(guard)
            reader = OutputReader({out: "stdout", err: "stderr"}, record)
            writing = guard.descriptors.numbers.outputs[place]
        before = guard.family.roots() if self._shell.others else frozenset[Any]()
        if not before:
            await _looked_at(guard, guard.prepared.before_command)
        shell.drop_unread()
        shell.clear_saved()
        shell.give_text(text)
        front = Foreground(command, shell, reader, place, nonce, before, first_line=shell.lines_sent + 3)
        reader.start(guard.loop)
        state = self._shell.state
        lines = shell.lines.round(nonce, writing, status=state.status, traps=state.traps, save=not state.large)
        try:
            shell.send(lines)
        except ShellLost as error:
            reader.stop()
            raise ToolError(phrase("The shell could not run the command: {error}.", error=error)) from error
        return front

    async def _see_through(self, front: Foreground, timeout: float, move: bool) -> Ended:
        try:
            why = await front.news(timeout, terminal=self._shell.terminal_size is not None)
            if why == "waiting":
                return self._waiting(front)
            if why == "time" and move and self._may_move(front):
                return self._move(front)
            if why == "ended" and self._is_plain(front):
                front.settled = True
                self._front = None
                code, notes = self._take_news(front, why)
                return self._ended(front, exit_code=code, notes=notes)
            return await self._shell.finish(self._settle(front, why))
        except asyncio.CancelledError:
            if not front.settled:
                await self._shell.finish(self._settle(front, "cancelled"))
            raise

    def _waiting(self, front: Foreground) -> Ended:
        self._front = front
        prompt = front.last_line() or "(no prompt)"
        return self._ended(front, exit_code=None, waiting_for_input=prompt)

    async def _settle(self, front: Foreground, why: Why) -> Ended:
        """Bring a command to its end, whichever way, and tell how it went."""
        front.settled = True
        self._front = None
        guard = front.shell.guard
        if why in ("time", "cancelled", "mute", "starved"):
            await self._end(front)
        if front.place < 0 and not guard.lost:
            if why != "ended":
                front.reader.marker = b""  # it will not come
            await front.reader.until_marked(_SECONDS_TO_SHOW)
        code, notes = self._take_news(front, why)
        left = await self._left_behind(front) if why in ("ended", "died") and not guard.lost else ()
        if left:
            front.reader.take_rest()
        denials = () if guard.lost else await _looked_at(guard, guard.prepared.after_command)
        if guard.lost:
            await self._shell.lose(guard)
            notes.append(f"The shell and all it had started were ended from outside; the next is new. {_KEPT_STATE}")
        ended = self._ended(
            front,
            exit_code=code,
            timed_out=why == "time",
            starved=why == "starved",
            still_running=left,
            denials=denials,
            notes=notes,
        )
        return _with(ended, notes=(*ended.notes, self._adopt(front, left))) if left else ended

    def _take_news(self, front: Foreground, why: Why) -> tuple[int | None, list[str]]:
        """The exit code and the shell's state, as far as they are known now."""
        shell = front.shell
        code: int | None = None
        notes: list[str] = []
        if why == "ended":
            words, _, folder = front.ended.result().partition(" ")
            code = self._shell.state.status = int(words)
            self._shell.state.folder = folder or self._shell.state.folder
            self._shell.saving = front.saved
        else:
            if why == "died":
                code = shell.exit_code
                self._shell.state.status = code or 0
            if why == "mute":
                notes.append("The command left the shell unable to go on (as `set -n` does); it was started afresh.")
            if not shell.guard.lost:
                state = shell.saved(self._shell.state)
                if state is None:
                    ended = "" if why == "mute" else "The shell itself was ended and started afresh. "
                    notes.append(f"{ended}{_KEPT_STATE}")
                self._shell.state = state or self._shell.state
        front.reader.take_rest()
        front.reader.stop()
        return code, notes

    async def _end(self, front: Foreground) -> None:
        """End what the command started: the shell is asked to save its state and exit, the rest to end, then killed."""
        shell, guard = front.shell, front.shell.guard
        if guard.lost:
            return
        shell.ask_to_end()
        spared = front.before | self.background.roots()
        await guard.family.end(spared, _PATIENCE)
        if not await shell.has_died(_PATIENCE) and not await shell.kill(_PATIENCE):
            await guard.close()
            return
        await guard.family.end(spared, 0)  # what it started while it was dying

    async def _left_behind(self, front: Foreground) -> tuple[Running, ...]:
        """What the command left running; what is just ending is given a moment."""
        family = front.shell.guard.family
        known = {one.pid for one in front.before} | {one.pid for one in self.background.roots()}
        end = monotonic() + _SECONDS_TO_SETTLE
        while (there := family.left_behind()) and any(pid not in known for pid in there):
            if monotonic() > end:
                self._shell.others = True
                spared = {one.pid for one in family.below(front.before | self.background.roots())}
                return tuple(one for one in family.running() if one.pid not in spared)
            await asyncio.sleep(0.002)
        self._shell.others = bool(there)
        return ()

    def _adopt(self, front: Foreground, left: tuple[Running, ...]) -> str:
        """Go on reading what is left behind, apart from the commands to come."""
        shown = ", ".join(f"{one.pid}: {_named(one, front)}" for one in left[:5])
        many = "1 process is" if len(left) == 1 else f"{len(left):,} processes are"
        said = f"{many} still running in the background ({shown})"
        if front.place < 0:
            return f"{said}."
        self._shell.give_up_pair()
        kept = self.background.adopt(front.command, front.shell.guard, front.place, front.reader, frozenset(left))
        return f"{said}; further output goes to `{kept.id}`."

    @staticmethod
    def _is_plain(front: Foreground) -> bool:
        """Whether nothing is left to do once a command has ended: no sandbox to ask, no process left behind."""
        guard = front.shell.guard
        return front.place >= 0 and not guard.prepared.launch.descriptors and not guard.family.left_behind()

    def _may_move(self, front: Foreground) -> bool:
        guard = front.shell.guard
        return front.place >= 0 and bool(guard.free_places) and bool(guard.free_pairs)

    def _move(self, front: Foreground) -> Ended:
        """Let the command go on with its shell; the session gets another with the state from before the command."""
        front.settled = True
        self._shell.give_up_shell()
        ended = self._ended(front, exit_code=None, timed_out=True, close=False)
        kept = self.background.move(front)
        note = f"It goes on in the background as `{kept.id}`. {_KEPT_STATE}"
        return _with(ended, moved_to_background=kept.id, notes=(*ended.notes, note))

    def _ended(self, front: Foreground, *, notes: list[str] | None = None, close: bool = True, **how: Any) -> Ended:
        record = front.reader.record
        if record.problem:
            self._shell.notes.append(f"The file with the whole output is not whole: {record.problem}.")
        told, self._shell.notes = (*self._shell.notes, *(notes or ())), []
        ended = Ended(
            stdout=_own_errors("stdout", record.text("stdout"), front),
            stderr=_own_errors("stderr", record.text("stderr"), front),
            pieces=[Piece(one.stream, _own_errors(one.stream, one.text, front)) for one in record.pieces()],
            left_out=record.left_out(),
            spill=record.path,
            duration=monotonic() - front.began,
            cwd=self._shell.state.folder or "",
            notes=told,
            **how,
        )
        if close:
            record.close()
        return ended

    async def _type(self, front: Foreground, text: str) -> None:
        data, guard = text.encode(), front.shell.guard
        if b"\x03" in data and not guard.descriptors.has_foreground():
            guard.family.interrupt(front.shell.process)  # inside a sandbox the terminal rules nobody
        while data and not guard.lost:
            try:
                data = data[os.write(guard.descriptors.master, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.005)


async def _looked_at(guard: KeptGuard, look: Callable[[], Any]) -> tuple[Denial, ...]:
    """Have the sandbox look at the guarded places, beside the event loop: there may be many."""
    if not guard.prepared.launch.descriptors:  # no sandbox, nothing is guarded
        return ()
    return await asyncio.to_thread(look) or ()


def _named(left: Running, front: Foreground) -> str:
    """What a process is, in words; a copy of the shell, also one that is just becoming a program, is its command."""
    words = left.command
    return f"`{' '.join(front.command.split())[:200]}`" if words in ("", SHELL) else words


def _own_errors(stream: str | None, text: str, front: Foreground) -> str:
    """Bash's own complaints come on standard error, and on a terminal there is only one stream."""
    return error_lines_from_one(text, front.first_line) if stream == "stderr" or front.place < 0 else text


def _with(ended: Ended, **changes: Any) -> Ended:
    from dataclasses import replace

    return replace(ended, **changes)
