"""Calls that are answered with questions first."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from ferrule.mcp_client.connection import with_input

FORM = {
    "method": "elicitation/create",
    "params": {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}},
}


class Session:
    """Answers every question with what it was given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def dispatch_input_request(self, context: Any, request: Any) -> Any:
        return self.answer


async def run(answer: Any, *results: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    asked: list[dict[str, Any]] = []
    waiting = list(results)

    async def ask(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    session: Any = Session(answer)
    return await with_input(session, ask, {"name": "x"}), asked


async def test_without_questions_nothing_is_repeated() -> None:
    assert await run(None, {"content": []}) == ({"content": []}, [{"name": "x"}])


async def test_answers_and_state_go_back() -> None:
    first = {"resultType": "input_required", "inputRequests": {"who": FORM}, "requestState": "s1"}
    second = {"resultType": "input_required", "requestState": "s2"}
    accepted = types.ElicitResult(action="accept", content={"a": "b"})
    result, asked = await run(accepted, first, second, {"content": []})
    assert result == {"content": []}
    assert asked == [
        {"name": "x"},
        {"name": "x", "requestState": "s1", "inputResponses": {"who": {"action": "accept", "content": {"a": "b"}}}},
        {"name": "x", "requestState": "s2"},
    ]


async def test_a_refused_question_ends_the_call() -> None:
    refused = types.ErrorData(code=-32600, message="not offered")
    with pytest.raises(MCPError, match="not offered"):
        await run(refused, {"resultType": "input_required", "inputRequests": {"who": FORM}})


async def test_questions_without_end_end() -> None:
    with pytest.raises(RuntimeError, match="after 10 rounds"):
        await run(None, {"resultType": "input_required", "requestState": "again"})


async def test_too_many_questions_at_once_are_put_to_nobody() -> None:
    with pytest.raises(RuntimeError, match="more than 30 questions"):
        await run(None, {"resultType": "input_required", "inputRequests": {f"q{at}": FORM for at in range(31)}})
