"""Runs a command in a session's shell: undoable, within its time, and told in words a model can use."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.builtin.session_shells import profile_of, sandbox_of, shell_folder, shells_of, understand
from ferrule.core.access import Touch, writes
from ferrule.core.errors import ErrorKind, ToolError
from ferrule.workspace.files import files_of
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ferrule.core.context import Session, ToolContext
    from ferrule.process.output import Piece
    from ferrule.process.shell.ended import Ended
    from ferrule.process.shell.shell_session import ShellSession


def command_text(command: str, folder: str | None) -> str:
    """The very text that bash gets; a folder to run in is gone to first, and the shell stays there."""
    return command if folder is None else f"cd -- {shlex.quote(folder)} || exit\n{command}"


def touches_of(command: str, folder: str | None, session: Session | None) -> list[Touch]:
    """A command touches the shell, and whatever it may touch."""
    text = command_text(command, folder)
    touched = [writes("command", text), writes("shell", "main")]
    if session is not None and understand(text, str(shell_folder(session))).read_only:
        return [*touched, Touch("*")]
    return [*touched, Touch("*", write=True)]


class Told:
    """What was seen of a command besides what it wrote: notes for the model, and the changes that can be undone."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.changed: int | None = None


@asynccontextmanager
async def undoable(context: ToolContext, text: str) -> AsyncGenerator[Told]:
    """Look at the workspace before and after, unless the command provably only reads."""
    told = Told()
    if understand(text, str(shell_folder(context.session))).read_only:
        yield told
        return
    from ferrule.workspace.changing import origin_of

    changes, origin = files_of(context.session).shell_changes, origin_of(context)
    try:
        await asyncio.to_thread(changes.begin, origin)
    except (PathProblem, OSError) as problem:
        raise ToolError(
            f"The command was not run, because what it changes could not be undone: {problem}",
            suggestion="The person can make room on the disk, or mend the folder of the history.",
        ) from problem
    try:
        yield told
    finally:
        recorded = await asyncio.shield(asyncio.to_thread(changes.end, origin))
        told.changed = len(recorded.group.changes) if recorded.group else 0
        told.notes += [recorded.note] if recorded.note else []


async def run(
    context: ToolContext,
    command: str,
    *,
    folder: str | None,
    seconds: float,
    terminal: bool = False,
    move_to_background: bool = False,
) -> tuple[Ended, Told]:
    """Run a command to its end, or to its time limit."""
    text = command_text(command, folder)
    shell = shell_for(context, terminal=terminal)

    def show(piece: Piece) -> None:
        context.partial(piece.text)

    async with undoable(context, text) as told:
        ended = await shell.run(
            text, timeout=seconds, on_output=show if context.watched else None, move_to_background=move_to_background
        )
    settle(context.session, ended.cwd)
    told.notes += explained(context.session, ended)
    return ended, told


def shell_for(context: ToolContext, *, terminal: bool = False) -> ShellSession:
    """The session's shell; the one on a terminal is another than the one on pipes."""
    try:
        if terminal:
            return shells_of(context.session).get("terminal", terminal_size=(100, 30))
        return shells_of(context.session).get()
    except OSError as error:
        raise ToolError(f"The shell could not be started: {error.strerror or error}.") from error


def settle(session: Session, folder: str) -> None:
    """Remember where the shell is, so that the next command is understood from there."""
    session.command_directory = Path(folder)


def explained(session: Session, ended: Ended) -> list[str]:
    """What the sandbox kept a command from, and how to ask for more."""
    denials = list(ended.denials)
    if ended.exit_code and not denials:
        found = sandbox_of(session).explain_denial(ended.exit_code, ended.stderr, profile_of(session))
        denials += [found] if found else []
    return [f"{denial.message} {denial.suggestion}" for denial in denials]


def words(ended: Ended, told: Told) -> str:
    """What a model reads of a command."""
    text = "".join(piece.text for piece in ended.pieces).rstrip("\n")
    lines = [text] if text else []
    notes = list(ended.notes)
    if ended.spill is not None:
        notes.append(f"The whole output is in {ended.spill}.")
    if ended.waiting_for_input is not None:
        notes.append(f"It waits for input after `{ended.waiting_for_input}`. Answer with BashInput.")
    if ended.moved_to_background:
        notes.append(f"It goes on in the background as `{ended.moved_to_background}`; read on with BashOutput.")
    if ended.still_running:
        listed = ", ".join(f"{one.command or 'a process'} ({one.pid})" for one in ended.still_running[:5])
        notes.append(f"Still running in the background: {listed}.")
    if ended.exit_code:
        notes.insert(0, f"Exit code {ended.exit_code}.")
    if not text and not notes and not told.notes:
        notes.append("Done; it wrote nothing.")
    return "\n".join([*lines, *(f"[{note}]" for note in (*notes, *told.notes))])


def timed_out(ended: Ended, told: Told, seconds: float) -> ToolError:
    """What is raised for a command whose time was up."""
    return ToolError(
        f"The command did not finish within {seconds:g} s and was ended, with all that it had started.\n"
        f"{words(ended, told)}",
        kind=ErrorKind.TIMEOUT,
        suggestion="Give it more time with `timeout`, or start it with `run_in_background`.",
        details={"stdout": ended.stdout, "stderr": ended.stderr, "timed_out": True},
    )
