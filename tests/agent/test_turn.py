"""One turn of an agent (M1): calls, results, words, and every way in which a model can answer badly."""

from __future__ import annotations

import asyncio

import pytest

from ferrule import Choice, RawCall, RulePolicy, ToolContext, tool
from ferrule.agent.agent_events import (
    AgentNotice,
    Answered,
    CallAsked,
    Compacted,
    Ending,
    Steered,
    TurnEnded,
    TurnStarted,
)
from ferrule.agent.limits import AgentLimits
from ferrule.core.events import Done, Pending
from ferrule.core.model import (
    AssistantMessage,
    ModelError,
    ModelFault,
    ModelRequest,
    ModelSettings,
    Retrying,
    TextDelta,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.pipeline import confirm
from ferrule.testing import ScriptedAsker, call, say
from ferrule.testing.scripted_model import ScriptedAnswer

from .room import Records, Waiting, agent_with, runtime, shown, turn

pytestmark = pytest.mark.filterwarnings("error")


async def test_definitions_go_out_calls_run_and_results_go_back_until_words() -> None:
    agent, model = agent_with(
        [say("I add.", call("add", {"a": 1, "b": 2}), call("keep", {"text": "x"})), "It is 3."], system="Be brief."
    )
    happened = await turn(agent, "1 + 2?")
    assert happened.ended == TurnEnded(Ending.DONE, "It is 3.", happened.ended.usage, 2, _output="It is 3.")
    assert happened.ended.output == "It is 3."
    assert shown(agent.conversation.messages) == [
        "person: 1 + 2?",
        "model: I add. +add +keep",
        "result: 3",
        "result: kept x",
        "model: It is 3.",
    ]
    assert [one.name for one in model.requests[0].tools] == ["add", "keep", "repeat"]
    assert model.requests[0].system == "Be brief."
    model.check()


async def test_events_come_in_an_order_that_makes_sense() -> None:
    agent, _ = agent_with([say("I add.", call("add", {"a": 1, "b": 2}), call("keep", {"text": "x"})), "3"])
    happened = await turn(agent)
    kinds = [type(one) for one in happened.events]
    assert kinds[0] is TurnStarted
    assert kinds.index(TextDelta) < kinds.index(Answered) < kinds.index(CallAsked) < kinds.index(Pending)
    assert kinds.index(Pending) < kinds.index(Done)
    assert kinds[-3:] == [TextDelta, Answered, TurnEnded]
    assert [one.doing for one in happened.of(CallAsked)] == ["adding 1 and 2", "keeping x"]


async def test_calls_of_one_answer_run_together_and_results_keep_their_order() -> None:
    first, second = asyncio.Event(), asyncio.Event()

    @tool(kind="readonly")
    async def wait_for_other() -> str:
        """Wait for the other call."""
        first.set()
        await second.wait()
        return "one"

    @tool(kind="readonly")
    async def let_other_go() -> str:
        """Let the other call go on."""
        await first.wait()
        second.set()
        return "two"

    agent, _ = agent_with([say("", call("wait_for_other"), call("let_other_go")), "ok"], wait_for_other, let_other_go)
    await turn(agent)
    assert shown(agent.conversation.messages)[2:4] == ["result: one", "result: two"]


async def test_calls_that_calls_make_are_on_the_stream_with_their_parent() -> None:
    @tool(kind="readonly")
    async def twice(a: int, context: ToolContext) -> int:
        """Double a number."""
        return (await context.call("add", {"a": a, "b": a})).data

    agent, _ = agent_with([call("twice", {"a": 2}), "4"], twice)
    happened = await turn(agent)
    outer, inner = happened.of(Pending)
    assert (outer.parent_id, inner.parent_id, inner.tool) == (None, outer.call_id, "add")
    assert [one.tool for one in happened.of(Done)] == ["add", "twice"]


async def test_another_session_of_the_same_runtime_is_not_on_the_stream() -> None:
    waiting = Waiting()
    agent, _ = agent_with([call("wait"), "ok"], waiting.tool)

    async def other() -> None:
        await waiting.begun.wait()
        await agent.runtime.run("add", {"a": 1, "b": 1})
        waiting.go_on.set()

    happened, _ = await asyncio.gather(turn(agent), other())
    assert {one.tool for one in happened.of(Done)} == {"wait"}


# Answers that are not as they should be


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (call("ad", {"a": 1, "b": 2}), "There is no tool `ad`."),
        (call("add", {"a": 1}), "b"),
        (call("add", "{not json"), "not"),
        (call("add", {"a": "x", "b": 2}), "a"),
    ],
)
async def test_a_bad_call_is_told_to_the_model_and_the_turn_goes_on(bad: object, says: str) -> None:
    agent, _ = agent_with([say("", bad), call("add", {"a": 1, "b": 2}), "3"])  # type: ignore[arg-type]
    happened = await turn(agent)
    assert happened.ended.text == "3"
    assert says in shown(agent.conversation.messages)[2]


