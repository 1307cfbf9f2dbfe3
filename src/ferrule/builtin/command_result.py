"""What came of a command: text for the model and the user, and data for a program.

A command that ended with another code than 0 is a failed call, with all that the command wrote: a program that runs
`ferrule call` and a model that reads `is_error` must not go on as if it had worked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from ferrule.core.call import Effects
from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import glued, joined, phrase
from ferrule.core.result import ErrorInfo, Output, ToolResult, noted
from ferrule.core.shown_text import flattened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.builtin.shell_run import Told
    from ferrule.core.context import ToolContext
    from ferrule.process.output import Piece
    from ferrule.process.shell.session import Ended


_MOST_DESCRIPTION = 120
_MOST_STRETCHES = 50


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
    notes: NotRequired[list[str]]


class CommandResult(TypedDict):
    """How a command ended."""

    command: str
    stdout: str
    stderr: str
    exitCode: int | None
    success: bool
    notes: NotRequired[list[str]]


def result_of(
    context: ToolContext,
    ended: Ended,
    told: Told,
    seconds: float,
    longer: str,
    no_input: str = "",
    *,
    command: str = "",
    description: str = "",
) -> Output[Any] | ToolResult:
    """The result of a command that has ended or goes on.

    `longer` is what to do where its time was up, `no_input` where it waited for what could never come.
    """
    ran = _command_run(ended, told)
    about = command_metadata(ran, told, command)
    failed = _failure(ended, told, seconds, longer, no_input)
    if failed is None:
        shown = display(ran, told, description)
        return Output(ran, llm_content=_words(ended, told), display_content=shown, metadata=about)
    error, how = failed
    if how:
        ran["notes"] = [error.message, *([error.suggestion] if error.suggestion else []), *ran.get("notes", ())]
    text = _words(ended, told, with_code=bool(how))
    whole = f"{error.words}\n\n{text}" if text else error.words  # an exception's text would be cut
    shown = display(ran, told, description, how)
    return ToolResult(context.call_id, context.tool, False, whole, shown, ran, error, about)


def in_assistant_form(command: str, ran: CommandRun) -> CommandResult:
    """The same under the assistant set's names."""
    result: CommandResult = {
        "command": command,
        "stdout": ran["stdout"],
        "stderr": ran["stderr"],
        "exitCode": ran["exit_code"],
        "success": ran["exit_code"] == 0,
    }
    return noted(result, ran.get("notes", ()))


def command_metadata(ran: CommandRun, told: Told, command: str = "") -> dict[str, Any]:
    """What every result of a command says of it, also that of one which failed."""
    said: dict[str, Any] = {"command": command} if command else {}
    said |= {key: ran[key] for key in ("exit_code", "working_directory", "timed_out")}
    said["box"] = told.box
    if told.changed is not None:
        said["changed"] = told.changed
    if told.effects is not None:
        said["effects"] = told.effects.as_data()
    return said


def display(ran: CommandRun, told: Told, description: str = "", how: str = "") -> str:
    """What a user sees of it: what it was for, if the model said so, and how it ended."""
    how = how or _how_it_ended(ran, told)
    what = flattened(description, _MOST_DESCRIPTION)
    return phrase("{what}: {why}", what=what, why=how) if what else how


def _how_it_ended(ran: CommandRun, told: Told) -> str:
    if ran["shell_id"]:
        name = ran["shell_id"]
        return phrase("continues as {id}", id=name) if ran["timed_out"] else phrase("started as {id}", id=name)
    if ran["waiting_for_input"] is not None:
        return phrase("waits for input")
    code, changed = ran["exit_code"], told.changed
    done = phrase("ended with code {code}", code=code) if code else phrase("done")
    if not changed:
        return done
    return glued(done, phrase(", changed 1 file") if changed == 1 else phrase(", changed {n} files", n=f"{changed:,}"))


