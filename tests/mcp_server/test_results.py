"""Results: text that fits, and structured content with the same facts, bounded as the text is."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Annotated, Any, TypedDict

import pytest
from inline_snapshot import snapshot
from pydantic import Field

from ferrule import Runtime, raw_tool, tool
from ferrule.core.errors import ErrorKind
from ferrule.core.result import Attachment, ErrorInfo, Output, ToolResult
from ferrule.core.tool import Tool
from ferrule.mcp_server.shown_tools import (
    LEFT_OUT,
    RESULT_CHARS,
    STRUCTURED_CHARS,
    call_result,
    output_check,
    shown_output,
)


async def answer(made: Tool[Any], most: int = 80_000, **given: Any) -> dict[str, Any]:
    result: ToolResult = await Runtime([made]).run(made.name, given)
    schema = shown_output(made)
    return call_result(result, output_check(schema) if schema is not None else None, most)


async def test_a_tool_with_words_of_its_own_sends_its_data_beside_them() -> None:
    @tool(kind="readonly", render=lambda value: "three of them")
    def count_things() -> dict[str, int]:
        """Count."""
        return {"count": 3}

    assert await answer(count_things) == {
        "resultType": "complete",
        "content": [{"type": "text", "text": "three of them"}],
        "structuredContent": {"count": 3},
        "isError": False,
    }


class Found(TypedDict):
    names: list[str]
    text: str
    notes: list[str]


async def test_long_data_beside_words_is_cut_and_says_so() -> None:
    """A call that was made is no failure because its data is long: what stands for it fits, and the schema holds."""

    @tool(kind="readonly", render=lambda value: f"{len(value['names'])} names")
    def find_names() -> Found:
        """Find."""
        return {"names": [f"name {at}" for at in range(20_000)], "text": "a" * 100_000 + "end", "notes": ["one"]}

    sent = await answer(find_names, RESULT_CHARS)
    data = sent["structuredContent"]
    assert not sent["isError"]
    assert sent["content"] == [{"type": "text", "text": "20000 names"}]
    assert len(json.dumps(data, separators=(",", ":"))) <= STRUCTURED_CHARS
    left_out = 20_000 - len(data["names"])
    assert data["names"] == [f"name {at}" for at in range(len(data["names"]))]
    assert data["notes"] == ["one", f"`names` is cut short here: {left_out:,} more."]
    assert sent["_meta"] == {LEFT_OUT: {"names": left_out}}
    assert "characters left out" in data["text"]
    assert data["text"].endswith("aend")


async def test_a_long_list_beside_words_is_cut_where_nothing_can_say_so_but_the_envelope() -> None:
    @tool(kind="readonly", render=lambda value: f"{len(value)} numbers")
    def list_numbers() -> list[int]:
        """List."""
        return list(range(100_000))

    sent = await answer(list_numbers, RESULT_CHARS)
    kept = sent["structuredContent"]["result"]
    assert sent["_meta"] == {LEFT_OUT: {"result": 100_000 - len(kept)}}
    assert kept == list(range(len(kept)))


async def test_long_data_that_is_its_own_text_is_cut_only_where_it_can_say_so() -> None:
    @tool(kind="readonly", max_result=1_000_000)
    def find_names() -> Found:
        """Find."""
        return {"names": [f"name {at}" for at in range(20_000)], "text": "", "notes": []}

    sent = await answer(find_names, RESULT_CHARS)
    assert json.loads(sent["content"][0]["text"]) == sent["structuredContent"]
    assert len(sent["structuredContent"]["notes"]) == 1


async def test_data_that_cannot_be_cut_as_its_schema_asks_is_an_error() -> None:
    @tool(kind="readonly", render=lambda value: "many")
    def list_numbers() -> Annotated[list[int], Field(min_length=100_000)]:
        """List."""
        return list(range(100_000))

    sent = await answer(list_numbers, RESULT_CHARS)
    assert sent["isError"]
    assert "cannot be sent as its output schema promises" in sent["content"][0]["text"]


@tool(kind="readonly")
def give_up(data: dict[str, Any] | None) -> dict[str, int] | ToolResult:
    """Give up."""
    error = ErrorInfo(ErrorKind.TIMEOUT, "It took too long.")
    return ToolResult("call_1", "give_up", False, error.words, "", data, error)


@pytest.mark.parametrize(("data", "sent"), [({"done": 3}, {"done": 3}), ({"done": "?"}, None), (None, None)])
async def test_a_failure_has_structured_content_where_its_data_fits(data: Any, sent: Any) -> None:
    answered = await answer(give_up, data=data)
    assert answered["isError"]
    assert answered.get("structuredContent") == sent
    assert answered["content"] == [{"type": "text", "text": "Error (timeout_error): It took too long."}]


async def test_a_picture_alone_has_no_output_schema_to_break() -> None:
    @tool(kind="readonly")
    def draw_it() -> Attachment:
        """Draw."""
        return Attachment("image/png", b"1")

    sent = await answer(draw_it)
    assert shown_output(draw_it) is None
    assert not sent["isError"]
    assert [block["type"] for block in sent["content"]] == ["image"]


async def test_a_list_is_wrapped_as_its_schema_says() -> None:
    @tool(kind="readonly")
    def list_things() -> list[int]:
        """List."""
        return [1, 2]

    sent = await answer(list_things)
    assert sent["structuredContent"] == {"result": [1, 2]}
    assert sent["content"] == [{"type": "text", "text": "[1,2]"}]
    assert "_meta" not in sent or "ferrule/wrapped" not in sent["_meta"]


async def test_long_text_keeps_its_ends_and_says_what_went() -> None:
    @tool(kind="readonly", max_result=400_000)
    def talk_long() -> str:
        """Talk."""
        return "a" * 300_000

    (block,) = (await answer(talk_long, 1000))["content"]
    assert len(block["text"]) < 1100
    assert "299,000 of 300,000 characters left out" in block["text"]


async def test_data_that_does_not_fit_its_schema_is_an_error_that_says_it_ran() -> None:
    broken = raw_tool(
        "measure_it",
        {"type": "object"},
        lambda arguments: {"size": "large"},
        kind="readonly",
        output_schema={"type": "object", "properties": {"size": {"type": "integer"}}},
    )
    sent = await answer(broken)
    assert sent["isError"]
    assert "structuredContent" not in sent
    assert sent["content"][0]["text"] == snapshot("""\
