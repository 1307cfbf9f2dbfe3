"""A call runs as a provider sent it, without a conversion in between (T10)."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel

from ferrule import Done, RawCall, Runtime, tool
from ferrule.dialects import DialectError, dialect, read_call
from ferrule.dialects.dialect import KNOWN


@tool(kind="readonly")
def add(left: int, right: int = 1) -> int:
    """Add two numbers. Use this for every sum."""
    return left + right


runtime = Runtime([add])
ANTHROPIC = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"left": 2, "right": 3}}
OPENAI = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"left": 2, "right": 3}'}}
FORMS: dict[str, dict[str, Any]] = {
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "openai-responses": {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"left":2,"right":3}'},
    "gemini": {"functionCall": {"name": "add", "args": {"left": 2, "right": 3}}},
    "gemini, the call alone": {"name": "add", "args": {"left": 2, "right": 3}},
    "mcp": {"name": "add", "arguments": {"left": 2, "right": 3}},
    "a request of MCP": {
        "method": "tools/call",
        "id": 7,
        "params": {"name": "add", "arguments": {"left": 2, "right": 3}},
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_one_call_in_any_providers_form_runs(form: str) -> None:
    result = runtime.run_sync(FORMS[form])
    assert (result.success, result.data, result.tool) == (True, 5, "add")


@pytest.mark.parametrize("name", KNOWN)
def test_what_a_dialect_writes_is_read_as_the_same_call(name: str) -> None:
    call = RawCall("add", {"left": 2}, id="call_9")
    read = read_call(dialect(name).write_call(call))
    assert read.name == "add"
    assert dialect(name).write_call(read).keys() == dialect(name).write_call(call).keys()


def test_the_result_has_the_providers_id() -> None:
    assert runtime.run_sync(ANTHROPIC).call_id == "toolu_1"
    assert runtime.run_sync(MappingProxyType(OPENAI)).call_id == "call_1"


def test_an_object_of_an_sdk_runs_too() -> None:
    class ToolUseBlock(BaseModel):
        type: str = "tool_use"
        id: str = "toolu_2"
        name: str = "add"
        input: dict[str, int] = {"left": 1}

    block: Any = ToolUseBlock()
    assert runtime.run_sync(block).data == 2
    assert [one.data for one in runtime.batch_sync([block])] == [2]


def test_many_calls_in_different_forms_make_one_batch_or_stream() -> None:
    calls = [ANTHROPIC, OPENAI, RawCall("add", {"left": 5})]
    assert [one.data for one in runtime.batch_sync(calls)] == [5, 5, 6]

    async def ended(given: Any) -> list[Any]:
        return [event.result.data async for event in runtime.stream(given) if isinstance(event, Done)]

    assert asyncio.run(ended(calls)) == [5, 5, 6]
    assert asyncio.run(ended(ANTHROPIC)) == [5]
    with pytest.raises(TypeError, match="Calls come in a list"):
        runtime.batch_sync(ANTHROPIC)  # type: ignore[arg-type]


def test_wrong_arguments_in_it_are_a_result_as_ever() -> None:
    broken = {**OPENAI, "function": {"name": "add", "arguments": '{"left": "two"'}}
    assert runtime.run_sync(broken).error.kind == "validation_error"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"name": "add", "input": {"left": 1}}, "not one call of a provider"),
        ({"role": "assistant", "content": [ANTHROPIC]}, r"Exporter\(provider\)\.calls\(answer\)"),
        ({"type": "tool_use", "id": "x", "input": {}}, "name"),
        ({}, "not one call of a provider"),
        (5, "expected an object"),
    ],
)
def test_what_is_no_call_is_refused_to_the_programmer(payload: Any, words: str) -> None:
    with pytest.raises(DialectError, match=words):
        runtime.run_sync(payload)


def test_arguments_are_not_given_twice() -> None:
    with pytest.raises(TypeError, match="has its arguments already"):
        runtime.run_sync(ANTHROPIC, {"left": 1})
