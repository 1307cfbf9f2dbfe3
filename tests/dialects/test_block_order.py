"""Pictures stay between the words that speak of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.result import Attachment, ToolResult
from ferrule.dialects.anthropic import Anthropic
from ferrule.dialects.dialect import Dialect
from ferrule.dialects.flatten import Loss
from ferrule.dialects.gemini import Gemini
from ferrule.dialects.mcp import MCP
from ferrule.dialects.openai import OpenAIResponses
from ferrule.dialects.payload import Blocks, in_order, out_of_order

PICTURE = Attachment("image/png", b"1")
WORDS = st.text("ab\n", min_size=1, max_size=4)


def laid_out(blocks: list[str | Attachment]) -> tuple[str, list[Attachment]]:
    made = Blocks()
    for one in blocks:
        if isinstance(one, str):
            made.add_text(one)
        else:
            made.add(one)
    return made.text, made.attachments


@given(st.lists(WORDS | st.just(PICTURE), max_size=8))
def test_blocks_come_back_in_their_order(blocks: list[str | Attachment]) -> None:
    """Texts that follow each other become one."""
    wanted: list[str | None] = []
    for one in blocks:
        if isinstance(one, str) and wanted and isinstance(wanted[-1], str):
            wanted[-1] += f"\n{one}"
        else:
            wanted.append(one if isinstance(one, str) else None)
    text, attachments = laid_out(blocks)
    assert [one if isinstance(one, str) else None for one in in_order(text, attachments)] == wanted


@given(st.text("ab\n", max_size=9), st.lists(st.none() | st.integers(-1, 10), max_size=5))
def test_whatever_the_places_say_nothing_is_lost(text: str, places: list[int | None]) -> None:
    attachments = [Attachment("image/png", b"1", after=place) for place in places]
    parts = list(in_order(text, attachments))
    assert [one for one in parts if isinstance(one, int)] == list(range(len(places)))
    assert "".join(one for one in parts if isinstance(one, str)).replace("\n", "") == text.replace("\n", "")
    assert list(in_order(text, out_of_order(attachments))) == [*([text] if text else []), *range(len(places))]


@pytest.mark.parametrize("dialect", [MCP(), Anthropic(), OpenAIResponses()])
def test_a_provider_gets_and_gives_them_in_order(dialect: Dialect) -> None:
    text, attachments = laid_out(["First:", PICTURE, "Second:", PICTURE, PICTURE, "All of them."])
    result = ToolResult("c1", "look", True, text, text, attachments=attachments)
    losses: list[Loss] = []
    payload: dict[str, Any] = dialect.write_result(result, losses)
    kinds = [block["type"].removeprefix("input_") for block in payload.get("content") or payload["output"]]
    assert kinds == ["text", "image", "text", "image", "image", "text"]
    again = dialect.read_result(payload)
    assert (again.llm_content, again.attachments, losses) == (text, attachments, [])


def test_one_that_cannot_says_so() -> None:
    text, attachments = laid_out([PICTURE, "That was it.", PICTURE])
    losses: list[Loss] = []
    Gemini().write_result(ToolResult("c1", "look", True, text, text, attachments=attachments), losses)
    assert [loss.path for loss in losses] == ["attachments[0].after"]


def test_a_place_is_known_without_joining_all_words_each_time():
    """Ten thousands of pictures between as many words would take minutes."""

    class Unjoined(Blocks):
        @property
        def text(self) -> str:
            raise AssertionError("all the words were joined")

    blocks = Unjoined()
    for word in ("one", "two", ""):
        blocks.add_text(word)
        blocks.add(Attachment("image/png", b"x"))
    assert [one.after for one in blocks.attachments] == [3, 7, None]
