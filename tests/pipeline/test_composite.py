"""P8: composite tools, made of tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, Field

from ferrule import CallRecord, DefinitionError, RulePolicy, Runtime, ToolError, ToolResult, composite, tool


class City(BaseModel, extra="forbid"):
    city: str = Field(description="Where")


@tool(kind="readonly")
async def locate(name: str) -> dict[str, Any]:
    if name == "Nowhere":
        raise ToolError("No such place.", kind="not_found_error", suggestion="Try a city.")
    return {"found": [{"id": 7, "name": name}]}


@tool(kind="readonly")
async def weather(place: int, days: int) -> str:
    return f"place {place}, {days} days: rain"


@tool(kind="write")
async def note(text: str) -> str:
    return f"noted {text}"


forecast = composite(
    "forecast",
    steps=[
        ("find", "locate", {"name": {"$ref": "input.city"}}),
        ("report", "weather", {"place": {"$ref": "find.found[0].id"}, "days": 3}),
    ],
    params=City,
    kind="readonly",
    description="The weather of a city.",
)


def run(one: Any, arguments: Any, **options: Any) -> ToolResult:
    return asyncio.run(Runtime([locate, weather, note, one], **options).run(one.name, arguments))


def test_steps_use_the_input_and_each_others_results() -> None:
    result = run(forecast, {"city": "Bonn"})
    assert (result.tool, result.data, result.llm_content) == (
        "forecast",
        "place 7, 3 days: rain",
        "place 7, 3 days: rain",
    )


def test_a_step_that_fails_ends_the_whole_and_is_named() -> None:
    result = run(forecast, {"city": "Nowhere"})
    assert result.llm_content == snapshot(
        """\
Error (not_found_error): Step `find` (locate) failed: No such place.

Suggestion: Try a city.\
"""
    )


def test_its_own_arguments_are_validated_as_ever() -> None:
    assert "`town`: unknown field" in run(forecast, {"town": "Bonn"}).llm_content


def test_every_step_is_recorded_under_its_parent() -> None:
    records: list[CallRecord] = []

    class Keeper:
        def record(self, record: CallRecord) -> None:
            records.append(record)

    run(forecast, {"city": "Bonn"}, recorders=[Keeper()])
    assert [record.tool for record in records] == ["locate", "weather", "forecast"]
    assert records[0].parent_id == records[1].parent_id == records[2].call_id


def test_every_step_is_authorised_as_ever() -> None:
    """A composite is no way around a permission."""
    save = composite("save", steps=[("n", "note", {"text": {"$ref": "input.city"}})], params=City, kind="readonly")
    result = run(save, {"city": "Bonn"})
    assert "Step `n` (note) failed: `note` was not run: a tool that writes asks first" in result.llm_content
    assert run(save, {"city": "Bonn"}, policy=RulePolicy(allow=["note"])).data == "noted Bonn"


def test_two_runs_at_once_do_not_mix_their_results() -> None:
    async def main() -> list[Any]:
        runtime = Runtime([locate, weather, forecast])
        results = await asyncio.gather(*(runtime.run("forecast", {"city": f"c{n}"}) for n in range(10)))
        return [result.success for result in results]

    assert all(asyncio.run(main()))


def test_a_step_whose_name_begins_like_anothers_is_not_mistaken_for_it() -> None:
    both = composite(
        "both",
        steps=[
            ("a", "locate", {"name": "first"}),
            ("ab", "locate", {"name": "second"}),
            ("end", "note", {"text": {"$ref": "ab.found[0].name"}}),
        ],
        params=City,
        kind="readonly",
    )
    assert run(both, {"city": "x"}, policy=RulePolicy(allow=["note"])).data == "noted second"


@pytest.mark.parametrize("steps", [[], [("a", "locate", {}), ("a", "locate", {})], [("input", "locate", {})]])
def test_steps_that_cannot_be_told_apart_are_refused_to_their_author(steps: Any) -> None:
    with pytest.raises(DefinitionError):
        composite("bad", steps=steps, params=City)


def test_a_composite_that_calls_itself_ends() -> None:
    endless = composite(
        "endless", steps=[("again", "endless", {"city": {"$ref": "input.city"}})], params=City, kind="readonly"
    )
    result = run(endless, {"city": "x"})
    assert "tools called tools 16 deep" in result.llm_content


async def test_a_step_whose_name_begins_like_anothers_is_told_from_it() -> None:
    @tool(kind="readonly")
    def items() -> dict[str, int]:
        return {"items": 1}

    @tool(kind="readonly")
    def show(value: object) -> str:
        return repr(value)

    steps: list[Any] = [
        ("find", "items", {}),
        ("find.items", "show", {"value": "two"}),
        ("end", "show", {"value": {"$ref": "find.items"}}),
    ]
    both = composite("both", steps=steps, params=Nothing, kind="readonly")
    assert (await Runtime([items, show, both]).run("both")).data == repr("'two'")


class Nothing(BaseModel):
    pass