async def test_calls_without_ids_and_with_the_same_id_each_have_their_own_result() -> None:
    agent, model = agent_with(
        [
            say("", RawCall("add", {"a": 1, "b": 1}), RawCall("add", {"a": 2, "b": 2})),
            say("", RawCall("add", {"a": 3, "b": 3}, id="x"), RawCall("add", {"a": 4, "b": 4}, id="x"), kept={"p": 1}),
            say("", RawCall("add", {"a": 5, "b": 5}, id="x")),
            "done",
        ]
    )
    happened = await turn(agent)
    assert happened.ended.ending is Ending.DONE
    ids = [one.call.id for one in happened.of(CallAsked)]
    assert len(set(ids)) == 5
    assert [line for line in shown(agent.conversation.messages) if "result" in line] == [
        f"result: {number}" for number in (2, 4, 6, 8, 10)
    ]
    second = model.requests[2].messages[3]
    assert isinstance(second, AssistantMessage)
    assert second.kept == {}, "what the provider keeps names an id that is no more"


async def test_an_empty_answer_is_asked_for_again_and_never_kept() -> None:
    agent, model = agent_with(["", "  ", "Now I say it."])
    happened = await turn(agent)
    assert happened.ended.text == "Now I say it."
    assert not any(isinstance(one, AssistantMessage) and not one.text for one in model.requests[-1].messages)


async def test_a_model_that_says_nothing_at_all_ends_the_turn_in_words() -> None:
    agent, _ = agent_with(["", "", "", "Later."])
    happened = await turn(agent)
    assert happened.ended.ending is Ending.FAILED
    assert happened.ended.problem == "`scripted/test` gave an empty answer 3 times."
    assert (await turn(agent, "And now?")).ended.text == "Later."


async def test_a_cut_off_answer_goes_on_and_its_parts_are_one_text() -> None:
    agent, _ = agent_with([say("One, ", stop="length"), say("two, ", stop="length"), "three."])
    assert (await turn(agent)).ended.text == "One, two, three."


async def test_an_answer_that_never_ends_is_given_up_on_and_says_so() -> None:
    agent, model = agent_with([say("x", stop="length")] * 4)
    happened = await turn(agent)
    assert (happened.ended.ending, happened.ended.text) == (Ending.DONE, "xxxx")
    assert "may be incomplete" in happened.of(AgentNotice)[0].text
    model.check()


async def test_calls_of_a_cut_off_answer_are_not_run_because_they_may_be_torn() -> None:
    records = Records()
    where = runtime(recorders=[records])
    agent, _ = agent_with([say("", call("keep", '{"text": "half'), stop="length"), "I try less."], runtime=where)
    happened = await turn(agent)
    assert happened.ended.ending is Ending.DONE
    assert "kept" not in where.session.state
    assert "may be incomplete" in shown(agent.conversation.messages)[2]
    assert [(one.tool, one.outcome) for one in records.all] == [("keep", "validation_error")]


async def test_a_refusal_of_the_model_ends_the_turn_and_its_calls_do_not_run() -> None:
    agent, _ = agent_with([say("No.", call("keep", {"text": "x"}), stop="refused"), "Yes."])
    happened = await turn(agent)
    assert happened.ended.ending is Ending.FAILED
    assert "declined to continue" in happened.ended.problem
    assert happened.ended.text == "No."
    assert "kept" not in agent.session.state
    assert (await turn(agent, "Please?")).ended.text == "Yes."


