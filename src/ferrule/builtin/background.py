"""BashOutput and KillShell: read on what a background command writes, and end it."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

from pydantic import AliasChoices, Field

from ferrule.builtin.session_shells import SECONDS_TO_END, shell_of
from ferrule.core.access import Touch
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.core.result import Output, noted

if TYPE_CHECKING:
    from ferrule.process.shell.background import BackgroundCommand


_STATUS = {"running": phrase("running"), "ended": phrase("ended"), "stopped": phrase("stopped")}


class ListedCommand(TypedDict):
    shell_id: str
    command: str
    status: str
    seconds: int


class BackgroundOutput(TypedDict):
    """What a command wrote since it was last read, or the `commands` in the background where none was named.

    `status` is `running`, `ended` or `stopped`. `output_file` has all of the output, also what `truncated` left out.
    """

    shell_id: str | None
    status: str | None
    exit_code: int | None
    output: str
    truncated: bool
    output_file: str | None
    commands: list[ListedCommand]
    notes: NotRequired[list[str]]


@tool(
    name="BashOutput",
    display_name="Shell Output",
    kind="readonly",
    may_block=False,
    category="shell",
    tags=("standard", "shell"),
    doing="reading what a background command wrote",
    timeout=660,
    touches=(Touch("shell:background"),),
)
async def bash_output(
    context: ToolContext,
    shell_id: Annotated[
        str | None,
        Field(
            validation_alias=AliasChoices("shell_id", "bash_id"),
            description="Which command; without it, all of them are listed.",
        ),
    ] = None,
    wait_for: Annotated[
        str | None, Field(max_length=1000, description="Wait until a line contains this text, or the command ends.")
    ] = None,
    timeout: Annotated[int, Field(ge=1, le=600_000, description="Milliseconds to wait at most.")] = 30_000,
) -> Output[BackgroundOutput]:
    """Read what a background command wrote since it was last read.

    Use this after Bash with `run_in_background`, and to see whether it still runs.

    Usage notes:
        - Each reading goes on where the last one ended.
        - With `wait_for` it waits, for example for the line that says a server is ready.

    Examples:
        - read the new output of the background command bash_3: {"shell_id": "bash_3"}
    """
    from ferrule.process.sandbox.denials import SAID_ONLY

    background = shell_of(context.session).background
    if shell_id is None:
        return _listed(background.list())
    kept = background.get(shell_id)
    waited = ""
    if wait_for is not None:
        found = await kept.wait_for(wait_for, timeout=timeout / 1000, since=kept.cursor)
        if found is None:
            waited = "The command ended without it." if kept.status != "running" else "It has not come yet."
            waited = f"No line contains `{wait_for}`. {waited}"
    read = kept.read_on()
    notes = [waited] if waited else []
    if read.left_out.bytes:
        notes.append(f"{read.left_out.bytes:,} bytes before this were passed over; all of it is in {read.spill}.")
    notes.append(_status(kept))
    notes += [f"{one.message} {one.suggestion}" for one in kept.denials if one.kind in SAID_ONLY]
    text = read.text.rstrip("\n") or "(nothing new)"
    data: BackgroundOutput = {
        "shell_id": kept.id, "status": kept.status, "exit_code": kept.exit_code, "output": read.text,
        "truncated": read.left_out.bytes > 0, "output_file": str(read.spill) if read.spill else None, "commands": [],
    }  # fmt: skip
    return Output(
        noted(data, notes),
        llm_content="\n".join([text, *(f"[{note}]" for note in notes)]),
        display_content=phrase("{id}: {status}", id=kept.id, status=_status_shown(kept.status, kept.exit_code)),
    )


def _status_shown(status: str, code: int | None) -> str:
    return phrase("ended with code {code}", code=code) if code else _STATUS[status]


def _status(kept: BackgroundCommand) -> str:
    if kept.status == "running":
        return f"`{kept.id}` is still running."
    if kept.status == "stopped":
        return f"`{kept.id}` was stopped."
    return f"`{kept.id}` has ended" + (f" with exit code {kept.exit_code}." if kept.exit_code is not None else ".")


def _listed(commands: list[BackgroundCommand]) -> Output[BackgroundOutput]:
    listed: list[ListedCommand] = [
        {"shell_id": one.id, "command": one.command, "status": one.status, "seconds": round(monotonic() - one.began)}
        for one in commands
    ]
    lines = [f"{one['shell_id']}  {one['status']}  {one['seconds']} s  {one['command'][:200]}" for one in listed]
    notes = [] if listed else ["No command runs in the background."]
    data: BackgroundOutput = {
        "shell_id": None, "status": None, "exit_code": None, "output": "", "truncated": False, "output_file": None,
        "commands": listed,
    }  # fmt: skip
    return Output(noted(data, notes), llm_content="\n".join([*lines, *notes]))


# KillShell: end a background command.


class StoppedCommand(TypedDict):
    """The command that was to be ended; `was_running` is false where it had ended before."""

    shell_id: str
    status: str
    exit_code: int | None
    was_running: bool


def _render(stopped: StoppedCommand) -> str:
    name = stopped["shell_id"]
    return (
        f"Stopped `{name}` and everything it had started." if stopped["was_running"] else f"`{name}` had already ended."
    )


def _display(stopped: StoppedCommand) -> str:
    return phrase(
        "{id}: {status}", id=stopped["shell_id"], status=_status_shown(stopped["status"], stopped["exit_code"])
    )


@tool(
    name="KillShell",
    display_name="Shell Stop",
    kind="execute",
    may_block=False,
    category="shell",
    tags=("standard", "shell"),
    render=_render,
    display=_display,
    doing="stopping `{shell_id}`",
    grace=SECONDS_TO_END,
    touches=(Touch("shell:background"),),
    only_reads=True,  # it ends what the person allowed, and asks nothing more of them
)
async def kill_shell(
    context: ToolContext,
    shell_id: Annotated[
        str, Field(validation_alias=AliasChoices("shell_id", "bash_id"), description="Which command, as Bash named it.")
    ],
) -> StoppedCommand:
    """End a background command and everything that it started.

    Use this when a server or a watcher is no longer needed. It only reaches what Bash started in this session.

    Examples:
        - stop the background command bash_3: {"shell_id": "bash_3"}
    """
    background = shell_of(context.session).background
    was = background.get(shell_id).status
    kept = await background.stop(shell_id)
    return {"shell_id": kept.id, "status": kept.status, "exit_code": kept.exit_code, "was_running": was == "running"}
