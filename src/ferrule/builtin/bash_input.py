"""BashInput: answer a command that asks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ferrule.builtin.session_shells import SECONDS_TO_END, shell_of, work_profile
from ferrule.builtin.shell_run import (
    CommandRun,
    adopt,
    command_metadata,
    command_run,
    denials_of,
    timed_out,
    undoable,
    words,
)
from ferrule.core.access import Touch
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.phrases import phrase
from ferrule.core.result import Output, ToolResult


@tool(
    name="BashInput",
    kind="execute",
    may_block=False,
    category="shell",
    tags=("standard", "shell"),
    doing="answering a running command",
    timeout=660,
    grace=SECONDS_TO_END,
    touches=(Touch("shell:terminal", write=True), Touch("*", write=True)),
    signature="{text}",
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
    if ended.timed_out:
        return timed_out(context, ended, told, seconds, phrase("Run it again with more time."))
    ran = command_run(ended, told)
    return Output(ran, llm_content=words(ended, told), metadata=command_metadata(ran, told))