async def test_a_model_error_in_mid_turn_loses_nothing_and_the_next_turn_works() -> None:
    error = ModelError(ModelFault.BUSY, "Too many requests.", suggestion="Wait a minute.")
    agent, model = agent_with([call("add", {"a": 1, "b": 2}), error, "It is 3."])
    happened = await turn(agent, "1 + 2?")
    assert (happened.ended.ending, happened.ended.problem, happened.ended.suggestion) == (
        Ending.FAILED,
        "Too many requests.",
        "Wait a minute.",
    )
    assert (await turn(agent, "Go on.")).ended.text == "It is 3."
    assert shown(model.requests[-1].messages) == ["person: 1 + 2?", "model:  +add", "result: 3", "person: Go on."]


async def test_what_was_said_before_a_stream_broke_is_kept() -> None:
    async def breaks(request: object):  # type: ignore[no-untyped-def]
        yield TextDelta("I was about ")
        raise ModelError(ModelFault.UNREACHABLE, "The connection broke.")

    agent, _ = agent_with([breaks, "Again."])
    assert (await turn(agent)).ended.text == "I was about "
    assert shown(agent.conversation.messages)[-1] == "model: I was about "


async def test_a_stream_that_starts_anew_voids_what_it_said() -> None:
    async def again(request: object):  # type: ignore[no-untyped-def]
        yield TextDelta("void")
        yield Retrying(1, 0.1, "it broke", restarted=True)
        yield TextDelta("whole")
        raise ModelError(ModelFault.UNREACHABLE, "The connection broke.")

    agent, _ = agent_with([again])
    happened = await turn(agent)
    assert happened.ended.text == "whole"
    assert len(happened.of(Retrying)) == 1


async def test_a_stream_without_an_end_is_an_error_in_words() -> None:
    async def torn(request: object):  # type: ignore[no-untyped-def]
        yield TextDelta("half")

    agent, _ = agent_with([torn])
    assert "ended early" in (await turn(agent)).ended.problem


async def test_a_fault_in_the_program_ends_the_turn_and_never_raises() -> None:
    def broken(request: object) -> str:
        raise ZeroDivisionError

    agent, _ = agent_with([broken, "fine"])
    happened = await turn(agent)
    assert happened.ended.problem == "An internal error stopped the turn: ZeroDivisionError."
    assert (await turn(agent)).ended.text == "fine"


# Limits and loops


async def test_a_loop_of_the_same_call_is_noted_and_then_ended() -> None:
    same = [call("add", {"a": 1, "b": 1}, id=f"c{number}") for number in range(9)]
    agent, model = agent_with(same)
    happened = await turn(agent)
    assert happened.ended.ending is Ending.LOOP
    assert len(model.requests) == 5
    results = [line for line in shown(agent.conversation.messages) if line.startswith("result")]
    assert results[1] == "result: 2"
    assert "made 3 times with the same arguments and the same result" in results[2]
    assert happened.of(AgentNotice)


async def test_the_same_call_after_a_change_is_no_loop() -> None:
    replies = [one for n in range(6) for one in (call("keep", {"text": str(n)}), call("add", {"a": 1, "b": 1}))]
    agent, _ = agent_with([*replies, "done"])
    assert (await turn(agent)).ended.ending is Ending.DONE


@pytest.mark.parametrize(
    ("limits", "name", "says"),
    [
        (AgentLimits(steps=2), "steps", "had 2 steps"),
        (AgentLimits(tokens=150), "tokens", "used 200 tokens; its limit is 150"),
        (AgentLimits(cost=0.5), "cost", "cost $0.6000; its limit is $0.5000"),
    ],
)
async def test_a_limit_ends_the_turn_in_words_and_the_next_one_goes_on(
    limits: AgentLimits, name: str, says: str
) -> None:
    usage = Usage(90, 10, cost=0.3)
    replies = [say("", call("add", {"a": n, "b": 1}), usage=usage) for n in range(2)]
    agent, _ = agent_with([*replies, say("ok", usage=usage)], limits=limits)
    happened = await turn(agent)
    assert happened.ended.ending is Ending.LIMIT
    assert says in happened.ended.problem
    assert happened.ended.limit == name
    assert happened.ended.suggestion == "Nothing is lost: say how to continue, or raise the limit."
    assert shown(agent.conversation.messages)[-1] == "result: 2"
    assert (await turn(agent, "go on")).ended.text == "ok"


