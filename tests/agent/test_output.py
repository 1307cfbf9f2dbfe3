"""Typed output: final tools, a schema that the answer is held to, functions, validators, and all that can go wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, TypedDict, cast

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, Field

from ferrule import DefinitionError, FunctionTool, RawCall, RulePolicy, Runtime, Tool, ToolContext, ToolError, tool
from ferrule.agent import Agent, AgentLimits, OutputDelta, SavedConversation
from ferrule.agent.agent_events import Answered, CallAsked, Compacted, Ending, TurnEnded, to_form
from ferrule.agent.conversation import well_formed
from ferrule.agent.saved_sessions import load
from ferrule.core.model import (
    AssistantMessage,
    CallDelta,
    Finished,
    ModelError,
    ModelEvent,
    ModelRequest,
    Retrying,
    TextDelta,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.dialects.openai import OpenAIChat
from ferrule.testing import ScriptedModel, call, say

from .room import Waiting, add, agent_with


class Refund(BaseModel):
    """Money back for an order."""

    order: str
    cents: int = Field(gt=0, description="How much, in cents.")


class Handover(BaseModel):
    """A person has to look at it."""

    why: str


@dataclass
class Point:
    x: int
    y: int = 0


class Row(TypedDict):
    name: str


GOOD = {"order": "A1", "cents": 500}
FINAL = call("final_answer", GOOD)


class Holding(ScriptedModel):
    """A model whose provider holds its words to a schema."""

    def writes_output(self, output: Tool[Any], tools: Sequence[Tool[Any]]) -> bool:
        return True


def read_by_model(agent: Agent[Any, Any]) -> str:
    """What the model read last."""
    last = agent.conversation.messages[-1]
    if isinstance(last, ToolResults):
        return "\n---\n".join(one.llm_content for one in last.results)
    assert isinstance(last, UserMessage)
    return last.text


# What may be an output


@pytest.mark.parametrize(
    ("output", "arguments", "value"),
    [
        (Refund, GOOD, Refund(order="A1", cents=500)),
        (Point, {"x": 1}, Point(1)),
        (Row, {"name": "a"}, {"name": "a"}),
        (int, {"output": 7}, 7),
        (list[Point], {"output": [{"x": 1}, {"x": 2, "y": 3}]}, [Point(1), Point(2, 3)]),
        (Literal["a", "b"], {"output": "b"}, "b"),
        (bool | None, {"output": None}, None),
        ([int, None], {"output": None}, None),
        (NewType("UserId", int), {"output": 3}, 3),
        (Annotated[int, Field(gt=0)], {"output": 3}, 3),
        (dict[str, Refund], {"output": {"a": GOOD}}, {"a": Refund(order="A1", cents=500)}),
    ],
)
def test_a_turn_ends_with_a_value_of_the_type(output: Any, arguments: dict[str, Any], value: object) -> None:
    for model in (ScriptedModel([call("final_answer", arguments)]), Holding([json.dumps(arguments)])):
        ended = Agent(model, output=output).answer_sync("go")
        assert ended.output == value
        assert type(ended.output) is type(value)
        model.check()


def test_words_are_the_output_of_an_agent_without_a_type() -> None:
    ended = Agent(ScriptedModel(["It is 3."])).answer_sync("1 + 2?")
    assert ended.output == ended.text == "It is 3."


def test_each_model_of_a_union_is_a_tool_of_its_own() -> None:
    model = ScriptedModel([call("final_answer_Handover", {"why": "angry"})])
    ended = Agent(model, output=[Refund, Handover]).answer_sync("go")
    assert ended.output == Handover(why="angry")
    assert [one.name for one in model.requests[0].tools] == ["final_answer_Refund", "final_answer_Handover"]


def test_words_will_do_where_str_is_one_of_the_types() -> None:
    model = Holding(["Which order?", FINAL])
    agent = Agent(model, output=[Refund, str])
    assert agent.answer_sync("refund").output == "Which order?"
    assert agent.answer_sync("A1").output == Refund(order="A1", cents=500)
    assert {one.settings.tool_choice for one in model.requests} == {None}
    assert {one.output for one in model.requests} == {None}


def test_a_function_is_called_with_what_the_model_gives_and_its_result_is_the_output() -> None:
    def open_ticket(title: str, context: ToolContext[list[str]]) -> int:
        """Open a ticket for a person."""
        if title == "help":
            raise ToolError("The title says nothing.", suggestion="Name the product.")
        context.deps.append(title)
        return len(context.deps)

    tickets: list[str] = []
    model = ScriptedModel([call("open_ticket", {"title": "help"}), call("open_ticket", {"title": "Kettle leaks"})])
    agent = Agent(model, output=open_ticket, deps_type=list[str])
    ended = agent.answer_sync("My kettle!", deps=tickets)
    assert (ended.output, tickets) == (1, ["Kettle leaks"])
    first = agent.conversation.messages[2]
    assert isinstance(first, ToolResults)
    assert first.results[0].llm_content == snapshot(
        "Error (execution_error): The title says nothing.\n\nSuggestion: Name the product."
    )


class Maker:
    """Makes tickets."""

    def make(self, title: str) -> str:
        """Make a ticket."""
        return f"made {title}"

    def __call__(self, title: str) -> str:
        return f"called {title}"


def test_methods_partials_and_objects_that_are_called_are_functions_as_well() -> None:
    def send(to: str, title: str) -> str:
        """Send a ticket."""
        return f"{to}: {title}"

    found = [
        Agent(ScriptedModel([call(name, {"title": "x"})]), output=function).answer_sync("go").output
        for name, function in (("make", Maker().make), ("Maker", Maker()), ("send", partial(send, "Ann")))
    ]
    assert found == ["made x", "called x", "Ann: x"]


def test_the_policy_decides_about_an_output_function_as_about_any_call() -> None:
    ran: list[str] = []

    @tool(kind="write")
    def send_mail(text: str) -> str:
        """Send it."""
        ran.append(text)
        return text

    agent = Agent(
        ScriptedModel([call("send_mail", {"text": "x"})] * 3),
        runtime=Runtime(policy=RulePolicy(deny=["send_mail"])),
        output=send_mail,
    )
    with pytest.raises(ModelError, match="no valid output in 3 attempts"):
        agent.answer_sync("go")
    assert ran == []


def test_what_cannot_be_an_output_is_refused_at_once() -> None:
    with pytest.raises(DefinitionError, match="cannot be an output"):
        Agent(ScriptedModel(), output=type("Odd", (), {}))
    with pytest.raises(DefinitionError, match="`add` is a tool and an output of this agent"):
        Agent(ScriptedModel(), [add], output=add.function)
    with pytest.raises(DefinitionError, match="A lambda has no name"):
        Agent(ScriptedModel(), output=lambda: 1)


def test_null_for_a_field_with_a_default_is_the_default_where_a_provider_makes_models_write_it() -> None:
    class Order(BaseModel):
        item: str
        count: int = 1

    assert Agent(Holding(['{"item": "tea", "count": null}']), output=Order).answer_sync("go").output.count == 1


# What the model reads


def test_the_definition_of_a_final_tool() -> None:
    model = ScriptedModel([FINAL])
    Agent(model, output=Refund).answer_sync("go")
    assert model.requests[0].settings.tool_choice == "required"
    assert OpenAIChat().definition(model.requests[0].tools[0])["function"] == snapshot(
        {
            "name": "final_answer",
            "description": """\
