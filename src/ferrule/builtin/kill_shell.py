"""KillShell: end a background command."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from ferrule.builtin.session_shells import SECONDS_TO_END, shells_of
from ferrule.core.access import Touch
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool
from ferrule.core.result import Output


@tool(
    name="KillShell",
    kind="execute",
    may_block=False,
    category="shell",
    tags=("standard", "shell"),
    doing="stopping `{shell_id}`",
    grace=SECONDS_TO_END,
    touches=(Touch("shell:background"),),
    only_reads=lambda params: True,  # it ends what the person allowed, and asks nothing more of them
)
async def kill_shell(
    context: ToolContext,
    shell_id: Annotated[
        str,
        Field(validation_alias=AliasChoices("shell_id", "bash_id"), description="Which command, as Bash named it."),
    ],
) -> Output:
    """End a background command and everything that it started.

    Use this when a server or a watcher is no longer needed. It only reaches what Bash started in this session.

    Examples:
        - stop the background command bash_3: {"shell_id": "bash_3"}
    """
    session, kept = shells_of(context.session).find_background(shell_id)
    was = kept.status
    await session.background.stop(shell_id)
    data = {"shell_id": kept.id, "status": kept.status, "exit_code": kept.exit_code}
    if was != "running":
        return Output(data=data, llm_content=f"`{kept.id}` had ended already.", display_content=f"{kept.id} had ended")
    return Output(
        data=data,
        llm_content=f"Stopped `{kept.id}` and all that it had started.",
        display_content=f"stopped {kept.id}",
    )