async def test_time_that_is_up_stops_the_model_and_the_calls() -> None:
    waiting = Waiting()
    agent, model = agent_with([call("wait"), "ok"], waiting.tool, limits=AgentLimits(seconds=0.05))
    happened = await turn(agent)
    assert happened.ended.ending is Ending.LIMIT
    assert "0.05 s" in happened.ended.problem
    assert waiting.cancelled
    assert "which is its limit" in shown(agent.conversation.messages)[-1]
    assert model.streaming == 0


async def test_a_cost_limit_for_a_model_without_a_price_is_refused_before_it_is_asked() -> None:
    agent, model = agent_with(["ok"], limits=AgentLimits(cost=1))
    ended = (await turn(agent)).ended
    assert ended.ending is Ending.FAILED
    assert ended.problem == "The price of `scripted/test` is unknown, so its cost cannot be limited."
    assert "price=ModelPrice(input=…, output=…)" in ended.suggestion
    with pytest.raises(ModelError, match="price of `scripted/test` is unknown"):
        await agent.answer("go")
    assert model.requests == []


# Stopping and steering


async def test_an_interrupt_stops_the_model_in_mid_sentence() -> None:
    agent, model = agent_with(["A long sentence that is never heard to its end.", "Yes?"])

    def stop(event: object) -> None:
        if isinstance(event, TextDelta):
            agent.interrupt()

    happened = await turn(agent, on=stop)
    assert (happened.ended.ending, happened.ended.problem) == (Ending.INTERRUPTED, "")
    assert model.streaming == 0
    said = agent.conversation.messages[-1]
    assert isinstance(said, AssistantMessage)
    assert "A long sentence that is never heard to its end.".startswith(said.text)
    assert (await turn(agent, "Hello?")).ended.text == "Yes?"


async def test_an_interrupt_cancels_running_calls_and_keeps_what_was_done() -> None:
    waiting, records = Waiting(), Records()
    where = runtime(waiting.tool, recorders=[records])
    agent, _ = agent_with([say("", call("add", {"a": 1, "b": 1}), call("wait"))], runtime=where)

    added = asyncio.Event()

    async def stop() -> None:
        await waiting.begun.wait()
        await added.wait()
        agent.interrupt()

    happened, _ = await asyncio.gather(
        turn(agent, on=lambda one: added.set() if isinstance(one, Done) else None), stop()
    )
    assert happened.ended.ending is Ending.INTERRUPTED
    assert waiting.cancelled
    assert shown(agent.conversation.messages)[2:] == [
        "result: 2",
        "result: Error (cancelled_error): `wait` did not finish. The user stopped it.",
    ]
    assert [(one.tool, one.outcome) for one in records.all] == [("add", "success"), ("wait", "cancelled_error")]


async def test_an_interrupt_before_anything_happened_ends_the_turn() -> None:
    agent, model = agent_with(["never"])

    def stop(event: object) -> None:
        if isinstance(event, TurnStarted):
            agent.interrupt()

    assert (await turn(agent, on=stop)).ended.ending is Ending.INTERRUPTED
    assert model.streaming == 0


async def test_closing_the_stream_stops_everything() -> None:
    waiting = Waiting()
    agent, model = agent_with([call("wait"), "ok"], waiting.tool)
    stream = agent.run("go")
    async for event in stream:
        if isinstance(event, Pending):
            await waiting.begun.wait()
            break
    await stream.aclose()
    assert waiting.cancelled
    assert not agent.working
    assert "did not finish" in shown(agent.conversation.messages)[-1]
    assert (await turn(agent)).ended.text == "ok"
    assert model.streaming == 0


