"""Bash, BashInput and executeCommand: run a command in a shell that stays, and answer it."""

from __future__ import annotations

from typing import Annotated, cast

from pydantic import Field

from ferrule.builtin.command_result import (
    CommandResult,
    CommandRun,
    command_metadata,
    display,
    in_assistant_form,
    result_of,
)
from ferrule.builtin.session_shells import SECONDS_TO_END, confinement, make_ready, shell_of, try_sandbox, work_profile
from ferrule.builtin.shell_run import (
    adopt,
    command_text,
    denials_of,
    problems_of,
    record_when_over,
    require_folder,
    run,
    runs_command,
    undoable,
)
from ferrule.core.access import Touch
from ferrule.core.call import CallInfo
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.core.result import Output, ToolResult

_NO_INPUT = phrase(
    "Pass what it asks for in the command itself (`git commit -m`, `--yes`, a file to "
    "read), or run it with `terminal` and answer with BashInput."
)
_LONGER = phrase("Give it more time with `timeout`, or start it with `run_in_background`.")


@tool(
    name="Bash",
    display_name="Shell Command",
    kind="execute",
    runs_alone=True,
    may_block=False,
    category="shell",
    tags=("standard", "shell"),
    doing="running `{command}`",
    timeout=1320,  # once tried, and once for real
    grace=SECONDS_TO_END,
    describe=lambda params, session: runs_command(
        params.command,
        params.working_directory,
        session,
        stays=params.terminal or params.run_in_background or params.background_on_timeout,
    ),
    ready=make_ready,
    check=lambda params: problems_of(params.command),
)
async def bash(
    context: ToolContext,
    command: Annotated[str, Field(max_length=1_000_000, description="The command, as typed at a prompt.")],
    description: Annotated[str, Field(description="What it is for, in a few words.")] = "",
    timeout: Annotated[int, Field(ge=1, le=600_000, description="Milliseconds it may take.")] = 120_000,
    run_in_background: Annotated[
        bool, Field(description="Start it and go on; read its output with BashOutput.")
    ] = False,
    working_directory: Annotated[
        str | None, Field(description="Go to this folder first; the shell stays there.")
    ] = None,
    background_on_timeout: Annotated[
        bool, Field(description="When its time is up, let it go on in the background instead of ending it.")
    ] = False,
    terminal: Annotated[
        bool, Field(description="Run it on a terminal, for programs that ask questions; answer with BashInput.")
    ] = False,
) -> Output[CommandRun] | ToolResult:
    """Run a command in bash; its folder, variables and functions are there for the next call.

    Use this to build, test and start programs. To read, search or change files use the tools for that.

    Usage notes:
        - It runs at once in a sandbox that holds its changes back; they become real once the user, a rule or the mode
          approves them. Caches and build output stay aside for later commands.
        - There is no network unless the user allowed a host. What the sandbox kept it from is said in the result.
        - Nothing can be typed into it unless `terminal` is set: a program that asks gets end of file at once.
        - Long output is cut in the middle; the result names a file with all of it.
        - Processes that it leaves running end with it; use `run_in_background` for a server or a watcher.
        - What it changed in the workspace can be undone by the user.

    Examples:
        - run the tests: {"command": "python -m pytest -q tests", "description": "run the tests"}
        - start "npm run dev" in the background: {"command": "npm run dev", "run_in_background": true}
    """
    if run_in_background:
        return await _start(context, command, working_directory, description)
    seconds = timeout / 1000
    ended, told = await run(
        context, command, folder=working_directory, seconds=seconds, terminal=terminal, may_move=background_on_timeout
    )
    return result_of(context, ended, told, seconds, _LONGER, _NO_INPUT, command=command, description=description)


async def _start(context: ToolContext, command: str, folder: str | None, description: str) -> Output[CommandRun]:
    from ferrule.process.shell.running import boxes

    text = command_text(command, folder)
    require_folder(context.session, folder)
    sandbox = await try_sandbox(context.session)
    shell = shell_of(context.session)
    async with undoable(context, goes_on=True) as told:
        kept = await shell.background.start(text, boxes(sandbox, work_profile(context.session)))
    record_when_over(context, kept)
    said = f"Started in the background as `{kept.id}`. Read on with BashOutput, end it with KillShell."
    ran: CommandRun = {
        "exit_code": None, "timed_out": False, "working_directory": str(context.session.command_directory),
        "stdout": "", "stderr": "", "truncated": False, "output_file": None, "shell_id": kept.id,
        "waiting_for_input": None, "notes": [said],
    }  # fmt: skip
    about = command_metadata(ran, told, command)
    return Output(ran, llm_content=said, display_content=display(ran, told, description), metadata=about)


# BashInput: answer a command that asks.


@tool(
    name="BashInput",
    display_name="Shell Input",
    kind="execute",
    runs_alone=True,
    may_block=False,
    category="shell",
    tags=("standard", "shell"),
    doing="answering a running command",
    timeout=660,
    grace=SECONDS_TO_END,
    describe=lambda params, session: CallInfo(
        touches=(Touch("shell:terminal", write=True), Touch("*", write=True)),
        signature=params.text,
        unconfined=confinement(session).unconfined,
    ),
    ready=make_ready,
)
async def bash_input(
    context: ToolContext,
    text: Annotated[
        str, Field(max_length=100_000, description=r"What to type, with `\n` for Enter; `\u0003` is Ctrl-C.")
    ],
    timeout: Annotated[int, Field(ge=1, le=600_000, description="Milliseconds it may take.")] = 120_000,
) -> Output[CommandRun] | ToolResult:
    """Type into a command that waits for input on its terminal.

    Use this after Bash with `terminal` said that the command waits for input.

    Examples:
        - answer the waiting program with yes: {"text": "yes"}
    """
    seconds = timeout / 1000
    session = context.session
    shell = shell_of(session)
    async with undoable(context) as told:
        ended = await shell.answer(text, timeout=seconds)
    adopt(session, shell, ended, tainted=False)
    told.notes += [f"{one.message} {one.suggestion}" for one in denials_of(session, "", ended, work_profile(session))]
    return result_of(context, ended, told, seconds, phrase("Run it again with more time."))


# executeCommand: Bash under the assistant set's name and form.


_SECONDS = 120.0


@tool(
    name="executeCommand",
    display_name="Run command",
    kind="execute",
    runs_alone=True,
    may_block=False,
    category="shell",
    tags=("assistant", "shell"),
    doing="running `{command}`",
    timeout=2 * _SECONDS + 30,  # once tried, and once for real
    grace=SECONDS_TO_END,
    describe=lambda params, session: runs_command(params.command, params.cwd, session),
    ready=make_ready,
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
    asked = phrase("Pass what it asks for in the command itself, as `git commit -m` does.")
    result = result_of(context, ended, told, _SECONDS, phrase("Do it in smaller steps."), asked, command=command)
    result.data = in_assistant_form(command, cast("CommandRun", result.data))
    return result
