"""X5, T10: providers that search themselves are given every tool, and see those that our search finds."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import RawCall, Runtime, Tool, raw_tool
from ferrule.dialects import Exporter
from ferrule.dialects.payload import DialectError
from ferrule.registry.search_tools import ToolSearch


def make(name: str) -> Tool[Any]:
    return raw_tool(name, {"type": "object", "properties": {}}, str, description=f"Do {name}.", kind="readonly")


TOOLS = [make("read"), make("write.text")]
SHOWN = Runtime(TOOLS).with_search(ToolSearch(above=0, pinned=["read"])).tools
EVERY = [*SHOWN.tools(), TOOLS[1]]


def short(definition: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in definition.items() if key not in ("description", "parameters", "input_schema")}


def test_anthropic_defers_tools_and_takes_references_to_them() -> None:
    exporter = Exporter("anthropic")
    assert [short(one) for one in exporter.searchable(EVERY, {"read"})] == snapshot(
        [
            {"name": "read"},
            {"name": "search_tools"},
            {"name": "write_text", "defer_loading": True},
        ]
    )
    assert exporter.found("c1", [TOOLS[1]]) == snapshot(
        {
            "type": "tool_result",
            "tool_use_id": "c1",
            "content": [{"type": "tool_reference", "tool_name": "write_text"}],
        }
    )


def test_openai_defers_tools_and_takes_their_definitions() -> None:
    exporter = Exporter("openai-responses")
    definitions = exporter.searchable(EVERY, {"read"})
    assert [short(one) for one in definitions] == snapshot(
        [
            {"type": "function", "name": "read", "strict": False},
            {"type": "tool_search", "execution": "client"},
            {"type": "function", "name": "write_text", "strict": False, "defer_loading": True},
        ]
    )
    assert definitions[1]["parameters"]["required"] == ["queries"]
    asked = {
        "type": "tool_search_call", "call_id": "c1", "execution": "client", "status": "completed",
        "arguments": {"queries": ["write"]},
    }  # fmt: skip
    assert exporter.calls([asked]) == [RawCall("search_tools", {"queries": ["write"]}, id="c1")]
    assert exporter.calls([{**asked, "execution": "server"}]) == []
    found = exporter.found("c1", [TOOLS[1]])
    assert {**found, "tools": [short(one) for one in found["tools"]]} == snapshot(
        {
            "type": "tool_search_output",
            "call_id": "c1",
            "execution": "client",
            "status": "completed",
            "tools": [{"type": "function", "name": "write_text", "strict": False, "defer_loading": True}],
        }
    )


def test_others_have_none() -> None:
    with pytest.raises(DialectError, match="gemini has no search for tools"):
        Exporter("gemini").searchable(EVERY, {"read"})