async def test_cancelling_whoever_reads_stops_everything() -> None:
    waiting = Waiting()
    agent, _ = agent_with([call("wait")], waiting.tool)
    reading = asyncio.ensure_future(turn(agent))
    await waiting.begun.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert waiting.cancelled
    assert not agent.working


async def test_steering_is_read_with_the_next_results() -> None:
    waiting = Waiting()
    agent, model = agent_with([call("wait"), "Two, then."], waiting.tool)

    async def steer() -> None:
        await waiting.begun.wait()
        agent.steer("Use two.")
        waiting.go_on.set()

    happened, _ = await asyncio.gather(turn(agent), steer())
    assert happened.of(Steered) == [Steered("Use two.")]
    assert shown(model.requests[1].messages)[-2:] == ["result: waited", "person: Use two."]


async def test_what_is_said_meanwhile_is_made_a_message_when_it_is_read() -> None:
    """So that a file it mentions is the one of then, and that it can be taken back until then."""
    waiting = Waiting()
    agent, model = agent_with([call("wait"), "Two, then."], waiting.tool)

    async def hear(text: str) -> UserMessage:
        if text == "Use two.":
            agent.steering.remove("Use two.")
        return UserMessage(f"{text} [seen]")

    agent.hear = hear

    async def steer() -> None:
        await waiting.begun.wait()
        agent.steer("Use one.")
        agent.steer("Use two.")
        agent.steer("Use three.")
        waiting.go_on.set()

    happened, _ = await asyncio.gather(turn(agent), steer())
    assert happened.of(Steered) == [Steered("Use one."), Steered("Use three.")]
    assert shown(model.requests[1].messages)[-2:] == ["person: Use one. [seen]", "person: Use three. [seen]"]


async def test_effort_goes_with_every_request_of_a_turn_and_changes_with_the_next() -> None:
    agent, model = agent_with([call("add", {"a": 1, "b": 2}), "Three.", "Fine."])
    agent.settings = ModelSettings(effort="high")
    events = agent.run("go")
    await anext(events)
    agent.settings = ModelSettings(effort="low")
    async for _ in events:
        pass
    await turn(agent)
    assert [request.settings.effort for request in model.requests] == ["high", "high", "low"]


async def test_steering_after_the_last_words_makes_the_model_go_on() -> None:
    agent, _ = agent_with(["Done.", "That too."])
    steered = False

    def more(event: object) -> None:
        nonlocal steered
        if isinstance(event, TextDelta) and not steered:
            steered = True
            agent.steer("And that?")

    assert (await turn(agent, on=more)).ended.text == "That too."
    assert shown(agent.conversation.messages) == ["person: go", "model: Done.", "person: And that?", "model: That too."]


async def test_steering_that_came_too_late_is_read_in_the_next_turn() -> None:
    agent, model = agent_with(["Done.", "I see."])
    await turn(agent)
    agent.steer("By the way.")
    await turn(agent, "Next.")
    assert shown(model.requests[1].messages)[-2:] == ["person: Next.", "person: By the way."]


# What a session knows of a turn


async def test_the_session_knows_the_turn_and_the_model() -> None:
    agent, _ = agent_with(["a", "b"])
    await turn(agent)
    await turn(agent)
    assert agent.session.turn == "2"
    assert agent.session.model == "scripted/test"


async def test_a_refused_call_is_told_to_the_model_with_the_person_s_reason() -> None:
    with ScriptedAsker(confirm.Answer(Choice.NO, "not that one")) as asker:
        where = runtime(policy=RulePolicy(), ask=asker)
        agent, _ = agent_with([call("keep", {"text": "x"}), "Understood."], runtime=where)
        assert (await turn(agent)).ended.text == "Understood."
    assert "They said: not that one" in shown(agent.conversation.messages)[2]


async def test_plan_mode_shows_and_runs_read_only_tools_alone() -> None:
    where = runtime(policy=RulePolicy(mode="plan", allow=["keep"]))
    agent, model = agent_with([call("keep", {"text": "x"}), "A plan."], runtime=where)
    await turn(agent)
    assert [one.name for one in model.requests[0].tools] == ["add", "repeat"]
    assert "The tool `keep` is not available in plan mode, which only reads." in shown(agent.conversation.messages)[2]
    where.policy = RulePolicy(allow=["keep"])
    assert "keep" in agent.tools.names(), "the mode may change between turns"


