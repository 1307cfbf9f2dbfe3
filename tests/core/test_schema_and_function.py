"""A tool made from a schema and the function that runs, as D's factory makes one (T3, T4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, Field

from ferrule import DefinitionError, RawTool, Runtime, ToolContext, raw_tool, tool

if TYPE_CHECKING:
    from collections.abc import Callable


class ReadParams(BaseModel):
    """What to read."""

    file_path: str = Field(description="The file to read.", min_length=1)
    limit: int = Field(default=5, ge=1)


async def read_part(params: ReadParams, context: ToolContext) -> str:
    """Read a part of a file. Use this for long files."""
    return f"{context.tool}: {params.limit} lines of {params.file_path}"


def test_the_fields_of_the_model_are_the_parameters() -> None:
    reader = tool(schema=ReadParams, execute=read_part, kind="readonly", tags=["io"])
    assert isinstance(reader, RawTool)
    assert (reader.name, reader.kind, reader.tags) == ("read_part", "readonly", {"io"})
    assert reader.description.short == "Read a part of a file. Use this for long files."
    assert reader.input_schema == snapshot(
        {
            "properties": {
                "file_path": {"description": "The file to read.", "minLength": 1, "type": "string"},
                "limit": {"default": 5, "minimum": 1, "type": "integer"},
            },
            "required": ["file_path"],
            "type": "object",
            "additionalProperties": False,
        }
    )
    assert reader.output_schema == {"type": "string"}
    result = Runtime([reader]).run_sync("read_part", {"file_path": "a.txt", "limit": 7})
    assert result.llm_content == "read_part: 7 lines of a.txt"


def test_arguments_are_explained_and_repaired_as_those_of_any_tool() -> None:
    runtime = Runtime([tool(schema=ReadParams, execute=read_part, name="Read")])
    wrong = runtime.run_sync("Read", {"flie_path": "a.txt", "limit": 0})
    assert wrong.llm_content == snapshot("""\
Error (validation_error): The arguments of `Read` have 3 problems:
- `file_path`: required, but missing (expected string: The file to read.)
- `limit`: must be at least 1; got integer 0
- `flie_path`: unknown field. Did you mean `file_path`?

Suggestion: Call `Read` again with {"file_path": string, "limit": integer (optional, default 5)}.\
""")
    repaired = runtime.run_sync("Read", {"file_path": "a.txt", "limit": "7"})
    assert repaired.metadata["repairs"] == ['`limit`: "7" read as 7']


def test_raw_tool_takes_a_model_too() -> None:
    def count(params: ReadParams) -> dict[str, int]:
        return {"lines": params.limit}

    counter = raw_tool("count_lines", ReadParams, count, kind="readonly")
    counter.compile()
    assert counter.fault is None
    assert Runtime([counter]).run_sync("count_lines", {"file_path": "a"}).data == {"lines": 5}
    told = raw_tool("count_lines", ReadParams, count, output_schema={"type": "object"})
    assert told.output_schema == {"type": "object"}


def test_a_json_schema_hands_over_plain_values() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    greeter = tool(schema=schema, execute=lambda arguments: f"Hello, {arguments['city']}", name="greet_city")
    assert Runtime([greeter]).run_sync("greet_city", {"city": "Oslo"}).llm_content == "Hello, Oslo"


def test_what_the_function_returns_is_checked_as_for_any_typed_function() -> None:
    def count(params: ReadParams) -> int:
        return "many"  # type: ignore[return-value]

    result = Runtime([tool(schema=ReadParams, execute=count)]).run_sync("count", {"file_path": "a"})
    assert "expected integer" in result.llm_content


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tool(schema=ReadParams), "A schema comes with the function that runs"),  # type: ignore[call-overload]
        (lambda: tool(read_part, schema=ReadParams), "tool(schema=Model, execute=run)"),  # type: ignore[call-overload]
        (lambda: tool(execute=read_part), "`execute` comes with its schema"),  # type: ignore[call-overload]
        (lambda: tool(schema=int, execute=read_part), "Make it a pydantic model"),  # type: ignore[arg-type]
        (lambda: tool(schema=ReadParams, execute=lambda params: params), "has no name to call it by"),
        (lambda: tool(schema=ReadParams, execute=lambda: 1, name="x"), "handler(arguments)"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_work_is_refused_with_what_to_write(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        make()
    assert words in str(refused.value)


def test_a_function_whose_one_parameter_is_a_model_reports_that_its_arguments_are_nested(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nested = tool(read_part)
    assert list(nested.input_schema["properties"]) == ["params"]  # type: ignore[index]
    (message,) = caplog.messages
    assert message == (
        'The arguments of tool read_part are {"params": {…}}, because its one parameter is a model. If they should be '
        "the fields of ReadParams, write tool(schema=ReadParams, execute=…)."
    )
    caplog.clear()

    @tool
    def read_two(params: ReadParams, backwards: bool = False) -> str:
        """Read two."""
        return ""

    assert read_two.fault is None
    assert caplog.messages == []


def test_untyped_parameters_are_told_both_ways() -> None:
    with pytest.raises(DefinitionError, match=r"tool\(schema=…, execute=run\)"):

        @tool
        def run(params, context):  # type: ignore[no-untyped-def]
            return params