Error (execution_error): `measure_it` ran, but what it returned does not fit its declared type: `size`: expected integer, got string "large".

Suggestion: This is a bug in the tool, not a problem with the arguments. It has already taken effect; calling it again would repeat it.\
""")


async def test_data_that_is_too_long_to_be_sent_whole_is_an_error_with_both_ends() -> None:
    @tool(kind="readonly")
    def list_much() -> list[int]:
        """List."""
        return list(range(5000))

    sent = await answer(list_much, 500)
    assert sent["isError"]
    assert sent["content"][0]["text"] == snapshot("""\
Error (execution_error): `list_much` ran, but its result cannot be sent as its output schema promises: it is too long to be sent whole.

Suggestion: It has already taken effect; calling it again would repeat it. Ask for less if you can.\
""")
    assert "characters left out" in sent["content"][1]["text"]


async def test_data_may_be_longer_than_words_because_it_cannot_be_cut() -> None:
    @tool(kind="readonly", max_result=1_000_000)
    def list_much() -> list[int]:
        """List."""
        return list(range(10_000))

    @tool(kind="readonly", max_result=1_000_000)
    def say_much() -> str:
        """Say."""
        return "word " * 10_000

    assert len((await answer(list_much, RESULT_CHARS))["structuredContent"]["result"]) == 10_000
    assert len((await answer(say_much, RESULT_CHARS))["content"][0]["text"]) < 40_000 - 100


async def test_a_text_attachment_can_be_read() -> None:
    @tool(kind="readonly")
    async def give_file() -> Output:
        """Give."""
        return Output(llm_content="", attachments=[Attachment("text/csv", b"a,b", name="x.csv")])

    assert (await answer(give_file))["content"] == [
        {"type": "resource", "resource": {"uri": "attachment:x.csv", "mimeType": "text/csv", "text": "a,b"}}
    ]


async def test_a_picture_stays_between_its_words_unless_they_are_cut() -> None:
    @tool(kind="readonly", max_result=1_000_000)
    async def show_it(size: int) -> Output:
        """Show."""
        words = "x" * size
        return Output(llm_content=f"{words}\nafter", attachments=[Attachment("image/png", b"1", after=size)])

    def kinds(content: list[dict[str, Any]]) -> list[str]:
        return [block["type"] for block in content]

    result = await answer(show_it, RESULT_CHARS, size=5)
    assert kinds(result["content"]) == ["text", "image", "text"]
    result = await answer(show_it, RESULT_CHARS, size=RESULT_CHARS)
    assert kinds(result["content"]) == ["text", "image"]
    assert len(result["content"][0]["text"]) < 40_000 - 100


async def test_the_text_of_a_resource_is_bounded_with_the_rest() -> None:
    @tool(kind="readonly")
    async def give_files() -> Output:
        """Give."""
        files = [Attachment("text/plain", letter * 300, uri=f"note:{at}") for at, letter in enumerate((b"a", b"b"))]
        return Output(llm_content="x" * 50, attachments=files)

    words, first, second = (await answer(give_files, 200))["content"]
    assert words["text"] == "x" * 50
    assert "of 300 characters left out" in first["resource"]["text"]
    assert second["resource"]["text"] == "\n[… 300 of 300 characters left out …]\n"


def test_nothing_is_fetched_for_a_schema_that_a_stranger_wrote() -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        schemas: list[dict[str, Any]] = [
            {"$id": f"{address}/a/", "type": "object", "properties": {"n": {"$ref": "x.json"}}},
            {"$schema": f"{address}/meta", "type": "object"},
            {"type": "object", "properties": {"n": {"$ref": f"http:/127.0.0.1:{server.server_address[1]}/x"}}},
        ]
        assert [output_check(schema) for schema in schemas] == [None, None, None]
        server.shutdown()
        thread.join()
    assert asked == []
