"""The law of every dialect: there and back, nothing is lost that the report does not name (T9, T10)."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, example, given, settings

from ferrule.core.call import RawCall
from ferrule.core.result import Attachment, ToolResult
from ferrule.core.shown_text import hidden_in
from ferrule.dialects import KNOWN, Exporter, Loss, dialect
from tests.dialects.raw import RawTool, parameters
from tests.dialects.strategies import calls, names, results, schema_and_values, schemas

every_dialect = pytest.mark.parametrize("name", KNOWN)
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)


def valid(schema: Any, value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


def as_strict(value: Any, schema: Any) -> Any:
    """The value as a model held to a strict schema writes it: null for what is left out, nothing unlisted."""
    for form in schema.get("anyOf", []):
        adapted = as_strict(value, form)
        if valid(form, adapted):
            value = adapted
            break
    if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
        fields = schema["properties"]
        nulls = {key: None for key in schema.get("required", []) if key not in value}
        return {**{k: as_strict(v, fields[k]) for k, v in value.items() if k in fields}, **nulls}
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [as_strict(one, schema["items"]) for one in value]
    return value


@every_dialect
@quick
@given(data=schema_and_values)
def test_whatever_fits_the_tool_fits_its_definition(name: str, data: tuple[dict[str, Any], list[Any]]) -> None:
    schema, values = data
    exported = dialect(name).export(RawTool(schema))
    shown = parameters(exported.definition)
    jsonschema_rs.meta.validate(shown)
    for value in values:
        if valid(schema, value):
            assert valid(shown, value), (value, exported.losses)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
@quick
@given(data=schema_and_values)
def test_whatever_fits_the_tool_can_be_said_strictly(name: str, data: tuple[dict[str, Any], list[Any]]) -> None:
    schema, values = data
    exported = dialect(name).export(RawTool(schema, strict=True))
    shown = parameters(exported.definition)
    strict = exported.definition.get("strict", exported.definition.get("function", {}).get("strict")) is True
    assert strict or any(loss.keyword == "strict" for loss in exported.losses)
    closed = any("listed" in loss.what for loss in exported.losses)
    for value in values:
        if valid(schema, value):
            said = as_strict(value, shown) if strict else value
            assert closed or not strict or _kept(value, said)
            assert valid(shown, said), (value, said, exported.losses)


def _kept(value: Any, said: Any) -> bool:
    """Whether nothing of the value went missing on the way."""
    if isinstance(value, dict):
        return all(key in said and _kept(one, said[key]) for key, one in value.items())
    if isinstance(value, list):
        return all(_kept(one, other) for one, other in zip(value, said, strict=True))
    return value == said


@every_dialect
@quick
@given(data=schema_and_values)
def test_a_definition_without_losses_accepts_nothing_more(name: str, data: tuple[dict[str, Any], list[Any]]) -> None:
    schema, values = data
    exported = dialect(name).export(RawTool(schema))
    if not exported.losses:
        shown = parameters(exported.definition)
        for value in values:
            assert valid(shown, value) == valid(schema, value)


@every_dialect
@quick
@given(schema=schemas, tool_name=names.filter(lambda name: not re.search(r"\s", name) and not hidden_in(name)))
def test_a_definition_is_read_as_it_was_written(name: str, schema: dict[str, Any], tool_name: str) -> None:
    exporter = Exporter(name)
    tool = RawTool(schema, tool_name)
    definition = exporter.definitions([tool])[0]
    json.dumps(definition)
    read = exporter.dialect.read_definition(definition)
    assert exporter.resolve(read.name) == tool_name
    assert read.description.startswith("Does it.")
    assert read.schema == parameters(definition)


@every_dialect
@quick
@given(call=calls)
def test_a_call_comes_back_as_it_was(name: str, call: RawCall) -> None:
    spoken = dialect(name)
    item = json.loads(json.dumps(spoken.write_call(call)))
    for payload in (item, [item]):
        (read,) = spoken.calls(payload)
        assert read.name == call.name
        assert (json.loads(read.arguments) if isinstance(read.arguments, str) else read.arguments) == call.arguments
        assert read.id == call.id or name == "mcp"


@every_dialect
@quick
@given(result=results())
@example(result=ToolResult("c_1", "t", True, "", "", attachments=[Attachment("image/png", b"")]))
def test_a_result_comes_back_as_far_as_the_dialect_carries_it(name: str, result: ToolResult) -> None:
    spoken = dialect(name)
    losses: list[Loss] = []
    item = json.loads(json.dumps(spoken.write_result(result, losses)))
    read = spoken.read_result(item, RawCall(result.tool, id=result.call_id))
    lost = {loss.path for loss in losses}
    assert read.call_id == result.call_id
    assert read.tool == result.tool
    if "success" not in lost:
        assert read.success == result.success
    assert result.llm_content in read.llm_content
    if result.error is not None:
        assert read.error is not None
        assert read.error.kind == result.error.kind
        assert (result.error.suggestion or "") in read.llm_content
    if "data" in spoken.carries and "data" not in lost:
        assert read.data == result.data
    expected = [one for at, one in enumerate(result.attachments) if f"attachments[{at}]" not in lost]
    positions = [at for at in range(len(result.attachments)) if f"attachments[{at}]" not in lost]
    assert len(read.attachments) == len(expected)
    for at, was, now in zip(positions, expected, read.attachments, strict=True):
        assert (now.data, now.uri) == (was.data, was.uri)
        assert now.media_type == was.media_type or f"attachments[{at}].media_type" in lost
        # Where a form demands a name, one is made up; none is lost.
        assert was.name is None or now.name == was.name or f"attachments[{at}].name" in lost
