"""Definitions within bounds, told apart by what a model or a person reads of them."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.mcp_client.remote_tool import RefusedTool, read_definition, read_listing

ONE: dict[str, Any] = {"name": "a", "description": "Do it.", "inputSchema": {"type": "object"}}


def test_a_digest_changes_with_whatever_is_said_of_a_tool() -> None:
    changed = [
        {"description": "Do it!"}, {"title": "A"}, {"inputSchema": {"type": "object", "minProperties": 1}},
        {"outputSchema": {"type": "object"}}, {"annotations": {"readOnlyHint": True}},
    ]  # fmt: skip
    digests = {read_definition({**ONE, **change}).digest for change in ({}, *changed)}
    assert len(digests) == 6
    same = read_definition({**dict(reversed(ONE.items())), "_meta": {"at": 1}, "icons": []})
    assert same.digest == read_definition(ONE).digest


@pytest.mark.parametrize(
    "reference", ["https://example.org/a.json", "http://127.0.0.1/x#/a", "file:///etc/passwd", "HTTP://x/"]
)
def test_a_schema_elsewhere_is_refused(reference: str) -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"$ref": reference}]}}}
    with pytest.raises(RefusedTool, match="nothing is ever fetched"):
        read_definition({**ONE, "inputSchema": schema})
    with pytest.raises(RefusedTool, match="its output schema refers to"):
        read_definition({**ONE, "outputSchema": schema})


def test_references_inside_are_fine() -> None:
    schema = {"type": "object", "$defs": {"x": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/x"}}}
    assert read_definition({**ONE, "inputSchema": schema}).input_schema == schema


def test_a_long_description_is_cut() -> None:
    found = read_definition({**ONE, "description": "x" * 50_000})
    assert found.description.endswith("x… (30,000 more characters)")


def test_what_is_no_definition_is_left_out_and_the_others_stay() -> None:
    listing = read_listing([{"name": ""}, {"name": "b"}, ONE, {**ONE, "description": "Another."}])
    assert [one.description for one in listing.definitions] == ["Do it."]
    assert len(listing.problems) == 3
    assert listing.problems[-1] == "the tool `a` is listed twice; the first counts"


def test_hints_are_read_as_claims() -> None:
    found = read_definition({**ONE, "annotations": {"readOnlyHint": True, "idempotentHint": "yes", "title": "Title"}})
    assert (found.hints("readOnlyHint"), found.hints("idempotentHint"), found.title) == (True, False, "Title")
