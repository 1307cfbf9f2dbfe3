"""Runs a command in a session's shell: undoable, within its time, and told in words a model can use."""

from __future__ import annotations

import os
import shlex
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ferrule.builtin.session_shells import (
    profile_of,
    sandbox_of,
    shell_folder,
    shells_of,
    try_sandbox,
    unconfined,
    understand,
    watchers_of,
)
from ferrule.core.access import Touch, writes
from ferrule.core.call import CallInfo
from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.core.problems import Problem
from ferrule.core.result import ErrorInfo, ToolResult
from ferrule.workspace.changing import origin_of
from ferrule.workspace.files import files_of
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator
    from contextlib import AbstractAsyncContextManager

    from ferrule.core.context import Session, ToolContext
    from ferrule.process.output import Piece
    from ferrule.process.sandbox.sandbox import Denial
    from ferrule.process.shell.background import BackgroundCommand
    from ferrule.process.shell.ended import Ended
    from ferrule.process.shell.shell_session import ShellSession
    from ferrule.workspace.snapshots.changes import Origin
    from ferrule.workspace.snapshots.shell_changes import ShellChanges

_HERE = ("localhost", "127.0.0.1", "::1", "[::1]", "0.0.0.0")  # noqa: S104 - names of this machine, not bound to


def command_text(command: str, folder: str | None) -> str:
    """The very text that bash gets; a folder to run in is gone to first, and the shell stays there."""
    return command if folder is None else f"cd -- {shlex.quote(folder)} || exit\n{command}"


def problems_of(command: str) -> list[Problem]:
    """What keeps a text from being a command at all."""
    if "\0" in command:
        return [Problem(("command",), "value", phrase("it holds a NUL byte, which no command can"))]
    if not command.strip():
        return [Problem(("command",), "value", phrase("it is empty"))]
    return []


def runs_command(command: str, folder: str | None, session: Session) -> CallInfo:
    """What a call that runs a command would do: it touches the shell, and whatever the command may touch."""
    text = command_text(command, folder)
    writes_else = not understand(text, str(shell_folder(session))).read_only
    return CallInfo(
        touches=(writes("command", text), writes("shell", "main"), Touch("*", write=writes_else)),
        signature=text,
    )


class CommandRun(TypedDict):
    """How a command ended, or that it goes on.

    `exit_code` is null unless it ended by itself. `output_file` has all of the output where that is `truncated`.
    `shell_id` names a command that goes on in the background, `waiting_for_input` is the line with which one asks.
    """

    exit_code: int | None
    timed_out: bool
    working_directory: str
    stdout: str
    stderr: str
    truncated: bool
    output_file: str | None
    shell_id: str | None
    waiting_for_input: str | None
    notes: list[str]


class Told:
    """What was seen of a command besides what it wrote: notes for the model, and the changes that can be undone."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.changed: int | None = None


@asynccontextmanager
async def undoable(context: ToolContext, text: str | None) -> AsyncGenerator[Told]:
    """Look at the workspace before and after, unless the command provably only reads; None is one that goes on."""
    import asyncio

    told = Told()
    if text is not None and only_reads(context.session, text):
        yield told
        return
    changes, origin = files_of(context.session).shell_changes, origin_of(context)
    try:
        await _begin(changes, origin, watchers_of(context.session))
    except (PathProblem, OSError) as problem:
        raise ToolError(
            phrase("The command was not run, because what it changes could not be undone: {problem}", problem=problem),
            suggestion=phrase("The person can make room on the disk, or mend the folder of the history."),
        ) from problem
    try:
        yield told
    finally:
        recorded = await asyncio.shield(asyncio.to_thread(changes.end, origin))
        told.changed = len(recorded.group.changes) if recorded.group else 0
        told.notes += [recorded.note] if recorded.note else []


async def _begin(changes: ShellChanges, origin: Origin, watchers: set[asyncio.Task[None]]) -> None:
    """Begin to look. Cancelled meanwhile, the command never runs: then what anybody changes later is not its doing."""
    import asyncio

    looking = asyncio.ensure_future(asyncio.to_thread(changes.begin, origin))

    async def withdraw() -> None:
        await asyncio.wait({looking})
        if not looking.cancelled():
            looking.exception()  # seen: the one who cancelled does not wait for it
        await asyncio.to_thread(changes.withdraw, origin)

    try:
        await asyncio.shield(looking)
    except asyncio.CancelledError:
        withdrawing = asyncio.create_task(withdraw())
        watchers.add(withdrawing)
        withdrawing.add_done_callback(watchers.discard)
        await asyncio.shield(withdrawing)
        raise


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
    require_folder(context.session, folder)
    await try_sandbox(context.session)
    shell = shell_for(context, text, terminal=terminal)

    def show(piece: Piece) -> None:
        context.partial(piece.text)

    async with undoable(context, text) as told:
        ended = await shell.run(
            text, timeout=seconds, on_output=show if context.watched else None, move_to_background=move_to_background
        )
    settle(context.session, ended.cwd)
    told.notes += explained(context.session, text, ended)
    if ended.moved_to_background:
        await watch_on(context, shell, ended.moved_to_background)
    return ended, told


def only_reads(session: Session, text: str) -> bool:
    """Whether a command provably changes nothing, started where the session's shell is."""
    return understand(text, str(shell_folder(session))).read_only


