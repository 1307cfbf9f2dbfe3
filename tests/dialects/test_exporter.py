"""Many tools, shown again and again (T10)."""

from __future__ import annotations

import gc
import weakref
from typing import Any, cast

import pytest

from ferrule import Runtime, tool
from ferrule.core.call import RawCall
from ferrule.core.description import Description
from ferrule.core.result import ToolResult
from ferrule.dialects import Exporter, NameMap, dialect
from ferrule.dialects.anthropic import Anthropic
from ferrule.dialects.losses import Exported
from tests.dialects.raw import RawTool, objects


def test_only_tools_that_changed_are_written_again() -> None:
    first, second = RawTool(objects(), "a"), RawTool(objects(), "b")
    exporter = Exporter("openai")
    before = exporter.definitions([first, second])
    second._description = Description("Something else.")
    after = exporter.definitions([first, second])
    assert after[0] is before[0]
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
    class Counting(Anthropic):
        written = 0

        def export(self, tool: Any, name: str | None = None, *, strict: bool | None = None) -> Exported:
            self.written += 1
            return super().export(tool, name, strict=strict)

    tools = [RawTool(objects(x={"type": "string"}), f"group.tool{i}") for i in range(1000)]
    counting = Counting()
    exporter = Exporter(counting)
    first = exporter.definitions(tools)
    assert counting.written == 1000
    assert exporter.definitions(tools) == first
    assert counting.written == 1000


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