def _failure(ended: Ended, told: Told, seconds: float, longer: str, no_input: str) -> tuple[ErrorInfo, str] | None:
    """Why a command failed, and the same for the user in a few words; none for one that exited with a code."""
    wrote: dict[str, Any] = {"stdout": ended.stdout, "stderr": ended.stderr}
    if (lost := told.lost) is not None:  # its changes do not fit the workspace any more
        error = ErrorInfo(lost.kind, lost.message, details=wrote, suggestion=lost.suggestion)
        return error, lost.message
    if (approval := told.refused) is not None:
        would = joined("\n", [glued("- ", line) for line in told.effect_lines])
        error = ErrorInfo(
            ErrorKind.PERMISSION,
            phrase(
                "The command was tried, and none of its changes were kept: {reason}. It would:\n{would}",
                reason=approval.reason,
                would=would,
            ),
            details={**wrote, **(told.effects or Effects()).as_data()},
            suggestion=approval.suggestion or None,
        )
        return error, phrase("none of its changes were kept: {reason}", reason=approval.reason)
    if ended.timed_out and not ended.moved_to_background:
        limit = f"{seconds:g}"
        error = ErrorInfo(
            ErrorKind.TIMEOUT,
            phrase(
                "The command did not finish within {seconds} s and was stopped, with everything it had started.",
                seconds=limit,
            ),
            details={**wrote, "timed_out": True},
            suggestion=longer,
        )
        return error, phrase("stopped after {seconds} s", seconds=limit)
    if ended.starved:
        error = ErrorInfo(
            ErrorKind.EXECUTION,
            phrase("The command waited for input and was stopped: it has no terminal, so nothing can be typed."),
            details={**wrote, "waited_for_input": True},
            suggestion=no_input,
        )
        return error, phrase("stopped: it waited for input")
    if not ended.exit_code:
        return None
    message = (
        phrase("The command ended with exit code {code}.", code=ended.exit_code)
        if ended.pieces
        else phrase("The command ended with exit code {code}, and wrote nothing.", code=ended.exit_code)
    )
    return ErrorInfo(ErrorKind.EXECUTION, message, details={"exit_code": ended.exit_code}), ""


def _words(ended: Ended, told: Told, *, with_code: bool = True) -> str:
    """What a model reads of a command."""
    text = _marked(ended.pieces).rstrip("\n")
    lines = [text] if text else []
    notes = list(ended.notes)
    if ended.spill is not None:
        notes.append(f"The whole output is in `{ended.spill}`; look into it with Read or Grep.")
    if ended.waiting_for_input is not None:
        notes.append(f"It waits for input after `{ended.waiting_for_input}`. Answer with BashInput.")
    if ended.moved_to_background:
        notes.append("Read on with BashOutput, end it with KillShell.")
    if ended.exit_code and with_code:
        notes.insert(0, f"Exit code {ended.exit_code}.")
    quiet = not text and not notes and not told.notes
    if quiet and not ended.exit_code and not ended.timed_out and not ended.starved:
        notes.append("Done, with no output.")
    return "\n".join([*lines, *(f"[{note}]" for note in (*notes, *told.notes))])


def _marked(pieces: Sequence[Piece]) -> str:
    """Both streams in the order they came, with a line where the output changes to standard error and back.

    Where they alternate all the time, such lines would be most of the text: then standard error follows as a whole.
    """
    if sum(one.stream == "stderr" for one in pieces) > _MOST_STRETCHES:
        pieces = sorted(pieces, key=lambda one: one.stream == "stderr")
    rows: list[str] = []
    stream = "stdout"
    for one in pieces:
        if one.stream is not None and one.stream != stream:
            stream = one.stream
            ends_line = not rows or rows[-1].endswith("\n")
            rows.append(f"[{stream}]\n" if ends_line else f"\n[{stream}]\n")
        rows.append(one.text)
    return "".join(rows)


def _command_run(ended: Ended, told: Told) -> CommandRun:
    ran: CommandRun = {
        "exit_code": ended.exit_code,
        "timed_out": ended.timed_out,
        "working_directory": ended.cwd,
        "stdout": ended.stdout,
        "stderr": ended.stderr,
        "truncated": ended.left_out.bytes > 0,
        "output_file": str(ended.spill) if ended.spill else None,
        "shell_id": ended.moved_to_background,
        "waiting_for_input": ended.waiting_for_input,
    }
    return noted(ran, [*ended.notes, *told.notes])