Give your final answer. Call this once, when everything else is done; it ends your work.

Money back for an order.\
""",
            "parameters": {
                "type": "object",
                "properties": {
                    "order": {"type": "string"},
                    "cents": {"description": "How much, in cents.", "exclusiveMinimum": 0, "type": "integer"},
                },
                "required": ["order", "cents"],
                "additionalProperties": False,
            },
            "strict": False,
        }
    )


async def test_arguments_that_do_not_fit_are_for_the_model_to_put_right() -> None:
    model = ScriptedModel([call("final_answer", {"order": "A1", "cents": 0}), FINAL])
    agent = Agent(model, output=Refund)
    assert (await agent.answer("go")).output.cents == 500
    read = model.requests[1].messages[-1]
    assert isinstance(read, ToolResults)
    assert read.results[0].llm_content == snapshot("""\
Error (validation_error): The arguments of `final_answer` have 1 problem:
- `cents`: must be more than 0; got integer 0

Suggestion: Call `final_answer` again with {"order": string, "cents": integer}.\
""")
    assert read_by_model(agent) == "Accepted."


async def test_a_schema_that_was_not_kept_is_explained_and_asked_for_again() -> None:
    model = Holding(['{"order": "A1", "cents": 0}', "no JSON", '```json\n{"order": "A1", "cents": 500}\n```'])
    agent = Agent(model, output=Refund)
    assert (await agent.answer("go")).output == Refund(order="A1", cents=500)
    told = [one.text for one in agent.conversation.messages if isinstance(one, UserMessage)][1:]
    assert told == snapshot(
        [
            """\
