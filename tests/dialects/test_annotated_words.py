"""Annotated words: blocks of their own again, as long as they are what they were."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.dialects.mcp import ANNOTATED, MCP

PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
FOR_THE_PERSON = {"audience": ["user"], "priority": 0.5}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def again(*content: dict[str, Any]) -> list[dict[str, Any]]:
    return MCP().write_result(MCP().read_result({"content": list(content)}))["content"]


def test_annotated_words_stay_a_block_of_their_own() -> None:
    """R6: what a server behind a gateway says of its words arrives."""
    noted = text("for you", annotations=FOR_THE_PERSON)
    assert again(text("one"), text("two"), noted, text("three")) == [text("one\ntwo"), noted, text("three")]


blocks = st.lists(
    st.just(PICTURE)
    | st.builds(text, st.text("ab\n", min_size=1, max_size=4))
    | st.builds(lambda words: text(words, annotations=FOR_THE_PERSON), st.text("ab\n", min_size=1, max_size=4)),
    max_size=6,
)


@given(blocks)
def test_every_annotated_block_arrives_in_its_place_and_the_words_are_the_same(content: list[dict[str, Any]]) -> None:
    whole: list[dict[str, Any]] = []
    for one in content:
        last = whole[-1] if whole else {}
        if one["type"] == last.get("type") == "text" and "annotations" not in one and "annotations" not in last:
            whole[-1] = text(f"{last['text']}\n{one['text']}")
        else:
            whole.append(one)
    assert again(*content) == whole


def test_words_that_somebody_changed_are_annotated_no_more() -> None:
    mcp = MCP()
    read = mcp.read_result({"content": [text("one"), text("secret", annotations=FOR_THE_PERSON)]})
    changed = replace(read, llm_content="one\n[hidden]")
    assert mcp.write_result(changed)["content"] == [text("one\n[hidden]")]
    longer = replace(read, llm_content=f"{read.llm_content}\nand more")
    assert [one["text"] for one in mcp.write_result(longer)["content"]] == ["one", "secret", "and more"]


@pytest.mark.parametrize(
    "odd",
    [7, "x", [7], [{"start": -1}], [{"start": 0, "characters": 1, "digest": 5}], [{}], [{"start": 0, "characters": 3}]],
)
def test_metadata_that_is_somebody_elses_does_no_harm(odd: Any) -> None:
    mcp = MCP()
    read = replace(mcp.read_result({"content": [text("one")]}), metadata={ANNOTATED: odd})
    assert mcp.write_result(read)["content"] == [text("one")]


@pytest.mark.parametrize("odd", [7, {"audience": ["everybody"]}, {"priority": 2}, {}])
def test_annotations_that_are_none_are_left_out(odd: Any) -> None:
    assert again(text("one", annotations=odd), text("two")) == [text("one\ntwo")]
