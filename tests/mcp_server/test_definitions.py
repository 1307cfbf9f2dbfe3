"""Definitions: one order, pages, names and schemas that every agent takes (T10, R8)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule import Registry, raw_tool, tool
from ferrule.builtin.all_tools import builtin_tools
from ferrule.mcp_server.shown_tools import BadCursor, Definitions

ALLOWED = {
    "additionalProperties", "anyOf", "description", "enum", "format", "items", "maxItems", "maximum", "minItems",
    "minimum", "properties", "required", "title", "type",
}  # fmt: skip


def raw(name: str, schema: dict[str, Any] | None = None, **options: Any) -> Any:
    return raw_tool(name, schema or {"type": "object"}, lambda arguments: arguments, description="Do it.", **options)


def names(definitions: list[dict[str, Any]]) -> list[str]:
    return [one["name"] for one in definitions]


def test_the_order_is_by_name_whatever_the_order_of_registration() -> None:
    listed = [names(Definitions(Registry(tools)).all()) for tools in ([raw("b"), raw("a")], [raw("a"), raw("b")])]
    assert listed == [["a", "b"], ["a", "b"]]


@given(st.integers(1, 40), st.integers(1, 12))
def test_pages_hold_every_tool_once(count: int, size: int) -> None:
    definitions = Definitions(Registry([raw(f"tool_{at:02}") for at in range(count)]), page_size=size)
    seen: list[str] = []
    page = definitions.page()
    seen += names(page.tools)
    while page.next is not None:
        page = definitions.page(page.next)
        assert 1 <= len(page.tools) <= size
        seen += names(page.tools)
    assert seen == names(definitions.all())


def test_a_tool_that_goes_between_pages_moves_no_other() -> None:
    registry = Registry([raw(name) for name in "abcd"])
    definitions = Definitions(registry, page_size=2)
    first = definitions.page()
    registry.unregister("a")
    assert names(definitions.page(first.next).tools) == ["c", "d"]


@pytest.mark.parametrize("cursor", ["?", "é", "a", "////", "_w=="])
def test_a_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor, match="Start again without one"):
        Definitions(Registry([raw("a")])).page(cursor)


def test_changes_show_at_once() -> None:
    registry = Registry([raw("a")])
    definitions = Definitions(registry)
    assert names(definitions.all()) == ["a"]
    registry.register(raw("b"))
    registry.disable("a")
    assert names(definitions.all()) == ["b"]


def test_a_name_that_providers_refuse_is_shown_as_one_they_take_and_found_again() -> None:
    definitions = Definitions(Registry([raw("files.read/ü" + "x" * 90)]))
    (shown,) = names(definitions.all())
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", f"mcp__ferrule__{shown}")  # as Claude Code shows it to its model
    assert definitions.own_name(shown) == "files.read/ü" + "x" * 90


def test_every_array_says_what_it_holds_and_every_property_has_a_plain_name() -> None:
    @tool(kind="readonly")
    def place_all(pair: tuple[int, str], anything: list[Any]) -> str:
        """Place."""
        return ""

    whatever = {"type": "object", "properties": {"list": {"type": "array"}, "not plain": {"type": "string"}}}
    placed, raw_one = Definitions(Registry([place_all, raw("x", whatever)])).all()
    assert placed["inputSchema"]["properties"] == snapshot(
        {
            "pair": {
                "maxItems": 2,
                "minItems": 2,
                "type": "array",
                "description": 'Items in this order: [{"type": "integer"}, {"type": "string"}].',
                "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            },
            "anything": {"items": {}, "type": "array"},
        }
    )
    assert raw_one["inputSchema"] == snapshot(
        {"type": "object", "properties": {"list": {"type": "array", "items": {}}}}
    )


def test_every_built_in_is_within_what_all_agents_take() -> None:
    for one in Definitions(Registry(builtin_tools(family="all"))).all():
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one["name"])
        assert len(one["description"]) < 2048
        schema = one["inputSchema"]
        assert schema["type"] == "object"
        assert not {"anyOf", "oneOf", "allOf", "$ref", "$defs"} & schema.keys()
        assert keywords(schema) <= ALLOWED


def keywords(schema: dict[str, Any]) -> set[str]:
    found = set(schema)
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for key in ("items", "additionalProperties"):
        parts += [schema[key]] if isinstance(schema.get(key), dict) else []
    return found.union(*(keywords(part) for part in parts if isinstance(part, dict)))


def test_a_schema_with_alternatives_at_its_root_is_made_plain_and_says_what_it_lost() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "^x"}, "b": {"$ref": "#/$defs/B"}},
        "$defs": {"B": {"type": "integer", "exclusiveMinimum": 0}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    (shown,) = Definitions(Registry([raw("pick", schema)])).all()
    assert shown["inputSchema"] == snapshot(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "description": "Must match the regular expression `^x`."},
                "b": {"type": "integer", "description": "More than 0."},
            },
        }
    )
    (whole,) = Definitions(Registry([raw("pick", schema)]), portable=False).all()
    assert whole["inputSchema"] == schema


def test_annotations_follow_from_what_the_tool_says_of_itself() -> None:
    @tool(kind="write", idempotent=True, display_name="Set value")
    def set_value(value: int) -> int:
        """Set the value."""
        return value

    (shown,) = Definitions(Registry([set_value])).all()
    assert shown == snapshot(
        {
            "name": "set_value",
            "title": "Set value",
            "description": "Set the value.",
            "inputSchema": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"value": {"type": "integer"}},
                "required": ["value"],
            },
            "annotations": {
                "readOnlyHint": False,
                "destructiveHint": True,
                "idempotentHint": True,
                "openWorldHint": True,
            },
            "outputSchema": {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]},
        }
    )


def test_every_built_in_shows_an_output_schema_to_those_who_get_structured_content() -> None:
    definitions = Definitions(Registry(builtin_tools(family="all")))
    assert all(one["outputSchema"]["type"] == "object" for one in definitions.page().tools)
    plain = definitions.page(structured=False).tools
    assert names(plain) == names(definitions.page().tools)
    assert not any("outputSchema" in one for one in plain)


def test_what_bash_returns_is_shown_whole() -> None:
    (shown,) = [one for one in Definitions(Registry(builtin_tools(family="all"))).all() if one["name"] == "Bash"]
    assert shown["outputSchema"] == snapshot(
        {
            "description": """\