[Your answer was not accepted: it does not fit.
- `cents`: must be more than 0; got integer 0
Write the whole answer again, as JSON alone.]\
""",
            """\
[Your answer was not accepted: it is not valid JSON.
Write the whole answer again, as JSON alone.]\
""",
        ]
    )
    assert model.requests[0].tools == ()
    assert model.requests[0].output is not None
    assert well_formed(agent.conversation.messages) is None


async def test_words_where_a_value_is_wanted_are_not_the_end() -> None:
    agent = Agent(ScriptedModel(["Five euros.", FINAL]), output=Refund)
    assert (await agent.answer("go")).output.cents == 500
    assert [one.text for one in agent.conversation.messages if isinstance(one, UserMessage)][1:] == snapshot(
        ["[Your answer was not accepted: words alone do not end your work. Call `final_answer`.]"]
    )


@pytest.mark.parametrize("model", [ScriptedModel, Holding])
async def test_a_validator_sends_the_model_back_and_may_replace_the_output(model: type[ScriptedModel]) -> None:
    replies: list[Any] = [call("final_answer", {"order": "a1", "cents": n}) for n in (900, 500)]
    if model is Holding:
        replies = ['{"order": "a1", "cents": 900}', '{"order": "a1", "cents": 500}']
    agent = Agent(model(replies), output=Refund, deps_type=dict[str, int])

    @agent.output_validator
    async def check_amount(context: ToolContext[dict[str, int]], refund: Refund) -> Refund:
        if refund.cents > context.deps["paid"]:
            raise ToolError(f"Only {context.deps['paid']} cents were paid.")
        return refund.model_copy(update={"order": refund.order.upper()})

    assert (await agent.answer("go", deps={"paid": 500})).output == Refund(order="A1", cents=500)
    second = agent.conversation.messages[2]
    text = second.results[0].llm_content if isinstance(second, ToolResults) else getattr(second, "text", "")
    held = snapshot(
        "[Your answer was not accepted: Only 500 cents were paid. Write the whole answer again, as JSON alone.]"
    )
    assert text == (held if model is Holding else "Error (validation_error): Only 500 cents were paid.")


async def test_a_validator_works_on_plain_words_too() -> None:
    agent = Agent(ScriptedModel(["no", "yes"]))

    @agent.output_validator
    def check_words(words: str) -> None:
        if words == "no":
            raise ValueError("Say yes.")

    assert (await agent.answer("go")).output == "yes"
    assert [one.text for one in agent.conversation.messages if isinstance(one, UserMessage)][1:] == snapshot(
        ["[Your answer was not accepted: Say yes. Answer again.]"]
    )


async def test_a_model_that_never_gives_valid_output_fails_with_the_last_problem() -> None:
    wrong = call("final_answer", {"order": "A1"})
    agent = Agent(ScriptedModel([wrong] * 2), output=Refund, limits=AgentLimits(output_attempts=2))
    with pytest.raises(ModelError) as caught:
        await agent.answer("go")
    assert str(caught.value) == snapshot("""\
