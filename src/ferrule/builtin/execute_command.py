"""executeCommand: Bash under the assistant set's name and form."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import Field

from ferrule.builtin.session_shells import SECONDS_TO_END
from ferrule.builtin.shell_run import (
    CommandRun,
    command_metadata,
    command_run,
    not_kept,
    problems_of,
    run,
    runs_command,
    starved,
    timed_out,
    words,
)
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.core.result import Output, ToolResult

_SECONDS = 120.0


class CommandResult(TypedDict):
    """How a command ended."""

    command: str
    stdout: str
    stderr: str
    exitCode: int | None
    success: bool
    notes: list[str]


@tool(
    name="executeCommand",
    kind="execute",
    may_block=False,
    category="shell",
    tags=("assistant", "shell"),
    doing="running `{command}`",
    timeout=2 * _SECONDS + 30,  # once tried, and once for real
    grace=SECONDS_TO_END,
    describe=lambda params, session: runs_command(params.command, params.cwd, session),
    check=lambda params: problems_of(params.command),
)
async def execute_command(
    context: ToolContext,
    command: Annotated[str, Field(max_length=1_000_000, description="The command, as typed at a prompt.")],
    cwd: Annotated[str | None, Field(description="Go to this folder first; the shell stays there.")] = None,
) -> Output[CommandResult] | ToolResult:
    """Run a shell command and give its output and exit code.

    Use this to build, test and start programs. It runs in a sandbox, within two minutes, with nothing to read from.

    Examples:
        - run the command whoami: {"command": "whoami"}
    """
    ended, told = await run(context, command, folder=cwd, seconds=_SECONDS)
    if told.kept_nothing:
        return _failed(not_kept(context, ended, told), command)
    if ended.timed_out:
        return _failed(timed_out(context, ended, told, _SECONDS, phrase("Do it in smaller steps.")), command)
    if ended.starved:
        asked = phrase("Give it in the command itself what it asks for, as `git commit -m` does.")
        return _failed(starved(context, ended, told, asked), command)
    ran, said = command_run(ended, told), words(ended, told)
    return Output(_result(command, ran), llm_content=said, display_content=said, metadata=command_metadata(ran, told))


def _result(command: str, ran: CommandRun) -> CommandResult:
    return {
        "command": command,
        "stdout": ran["stdout"],
        "stderr": ran["stderr"],
        "exitCode": ran["exit_code"],
        "success": ran["exit_code"] == 0,
        "notes": ran["notes"],
    }


def _failed(result: ToolResult, command: str) -> ToolResult:
    result.data = _result(command, result.data)
    return result
