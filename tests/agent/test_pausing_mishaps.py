"""What must hold when a turn that pauses meets faults, odd ids, references and rewritten states (P4, P6, X4)."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from ferrule import Answer, Choice, RawCall, RulePolicy, Runtime, ToolContext, tool
from ferrule.agent import Agent, Conversation, Ending, TurnStateError, TurnStore
from ferrule.core.model import ToolResults, Usage
from ferrule.testing import ScriptedModel, call, say
from ferrule.tools import builtin_tools

from .room import shown
from .test_pausing import Shop, shop

__all__ = ["shop"]


def fail_from(store: TurnStore, number: int) -> None:
    """Have the store refuse the entry of this number and all after it."""
    extend, count = store.extend, iter(range(1, 1000))

    def extended(*given: Any) -> None:
        if next(count) >= number:
            raise TurnStateError("The disk is full.")
        extend(*given)

    store.extend = extended  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("number", range(2, 9))
async def test_nothing_starts_that_could_not_be_kept(shop: Shop, number: int) -> None:
    """Else it would start again once the turn is resumed."""
    calls = say("", call("refund", {"order": 1}), call("refund", {"order": 2}))
    store = TurnStore(shop.folder / "turns.db")
    policy = RulePolicy(allow=["refund"])
    agent = shop.agent([calls, "Done."], policy=policy, turns=store)
    fail_from(store, number)
    with pytest.raises(TurnStateError, match="disk is full"):
        await agent.answer("Go.")
    with pytest.raises(TurnStateError):
        await agent.answer("And now?")
    for turn in TurnStore(shop.folder / "turns.db").turns():
        await shop.agent(["Done.", "Done."], policy=policy).resume(turn.state)
    assert len(shop.did) == len(set(shop.did))


async def test_a_command_that_was_tried_runs_once_approved(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()

    def agent(replies: list[Any]) -> Agent[None, str]:
        tools = builtin_tools(tmp_path / "work")
        runtime = Runtime(tools, ask=lambda question: "later", policy=RulePolicy())
        return Agent(ScriptedModel(replies), runtime=runtime, turns=TurnStore(tmp_path / "turns.db"))

    paused = await agent([call("Bash", {"command": "echo hello > f.txt"})]).answer("Go.")
    assert "f.txt" in paused.waiting[0].preview
    assert not (tmp_path / "work" / "f.txt").exists()
    await agent(["Done."]).resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert (tmp_path / "work" / "f.txt").read_text() == "hello\n"


async def test_no_means_no_although_always_was_said_to_another_call(shop: Shop) -> None:
    calls = say("", call("refund", {"order": 1}, id="a"), call("refund", {"order": 2}, id="b"))
    paused = await shop.agent([calls]).answer("Go.")
    await shop.agent(["Done."]).resume(paused.state, answers={"a": "always", "b": Answer(Choice.NO, "not that")})
    assert shop.did == ["refund 1"]


async def test_references_follow_what_waited(shop: Shop) -> None:
    locate, look = call("locate", {"what": "x"}, id="l"), call("look", {"number": {"$ref": "l.x"}})
    paused = await shop.agent([say("", locate, look)]).answer("Go.")
    assert [one.id for one in paused.waiting] == ["l"]
    agent = shop.agent(["Done."])
    await agent.resume(paused.state, results={"l": {"x": 5}})
    assert shop.did == ["look 5"]


async def test_a_reference_to_what_failed_before_the_pause_runs_nothing(shop: Shop) -> None:
    @tool(kind="readonly")
    def fetch() -> int:
        """Fetch a number."""
        raise ValueError("gone")

    calls = say(
        "", call("fetch", id="f"), call("refund", {"order": 1}, id="r"), call("look", {"number": {"$ref": "f"}})
    )
    paused = await shop.agent([calls], fetch).answer("Go.")
    agent = shop.agent(["Done."], fetch)
    await agent.resume(paused.state, answers={"r": "once"})
    assert shop.did == ["refund 1"]
    assert "uses the result of `f`, which failed" in shown(agent.conversation.messages)[-2]


async def test_data_that_held_a_secret_is_not_used_without_it(shop: Shop) -> None:
    secret, used = "sk-ant-api03-" + "a1B2" * 20, list[str]()

    @tool(kind="readonly")
    def login() -> dict[str, str]:
        """Log in."""
        return {"token": secret}

    @tool(kind="readonly")
    def use(token: str) -> str:
        """Use a token."""
        used.append(token)
        return "used"

    calls = say(
        "", call("login", id="l"), call("refund", {"order": 1}, id="r"), call("use", {"token": {"$ref": "l.token"}})
    )
    paused = await shop.agent([calls], login, use).answer("Go.")
    agent = shop.agent(["Done."], login, use)
    await agent.resume(paused.state, answers={"r": "once"})
    assert used in ([], [secret])
    assert secret not in paused.state


async def test_what_is_no_secret_runs_as_it_was(shop: Shop) -> None:
    written = list[str]()

    @tool(kind="write")
    def put(text: str) -> str:
        """Write a text."""
        written.append(text)
        return "put"

    texts = [json.dumps({"a": list(range(3000))}, indent=4), "[NaN, 1]", "é\u2028 \x00", '{"a": 1, "a": 2}']
    calls = say("", *(call("put", {"text": text}) for text in texts))
    paused = await shop.agent([calls], put).answer("Go.")
    await shop.agent(["Done."], put).resume(paused.state, answers={one.id: "once" for one in paused.waiting})
    assert written == texts


async def test_a_reading_tool_that_changed_something_through_another_is_not_run_again(shop: Shop) -> None:
    @tool(kind="readonly")
    async def both(context: ToolContext) -> str:
        """Refund in passing."""
        await context.call("refund", {"order": 1})
        open_turn = context._keeper[0]._open if context._keeper else None
        assert open_turn is not None
        assert context.call_id in open_turn.began
        return "done"

    policy = RulePolicy(allow=["refund"])
    agent = shop.agent([call("both"), "Done."], both, policy=policy)
    assert (await agent.answer("Go.")).output == "Done."
    assert "result: done" in shown(agent.conversation.messages)


async def test_an_agent_inside_a_tool_is_not_taken_for_the_one_outside(shop: Shop) -> None:
    @tool(kind="readonly")
    async def helper(context: ToolContext) -> str:
        """Have an agent look."""
        model = ScriptedModel([call("look", {"number": 1}, id="call_1"), "Inner."])
        return (await Agent(model, [shop.look], parent=context).answer("Look.")).output

    calls = say("", call("helper", id="call_1"), call("locate", {"what": "x"}, id="call_2"))
    paused = await shop.agent([calls], helper).answer("Go.")
    agent = shop.agent(["Done."], helper)
    await agent.resume(paused.state, results={"call_2": {}})
    assert shown(agent.conversation.messages)[2:4] == ["result: Inner.", "result: {}"]


async def test_half_a_surrogate_pair_in_arguments_is_kept(shop: Shop) -> None:
    """Models write such text, and without a store it ends no turn."""
    agent = shop.agent([RawCall("look", '{"number": "\ud83d"}', id="c"), "Done."])
    assert (await agent.answer("Go.")).output == "Done."
    loaded = Conversation.load(agent.conversation.dump())
    assert shown(loaded.messages) == shown(agent.conversation.messages)


@pytest.mark.parametrize("kept", [False, True])
async def test_the_model_checks_what_was_stopped_while_it_ran(kept: bool) -> None:
    """A thread goes on to its end whatever the user does (M1). A call that had not begun has done nothing."""
    begun, ended = threading.Event(), threading.Event()

    @tool(kind="write")
    def pay(order: int) -> str:
        """Pay an order."""
        begun.set()
        ended.wait(10)
        return "paid"

    calls = say("", call("pay", {"order": 1}), call("pay", {"order": 2}))
    runtime = Runtime([pay], policy=RulePolicy(allow=["pay"]))
    agent = Agent(ScriptedModel([calls]), runtime=runtime, turns=TurnStore() if kept else None)
    turn = asyncio.create_task(agent.answer("Go."))
    while not begun.is_set():
        await asyncio.sleep(0.01)
    agent.interrupt()
    assert (await turn).ending is Ending.INTERRUPTED
    ended.set()
    results = agent.conversation.messages[-1]
    assert isinstance(results, ToolResults)
    check = "\n\nSuggestion: Check whether it is done before you do it again."
    first, second = [one.llm_content.removeprefix("Error (cancelled_error): ") for one in results.results]
    assert first == "`pay` did not finish. The user stopped it." + check
    assert second == "`pay` did not finish. The user stopped it." + ("" if kept else check)


async def test_slashes_in_ids_name_one_call_each(shop: Shop) -> None:
    lower = Agent(ScriptedModel([call("locate", {"what": "low"}, id="1")]), [shop.locate])
    calls = say("", call("helper", {"prompt": "x"}, id="h"), call("locate", {"what": "up"}, id="h/1"))
    paused = await shop.agent([calls], lower.as_tool("helper", "Helps.")).answer("Go.")
    named = {one.arguments["what"]: one.id for one in paused.waiting}
    assert named == {"low": "h/1", "up": "h%2F1"}
    lower = Agent(ScriptedModel(["Low."]), [shop.locate])
    agent = shop.agent(["Done."], lower.as_tool("helper", "Helps."))
    await agent.resume(paused.state, results={named["low"]: {"l": 1}, named["up"]: {"u": 1}})
    assert shown(agent.conversation.messages)[2:4] == ["result: Low.", 'result: {"u":1}']


@pytest.mark.parametrize("cost", [0.0, 1.0, 0.5, 1e16])
async def test_a_state_whose_json_was_written_anew_is_the_same(shop: Shop, cost: float) -> None:
    """JavaScript writes 1.0 as 1, and databases sort keys."""
    paused = await shop.agent([say("", call("refund", {"order": 7}), usage=Usage(1, 1, cost=cost))]).answer("Go.")

    def rewritten(value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, dict):
            return {key: rewritten(value[key]) for key in reversed(list(value))}
        return [rewritten(one) for one in value] if isinstance(value, list) else value

    state = json.dumps(rewritten(json.loads(paused.state)), indent=2)
    ended = await shop.agent(["Done."]).resume(state, answers={paused.waiting[0].id: "once"})
    assert ended.ending is Ending.DONE


async def test_reasons_and_errors_keep_no_secret(shop: Shop) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    calls = say("", call("refund", {"order": 1}, id="r"), call("locate", {"what": "x"}, id="l"))
    paused = await shop.agent([calls]).answer("Go.")
    again = await shop.agent([]).resume(paused.state, answers={"r": Answer(Choice.NO, f"because of {secret}")})
    assert secret not in again.state


async def test_what_sub_agents_used_counts_when_the_same_agent_goes_on(shop: Shop) -> None:
    usage = Usage(10, 5, cost=0.02)
    lower = Agent(
        ScriptedModel([say("", call("refund", {"order": 7}), usage=usage), say("R.", usage=usage)]), [shop.refund]
    )
    calls = say("", call("helper", {"prompt": "x"}), usage=usage)
    agent = shop.agent([calls, say("End.", usage=usage)], lower.as_tool("helper", "Helps."))
    paused = await agent.answer("Go.")
    ended = await agent.resume(answers={paused.waiting[0].id: "once"})
    assert ended.usage.cost == pytest.approx(0.08)


async def test_a_conversation_is_not_summarised_while_it_waits(shop: Shop) -> None:
    agent = shop.agent([call("refund", {"order": 7}), "Done."])
    paused = await agent.answer("Go.")
    with pytest.raises(RuntimeError, match="resume it first"):
        await agent.compact()
    assert (await agent.resume(answers={paused.waiting[0].id: "once"})).output == "Done."


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
async def test_a_store_is_used_on_both_sides_of_a_fork(shop: Shop) -> None:
    """A server that loads its program once and forks has one in every process."""
    store = TurnStore(shop.folder / "turns.db")
    paused = await shop.agent([call("refund", {"order": 7})], turns=store).answer("Go.")
    children: list[int] = []
    for _ in range(3):
        child = os.fork()
        if not child:
            os._exit(0 if len(store.turns(paused=True)) == 1 else 1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children] == [0, 0, 0]
    ended = await shop.agent(["Done."], turns=store).resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert ended.output == "Done."