async def test_a_tool_outside_the_filter_does_not_exist_for_the_model() -> None:
    where = runtime()
    agent, _ = agent_with([call("keep", {"text": "x"}), "ok"], runtime=where, tools=where.tools.only(["add"]))
    await turn(agent)
    assert "There is no tool `keep`" in shown(agent.conversation.messages)[2]
    assert "kept" not in where.session.state


async def test_a_long_result_is_cut_and_says_how_to_get_the_rest() -> None:
    agent, _ = agent_with(
        [call("repeat", {"text": "line", "times": 5000}), "ok"], limits=AgentLimits(result_chars=2000)
    )
    happened = await turn(agent)
    results = agent.conversation.messages[2]
    assert isinstance(results, ToolResults)
    text = results.results[0].llm_content
    assert len(text) < 2500
    assert "characters were left out" in text
    assert "Ask for less at once" in text
    assert len(happened.of(Done)[0].result.llm_content) > 20_000, "whoever watches sees it whole"


async def test_many_long_results_of_one_answer_fit_the_context_together() -> None:
    calls = [call("repeat", {"text": "line", "times": 9000 + n}) for n in range(20)]
    agent, _ = agent_with([say("", *calls), "ok"], context_tokens=30_000)
    happened = await turn(agent)
    assert happened.ended.text == "ok"
    results = agent.conversation.messages[2]
    assert isinstance(results, ToolResults)
    assert sum(len(one.llm_content) for one in results.results) < 30_000


# Making room


async def test_a_conversation_that_is_too_long_for_the_model_is_made_shorter_and_asked_again_once() -> None:
    too_long = ModelError(ModelFault.TOO_LONG, "Too long.")
    calls = [call("repeat", {"text": f"line {n}", "times": 900}) for n in range(8)]
    agent, model = agent_with([*calls, too_long, "A summary.", "Done."])
    happened = await turn(agent)
    assert happened.ended.text == "Done."
    (compacted,) = happened.of(Compacted)
    assert compacted.after_tokens < compacted.before_tokens
    assert len(str(model.requests[-1].messages)) < len(str(model.requests[-3].messages))


async def test_a_conversation_that_stays_too_long_fails_in_words() -> None:
    too_long = ModelError(ModelFault.TOO_LONG, "Too long.")
    agent, _ = agent_with([too_long, "never"])
    happened = await turn(agent)
    assert (happened.ended.ending, happened.ended.problem) == (Ending.FAILED, "Too long.")


async def test_room_is_made_before_the_context_is_full() -> None:
    calls = [call("repeat", {"text": f"line {n}", "times": 300}) for n in range(12)]

    def summary_or_call(request: ModelRequest) -> ScriptedAnswer:
        asked = request.messages[0]
        if isinstance(asked, UserMessage) and "Write a summary" in asked.text:
            return "## Task\nRepeat."
        return calls.pop(0) if calls else "Done."

    agent, model = agent_with([summary_or_call] * 30, context_tokens=8_000)
    happened = await turn(agent, "Repeat things.")
    assert happened.ended.text == "Done."
    assert any(one.summary for one in happened.of(Compacted))
    for request in model.requests:
        assert len(str([getattr(one, "text", "") for one in request.messages])) < 40_000
    assert shown(agent.conversation.messages)[0] == "person: Repeat things."


async def test_usage_of_summaries_counts_into_the_turn() -> None:
    agent, _ = agent_with(["one " * 500, "two " * 500, "three", "four", "five", "six", say("S", usage=Usage(7, 3))])
    for text in ("aaa", "b", "c", "d", "e", "f"):
        await turn(agent, text)
    before = agent.conversation.usage
    compacted = await agent.compact()
    assert compacted is not None
    assert agent.conversation.usage.input_tokens == before.input_tokens + 7
    assert shown(agent.conversation.messages)[0].startswith("person: aaa")
