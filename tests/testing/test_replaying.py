"""Whatever a tool does, replaying its recording gives the result that running it gave."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ferrule import Attachment, Limits, Output, PartialOutput, RawCall, Runtime, Tool, ToolError, tool
from ferrule.testing import Cassette, Recorded, ScriptedCaller, call

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def as_it_is(value: Any) -> Any:
    return value


class Point(BaseModel):
    x: int
    y: set[int]


@dataclass
class Place:
    name: str
    raw: bytes


def documents(cassette: Cassette, tools: list[Tool[Any]], calls: list[Any]) -> tuple[list[Any], list[Any], list[str]]:
    recorded = Recorded()
    caller = ScriptedCaller([calls])
    caller.run(Runtime(cassette.tools(tools), recorders=[recorded]))
    pieces = [event.content for event in caller.events if isinstance(event, PartialOutput)]
    return [result.to_dict() for result in caller.results], pieces, [record.outcome for record in recorded]


def assert_replays(path: Path, tool: Tool[Any], arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    runs = [documents(Cassette(path, mode="record"), [tool], [call(tool.name, arguments)])]
    with Cassette(path, mode="record") as cassette:
        runs.append(documents(cassette, [tool], [call(tool.name, arguments)]))
    with Cassette(path, mode="replay") as cassette:
        runs.append(documents(cassette, [tool], [call(tool.name, arguments)]))
    assert runs[1] == runs[0]
    assert runs[2] == runs[0]
    return runs[0][0][0]


class TestValues:
    @pytest.mark.parametrize(
        "value",
        [
            None, "", "words", 5, 1.5, True, [], {"a": [1, {"b": None}]}, Point(x=1, y={2}), Place("a", b"raw"),
            b"bytes", "two\nlines", "half \ud800 a pair", "中文", Attachment("image/png", b"\x89PNG\xfb\xff"),
            Output(data={"a": 1}, llm_content="one", display_content="shown", metadata={"m": [1]}),
            Output(llm_content="only words"), Output(), Output(data=1, attachments=[Attachment("x/y", uri="file:a")]),
            "long " * 50_000, object, 10**30,
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("is_async", [True, False])
    def test_a_value(self, tmp_path: Path, value: Any, is_async: bool):
        @tool(kind="readonly", name="give")
        async def give() -> Any:
            """Give."""
            return value

        @tool(kind="readonly", name="give")
        def give_sync() -> Any:
            """Give."""
            return value

        assert_replays(tmp_path / "c.json", give if is_async else give_sync)

    @given(value=JSON, text=st.text())
    @settings(max_examples=60, deadline=None)
    def test_any_json(self, value: Any, text: str):
        @tool(kind="readonly", render=lambda _: text)
        async def give(inside: Any = None) -> Any:
            """Give."""
            return value

        with TemporaryDirectory() as folder:
            path = Path(folder) / "c.json"
            with Cassette(path, redact=as_it_is) as cassette:
                first = documents(cassette, [give], [call("give")])
            with Cassette(path, redact=as_it_is) as cassette:
                assert documents(cassette, [give], [call("give")]) == first

    @given(numbers=st.lists(st.integers(0, 3), max_size=8))
    @settings(max_examples=40, deadline=None)
    def test_any_sequence_of_equal_and_different_calls(self, numbers: list[int]):
        seen: list[int] = []

        @tool(kind="readonly")
        async def count(number: int) -> list[int]:
            """Count."""
            seen.append(number)
            return [number, seen.count(number)]

        async def one_by_one(cassette: Cassette) -> list[Any]:
            runtime = Runtime(cassette.tools([count]))
            return [(await runtime.run(RawCall("count", {"number": n}, id="c"))).to_dict() for n in numbers]

        with TemporaryDirectory() as folder:
            path = Path(folder) / "c.json"
            with Cassette(path) as cassette:
                first = asyncio.run(one_by_one(cassette))
            with Cassette(path) as cassette:
                assert asyncio.run(one_by_one(cassette)) == first
                assert cassette.unused == []
            assert len(seen) == len(numbers)

    def test_a_typed_value_with_words_of_its_own(self, tmp_path: Path):
        @tool(kind="readonly", render=lambda point: f"at {point.x}")
        def give() -> Point:
            """Give."""
            return Point(x=7, y={1})

        assert assert_replays(tmp_path / "c.json", give)["llm_content"] == "at 7"

    def test_a_plain_function_around_an_async_one(self, tmp_path: Path):
        async def inner() -> int:
            await asyncio.sleep(0)
            return 9

        @tool(kind="readonly")
        def give() -> Any:
            """Give."""
            return inner()

        assert assert_replays(tmp_path / "c.json", give)["data"] == 9


class TestFailures:
    @pytest.mark.parametrize(
        "error",
        [
            ToolError("No.", kind="not_found_error", suggestion="Yes.", details={"a": {1}}),
            ValueError("at /home/someone/private/file.py"), TimeoutError(), SystemExit(3), KeyError("x"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("is_async", [True, False])
    def test_what_a_tool_raises(self, tmp_path: Path, error: BaseException, is_async: bool):
        @tool(kind="readonly", name="fail")
        async def fail() -> None:
            """Fail."""
            raise error

        @tool(kind="readonly", name="fail")
        def fail_sync() -> None:
            """Fail."""
            raise error

        assert assert_replays(tmp_path / "c.json", fail if is_async else fail_sync)["success"] is False

    def test_words_that_cannot_be_found_replay_as_an_error_with_the_same_text(self, tmp_path: Path):
        @tool(kind="readonly", render=lambda value: value["missing"])
        async def fail() -> dict[str, int]:
            """Fail."""
            return {}

        with Cassette(tmp_path / "c.json") as cassette:
            (first,), _, _ = documents(cassette, [fail], [call("fail")])
        with Cassette(tmp_path / "c.json") as cassette:
            (second,), _, _ = documents(cassette, [fail], [call("fail")])
        assert (second["llm_content"], second["error"]) == (first["llm_content"], first["error"])


class TestStreams:
    @pytest.mark.parametrize(
        "pieces",
        [[], ["a", "b"], [1, {"a": 2}], [Point(x=1, y=set())], ["a", Output(data={"n": 1}, llm_content="end")],
         [Output()], ["x" * 60_000] * 4],
    )  # fmt: skip
    @pytest.mark.parametrize("is_async", [True, False])
    @pytest.mark.parametrize("fails", [True, False])
    def test_a_stream_gives_the_same_pieces_and_the_same_end(
        self, tmp_path: Path, pieces: list[Any], is_async: bool, fails: bool
    ):
        @tool(kind="readonly", name="stream")
        async def stream() -> AsyncIterator[Any]:
            """Stream."""
            for piece in pieces:
                yield piece
            if fails:
                raise ToolError("It broke.")

        @tool(kind="readonly", name="stream")
        def stream_sync() -> Iterator[Any]:
            """Stream."""
            yield from pieces
            if fails:
                raise ToolError("It broke.")

        path = tmp_path / "c.json"
        with Cassette(path) as cassette:
            results, shown, outcomes = documents(cassette, [stream if is_async else stream_sync], [call("stream")])
        with Cassette(path) as cassette:
            again, shown_again, outcomes_again = documents(
                cassette, [stream if is_async else stream_sync], [call("stream")]
            )
        assert (again, outcomes_again) == (results, outcomes)
        assert shown_again == [piece.model_dump(mode="json") if isinstance(piece, Point) else piece for piece in shown]


def test_many_calls_at_once_replay_as_they_were_recorded(tmp_path: Path):
    @tool(kind="readonly")
    def square(number: int) -> int:
        """Square."""
        return number * number

    @tool(kind="readonly")
    async def cube(number: int) -> int:
        """Cube."""
        await asyncio.sleep(0.001)
        return number**3

    calls = [call(name, {"number": number}) for number in range(50) for name in ("square", "cube")]
    with Cassette(tmp_path / "c.json") as cassette:
        first = documents(cassette, [square, cube], calls)
    with Cassette(tmp_path / "c.json") as cassette:
        assert documents(cassette, [square, cube], calls)[0] == first[0]


def test_a_runtime_with_tight_limits_does_not_cut_a_recording_twice(tmp_path: Path):
    @tool(kind="readonly", max_result=100)
    async def long() -> str:
        """Be long."""
        return "word " * 1000

    texts: list[str] = []
    for _ in range(2):
        with Cassette(tmp_path / "c.json") as cassette:
            runtime = Runtime(cassette.tools([long]), limits=Limits(result_chars=50))
            texts.append(asyncio.run(runtime.run("long", {})).llm_content)
    assert texts[0] == texts[1]