def require_folder(session: Session, folder: str | None) -> None:
    """Refuse to go to a folder of the workspace that is not there; what else is there only the sandbox knows."""
    if folder is None:
        return
    whole = os.path.normpath(shell_folder(session) / folder)
    inside = any(Path(whole).is_relative_to(os.path.realpath(root)) for root in session.folders)
    if inside and not Path(whole).is_dir():
        there = Path(whole).exists()
        raise ToolError(
            phrase("`{place}` is a file, not a folder.", place=folder)
            if there
            else phrase("There is no folder `{folder}`.", folder=folder),
            kind=ErrorKind.VALIDATION if there else ErrorKind.NOT_FOUND,
            suggestion=phrase(
                "The shell is in `{folder}`; relative paths start there. Nothing was run.", folder=shell_folder(session)
            ),
        )


def shell_for(context: ToolContext, text: str | None = None, *, terminal: bool = False) -> ShellSession:
    """The session's shell for a command; the one on a terminal is another than the one on pipes."""
    if text is not None and unconfined(context.session) and not only_reads(context.session, text):
        # Refused here, because only here it is known what the command would do.
        sandbox_of(context.session).prepare(profile_of(context.session), ())
    try:
        if terminal:
            return shells_of(context.session).get("terminal", terminal_size=(100, 30))
        return shells_of(context.session).get()
    except OSError as error:
        raise ToolError(phrase("The shell could not be started: {error}.", error=error.strerror or error)) from error


def settle(session: Session, folder: str) -> None:
    """Remember where the shell is, so that the next command is understood from there."""
    session.command_directory = Path(folder)


async def watch_on(context: ToolContext, shell: ShellSession, name: str) -> None:
    """Go on looking at what a command changes that goes on in the background, so that this can be undone too."""
    kept = shell.background.get(name)
    watch = undoable(context, kept.command)
    await watch.__aenter__()
    note_when_over(context, kept, watch)


def note_when_over(context: ToolContext, kept: BackgroundCommand, watch: AbstractAsyncContextManager[Told]) -> None:
    """Have what a background command changed put into the history once it has ended."""
    import asyncio

    async def note_changes() -> None:
        await kept.over.wait()
        await watch.__aexit__(None, None, None)

    watchers = watchers_of(context.session)
    task = asyncio.create_task(note_changes())
    watchers.add(task)
    task.add_done_callback(watchers.discard)


def explained(session: Session, text: str, ended: Ended) -> list[str]:
    """What the sandbox kept a command from, and how to ask for more."""
    denials = list(ended.denials)
    if not denials and not unconfined(session):
        sandbox, profile, code = sandbox_of(session), profile_of(session), ended.exit_code or 0
        found = (
            sandbox.explain_denial(code, ended.stderr, profile)
            or sandbox.explain_denial(code, ended.stdout, profile)  # `2>&1`, and a terminal
            or _without_network(session, text, ended)
        )
        denials += [found] if found else []
    return [f"{denial.message} {denial.suggestion}" for denial in denials]


