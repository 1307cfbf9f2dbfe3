"""Stage six: words for the model, words for the person, both bounded (T9)."""

from __future__ import annotations

import asyncio
import threading
from collections import ChainMap, UserDict, UserList, UserString
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel

from ferrule import (
    Attachment,
    ErrorInfo,
    ErrorKind,
    Limits,
    Output,
    RawCall,
    Runtime,
    StoppedError,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from ferrule.core.errors import Stage
from ferrule.core.events import Done
from ferrule.core.shown_text import head_and_tail, well_formed
from ferrule.pipeline.cleaning import stopped_by
from ferrule.pipeline.format import format_stopped


def answer(value: Any, **options: Any) -> ToolResult:
    async def give() -> Any:
        return value

    return asyncio.run(Runtime([tool(give, kind="readonly", **options)]).run("give"))


class Weather(BaseModel):
    city: str
    degrees: float


@dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("hello", "hello"),
        ("", ""),
        (5, "5"),
        (True, "true"),
        (1.5, "1.5"),
        (None, "Done. There is no output."),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([], "[]"),
        (Weather(city="Bonn", degrees=3.5), '{"city":"Bonn","degrees":3.5}'),
        (Point(1, 2), '{"x":1,"y":2}'),
        ((1, 2), "[1,2]"),
        (float("nan"), '"NaN"'),
        (b"abc", "[application/octet-stream, 3 bytes]"),
        (Attachment("image/png", b"12345"), "[image/png, 5 bytes]"),
        (Attachment("image/png", uri="https://x.org/a.png"), "[image/png: https://x.org/a.png]"),
    ],
)
def test_every_value_has_words(value: Any, words: str) -> None:
    assert answer(value).llm_content == words


def test_the_typed_value_is_kept_beside_the_words() -> None:
    weather = Weather(city="Bonn", degrees=3.5)
    assert answer(weather).data is weather


def test_an_output_brings_its_own_words() -> None:
    result = answer(Output({"n": 1}, "for the model", "for the person", metadata={"took": 3}))
    assert (result.data, result.llm_content, result.display_content) == ({"n": 1}, "for the model", "for the person")
    assert result.metadata == {"took": 3}


def test_an_attachment_keeps_its_place_while_the_words_are_whole() -> None:
    picture = Attachment("image/png", b"12345", after=4)
    assert answer(Output(llm_content="This\nis it", attachments=[picture])).attachments == [picture]
    (moved,) = answer(Output(llm_content="This\nis it" * 100_000, attachments=[picture])).attachments
    assert moved.after is None


def test_render_makes_the_words_and_none_leaves_them_to_ferrule() -> None:
    assert answer({"n": 1}, render=lambda value: f"n is {value['n']}").llm_content == "n is 1"
    assert answer({"n": 1}, render=lambda value: None).llm_content == '{"n":1}'


def test_a_render_that_fails_says_that_the_work_is_done() -> None:
    result = answer({"n": 1}, render=lambda value: value["missing"])
    assert result.llm_content == snapshot(
        """\
Error (execution_error): `give` ran, but its `render` failed. KeyError: 'missing'

Suggestion: It has already taken effect; calling it again would repeat it.\
"""
    )


def test_words_that_are_no_text_say_that_the_work_is_done() -> None:
    """P1: the tool ran; a hint to try again would make its effect happen twice. The hook to mend is named."""

    async def later(value: Any) -> str:
        return "too late"

    wrong: list[ToolResult] = [
        answer("x", render=lambda value: 5),
        answer("x", render=lambda value: {"text": value}),
        answer("x", render=later),
        answer("x", display=lambda value: b"short"),
        answer(Output(llm_content=5)),  # type: ignore[arg-type]
        answer(Output("x", display_content=["a"])),  # type: ignore[arg-type]
    ]
    assert [one.error.message for one in wrong if one.error is not None] == snapshot(
        [
            "`give` ran, but its `render` returned int, not text.",
            "`give` ran, but its `render` returned dict, not text.",
            "`give` ran, but its `render` returned coroutine, not text.",
            "`give` ran, but its `display` returned bytes, not text.",
            "`give` ran, but the `llm_content` of its Output is int, not text.",
            "`give` ran, but the `display_content` of its Output is list, not text.",
        ]
    )
    for bad in wrong:
        assert bad.error is not None
        assert bad.metadata == {"stage": "format"}
        assert bad.error.suggestion == "It has already taken effect; calling it again would repeat it."


