"""executeCommand: Bash under the assistant set's name and form."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import Field

from ferrule.builtin.session_shells import SECONDS_TO_END
from ferrule.builtin.shell_run import command_text, problems_of, run, starved, timed_out, touches_of
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.core.result import ToolResult

_SECONDS = 120.0


class CommandResult(TypedDict):
    """How a command ended."""

    command: str
    stdout: str
    stderr: str
    exitCode: int | None
    success: bool


@tool(
    name="executeCommand",
    kind="execute",
    category="shell",
    tags=("assistant", "shell"),
    doing="running `{command}`",
    timeout=_SECONDS + 30,
    grace=SECONDS_TO_END,
    touches_in=lambda params, session: touches_of(params.command, params.cwd, session),
    signature=lambda params: command_text(params.command, params.cwd),
    check=lambda params: problems_of(params.command),
)
async def execute_command(
    context: ToolContext,
    command: Annotated[str, Field(max_length=1_000_000, description="The command, as typed at a prompt.")],
    cwd: Annotated[str | None, Field(description="Go to this folder first; the shell stays there.")] = None,
) -> CommandResult | ToolResult:
    """Run a shell command and give its output and exit code.

    Use this to build, test and start programs. It runs in a sandbox, within two minutes, with nothing to read from.

    Examples:
        - run the command whoami: {"command": "whoami"}
    """
    ended, told = await run(context, command, folder=cwd, seconds=_SECONDS)
    if ended.timed_out:
        return timed_out(context, ended, told, _SECONDS, phrase("Do it in smaller steps."))
    if ended.starved:
        return starved(
            context, ended, told, phrase("Give it in the command itself what it asks for, as `git commit -m` does.")
        )
    notes = "".join(f"\n[{note}]" for note in (*ended.notes, *told.notes))
    return {
        "command": command,
        "stdout": ended.stdout,
        "stderr": ended.stderr + notes,
        "exitCode": ended.exit_code,
        "success": ended.exit_code == 0,
    }