`scripted/test` gave no valid output in 2 attempts. The last problem: The arguments of `final_answer` have 1 problem:
- `cents`: required, but missing (expected integer: How much, in cents.) Rephrase the request, or choose another model.\
""")
    assert well_formed(agent.conversation.messages) is None


async def test_a_validator_that_crashes_stops_the_turn_and_is_no_problem_of_the_model() -> None:
    agent = Agent(ScriptedModel([FINAL]), output=Refund)

    @agent.output_validator
    def broken(refund: Refund) -> None:
        raise KeyError(refund.order)

    with pytest.raises(KeyError):
        await agent.answer("go")
    assert read_by_model(agent).endswith("`final_answer` did not finish. The program around it failed.")
    assert well_formed(agent.conversation.messages) is None


# Beside other calls


async def test_calls_beside_the_output_run_first_and_the_output_counts_if_all_succeeded() -> None:
    agent = Agent(ScriptedModel([say("", FINAL, call("add", {"a": 1, "b": 2}))]), [add], output=Refund)
    ended = await agent.answer("go")
    assert ended.output.order == "A1"
    assert read_by_model(agent) == "Accepted.\n---\n3"


async def test_an_output_beside_a_call_that_failed_is_not_taken() -> None:
    model = ScriptedModel([say("", call("add", {"a": 1}), FINAL), FINAL])
    agent = Agent(model, [add], output=Refund)
    assert (await agent.answer("go")).steps == 2
    read = model.requests[1].messages[-1]
    assert isinstance(read, ToolResults)
    assert read.results[1].llm_content == snapshot("""\
Error (validation_error): Not accepted: another call in the same answer failed.

Suggestion: Read that first, then give your final answer again.\
""")


async def test_the_first_of_several_outputs_counts() -> None:
    model = ScriptedModel([say("", FINAL, call("final_answer", {"order": "B2", "cents": 1}))])
    agent = Agent(model, output=Refund)
    assert (await agent.answer("go")).output.order == "A1"
    assert read_by_model(agent) == snapshot("""\
Accepted.
---
Error (validation_error): Not needed: another call in this answer gave the final answer already.\
""")


# While it works


async def test_the_output_is_shown_while_it_is_written() -> None:
    for model in (ScriptedModel([FINAL]), Holding(['{"order": "A1", "cents": 500}'])):
        agent = Agent(model, [add], output=Refund)
        events = [event async for event in agent.run("go")]
        pieces = [event for event in events if isinstance(event, OutputDelta)]
        assert "".join(piece.text for piece in pieces) == '{"order": "A1", "cents": 500}'
        assert [piece.partial for piece in pieces][-2:] == [{"order": "A1"}, GOOD]
        assert not any(isinstance(event, TextDelta | CallDelta | CallAsked) for event in events)
        assert to_form(pieces[0]) == {"type": "output_delta", "text": pieces[0].text}
        assert to_form(events[-1])["output"] == GOOD


async def test_a_try_that_failed_begins_the_output_anew() -> None:
    async def torn(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield TextDelta('{"output": [1, 2')
        yield Retrying(1, 0, "torn", restarted=True)
        yield TextDelta('{"output": [3')
        yield TextDelta("]}")
        yield Finished(AssistantMessage('{"output": [3]}'), Usage(), "end")

    agent = Agent(Holding([torn]), output=list[int])
    shown = [event.partial async for event in agent.run("go") if isinstance(event, OutputDelta)]
    assert shown == [[1, 2], [3], [3]]


async def test_what_the_user_adds_meanwhile_is_read_before_the_output_counts() -> None:
    agent: Agent[None, Refund]

    def steered(request: ModelRequest) -> Any:
        agent.steer("Make it B2.")
        return FINAL

    model = ScriptedModel([steered, call("final_answer", {"order": "B2", "cents": 1})])
    agent = Agent(model, output=Refund)
    assert (await agent.answer("go")).output.order == "B2"
    read = model.requests[1].messages[-2:]
    assert isinstance(read[0], ToolResults)
    assert read[0].results[0].llm_content == snapshot("""\
Error (validation_error): Not accepted: the user said more in the meantime.

