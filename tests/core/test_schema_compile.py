"""A schema from elsewhere is compiled within bounds, and never makes Ferrule open a connection or a file (T4, S1)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import http.server
import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.core import schema_compile
from ferrule.core.errors import DefinitionError, MissingExtraError
from ferrule.core.function_tool import raw_tool
from ferrule.core.problems import InvalidParamsError
from ferrule.core.schema_compile import MAX_REFERENCES, MAX_SCHEMA_BYTES, CompiledSchema, freeze, quick_validator
from ferrule.core.schema_params import SchemaParams


def load(schema: Any, text: str) -> Any:
    return SchemaParams("do_it", schema).load(text)


def refusal(schema: Any, text: str) -> list[tuple[str, str, str]]:
    with pytest.raises(InvalidParamsError) as caught:
        load(schema, text)
    return [(problem.where, problem.code, problem.message) for problem in caught.value.problems]


# What can be seen without compiling


@pytest.mark.parametrize(
    "schema", [[], "string", None, {"enum": {1}}, {"const": float("nan")}, {"x": "\ud800"}, {1: object()}]
)
def test_what_could_be_no_schema_is_refused_at_definition(schema: Any):
    """T4: what costs nothing to see is said at once."""
    with pytest.raises(DefinitionError, match="do_it"):
        SchemaParams("do_it", schema)


def test_a_schema_in_a_circle_too_deep_or_too_large_is_refused_at_definition():
    circle: dict[str, Any] = {}
    circle["not"] = circle
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"not": deep}
    for schema in (circle, deep, {"enum": ["x" * 100] * 30_000}):
        with pytest.raises(DefinitionError):
            SchemaParams("do_it", schema)


def said(document: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        freeze("do_it", "its schema", document)
    return str(caught.value)


def test_the_words_for_what_could_be_no_schema():
    circle: dict[str, Any] = {}
    circle["not"] = circle
    deep: Any = {}
    for _ in range(5_000):
        deep = {"not": deep}
    assert [
        said([]),
        said({"enum": {1}}),
        said({"x": "\ud800"}),
        said(circle),
        said(deep),
        said({"x": "y" * MAX_SCHEMA_BYTES}),
    ] == snapshot(
        [
            "`do_it`: its schema must be an object or a boolean, not list.",
            "`do_it`: its schema is not JSON: Object of type set is not JSON serializable.",
            "`do_it`: its schema is not JSON: 'utf-8' codec can't encode character '\\ud800' in position 7: surrogates not allowed.",
            "`do_it`: its schema is not JSON: Circular reference detected.",
            "`do_it`: its schema is nested too deeply.",
            "`do_it`: its schema takes 2,000,009 bytes as JSON; more than 2,000,000 are not read.",
        ]
    )


JSON = st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**64) | st.text(), st.lists, max_leaves=5)


@given(st.dictionaries(st.text(), JSON, max_size=3))
def test_what_is_frozen_is_what_was_said(document: dict[str, Any]):
    """T4: later changes of the same object do not count."""
    assert json.loads(freeze("do_it", "its schema", document)) == document


def test_without_the_validator_the_definition_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    schema_compile.require_validator.cache_clear()
    monkeypatch.setattr(schema_compile, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ferrule\[schema\]'"):
        raw_tool("greet_city", True, lambda arguments: arguments)


# What only compiling shows


def broken(schema: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        SchemaParams("do_it", schema).compile()
    return str(caught.value)


def test_what_only_compiling_shows_is_said_in_words():
    """T4: the author learns what is wrong, and where."""
    assert [
        broken({"properties": {"a": {"type": "strin"}}}),
        broken({"properties": {"a": {"pattern": "(("}}}),
        broken({"properties": {"a": {"$ref": "#/$defs/b"}}}),
        broken({"$schema": "https://example.org/mine"}),
        broken({"required": "a"}),
        broken({"allOf": [{"$ref": "#"}]}),
    ] == snapshot(
        [
            '`do_it`: its schema is not a valid JSON Schema. properties.a.type: expected "array", "boolean", "integer", "null", "number", "object", "string" or array, got string "strin".',
            '`do_it`: its schema is not a valid JSON Schema. properties.a.pattern: must be a regular expression like "^[a-z]+$"; got string "((".',
            "`do_it`: its schema refers to '#/$defs/b', which is not there.",
            "`do_it`: its `$schema` is 'https://example.org/mine', which is not known. Hand that document over in `resources`.",
            '`do_it`: its schema is not a valid JSON Schema. required: expected array, got string "a".',
            "`do_it`: a part of the schema refers to itself without going deeper into the value",
        ]
    )


def test_a_document_from_elsewhere_is_used_only_when_handed_over():
    schema = {"properties": {"city": {"$ref": "https://example.org/city"}}}
    assert "never fetched" in broken(schema)
    params = SchemaParams("do_it", schema, {"https://example.org/city": {"type": "string"}})
    assert params.load('{"city": "Oslo"}') == {"city": "Oslo"}
    with pytest.raises(InvalidParamsError, match="expected string"):
        params.load('{"city": 1}')


def test_an_older_draft_is_read_by_its_own_rules():
    old = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "integer",
        "minimum": 1,
        "exclusiveMinimum": True,
    }
    assert load(old, "2") == 2
    assert refusal(old, "1")[0][1] == "range"
    tuples = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "items": [{"type": "string"}],
        "additionalItems": False,
    }
    assert refusal(tuples, '["a", 1]') == [("arguments", "length", "must have at most 1 item, not 2")]


def test_documents_that_are_handed_over_may_refer_to_one_another():
    documents: dict[str, Any] = {
        "https://example.org/city": {"$ref": "name", "minLength": 2},
        "https://example.org/name": {"type": "string"},
    }
    compiled = CompiledSchema("do_it", {"items": {"$ref": "https://example.org/city"}}, documents)
    assert compiled.validator.is_valid(["Oslo"])
    assert not compiled.validator.is_valid(["O"])
    assert not compiled.validator.is_valid([5])


def test_a_document_handed_over_is_read_by_the_draft_of_the_schema():
    """A `$schema` of its own aside: tuples were written as `items` before 2020."""
    draft = {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "urn:pair"}
    compiled = CompiledSchema("do_it", draft, {"urn:pair": {"items": [{"type": "string"}], "additionalItems": False}})
    assert compiled.validator.is_valid(["a"])
    assert not compiled.validator.is_valid(["a", "b"])


@pytest.mark.parametrize("address", ["https://example.org/a", "urn:a", "https://example.org/a#", "a", "#", ""])
def test_a_schema_may_have_an_address_of_its_own(address: str):
    schema = {"$id": address, "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}}
    assert load(schema, '{"a": "x"}') == {"a": "x"}
    assert refusal(schema, '{"a": 1}')[0][1] == "type"


@pytest.mark.parametrize("address", [":", "http://[", "urn:a b", "https://example.org/#part", "%"])
def test_an_address_that_is_none_is_said_to_be_none(address: str):
    assert broken({"$id": address, "properties": {"a": {"$ref": "#"}}}).startswith("`do_it`: ")


def test_a_schema_says_whether_it_has_unions_and_patterns_that_go_back():
    plain = CompiledSchema("do_it", {"pattern": "^a+$"}, {})
    assert (plain.has_unions, plain.backtracking) == (False, None)
    hard = CompiledSchema("do_it", {"anyOf": [{"pattern": "(?=a)b"}, {"pattern": "^a+$"}]}, {})
    assert hard.has_unions
    assert hard.backtracking is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"$ref": f"#/$defs/a{n}"} for n in range(MAX_REFERENCES + 1)]},
        {"enum": [{"$ref": str(n)} for n in range(MAX_REFERENCES + 1)]},
        {"properties": {str(n): {"pattern": f"a{{1000}}{n}"} for n in range(60)}},
        {"patternProperties": {f"a{{1000}}{n}": {} for n in range(60)}},
    ],
    ids=["references", "references in a value", "patterns", "names"],
)
def test_what_takes_long_to_compile_is_refused_at_once(schema: Any):
    """P6."""
    started = time.process_time()
    assert "too many or too large" in (said := broken(schema)) or "more than 5,000 references" in said
    assert time.process_time() - started < 1


WORDS = st.sampled_from(
    ["a", "#", "#/$defs/a", "#/properties/a", "urn:a", "https://example.org/x", "(?=", "[", "", "%", "object"]
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "$ref",
                    "$id",
                    "$schema",
                    "$anchor",
                    "$dynamicRef",
                    "$dynamicAnchor",
                    "$defs",
                    "type",
                    "properties",
                    "items",
                    "prefixItems",
                    "allOf",
                    "anyOf",
                    "not",
                    "if",
                    "pattern",
                    "patternProperties",
                    "enum",
                    "const",
                    "required",
                    "a",
                    "additionalProperties",
                    "unevaluatedProperties",
                    "dependentSchemas",
                    "minLength",
                    "multipleOf",
                    "default",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(JUNK.filter(lambda schema: isinstance(schema, dict)))
def test_a_strangers_schema_works_or_says_why_not(schema: Any):
    """T4: a server may send anything; only its author is to blame, and in words."""
    complaint, params = "`do_it`: ", None
    try:
        params = SchemaParams("do_it", schema)
        params.compile()
    except DefinitionError as error:
        complaint, params = str(error), None
    assert complaint.startswith("`do_it`: ")
    for text in ("{}", '{"a": "x"}', "[1]", "null"):
        with suppress(InvalidParamsError):
            _ = params and params.load(text)


# Nothing is fetched


def test_a_server_that_would_answer_is_never_asked():
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        schemas = [
            {"$ref": f"{address}/a"},
            {"$schema": f"{address}/meta"},
            {"$dynamicRef": f"{address}/b#x"},
            {"$id": f"{address}/c", "properties": {"a": {"$ref": "d"}}},
            {"if": {"$ref": f"{address}/e"}},
        ]
        for schema in schemas:
            with pytest.raises(DefinitionError):
                SchemaParams("do_it", schema).compile()
        with pytest.raises(DefinitionError):
            SchemaParams("do_it", {"$ref": "urn:a"}, {"urn:a": {"$ref": f"{address}/f"}}).compile()
        server.shutdown()
        thread.join()
    assert asked == []


def test_a_file_is_never_read(tmp_path: Path):
    target = tmp_path / "schema.json"
    target.write_text('{"type": "string"}')
    for ref in (target.as_uri(), str(target)):
        with pytest.raises(DefinitionError):
            SchemaParams("do_it", {"$ref": ref}).compile()


def test_a_quick_validator_fetches_nothing_and_compiles_little(tmp_path: Path):
    target = tmp_path / "schema.json"
    target.write_text("{}")
    assert quick_validator("do_it", {"properties": {"a": {"$ref": target.as_uri()}}}, 100) is None
    assert quick_validator("do_it", {"$id": tmp_path.as_uri() + "/", "$ref": "schema.json"}, 100) is None
    assert quick_validator("do_it", {"properties": {"a": {"pattern": "a{200}"}}}, 100) is None
    assert quick_validator("do_it", {"type": "nothing"}, 100) is None
    made = quick_validator("do_it", {"properties": {"a": {"pattern": "^b"}}}, 100)
    assert made is not None
    assert [made.is_valid({"a": text}) for text in ("b", "c")] == [True, False]
