"""Task: a sub-agent with a conversation, a filter of tools and a budget of its own, whose last words are the result.

It asks for no leave itself: each of its calls goes through the same runtime, policy and records as any other, with
this call as its parent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ferrule.agent.limits import AgentLimits
from ferrule.agent.output import OutputForm
from ferrule.agent.sub_agents import TaskAnswer, sub_agent, work
from ferrule.core.access import READS_ANYTHING
from ferrule.core.call import CallInfo
from ferrule.core.errors import ToolError
from ferrule.core.phrases import phrase
from ferrule.core.result import Output  # noqa: TC001 - the tool's output is declared by it
from ferrule.core.tool import Kind, Tool

if TYPE_CHECKING:
    from ferrule.agent.agent import Agent
    from ferrule.core.context import Session, ToolContext
    from ferrule.registry.registry import Registry, ToolSource

NAME = "Task"
_ROLE = (
    "\n\n# Your part\nYou work on one task for another assistant, which sees nothing but your last "
    "answer. You cannot ask anyone. End with everything that was asked for, complete in itself: "
    "names of files with lines, and what you found."
)
BUDGET = AgentLimits(steps=40, tokens=1_000_000, seconds=1_800)


class TaskParams(BaseModel):
    """What the sub-agent is to do."""

    model_config = ConfigDict(extra="forbid", defer_build=True)  # not at start-up, but when the tool is first used

    description: str = Field(min_length=1, max_length=200, description="The task in a few words, for the user.")
    prompt: str = Field(
        min_length=1, description="Everything it must know: it sees nothing of this conversation. Say what to return."
    )
    tools: Literal["read-only", "all"] = Field(
        "read-only", description="`all` lets it also change files and run commands, by the same rules as you."
    )


class TaskTool(Tool[TaskParams]):
    """Give a task to a sub-agent.

    Use this for work whose steps you need not see, such as a search over many files: it works on its own with the same
    tools and gives back its last words.

    Usage notes:
        - Several tasks in one answer run at the same time as long as they are read-only.
        - It cannot ask you or the person anything, so say everything in the prompt.
    """

    name = NAME
    category = "agent"
    tags = frozenset({"standard", "agent"})
    kind = Kind.READONLY
    may_block = False  # its agent belongs to the program's loop
    calls_tools = True
    continues = True
    timeout = 3600.0
    grace = 60.0  # its model may have to be stopped, and its turn is put on record
    doing = 'working on "{description}"'

    def __init__(self, agent: Agent[Any, Any], budget: AgentLimits = BUDGET) -> None:
        super().__init__()
        self._agent = agent
        self._budget = budget

    def describe(self, params: TaskParams, session: Session) -> CallInfo:
        said = params.description
        # What it changes is weighed call by call.
        alone = params.tools == "all"
        return CallInfo(READS_ANYTHING, signature=said, summary=f"Task: {said}", runs_alone=alone)

    async def run(self, params: TaskParams, context: ToolContext) -> Output[TaskAnswer]:
        if context.lineage.count(NAME) > 1:  # it is not shown to them, but a tool of theirs may call it
            raise ToolError(phrase("A sub-agent cannot start sub-agents."), suggestion=phrase("Do this part yourself."))
        above = self._agent
        agent = sub_agent(above, context, self._tools(params), above.system + _ROLE)
        agent.output_form = OutputForm(str)
        agent.limits = replace(
            self._budget, result_chars=above.limits.result_chars, context_tokens=above.limits.context_tokens
        )
        return await work(agent, params.prompt, context)

    def _tools(self, params: TaskParams) -> ToolSource:
        tools = self._agent.tools.filtered(lambda tool: tool.name != NAME)
        return tools.read_only() if params.tools == "read-only" else tools


def add_task_tool(agent: Agent[Any, Any], registry: Registry, budget: AgentLimits = BUDGET) -> None:
    """Let an agent give tasks to others of its kind."""
    registry.register(TaskTool(agent, budget), origin="builtin")
