"""Many tools, shown again and again (T10)."""

from __future__ import annotations

import gc
import json
import pickle
import weakref
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import BaseModel

from ferrule import Runtime, tool
from ferrule.core.call import RawCall
from ferrule.core.description import Description
from ferrule.core.result import ToolResult
from ferrule.dialects import Exporter, NameMap, dialect
from ferrule.dialects.anthropic import Anthropic
from ferrule.dialects.dialect import KNOWN
from ferrule.dialects.flatten import Exported
from ferrule.dialects.inline import ReadOnlyDict, ReadOnlyList
from tests.dialects.raw import RawTool, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Counting(Anthropic):
    written = 0

    def export(self, tool: Any, name: str | None = None, *, strict: bool | None = None) -> Exported:
        self.written += 1
        return super().export(tool, name, strict=strict)


def test_only_tools_that_changed_are_written_again() -> None:
    first, second = RawTool(objects(), "a"), RawTool(objects(), "b")
    exporter = Exporter("openai")
    before = exporter.definitions([first, second])
    second._description = Description("Something else.")
    after = exporter.definitions([first, second])
    assert after[0]["function"] is before[0]["function"]
    assert after[1]["function"]["description"] == "Something else."


def test_a_tool_that_is_gone_is_not_kept() -> None:
    exporter = Exporter("openai")
    tool = RawTool(objects(), "a")
    gone = weakref.ref(tool)
    exporter.definitions([tool])
    del tool
    gc.collect()
    assert gone() is None


def test_of_a_thousand_unchanged_tools_none_is_written_again() -> None:
    tools = [RawTool(objects(x={"type": "string"}), f"group.tool{i}") for i in range(1000)]
    counting = Counting()
    exporter = Exporter(counting)
    first = exporter.definitions(tools)
    assert counting.written == 1000
    assert exporter.definitions(tools) == first
    assert counting.written == 1000


def test_another_exporter_of_the_same_dialect_finds_what_was_written() -> None:
    tool = RawTool(objects(x={"type": "string"}), "shared")
    counting = Counting()
    first = Exporter(counting).export(tool)
    assert Exporter(counting).export(tool) is first
    assert counting.written == 1
    assert Exporter("openai", strict=True).export(tool).definition["function"]["strict"] is True
    assert Exporter("openai", names=NameMap(3)).export(tool).definition["function"]["name"] != "shared"
    assert Exporter("anthropic").export(tool).definition["name"] == "shared"


def test_a_change_of_the_tool_reaches_every_exporter() -> None:
    tool = RawTool(objects(), "a")
    one, other = Exporter("openai"), Exporter("openai")
    one.definitions([tool])
    other.definitions([tool])
    tool._description = Description("Something else.")
    for exporter in (one, other, Exporter("openai")):
        assert exporter.definitions([tool])[0]["function"]["description"] == "Something else."


def parts_of(value: Any) -> Iterator[Any]:
    """Every object and array in a value, the value first."""
    if isinstance(value, (dict, list)):
        yield value
        for one in value.values() if isinstance(value, dict) else value:
            yield from parts_of(one)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", KNOWN)
