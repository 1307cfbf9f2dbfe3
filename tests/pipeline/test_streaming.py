"""Streaming tools (T4, P9): each piece is shown at once, the whole stays bounded and honest."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import Done, Limits, Output, Partial, RawCall, Runtime, ToolError, tool
from ferrule.pipeline.streaming import Collected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ferrule.core.events import CallEvent


@tool(kind="readonly")
async def count(to: int) -> AsyncIterator[str]:
    for number in range(to):
        await asyncio.sleep(0)
        yield f"{number};"


@tool(kind="readonly")
def count_in_thread(to: int) -> Iterator[str]:
    for number in range(to):
        yield f"{number};"


async def events(runtime: Runtime, name: str, arguments: dict[str, Any]) -> list[CallEvent]:
    return [event async for event in runtime.stream(RawCall(name, arguments))]


@pytest.mark.parametrize("name", ["count", "count_in_thread"])
def test_pieces_of_text_are_joined_and_shown_as_they_come(name: str) -> None:
    seen = asyncio.run(events(Runtime([count, count_in_thread]), name, {"to": 4}))
    assert [event.content for event in seen if isinstance(event, Partial)] == ["0;", "1;", "2;", "3;"]
    assert isinstance(seen[-1], Done)
    assert seen[-1].result.llm_content == "0;1;2;3;"


@pytest.mark.parametrize("name", ["count", "count_in_thread"])
def test_a_stream_of_nothing_is_an_empty_text(name: str) -> None:
    result = asyncio.run(Runtime([count, count_in_thread]).run(name, {"to": 0}))
    assert (result.success, result.data) == (True, "")


def test_items_that_are_no_text_become_a_list() -> None:
    @tool(kind="readonly")
    async def rows() -> AsyncIterator[dict[str, int]]:
        yield {"n": 1}
        yield {"n": 2}

    assert asyncio.run(Runtime([rows]).run("rows")).data == [{"n": 1}, {"n": 2}]


def test_an_output_at_the_end_is_the_result_and_is_not_shown_as_a_piece() -> None:
    @tool(kind="readonly")
    async def search() -> AsyncIterator[Any]:
        yield "looking…"
        yield Output([1, 2], "2 found")

    seen = asyncio.run(events(Runtime([search]), "search", {}))
    assert [event.content for event in seen if isinstance(event, Partial)] == ["looking…"]
    assert isinstance(seen[-1], Done)
    assert (seen[-1].result.data, seen[-1].result.llm_content) == ([1, 2], "2 found")


def test_a_stream_that_fails_half_way_is_a_failure() -> None:
    @tool(kind="readonly")
    async def breaks() -> AsyncIterator[str]:
        yield "a"
        raise ToolError("half way")

    seen = asyncio.run(events(Runtime([breaks]), "breaks", {}))
    assert isinstance(seen[-1], Done)
    assert seen[-1].result.llm_content == "Error (execution_error): half way"


def test_a_flood_of_text_is_cut_once_and_counted_exactly() -> None:
    @tool(kind="readonly")
    async def flood() -> AsyncIterator[str]:
        for _ in range(1000):
            yield "x" * 1000

    result = asyncio.run(Runtime([flood], limits=Limits(result_chars=10_000)).run("flood"))
    left_out = result.metadata["characters_left_out"]
    assert result.llm_content.count("left out") == 1
    assert f"[… {left_out:,} characters left out …]" in result.llm_content
    assert result.llm_content.count("x") + left_out == 1_000_000
    assert len(result.llm_content) <= 10_000


def test_a_tools_own_bound_holds_for_its_stream() -> None:
    @tool(kind="readonly", max_result=500)
    async def flood() -> AsyncIterator[str]:
        for _ in range(100):
            yield "x" * 100

    result = asyncio.run(Runtime([flood]).run("flood"))
    assert len(result.llm_content) <= 500
    assert result.llm_content.count("x") + result.metadata["characters_left_out"] == 10_000


def test_an_endless_stream_that_never_waits_still_meets_its_time_limit() -> None:
    """P6: time limits hold for streams, of both sorts, and memory stays flat meanwhile."""

    @tool(kind="readonly", timeout=0.1)
    async def endless() -> AsyncIterator[str]:
        while True:
            yield "x" * 1000

    @tool(kind="readonly", timeout=0.1)
    def endless_in_thread() -> Iterator[str]:
        while True:
            yield "x" * 1000

    async def main() -> None:
        runtime = Runtime([endless, endless_in_thread], limits=Limits(grace=0.2))
        for name in ("endless", "endless_in_thread"):
            result = await runtime.run(name)
            assert result.error is not None
            assert result.error.kind == "timeout_error"

    gc.collect()
    tracemalloc.start()
    asyncio.run(main())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


def test_a_stream_that_is_cut_short_has_cleaned_up_when_its_result_is_there() -> None:
    cleaned: list[str] = []

    @tool(kind="readonly", timeout=0.02)
    async def endless() -> AsyncIterator[str]:
        try:
            while True:
                yield "x"
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    async def main() -> list[str]:
        await Runtime([endless]).run("endless")
        return list(cleaned)

    assert asyncio.run(main()) == ["up"]


pieces = st.one_of(st.text(max_size=30), st.integers(), st.binary(max_size=30))


@settings(max_examples=150)
@given(st.lists(st.text(max_size=40), max_size=80), st.integers(81, 300), st.integers(1, 20))
def test_collected_text_stays_bounded_and_never_loses_count(texts: list[str], most: int, items: int) -> None:
    collected = Collected(Limits(result_chars=most, stream_items=items))
    for text in texts:
        collected.add(text)
        assert len(collected._items) <= items + 1
        assert sum(map(len, collected._items)) <= 2 * most + 40
    result = collected.result()
    whole = "".join(texts)
    if isinstance(result, str):
        assert result == whole
    else:
        left_out = result.metadata["characters_left_out"]
        note = f"\n[… {left_out:,} characters left out …]\n"
        head, _, tail = result.llm_content.partition(note)
        assert len(head) + len(tail) + left_out == len(whole)
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(result.llm_content) <= most


@settings(max_examples=150)
@given(st.lists(pieces, max_size=80), st.integers(81, 300), st.integers(1, 20))
def test_collected_items_stay_bounded_and_never_lose_count(given_pieces: list[Any], most: int, items: int) -> None:
    collected = Collected(Limits(result_chars=most, stream_items=items))
    for piece in given_pieces:
        collected.add(piece)
        assert len(collected._items) <= items + 1
    result = collected.result()
    if all(isinstance(piece, str) for piece in given_pieces):
        return
    kept: list[Any] = result.data
    held = sum(len(piece) for piece in kept if isinstance(piece, (str, bytes)))
    assert held <= 2 * most + 30
    if "characters_left_out" not in result.metadata and len(kept) + result.metadata.get("items_left_out", 0) != len(
        given_pieces
    ):
        # Text that came before the first other item may have been joined into one piece.
        assert len([piece for piece in given_pieces if isinstance(piece, str)]) > items
    assert result.metadata.get("items_left_out", 1) > 0
