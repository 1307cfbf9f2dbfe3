"""A small model is led through an answer; what it says is scripted here, so that only the leading is judged."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.call import RawCall
from ferrule.core.model import AssistantMessage, Message, ToolResults, Usage, UserMessage
from ferrule.core.result import ToolResult
from ferrule.models.guided.guide import Ability, Guide

TOOLS = builtin_tools()
UNSURE = Ability(margin=50.0, voice=1.0)
LARGE = Ability(margin=5.0, voice=1.0, quotes=False, result_chars=4000)


class Scripted:
    """Says what it was given, and keeps what it was asked. A mapping is how likely it finds each first token."""

    def __init__(self, *says: str | Mapping[str, float]) -> None:
        self.says = list(says)
        self.asked: list[tuple[bool, dict[str, Any]]] = []
        self.closed = 0

    async def ask(self, body: Mapping[str, Any], *, chat: bool = False) -> AsyncGenerator[dict[str, Any]]:
        self.asked.append((chat, dict(body)))
        said = self.says.pop(0)
        try:
            if isinstance(said, str):
                for piece in said.split("|"):
                    yield {"choices": [{"delta": {"content": piece}} if chat else {"text": piece}]}
            else:
                top = [{"token": token, "logprob": likely} for token, likely in said.items()]
                yield {"choices": [{"text": "", "logprobs": {"content": [{"top_logprobs": top}]}}]}
            timings = {"cache_n": 3, "prompt_n": 7, "predicted_n": 2}
            yield {"choices": [{"delta": {}, "text": "", "finish_reason": "stop"}], "timings": timings}
        finally:
            self.closed += 1


def asked_for(text: str) -> list[Message]:
    return [UserMessage(text)]


def after(text: str, content: str, name: str = "LS", **arguments: str) -> list[Message]:
    call = RawCall(name, json.dumps(arguments))
    result = ToolResult(call.id, name, True, content, "done")
    return [UserMessage(text), AssistantMessage(calls=(call,)), ToolResults((result,))]


async def said(guide: Guide, messages: list[Message]) -> str:
    return "".join([piece async for piece in guide.words(messages, 50)])


async def test_a_request_that_tells_everything_needs_no_model() -> None:
    model = Scripted()
    call = await Guide(model, Ability()).next_call(asked_for('In a.py replace "x = 1" with "x = 2".'), TOOLS)
    assert call is not None
    assert (call.name, json.loads(call.arguments)) == (
        "Edit",
        {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"},
    )
    assert model.asked == []


async def test_where_words_leave_it_open_the_model_decides_apart_from_its_habits() -> None:
    """It says ` none` whatever it is asked; what counts is what the request changes."""
    model = Scripted({" none": -0.1, " Gre": -9.0, " Glob": -1.0}, {" none": -0.1, " Gre": -1.0, " Glob": -9.0}, "{}")
    tools = [tool for tool in TOOLS if tool.name in ("Grep", "Glob")]
    call = await Guide(model, UNSURE).next_call(asked_for("find files that mention x"), tools)
    assert call is not None
    assert call.name == "Grep"
    assert [body["prompt"].count("Request: find files that") for _, body in model.asked[:2]] == [0, 1]


async def test_names_that_begin_alike_are_told_apart_by_what_follows() -> None:
    even = {" get": -1.0, " none": -1.0}
    model = Scripted(even, even, {"Git": -5.0, "Current": -5.0}, {"Git": -9.0, "Current": -0.1})
    tools = [tool for tool in TOOLS if tool.name in ("getGitInfo", "getCurrentDirectory")]
    call = await Guide(model, UNSURE).next_call(asked_for("which folder is this branch in"), tools)
    assert call is not None
    assert call.name == "getCurrentDirectory"
    assert model.asked[-1][1]["prompt"].endswith("Tool: get")


async def test_it_may_prefer_words() -> None:
    model = Scripted({" none": -5.0, " get": -0.5}, {" none": -0.1, " get": -5.0})
    tools = [tool for tool in TOOLS if tool.name == "getGitInfo"]
    assert await Guide(model, LARGE).next_call(asked_for("Which branch?"), tools) is None


async def test_but_not_where_there_must_be_a_call() -> None:
    model = Scripted(*[{" none": -0.1}] * 2)
    call = await Guide(model, Ability(margin=0.0)).next_call(asked_for("hello"), TOOLS, must=True)
    assert call is not None


async def test_arguments_that_are_not_told_are_written_under_a_grammar() -> None:
    model = Scripted('{"pattern":| "hatchling"}')
    tools = [tool for tool in TOOLS if tool.name == "Grep"]
    call = await Guide(model, Ability()).next_call(asked_for("search the code for hatchling"), tools)
    assert call is not None
    assert call.arguments == '{"pattern": "hatchling"}'
    assert model.asked[-1][1]["grammar"].startswith("root ::= ")
    assert model.asked[-1][1]["temperature"] == 0


async def test_a_greeting_is_answered_in_words() -> None:
    model = Scripted("Hel|lo.")
    guide = Guide(model, Ability(only_ascii=True))
    assert await guide.next_call(asked_for("hello"), TOOLS) is None
    assert await said(guide, asked_for("hello")) == "Hello."
    assert model.asked[0][0] is True
    assert "grammar" in model.asked[0][1]
    assert guide.usage == Usage(10, 2, 3)


async def test_the_smallest_quote_the_result() -> None:
    model = Scripted("one|\ntwo")
    messages = after("what is in docs?", "one\ntwo\nthree", path="docs")
    guide = Guide(model, Ability())
    assert await guide.next_call(messages, TOOLS) is None
    assert await said(guide, messages) == "one\ntwo"
    assert "Result:\none\ntwo\nthree\nAnswer:" in model.asked[0][1]["prompt"]


async def test_one_line_is_quoted_without_asking() -> None:
    assert await said(Guide(Scripted(), Ability()), after("what does it say?", "Buy milk.")) == "Buy milk."


async def test_larger_ones_answer_in_words_with_the_numbers_of_the_result() -> None:
    model = Scripted("There are |2.")
    assert await said(Guide(model, LARGE), after("how many?", "2 files\na\nb")) == "There are 2."
    chat, body = model.asked[0]
    assert chat
    assert 'given ::= "2"' in body["grammar"]


async def test_a_request_in_two_parts_makes_two_calls_and_tells_both() -> None:
    messages = after("list the docs folder, then show a.md", "a.md", path="docs")
    guide = Guide(Scripted(*[{}] * 4), Ability())
    call = await guide.next_call(messages, TOOLS)
    assert call is not None
    assert json.loads(call.arguments).popitem()[1] == "a.md"
    result = ToolResult(call.id, call.name, True, "     1\thello", "read 1 line")
    messages += [AssistantMessage(calls=(call,)), ToolResults((result,))]
    assert await guide.next_call(messages, TOOLS) is None
    assert await said(guide, messages) == "a.md\nhello"


async def test_what_was_done_already_is_not_done_again() -> None:
    messages = after("show a.md then show a.md", "x", name="Read", file_path="a.md")
    assert (
        await Guide(Scripted(*[{}] * 4), Ability()).next_call(messages, [tool for tool in TOOLS if tool.name == "Read"])
        is None
    )


async def test_closing_the_answer_early_closes_the_model() -> None:
    model = Scripted("one|two|three")
    async with aclosing(Guide(model, LARGE).words(asked_for("hello"), 50)) as pieces:
        async for _ in pieces:
            break
    assert model.closed == 1