def test_nobody_can_spoil_the_definitions_of_others(name: str, strict: bool) -> None:
    """A definition may be added to; what it shares with others cannot be changed, and says what to do instead."""
    tool = RawTool(
        objects(
            kind={"enum": ["a", "b"], "default": {"deep": [1]}, "examples": [{"x": []}]},
            items={"type": "array", "items": {"$ref": "#/$defs/Item"}},
        )
        | {"required": ["kind"], "$defs": {"Item": {"type": "object", "description": "One.", "properties": {}}}},
        "a",
        strict=strict,
    )
    schema = deepcopy(tool.input_schema)
    exporter = Exporter(name)
    (mine,) = exporter.definitions([tool])
    pristine = json.dumps(mine)
    tried = 0
    for part in [one for held in mine.values() for one in parts_of(held)]:
        changes: list[Callable[[], Any]] = (
            [
                lambda part=part: part.__setitem__("new", 1), lambda part=part: part.update(new=1),
                lambda part=part: part.setdefault("new", 1), lambda part=part: part.pop("type", None),
                lambda part=part: part.__delitem__("type"), lambda part=part: part.__ior__({"new": 1}),
                part.clear, part.popitem,
            ]
            if isinstance(part, dict)
            else [
                lambda part=part: part.append(1), lambda part=part: part.extend([1]),
                lambda part=part: part.insert(0, 1), lambda part=part: part.remove("a"),
                lambda part=part: part.__setitem__(0, 1), lambda part=part: part.__delitem__(0),
                lambda part=part: part.__iadd__([1]), lambda part=part: part.__imul__(2),
                part.clear, part.reverse, part.sort, part.pop,
            ]
        )  # fmt: skip
        for change in changes:
            with pytest.raises(TypeError, match=r"copy\.deepcopy\(definition\)"):
                change()
            tried += 1
    assert tried > 20
    mine["cache_control"] = {"type": "ephemeral"}
    mine.pop("name", None)
    for other in (exporter, Exporter(name)):
        assert json.dumps(other.definitions([tool])[0]) == pristine
    assert tool.input_schema == schema


def test_every_way_to_change_a_dict_or_a_list_is_refused() -> None:
    """What Python may add to either one day is looked at here first."""
    harmless = {"__init__", "__init_subclass__", "__setattr__", "__delattr__", "__class_getitem__", "__new__"}
    reading = {
        dict: {
            "__class__", "__contains__", "__eq__", "__ge__", "__getitem__", "__gt__", "__iter__", "__le__", "__len__",
            "__lt__", "__ne__", "__or__", "__repr__", "__reversed__", "__ror__", "copy", "fromkeys", "get", "items",
            "keys", "values",
        },
        list: {
            "__add__", "__class__", "__contains__", "__eq__", "__ge__", "__getitem__", "__gt__", "__iter__", "__le__",
            "__len__", "__lt__", "__mul__", "__ne__", "__repr__", "__reversed__", "__rmul__", "copy", "count", "index",
        },
    }  # fmt: skip
    for kind, refusing in ((dict, ReadOnlyDict), (list, ReadOnlyList)):
        own = {name for name in vars(refusing) if getattr(refusing, name) is vars(refusing).get("clear")}
        left = set(dir(kind)) - set(dir(object)) - reading[kind] - harmless
        assert left == own


@pytest.mark.parametrize("name", KNOWN)
def test_a_copy_of_a_definition_is_plain_and_the_callers_own(name: str) -> None:
    tool = RawTool(objects(x={"enum": ["a"], "description": "One."}) | {"required": ["x"]}, "a")
    (shown,) = Exporter(name).definitions([tool])
    pristine = json.dumps(shown)
    for own in (deepcopy(shown), pickle.loads(pickle.dumps(shown)), json.loads(pristine)):
        assert own == shown
        for part in list(parts_of(own)):
            assert type(part) in (dict, list)
            part.update(new=1) if isinstance(part, dict) else part.append(1)
    for part in [one for held in shown.values() for one in parts_of(held)]:
        plain: Any = dict if isinstance(part, dict) else list
        assert {type(one) for one in (copy(part), part.copy(), plain(part))} == {plain}
    assert json.dumps(Exporter(name).definitions([tool])[0]) == pristine


def test_pydantic_takes_a_definition_for_what_it_is() -> None:
    class Request(BaseModel):
        tools: list[dict[str, Any]]
        choice: Any

    tool = RawTool(objects(x={"enum": ["a"], "type": "string"}) | {"required": ["x"]}, "a")
    shown = Exporter("openai").definitions([tool])
    request = Request(tools=shown, choice=shown[0])
    plain = json.loads(json.dumps(shown))
    assert (
        request.model_dump(mode="json") == json.loads(request.model_dump_json()) == {"tools": plain, "choice": plain[0]}
    )