def _without_network(session: Session, text: str, ended: Ended) -> Denial | None:
    """A program that reaches for a host gets nowhere, also where it fails without a word as `curl -s` does."""
    from ferrule.process.sandbox.denials import no_network, speaks_of_network

    profile = profile_of(session)
    if profile.hosts is not None or sandbox_of(session).name == "none":
        return None
    analysis = understand(text, str(shell_folder(session)))
    named = [host for part in analysis.parts for host in part.hosts if host and host not in _HERE]
    if not named and (analysis.read_only or not speaks_of_network(f"{ended.stderr}\n{ended.stdout}")):
        return None
    return no_network(named[0] if named else "", profile)


def words(ended: Ended, told: Told) -> str:
    """What a model reads of a command."""
    text = "".join(piece.text for piece in ended.pieces).rstrip("\n")
    lines = [text] if text else []
    notes = list(ended.notes)
    if ended.spill is not None:
        notes.append(f"The whole output is in `{ended.spill}`; look into it with Read or Grep.")
    if ended.waiting_for_input is not None:
        notes.append(f"It waits for input after `{ended.waiting_for_input}`. Answer with BashInput.")
    if ended.moved_to_background or ended.still_running:
        notes.append("Read on with BashOutput, end it with KillShell.")
    if ended.exit_code:
        notes.insert(0, f"Exit code {ended.exit_code}.")
    if not text and not notes and not told.notes and not ended.timed_out and not ended.starved:
        notes.append("Done; it wrote nothing.")
    return "\n".join([*lines, *(f"[{note}]" for note in (*notes, *told.notes))])


def command_run(ended: Ended, told: Told) -> CommandRun:
    """What a program gets of a command."""
    return {
        "exit_code": ended.exit_code,
        "timed_out": ended.timed_out,
        "working_directory": ended.cwd,
        "stdout": ended.stdout,
        "stderr": ended.stderr,
        "truncated": ended.left_out.bytes > 0,
        "output_file": str(ended.spill) if ended.spill else None,
        "shell_id": ended.moved_to_background,
        "waiting_for_input": ended.waiting_for_input,
        "notes": [*ended.notes, *told.notes],
    }


def command_metadata(ran: CommandRun, told: Told | None = None) -> dict[str, Any]:
    """What every result of a command says of it, also that of one which failed."""
    changed = {} if told is None or told.changed is None else {"changed": told.changed}
    names = ("exit_code", "working_directory", "timed_out")
    return {**{key: ran[key] for key in names}, **changed}


def timed_out(context: ToolContext, ended: Ended, told: Told, seconds: float, suggestion: str) -> ToolResult:
    """The result of a command whose time was up."""
    error = ErrorInfo(
        ErrorKind.TIMEOUT,
        phrase(
            "The command did not finish within {seconds} s and was ended, with all that it had started.",
            seconds=f"{seconds:g}",
        ),
        details={"stdout": ended.stdout, "stderr": ended.stderr, "timed_out": True},
        suggestion=suggestion,
    )
    return _failed(context, ended, told, error, f"ended after {seconds:g} s")


def starved(context: ToolContext, ended: Ended, told: Told, suggestion: str) -> ToolResult:
    """The result of a command that waited for what could never come."""
    error = ErrorInfo(
        ErrorKind.EXECUTION,
        phrase("The command waited for someone to type, and was ended: it has no terminal, so nothing can be typed."),
        details={"stdout": ended.stdout, "stderr": ended.stderr, "waited_for_input": True},
        suggestion=suggestion,
    )
    return _failed(context, ended, told, error, "ended: it waited for input")


def _failed(context: ToolContext, ended: Ended, told: Told, error: ErrorInfo, shown: str) -> ToolResult:
    """What the command wrote stays whole, which an exception's text does not."""
    text = words(ended, told)
    whole = f"{error.words}\n\n{text}" if text else error.words
    ran = command_run(ended, told)
    ran["notes"] = [error.message, *([error.suggestion] if error.suggestion else []), *ran["notes"]]
    return ToolResult(context.call_id, context.tool, False, whole, shown, ran, error, command_metadata(ran, told))