How a command ended, or that it goes on.

`exit_code` is null unless it ended by itself. `output_file` has all of the output where that is `truncated`.
`shell_id` names a command that goes on in the background, `waiting_for_input` is the line with which one asks.\
""",
            "properties": {
                "exit_code": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "timed_out": {"type": "boolean"},
                "working_directory": {"type": "string"},
                "stdout": {"type": "string"},
                "stderr": {"type": "string"},
                "truncated": {"type": "boolean"},
                "output_file": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "shell_id": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "waiting_for_input": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "notes": {"items": {"type": "string"}, "type": "array"},
            },
            "required": [
                "exit_code",
                "timed_out",
                "working_directory",
                "stdout",
                "stderr",
                "truncated",
                "output_file",
                "shell_id",
                "waiting_for_input",
            ],
            "title": "CommandRun",
            "type": "object",
        }
    )


def test_an_output_schema_that_is_none_is_not_shown() -> None:
    broken = raw("odd", output_schema={"type": "object", "properties": {"a": {"type": "nonsense"}}})
    (shown,) = Definitions(Registry([broken])).all()
    assert "outputSchema" not in shown


def test_a_thousand_tools_are_listed_without_being_made_again() -> None:
    registry = Registry([raw(f"tool_{at}") for at in range(1000)])
    definitions = Definitions(registry)
    before = definitions.all()
    registry.register(raw("one_more"))
    after = {one["name"]: one for one in definitions.all()}
    assert all(after[one["name"]] is one for one in before)
