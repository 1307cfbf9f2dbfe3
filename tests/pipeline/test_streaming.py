"""Streaming tools (T4, P9): each piece is shown at once, the whole stays bounded and honest."""

from __future__ import annotations

import asyncio
import csv
import gc
import io
import itertools
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import Done, Limits, Output, PartialOutput, RawCall, Runtime, ToolError, tool
from ferrule.pipeline.streaming import Collected

if TYPE_CHECKING:
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
    assert [event.content for event in seen if isinstance(event, PartialOutput)] == ["0;", "1;", "2;", "3;"]
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
    assert [event.content for event in seen if isinstance(event, PartialOutput)] == ["looking…"]
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


# What can be read once only


def _lines() -> Any:
    return io.StringIO("a\nb\n")


ONCE: dict[str, tuple[Any, Any]] = {
    "map": (lambda: map(str, range(3)), ["0", "1", "2"]),
    "zip": (lambda: zip([1], [2], strict=True), [(1, 2)]),
    "reversed": (lambda: reversed([1, 2]), [2, 1]),
    "reader": (lambda: csv.reader(["a,b"]), [["a", "b"]]),
    "file": (_lines, ["a\n", "b\n"]),
    "islice": (lambda: itertools.islice(itertools.count(), 2), [0, 1]),
    "empty": (lambda: map(str, ()), []),
    "fresh": (lambda: {"rows": ([n] for n in range(9))}, {"rows": [[n] for n in range(9)]}),
    "inside": (
        lambda: {"rows": (i for i in range(2)), "n": [zip("a", "b", strict=True)]},
        {"rows": [0, 1], "n": [[("a", "b")]]},
    ),
}


@pytest.mark.parametrize("sort", ONCE)
@pytest.mark.parametrize("is_async", [False, True])
def test_what_can_be_read_once_only_becomes_a_list(sort: str, is_async: bool) -> None:
    """T4: the data is still there when somebody looks at it."""
    make, expected = ONCE[sort]

    def give() -> Any:
        return make()

    async def give_async() -> Any:
        return make()

    result = Runtime([tool(give_async if is_async else give, name="give")]).run_sync("give")
    assert result.data == expected
    assert json.loads(result.llm_content) == json.loads(json.dumps(expected))


def test_a_time_limit_holds_for_what_never_ends() -> None:
    """P5: nothing is read outside the time of a call, and no thread goes on reading after it."""
    read: list[int] = []

    @tool(kind="readonly")
    def give() -> Any:
        return map(read.append, itertools.count())

    @tool(kind="readonly")
    async def give_async() -> Any:
        return itertools.count()

    @tool(kind="readonly")
    def give_typed() -> list[int]:
        return itertools.count()  # pyright: ignore[reportReturnType]

    runtime = Runtime([give, give_async, give_typed])
    for name in ("give", "give_async", "give_typed"):
        result = runtime.run_sync(name, timeout=0.3)
        assert result.error is not None
        assert result.error.kind == "timeout_error"
    for _ in range(200):
        seen = len(read)
        time.sleep(0.05)
        if len(read) == seen:
            break
    else:
        pytest.fail("It is read on and on.")


def test_a_generator_that_yields_nothing_is_empty_in_the_way_it_declares() -> None:
    """T4: an empty list where it yields items, no text where it yields text."""

    @tool(kind="readonly")
    def find_items(name: str) -> Iterator[dict[str, int]]:
        yield from ()

    @tool(kind="readonly")
    async def find_later(name: str) -> AsyncIterator[int]:
        for number in ():
            yield number

    @tool(kind="readonly")
    def find_list(name: str) -> list[int]:  # pyright: ignore[reportInvalidTypeForm]
        yield from ()  # pyright: ignore[reportReturnType]

    @tool(kind="readonly")
    def find_words(name: str) -> Iterator[str]:
        yield from ()

    @tool(kind="readonly")
    def find_either(name: str) -> Iterator[str | int]:
        yield from ()

    @tool(kind="readonly")
    def find_any(name: str):
        yield from ()

    tools = [find_items, find_later, find_list, find_words, find_either, find_any]
    runtime = Runtime(tools)
    found = {one.name: runtime.run_sync(one.name, {"name": "x"}).data for one in tools}
    assert found == {
        "find_items": [], "find_later": [], "find_list": [], "find_words": "", "find_either": "", "find_any": "",
    }  # fmt: skip


def test_a_value_that_holds_itself_is_looked_into_once() -> None:
    """Neither for ever, nor once for every way that leads to it."""

    @tool(kind="readonly")
    def give() -> Any:
        held: list[Any] = []
        held += [held, held, held, iter([1])]
        return held

    result = Runtime([give]).run_sync("give")
    assert result.error is not None
    assert "no JSON form" in result.error.message


async def test_streams_of_calls_with_the_same_id_hear_their_own_alone() -> None:
    """X6: ids are a provider's, and two models that share a runtime may have the same."""

    @tool(kind="readonly")
    async def wait_for(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    runtime = Runtime([wait_for])

    async def result_of(seconds: float) -> list[Any]:
        call = RawCall("wait_for", {"seconds": seconds}, id="call_1")
        return [event.result.data async for event in runtime.stream(call) if isinstance(event, Done)]

    assert await asyncio.gather(result_of(0.05), result_of(0.01)) == [[0.05], [0.01]]
