"""KillShell: end a background command."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import AliasChoices, Field

from ferrule.builtin.session_shells import SECONDS_TO_END, shell_of
from ferrule.core.access import Touch
from ferrule.core.context import ToolContext
from ferrule.core.function_tool import tool


class StoppedCommand(TypedDict):
    """The command that was to be ended; `was_running` is false where it had ended before."""

    shell_id: str
    status: str
    exit_code: int | None
    was_running: bool


def _render(stopped: StoppedCommand) -> str:
    name = stopped["shell_id"]
    return (
        f"Stopped `{name}` and all that it had started." if stopped["was_running"] else f"`{name}` had ended already."
    )


def _display(stopped: StoppedCommand) -> str:
    name = stopped["shell_id"]
    return f"stopped {name}" if stopped["was_running"] else f"{name} had ended"


@tool(
    name="KillShell",
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
        str,
        Field(validation_alias=AliasChoices("shell_id", "bash_id"), description="Which command, as Bash named it."),
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
    return {
        "shell_id": kept.id,
        "status": kept.status,
        "exit_code": kept.exit_code,
        "was_running": was == "running",
    }