Suggestion: Read that first, then give your final answer again.\
""")
    assert read[1] == UserMessage("Make it B2.")


async def test_an_answer_cut_off_at_its_length_limit_is_asked_for_again() -> None:
    torn = RawCall("final_answer", '{"order": "A1", "cen')
    model = ScriptedModel([say("", torn, stop="length"), FINAL])
    assert (await Agent(model, output=Refund).answer("go")).output.cents == 500
    held = Holding([say('{"order": "A1", "cen', stop="length"), '{"order": "A1", "cents": 500}'])
    agent = Agent(held, output=Refund)
    assert (await agent.answer("go")).output.cents == 500
    assert [one.text for one in agent.conversation.messages if isinstance(one, UserMessage)][1:] == snapshot(
        ["[Your answer was not accepted: it was cut off at its length limit, so it is incomplete. Give a shorter one.]"]
    )


@pytest.mark.parametrize("stopped", ["interrupt", "close"])
async def test_a_stopped_turn_has_no_output_and_an_intact_conversation(stopped: str) -> None:
    waiting = Waiting()
    agent = Agent(
        ScriptedModel([waiting_call := call("wait"), waiting_call]), output=cast("FunctionTool", waiting.tool)
    )
    events = agent.run("go")
    last: Any = None
    async for event in events:
        last = event
        if isinstance(event, Answered):
            await asyncio.sleep(0)
            if stopped == "close":
                break
            asyncio.get_running_loop().call_soon(agent.interrupt)
    await events.aclose()
    assert well_formed(agent.conversation.messages) is None
    if stopped == "interrupt":
        assert isinstance(last, TurnEnded)
        with pytest.raises(ModelError, match="The turn ended as `interrupted`"):
            _ = last.output


async def test_a_limit_ends_the_turn_without_output() -> None:
    model = ScriptedModel([call("add", {"a": 1, "b": 1})])
    agent = Agent(model, [add], output=Refund, limits=AgentLimits(steps=1))
    ended = await agent.answer("go")
    assert (ended.ending, ended.limit) == (Ending.LIMIT, "steps")
    with pytest.raises(ModelError) as caught:
        _ = ended.output
    assert str(caught.value) == snapshot(
        "The turn ended as `limit`. The turn had 1 step, which is its limit. "
        "Nothing is lost: say how to continue, or raise the limit."
    )


async def test_an_agent_goes_on_after_its_output_also_from_a_saved_session(tmp_path: Path) -> None:
    saved = SavedConversation(tmp_path, "a" * 32, tmp_path, "scripted/test")
    first = Agent(ScriptedModel([call("final_answer", {"order": "A1"}), FINAL]), output=Refund, save=saved)
    assert (await first.answer("go")).output.cents == 500
    saved.close()
    kept, conversation = load(saved.path)
    model = ScriptedModel([call("final_answer", {"order": "B2", "cents": 1})])
    assert (await Agent(model, output=Refund, conversation=conversation).answer("and B2")).output.order == "B2"
    assert len(model.requests[0].messages) == 6
    kept.close()


async def test_a_conversation_that_is_made_shorter_still_ends_with_output() -> None:
    replies: list[Any] = [call("repeat", {"text": f"word {n} " * 400, "times": 3}) for n in range(12)]

    def summary_or_final(request: ModelRequest) -> Any:
        return FINAL if request.tools else "a summary"

    model = ScriptedModel([*replies, *[summary_or_final] * 30], context_tokens=9_000)
    agent = Agent(model, agent_with([])[0].tools, output=Refund, limits=AgentLimits(result_chars=3_000))
    events = [event async for event in agent.run("go")]
    assert any(isinstance(event, Compacted) for event in events)
    assert isinstance(last := events[-1], TurnEnded)
    assert last.output == Refund(order="A1", cents=500)


# Repeated calls


@pytest.mark.parametrize(("repeats", "ending"), [(2, Ending.LOOP), (5, Ending.LOOP), (None, Ending.DONE)])
async def test_how_often_a_call_may_be_repeated_is_a_setting(repeats: int | None, ending: Ending) -> None:
    model = ScriptedModel([*[call("add", {"a": 1, "b": 1})] * 8, "2"])
    ended = await Agent(model, [add], limits=AgentLimits(repeats=repeats)).answer("go")
    assert ended.ending is ending
    assert len(model.requests) == (repeats or 9)


def test_no_message_of_a_turn_names_an_option_of_the_command_line() -> None:
    """The library does not know the command line, which adds its own hint."""
    assert "--" not in shown_suggestions()


def shown_suggestions() -> str:
    def ended(limits: AgentLimits, model: Callable[[], ScriptedModel]) -> TurnEnded[Any]:
        return Agent(model(), [add], limits=limits).answer_sync("go")

    def calls() -> ScriptedModel:
        return ScriptedModel([call("add", {"a": n, "b": 1}) for n in range(3)], cost_per_token=1.0)

    limits = [AgentLimits(steps=1), AgentLimits(tokens=1), AgentLimits(cost=0.1), AgentLimits(seconds=1e-6)]
    reached = [ended(one, calls) for one in limits]
    assert [one.limit for one in reached] == ["steps", "tokens", "cost", "seconds"]
    return " ".join(f"{one.problem} {one.suggestion}" for one in reached)


@pytest.mark.parametrize("said", [True, False])
async def test_a_validator_that_says_yes_or_no_is_explained(said: bool) -> None:
    agent = Agent(ScriptedModel([FINAL]), output=Refund)

    @agent.output_validator
    def check(refund: Refund) -> bool:
        return said

    with pytest.raises(TypeError) as caught:
        await agent.answer("go")
    assert str(caught.value).startswith(f"The output validator `check` returned {said}, and what it returns replaces")


async def test_a_validator_cannot_replace_the_output_with_another_type() -> None:
    agent = Agent(ScriptedModel([FINAL, FINAL]), output=Refund)

    @agent.output_validator
    def check(refund: Refund) -> str:
        return "too much"

    with pytest.raises(TypeError, match="The output validator `check` returned 'too much', and what it returns repl"):
        await agent.answer("go")

    @agent.output_validator
    def again(output: Any) -> Any:
        return Refund(order=output.order, cents=1)

    agent.output_form.validators.remove(check)
    assert (await agent.answer("go")).output == Refund(order="A1", cents=1)


def test_a_validator_takes_the_output_or_the_context_and_the_output() -> None:
    agent = Agent(ScriptedModel([]), output=Refund)
    for wrong in (lambda: None, lambda context, output, more: None):
        with pytest.raises(TypeError, match="An output validator takes the output, or the context and the output"):
            agent.output_validator(wrong)


def test_an_object_of_any_kind_is_given_by_its_own_fields() -> None:
    model = ScriptedModel([call("final_answer_Point", {"x": 1, "z": 2}), call("final_answer_Row", {"name": "a"})])
    assert Agent(model, output=[Refund, Point, Row]).answer_sync("go").output == {"name": "a"}
    shown = {one.name: one for one in model.requests[0].tools}
    assert list(shown) == ["final_answer_Refund", "final_answer_Point", "final_answer_Row"]
    assert shown["final_answer_Point"].input_schema == snapshot(
        {
            "properties": {"x": {"type": "integer"}, "y": {"default": 0, "type": "integer"}},
            "required": ["x"],
            "type": "object",
            "additionalProperties": False,
        }
    )
    assert "Point(" not in shown["final_answer_Point"].description.text
    (result,) = cast("ToolResults", model.requests[1].messages[-1]).results
    assert "- `z`: unknown field. Known fields: `x`, `y`" in result.llm_content


async def test_wrong_uses_of_an_agent_are_explained() -> None:
    model = ScriptedModel(["x"])
    for wrong in ("Refund", Refund(order="A", cents=1), Point(1), None, []):
        with pytest.raises(DefinitionError, match="An output is a type or a function, not "):
            Agent(model, output=wrong)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"`runtime` is a Runtime, not \[.*\. Tools come second"):
        Agent(model, runtime=[add])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="A prompt is text, not 5"):
        await Agent(model).answer(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="This agent's `deps` are a Path, not str"):
        await Agent(model, deps_type=Path).answer("go", deps="here")  # type: ignore[arg-type]
    assert model.requests == []