def test_a_value_without_json_form_says_that_the_work_is_done() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert answer(loop).llm_content == snapshot(
        """\
Error (execution_error): `give` ran, but gave a list (holding itself) that has no JSON form.

Suggestion: It has already taken effect; calling it again would repeat it.\
"""
    )


def test_what_has_no_json_form_is_named_wherever_it_stands() -> None:
    class Plain: ...

    unfit: list[Any] = [Plain(), {"a": [Plain()]}, [threading.Lock()], {"a": b"\xff"}]
    assert [one.error.message for one in map(answer, unfit) if one.error is not None] == snapshot(
        [
            "`give` ran, but gave a Plain that has no JSON form.",
            "`give` ran, but gave a dict (holding a Plain) that has no JSON form.",
            "`give` ran, but gave a list (holding a lock) that has no JSON form.",
            "`give` ran, but gave a dict (holding bytes that are not UTF-8 text) that has no JSON form.",
        ]
    )


def test_what_is_like_a_list_or_a_dict_is_shown_as_one() -> None:
    """P8: never the words in which Python would print it."""
    found = {"x": 1, "y": 2}
    shown: list[Any] = [
        found.keys(), found.values(), found.items(), range(3), {"in": range(2)},
        ChainMap(found), UserDict(found), UserList([1]), MappingProxyType(found), UserString("text"),
    ]  # fmt: skip
    assert [answer(one).llm_content for one in shown] == snapshot(
        [
            '["x","y"]', "[1,2]", '[["x",1],["y",2]]', "[0,1,2]", '{"in":[0,1]}',
            '{"x":1,"y":2}', '{"x":1,"y":2}', "[1]", '{"x":1,"y":2}', '"text"',
        ]
    )  # fmt: skip
    assert answer(found.keys()).to_dict()["data"] == ["x", "y"]


def test_a_number_too_long_for_python_to_print_is_still_a_result() -> None:
    result = answer(10**5000)
    assert result.success
    assert result.llm_content == "1" + "0" * 5000


def test_text_that_no_encoder_takes_is_made_well_formed() -> None:
    assert answer("a\ud800b").llm_content == "a\ufffdb"
    assert answer({"name": "caf\udce9"}).llm_content == '{"name":"caf\ufffd"}'
    assert answer(Output("x", display_content="\ud800")).display_content == "\ufffd"
    assert well_formed("plain") == "plain"
    assert well_formed("Grüße 🎉") == "Grüße 🎉"


def test_the_words_of_an_error_hide_nothing_and_are_bounded_too() -> None:
    stopped = StoppedError(Stage.EXECUTE, ErrorKind.EXECUTION, "a\ud800" + "x" * 100_000, "try \udfff")
    result = format_stopped("c", "t", stopped)
    result.llm_content.encode()
    assert len(result.llm_content) < 25_000
    assert result.error is not None
    assert result.error.suggestion == "try \\u{dfff}"


def test_a_long_result_keeps_both_ends_and_says_how_much_is_gone() -> None:
    result = answer("a" * 60 + "b" * 1000 + "c" * 60, max_result=100)
    assert result.llm_content == "a" * 50 + "\n[… 1,020 of 1,120 characters left out …]\n" + "c" * 50
    assert result.metadata == {"characters": 1120, "characters_left_out": 1020}


def test_the_person_sees_one_short_line() -> None:
    assert answer("\n\n  first line  \nsecond").display_content == "first line"
    long = answer("x" * 1000).display_content
    assert (len(long), long[-1]) == (200, "…")


def test_the_persons_words_are_bounded_too() -> None:
    assert len(answer(Output("x", display_content="y" * 1_000_000), max_result=1000).display_content) == 1000


def test_a_tool_may_pass_on_what_another_tool_said() -> None:
    @tool(kind="readonly")
    async def inner() -> str:
        raise ToolError("no luck", suggestion="wait")

    @tool(kind="readonly")
    async def outer(context: ToolContext) -> ToolResult:
        return await context.call("inner")

    result = asyncio.run(Runtime([inner, outer]).run("outer"))
    assert (result.tool, result.success, result.llm_content) == (
        "outer",
        False,
        "Error (execution_error): no luck\n\nSuggestion: wait",
    )
    assert result.error == ErrorInfo(ErrorKind.EXECUTION, "no luck", None, "wait")


