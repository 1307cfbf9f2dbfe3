"""A tool can ask the agent's model (T8), and what that costs counts into the turn."""

from __future__ import annotations

from ferrule import ToolContext, tool
from ferrule.core.model import ModelError, ModelFault, Usage
from ferrule.testing import call, say

from .room import agent_with, shown, turn


@tool(kind="readonly", needs=("model",))
async def guess(about: str, context: ToolContext) -> str:
    """Let the model guess."""
    return f"{context.model} says: {await context.model_adapter.complete(f'Guess {about}.')}"


async def test_a_tool_asks_the_model_that_is_in_use() -> None:
    agent, model = agent_with(
        [
            say("", call("guess", {"about": "it"}), usage=Usage(10, 1)),
            say("42", usage=Usage(5, 1)),
            say("So 42.", usage=Usage(20, 2)),
        ],
        guess,
    )
    happened = await turn(agent)
    assert shown(agent.conversation.messages)[2] == "result: scripted/test says: 42"
    assert shown(model.requests[1].messages) == ["person: Guess it."]
    assert happened.ended.usage == Usage(35, 4)
    assert happened.ended.steps == 2


async def test_a_model_that_fails_is_the_tool_s_failure_in_words() -> None:
    error = ModelError(ModelFault.BUSY, "Busy.", suggestion="Wait.")
    agent, _ = agent_with([call("guess", {"about": "it"}), error, "Never mind."], guess)
    await turn(agent)
    assert shown(agent.conversation.messages)[2] == (
        "result: Error (execution_error): The request to the model failed: Busy.\n\nSuggestion: Wait."
    )
