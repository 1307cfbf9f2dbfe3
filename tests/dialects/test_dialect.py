"""What every dialect does alike: definitions out, with what they could not say (T2, T10)."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.call import RawCall
from ferrule.core.result import ToolResult
from ferrule.core.tool import Tool
from ferrule.dialects import Loss, dialect
from ferrule.dialects.dialect import Dialect, ForeignDefinition, Strictness
from ferrule.dialects.flatten import Ledger
from ferrule.dialects.portable import Abilities, StrictRules
from tests.dialects.raw import RawTool, objects, success

openai = dialect("openai")
CLOSED = {"additionalProperties": False}
FEW = Abilities(
    keywords=frozenset({"additionalProperties", "anyOf", "description", "items", "properties", "required", "type"})
)


class Small(Dialect):
    """A provider that understands little, and has a strict mode that understands less."""

    name = "small"
    abilities = FEW
    strictness = Strictness(FEW, StrictRules(True, 2, 10, 10, 10))
    carries = frozenset({"success"})

    def _write_definition(
        self, tool: Tool[Any], name: str, description: str, schema: dict[str, Any], strict: bool, ledger: Ledger
    ) -> dict[str, Any]:
        return {"name": name, "description": description, "schema": schema, "strict": strict}

    def read_definition(self, payload: Any) -> ForeignDefinition:
        raise NotImplementedError

    def calls(self, payload: Any) -> list[RawCall]:
        raise NotImplementedError

    def write_call(self, call: RawCall) -> dict[str, Any]:
        raise NotImplementedError

    def write_result(self, result: ToolResult, losses: list[Loss] | None = None) -> dict[str, Any]:
        if losses is not None and result.data is not None:
            losses.append(Loss(result.tool, "data", "data", "left out"))
        return {"text": result.llm_content}

    def read_result(self, payload: Any, call: RawCall | None = None) -> ToolResult:
        raise NotImplementedError


small = Small()


def test_a_definition_and_everything_it_could_not_say() -> None:
    """T10: what the form has no place for is said in words and reported."""
    schema = {**objects(n={"type": "integer", "minimum": 1}), "minProperties": 1}
    exported = small.export(RawTool(schema, "count.up"))
    assert exported.definition == snapshot(
        {
            "name": "count_up",
            "description": """\
Does it.

At least 1 field.\
""",
            "schema": {"type": "object", "properties": {"n": {"type": "integer", "description": "At least 1."}}},
            "strict": False,
        }
    )
    assert [str(loss) for loss in exported.losses] == snapshot(
        [
            "count.up: minProperties at #: moved into the description",
            "count.up: minimum at #/properties/n: moved into the description",
        ]
    )


def test_the_definition_alone_is_the_one_that_is_exported() -> None:
    tool = RawTool(objects(n={"type": "integer", "minimum": 1}))
    assert small.definition(tool) == small.export(tool).definition


def test_a_name_is_made_portable_unless_one_is_given() -> None:
    tool = RawTool(objects(), "files.read")
    assert small.export(tool).definition["name"] == "files_read"
    assert small.export(tool, "reader").definition["name"] == "reader"


def test_losses_name_the_tool_and_not_what_it_is_called_there() -> None:
    (loss,) = small.export(RawTool({**objects(), "minProperties": 1}, "files.read"), "reader").losses
    assert loss.tool == "files.read"


def test_the_caller_has_the_last_word() -> None:
    schema = {**objects(), **CLOSED}
    assert openai.export(RawTool(schema, strict=True), strict=False).definition["function"]["strict"] is False
    assert openai.export(RawTool(schema), strict=True).definition["function"]["strict"] is True


@pytest.mark.parametrize("name", ["gemini", "mcp"])
def test_a_provider_without_strict_mode_reports_it(name: str) -> None:
    exported = dialect(name).export(RawTool(objects(), strict=True))
    assert [loss.what for loss in exported.losses] == ["this provider has no strict mode"]


def test_a_strict_mode_that_cannot_be_kept_leaves_nothing_of_its_attempt() -> None:
    """T10: the losses are those of the definition that goes out, and the reason why it is not strict."""
    schema = {**objects(a={}, b={"type": "string", "minLength": 1}), **CLOSED}
    loose = small.export(RawTool(schema))
    tried = small.export(RawTool(schema, strict=True))
    assert tried.definition == loose.definition
    assert [loss for loss in tried.losses if loss.keyword != "strict"] == list(loose.losses)
    assert [str(loss) for loss in tried.losses if loss.keyword == "strict"] == [
        "probe: strict at #/properties/a: strict mode is off: any value is accepted here"
    ]


def test_notes_of_a_strict_attempt_that_failed_are_not_in_the_description() -> None:
    schema = {**objects(a={}), **CLOSED, "minProperties": 1}
    definition = small.export(RawTool(schema, strict=True)).definition
    assert definition["description"] == "Does it.\n\nAt least 1 field."
    assert definition["strict"] is False


def test_exporting_changes_neither_the_tool_nor_a_later_export() -> None:
    tool = RawTool({**objects(n={"type": "integer", "minimum": 1}), "minProperties": 1}, strict=True)
    before = repr(tool.raw)
    first = small.export(tool)
    assert small.export(tool) == first
    assert repr(tool.raw) == before


def test_a_tool_without_a_description_has_only_the_notes() -> None:
    tool = RawTool({**objects(), "minProperties": 1}, description="")
    assert small.definition(tool)["description"] == "At least 1 field."


def test_losses_of_results_are_told_to_whoever_asks() -> None:
    """T9."""
    losses: list[Loss] = []
    assert small.results([success("1"), success("2", data=5)], losses) == [{"text": "1"}, {"text": "2"}]
    assert [loss.path for loss in losses] == ["data"]
    assert small.results(iter([success("1", data=5)])) == [{"text": "1"}]


def test_a_dialect_without_one_of_its_directions_is_none() -> None:
    class Half(Dialect):
        name = "half"

    with pytest.raises(TypeError, match="abstract"):
        Half()  # pyright: ignore[reportAbstractUsage]