def test_what_is_passed_on_is_bounded_again() -> None:
    passed = ToolResult("x", "x", True, "y" * 10_000, "z" * 10_000)
    result = answer(passed, max_result=100)
    assert len(result.llm_content) < 200
    assert len(result.display_content) <= 100


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.sampled_from("ab\n")), most=st.integers(0, 40))
def test_head_and_tail_never_loses_count(text: str, most: int) -> None:
    """What is shown and what is said to be left out add up to the whole."""
    if len(text) <= most:
        return
    short, left_out = head_and_tail(text, most)
    note = f"\n[… {left_out:,} of {len(text):,} characters left out …]\n"
    head, found, tail = short.partition(note)
    assert found
    assert len(head) + len(tail) + left_out == len(text)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) <= most
    assert len(head) + len(tail) >= most - 2 * (most // 8) - 2


def test_ends_are_cut_between_lines_where_that_costs_little() -> None:
    lines = "".join(f"line {number}\n" for number in range(1000))
    short, _ = head_and_tail(lines, 2000)
    head, _, tail = short.partition("\n[…")
    assert head.endswith("\n")
    assert tail.partition("…]\n")[2].startswith("line ")


def test_what_a_tool_meant_for_the_model_stays_its_own_words() -> None:
    stopped = stopped_by("t", ToolError("No such city.", kind="not_found_error", details={"city": "X"}), None)
    assert (stopped.message, stopped.kind, stopped.details) == ("No such city.", ErrorKind.NOT_FOUND, {"city": "X"})


def test_a_tools_suggestion_keeps_its_workspace_paths_relative(tmp_path: Any) -> None:
    stopped = stopped_by("t", ToolError("Stale.", suggestion=f"Read {tmp_path}/src/app.py first."), tmp_path)
    assert stopped.suggestion == "Read src/app.py first."


def test_an_error_whose_message_is_no_text_is_still_words() -> None:
    assert stopped_by("t", ToolError(404), None).message == "404"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (ValueError("x"), ErrorKind.EXECUTION),
        (TimeoutError(), ErrorKind.TIMEOUT),
        (asyncio.CancelledError(), ErrorKind.CANCELLED),
        (SystemExit(1), ErrorKind.UNKNOWN),
        (ExceptionGroup("g", [TimeoutError()]), ErrorKind.TIMEOUT),
        (ExceptionGroup("g", [ExceptionGroup("h", [ToolError("x", kind=ErrorKind.NOT_FOUND)])]), ErrorKind.NOT_FOUND),
        (ExceptionGroup("g", [ValueError(), TimeoutError()]), ErrorKind.EXECUTION),
    ],
)
def test_what_a_tool_raised_has_a_kind(cause: BaseException, kind: ErrorKind) -> None:
    assert stopped_by("t", cause, None).kind is kind


def test_limits_bound_what_the_tool_does_not() -> None:
    @tool(kind="readonly")
    async def give() -> str:
        return "x" * 5000

    result = asyncio.run(Runtime([give], limits=Limits(result_chars=1000)).run("give"))
    assert result.metadata["characters_left_out"] == 4000


def test_secrets_in_the_details_of_an_error_do_not_leave() -> None:
    """P10."""
    stopped = stopped_by("x", ToolError("no", details={"token": "abc", "n": 1}), None)
    assert stopped.details is not None
    assert "abc" not in str(stopped.details)
    assert stopped.details["n"] == 1


def test_a_value_that_only_has_an_address_is_no_result() -> None:
    @tool(kind="readonly")
    def leak() -> object:
        """Leak."""
        return {"x": object()}

    result = asyncio.run(Runtime([leak]).run("leak"))
    assert not result.success
    assert "0x" not in result.llm_content


class Measured(BaseModel):
    size: int


@tool(kind="readonly")
async def measure() -> list[Measured]:
    """Measure."""
    return [Measured(size=1), {"size": "large"}]  # type: ignore[list-item]


def test_a_value_that_does_not_fit_its_declared_type_is_the_same_error_however_it_is_asked_for() -> None:
    """T9: the tool's author is to blame; a model that changed its arguments would not help."""

    async def main() -> list[ToolResult]:
        runtime = Runtime([measure])
        (batched,) = await runtime.batch([RawCall("measure")])
        streamed = [event.result async for event in runtime.stream(RawCall("measure")) if isinstance(event, Done)]
        return [await runtime.run("measure"), batched, *streamed]

    results = asyncio.run(main())
    assert len(results) == 3
    for result in results:
        assert result.llm_content == snapshot("""\
Error (execution_error): `measure` ran, but what it returned does not fit its declared type: `[1].size`: expected integer, got string "large".

Suggestion: This is a bug in the tool, not a problem with the arguments. It has already taken effect; calling it again would repeat it.\
""")  # noqa: E501
        assert result.error is not None
        assert result.error.details == snapshot(
            {"problems": [{"path": "[1].size", "code": "type", "message": 'expected integer, got string "large"'}]}
        )
