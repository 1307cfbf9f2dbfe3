"""Task: a sub-agent with a conversation, a filter of tools and a budget of its own, whose last words are the result.

It asks for no leave itself: each of its calls goes through the same runtime, policy and records as any other, with
this call as its parent.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from ferrule.agent.agent import Agent, AgentLimits
from ferrule.agent.agent_events import Answered, CallAsked, Ending, TurnEnded
from ferrule.core.access import READS_ANYTHING
from ferrule.core.call import CallInfo
from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import joined, phrase
from ferrule.core.result import Output
from ferrule.core.tool import Kind, Tool

if TYPE_CHECKING:
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


class TaskAnswer(TypedDict):
    """The sub-agent's last words, and what they took."""

    text: str
    steps: int
    input_tokens: int
    output_tokens: int


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
    timeout = 3600.0
    grace = 60.0  # its model may have to be stopped, and its turn is put on record
    doing = 'working on "{description}"'

    def __init__(self, agent: Agent, budget: AgentLimits = BUDGET) -> None:
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
        agent = self._sub_agent(context, self._tools(params))
        said = 0
        ended: TurnEnded | None = None
        async with aclosing(agent.run(params.prompt)) as events:
            async for event in events:
                if isinstance(event, CallAsked):
                    context.progress(said, message=event.doing)
                elif isinstance(event, Answered):
                    said += 1
                elif isinstance(event, TurnEnded):
                    ended = event
        return _output(ended)

    def _sub_agent(self, context: ToolContext, tools: ToolSource) -> Agent:
        above = self._agent
        return Agent(
            above.model,
            runtime=above.runtime,
            system=above.system + _ROLE,
            limits=replace(
                self._budget, result_chars=above.limits.result_chars, context_tokens=above.limits.context_tokens
            ),
            tools=tools,
            parent=context,
            parent_meter=above.meter,
        )

    def _tools(self, params: TaskParams) -> ToolSource:
        tools = self._agent.tools.filtered(lambda tool: tool.name != NAME)
        return tools.read_only() if params.tools == "read-only" else tools


def _output(ended: TurnEnded | None) -> Output[TaskAnswer]:
    if ended is None:
        raise ToolError(phrase("The task was stopped."), kind=ErrorKind.CANCELLED)
    used = {"steps": ended.steps, "input_tokens": ended.usage.input_tokens, "output_tokens": ended.usage.output_tokens}
    if ended.ending is not Ending.DONE:
        said = phrase("Its last message: {text}", text=ended.text) if ended.text else ""
        raise ToolError(
            joined(" ", [phrase("The task was not finished: {problem}", problem=ended.problem), said]),
            suggestion=phrase("Give a smaller task, or do this part yourself."),
            details=used,
        )
    return Output(
        data={
            "text": ended.text,
            "steps": ended.steps,
            "input_tokens": used["input_tokens"],
            "output_tokens": used["output_tokens"],
        },
        llm_content=ended.text,
        display_content=f"done in {ended.steps} step{'' if ended.steps == 1 else 's'}",
        metadata=used,
    )


def add_task_tool(agent: Agent, registry: Registry, budget: AgentLimits = BUDGET) -> None:
    """Let an agent give tasks to others of its kind."""
    registry.register(TaskTool(agent, budget), origin="builtin")