def test_a_dialect_that_compares_by_value_keeps_what_it_wrote_all_the_same() -> None:
    @dataclass
    class Shouting(Anthropic):
        loud: bool = True

        def export(self, tool: Any, name: str | None = None, *, strict: bool | None = None) -> Exported:
            return super().export(tool, tool.name.upper() if self.loud else tool.name, strict=strict)

    tool = RawTool(objects(), "a")
    shown = [Exporter(Shouting(loud)).definitions([tool])[0]["name"] for loud in (True, False, True)]
    assert shown == ["A", "a", "A"]


def test_names_go_out_and_come_back() -> None:
    exporter = Exporter("gemini")
    (definition,) = exporter.definitions([RawTool(objects(), "files.read")])
    shown = definition["name"]
    assert shown != "files.read"
    assert exporter.resolve(shown) == "files.read"
    (call,) = exporter.calls({"functionCall": {"id": "f1", "name": shown, "args": {}}})
    assert call == RawCall("files.read", {}, id="f1")
    (turn,) = exporter.results([ToolResult("f1", "files.read", True, "text", "")])
    assert turn["parts"][0]["functionResponse"]["name"] == shown


def test_a_name_the_model_made_up_comes_back_for_the_pipeline_to_report() -> None:
    assert Exporter("openai").resolve("reed_file") == "reed_file"


def test_losses_are_those_of_the_tools_shown_last() -> None:
    exporter = Exporter(dialect("gemini"), names=NameMap())
    lossy = RawTool(objects(a={"type": "string", "pattern": "x"}), "lossy")
    exporter.definitions([lossy, RawTool(objects(), "whole")])
    assert [(loss.tool, loss.keyword) for loss in exporter.losses] == [("lossy", "pattern")]
    exporter.definitions([])
    assert exporter.losses == ()


def test_strictness_can_be_decided_for_all() -> None:
    (definition,) = Exporter("openai", strict=True).definitions([RawTool(objects())])
    assert definition["function"]["strict"] is True


def test_a_tool_that_cannot_be_called_is_left_out_and_named() -> None:
    """R6."""
    from ferrule import tool

    @tool(kind="readonly")
    def good() -> None:
        """Good."""

    def bad(thing: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    exporter = Exporter("openai")
    assert len(exporter.definitions([good, tool(bad)])) == 1
    assert exporter.losses[0].tool == "bad"


def test_a_call_goes_back_under_the_name_the_provider_knows() -> None:
    exporter = Exporter("openai")
    shown = exporter.definitions([RawTool(objects(), "house.look")])[0]["function"]["name"]
    written = exporter.write_call(RawCall("house.look", "{}", id="call_1"))
    assert written["function"]["name"] == shown != "house.look"
    assert exporter.calls([written]) == [RawCall("house.look", "{}", id="call_1")]


def test_what_is_no_list_of_tools_or_results_is_refused_in_words() -> None:
    exporter = Exporter("openai")

    @tool(kind="readonly")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    wrong: list[Any] = [
        lambda: exporter.definitions(cast("Any", add)),
        lambda: exporter.definitions(cast("Any", [len])),
        lambda: exporter.results(cast("Any", Runtime([add]).run_sync("add"))),
    ]
    told: list[str] = []
    for one in wrong:
        with pytest.raises(TypeError) as caught:
            one()
        told.append(str(caught.value))
    assert told == [
        "Tools come in a list, also where there is one: write [add].",
        "Definitions are made of tools, not of <built-in function len>. Make one with @tool.",
        "Results come in a list, also where there is one: write [result].",
    ]


def test_what_dialects_take_as_it_is_is_made_once_for_all() -> None:
    tool = RawTool(objects(a={"type": "string", "description": "Which one."}), "a")
    chat = Exporter("openai").definitions([tool])[0]["function"]["parameters"]
    anthropic = Exporter("anthropic").definitions([tool])[0]["input_schema"]
    assert chat["properties"]["a"] is anthropic["properties"]["a"]
    alone = dialect("anthropic").definition(tool)["input_schema"]["properties"]["a"]
    alone["description"] = "The caller's own."
    assert anthropic["properties"]["a"]["description"] == "Which one."
