"""What an agent adds for itself never makes a call fail, and nothing that a tool could want is taken away."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import tool
from ferrule.mcp_server.server import without_added
from tests.mcp_server.serving import both_eras, client_of, serving, text_of

CLOSED: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
GIVEN = {"text": "a", "wait_for_previous": True}


@tool(kind="readonly")
def say_again(text: str) -> str:
    """Say it again."""
    return text


@pytest.mark.parametrize(
    "schema",
    [
        {key: value for key, value in CLOSED.items() if key != "additionalProperties"},
        {**CLOSED, "additionalProperties": {"type": "boolean"}},
        {**CLOSED, "properties": {**CLOSED["properties"], "wait_for_previous": {"type": "boolean"}}},
    ],
)
def test_a_tool_that_may_want_it_gets_it(schema: dict[str, Any]) -> None:
    assert without_added(GIVEN, schema) == GIVEN


def test_what_the_tool_would_refuse_is_left_out_and_nothing_else() -> None:
    assert without_added({**GIVEN, "other": 1}, CLOSED) == {"text": "a", "other": 1}
    assert without_added(None, CLOSED) is None


@both_eras
async def test_a_call_with_it_runs_and_one_with_another_unknown_name_does_not(era: str) -> None:
    async with client_of(serving([say_again]), era) as client:
        assert text_of(await client.call_tool("say_again", GIVEN)) == "a"
        refused = await client.call_tool("say_again", {"text": "a", "wait": True})
        assert refused.is_error
        assert "`wait`: unknown field" in text_of(refused)
