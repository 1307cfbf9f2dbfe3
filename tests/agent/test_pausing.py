"""A turn pauses for approvals and for results from elsewhere, and goes on in any process (P4, P6, M1, X4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ferrule import Answer, Caller, Choice, ErrorKind, RulePolicy, Runtime, Session, ToolContext, ToolError, tool
from ferrule.agent import Agent, AgentLimits, Conversation, Ending, TurnEnded, TurnStateError, TurnStore
from ferrule.core.events import Done
from ferrule.core.model import Usage
from ferrule.pipeline.stages import Decision, Verdict
from ferrule.testing import ScriptedModel, call, say

from .room import Records, shown


class Shop:
    """Tools that note what they did, and agents over one store that a test may open again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.did: list[str] = []
        did = self.did

        @tool(kind="execute", requires_permission=True)
        def refund(order: int) -> str:
            """Refund an order."""
            did.append(f"refund {order}")
            return f"refunded {order}"

        @tool(kind="readonly", deferred=True)
        def locate(what: str) -> dict[str, int]:
            """Find where something is."""
            raise NotImplementedError

        @tool(kind="readonly")
        def look(number: int) -> int:
            """Look at a number."""
            did.append(f"look {number}")
            return number * 2

        self.refund, self.locate, self.look = refund, locate, look

    def agent(self, replies: list[Any], *more: Any, **options: Any) -> Agent[Any, Any]:
        store = options.pop("turns", None) or TurnStore(self.folder / "turns.db")
        given = {key: options.pop(key) for key in ("recorders", "session", "policy") if key in options}
        ask = options.pop("ask", lambda question: "later")
        tools = [self.refund, self.locate, self.look, *more]
        return Agent(ScriptedModel(replies), runtime=Runtime(tools, ask=ask, **given), turns=store, **options)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def waits(ended: TurnEnded[Any]) -> list[tuple[str, str]]:
    return [(one.kind, one.tool) for one in ended.waiting]


async def test_an_approval_is_given_a_day_later_in_another_process(shop: Shop) -> None:
    paused = await shop.agent([call("refund", {"order": 7})]).answer("Refund order 7.")
    assert (paused.ending, waits(paused), shop.did) == (Ending.PAUSED, [("approval", "refund")], [])
    (one,) = paused.waiting
    assert (one.arguments, one.reason) == ({"order": 7}, "the tool requires permission")
    ended = await shop.agent(["Done."]).resume(paused.state, answers={one.id: "once"})
    assert (ended.output, shop.did) == ("Done.", ["refund 7"])


async def test_a_denial_is_read_by_the_model_with_its_reason(shop: Shop) -> None:
    paused = await shop.agent([call("refund", {"order": 7})]).answer("Refund order 7.")
    agent = shop.agent(["I see."])
    await agent.resume(paused.state, answers={paused.waiting[0].id: Answer(Choice.NO, "too much")})
    assert shop.did == []
    assert "They said: too much" in shown(agent.conversation.messages)[2]


async def test_everything_that_an_answer_waits_for_is_listed_at_once(shop: Shop) -> None:
    """Although one comes after the other: nobody wants to be asked again for each."""
    calls = say("", *(call("refund", {"order": n}) for n in range(3)), call("locate", {"what": "x"}))
    records = Records()
    paused = await shop.agent([calls], recorders=[records]).answer("Refund all.")
    assert waits(paused) == [("approval", "refund")] * 3 + [("result", "locate")]
    assert [one.outcome for one in records.all] == ["deferred_error"] * 4
    answers = {one.id: "once" for one in paused.waiting if one.kind == "approval"}
    results = {one.id: {"x": 1} for one in paused.waiting if one.kind == "result"}
    agent = shop.agent(["Done."])
    await agent.resume(paused.state, answers=answers, results=results)
    assert shop.did == ["refund 0", "refund 1", "refund 2"]
    assert shown(agent.conversation.messages)[2:] == [
        "result: refunded 0", "result: refunded 1", "result: refunded 2", 'result: {"x":1}', "model: Done.",
    ]  # fmt: skip


async def test_what_is_left_out_is_waited_for_again_and_nothing_runs_twice(shop: Shop) -> None:
    calls = say("", call("look", {"number": 1}), call("locate", {"what": "x"}), call("refund", {"order": 7}))
    paused = await shop.agent([calls]).answer("Go.")
    by_kind = {one.kind: one.id for one in paused.waiting}
    again = await shop.agent([]).resume(paused.state, answers={by_kind["approval"]: "once"})
    assert (waits(again), shop.did) == ([("result", "locate")], ["look 1"])
    ended = await shop.agent(["Done."]).resume(again.state, results={by_kind["result"]: {"x": 1}})
    assert (ended.output, shop.did) == ("Done.", ["look 1", "refund 7"])


async def test_a_call_runs_only_after_those_before_it(shop: Shop) -> None:
    """What comes after a call that waits sees what that call will have changed."""
    path = shop.folder / "file"

    @tool(kind="write", requires_permission=True, touches=lambda params: [])
    def other() -> str:
        """Touch nothing."""
        shop.did.append("other")
        return "done"

    @tool(kind="readonly")
    def read() -> str:
        """Read what there is."""
        return path.read_text() if path.exists() else "nothing"

    @tool(kind="write", requires_permission=True)
    def write() -> str:
        """Write the file."""
        path.write_text("written")
        return "written"

    paused = await shop.agent([say("", call("write"), call("read"))], write, read).answer("Go.")
    assert waits(paused) == [("approval", "write")]
    agent = shop.agent(["Done."], write, read)
    await agent.resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert shown(agent.conversation.messages)[2:4] == ["result: written", "result: written"]


async def test_a_policy_can_defer_an_approval(shop: Shop) -> None:
    class Managers:
        def decide(self, invocation: Any, session: Session) -> Decision:
            return Decision(Verdict.ASK, "a manager must agree", deferred=True)

        def remember(self, invocation: Any, session: Session) -> None: ...

    def nobody(question: Any) -> str:
        raise AssertionError("the user at hand is not asked")

    paused = await shop.agent([call("look", {"number": 1})], policy=Managers(), ask=nobody).answer("Go.")
    assert (paused.ending, paused.waiting[0].reason) == (Ending.PAUSED, "a manager must agree")


async def test_a_tool_can_say_itself_that_its_result_comes_later(shop: Shop) -> None:
    @tool(kind="write")
    def ship(parcel: int) -> str:
        """Have a parcel shipped."""
        shop.did.append(f"ship {parcel}")
        raise ToolError("The carrier has it.", kind=ErrorKind.DEFERRED, details={"ticket": 3})

    policy = RulePolicy(allow=["ship"])
    paused = await shop.agent([call("ship", {"parcel": 1})], ship, policy=policy).answer("Go.")
    assert (paused.waiting[0].kind, paused.waiting[0].details) == ("result", {"ticket": 3})
    again = await shop.agent([], ship, policy=policy).resume(paused.state)
    ended = await shop.agent(["Done."], ship, policy=policy).resume(
        again.state, results={again.waiting[0].id: "It arrived."}
    )
    assert (ended.output, shop.did) == ("Done.", ["ship 1"])


async def test_a_result_may_be_an_error(shop: Shop) -> None:
    paused = await shop.agent([call("locate", {"what": "x"})]).answer("Go.")
    agent = shop.agent(["Sorry."])
    await agent.resume(paused.state, results={paused.waiting[0].id: ToolError("It is lost.", suggestion="Look.")})
    assert shown(agent.conversation.messages)[2] == "result: Error (execution_error): It is lost.\n\nSuggestion: Look."


async def test_what_was_approved_is_what_runs(shop: Shop) -> None:
    """A call that would do something else by now asks again."""
    shown_now = ["one"]

    @tool(kind="write", summary=lambda params: f"write to {shown_now[0]}")
    def write() -> str:
        """Write."""
        shop.did.append(shown_now[0])
        return "written"

    paused = await shop.agent([call("write")], write).answer("Go.")
    shown_now[0] = "another"
    again = await shop.agent([], write).resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert (again.waiting[0].summary, shop.did) == ("write to another", [])
    await shop.agent(["Done."], write).resume(again.state, answers={again.waiting[0].id: "once"})
    assert shop.did == ["another"]


async def test_a_rule_that_denies_by_now_is_stronger_than_the_answer(shop: Shop) -> None:
    paused = await shop.agent([call("refund", {"order": 7})]).answer("Go.")
    agent = shop.agent(["No."], policy=RulePolicy(deny=["refund"]))
    await agent.resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert shop.did == []


async def test_slips_are_refused_and_use_up_nothing(shop: Shop) -> None:
    calls = say("", call("locate", {"what": "x"}, id="l"), call("refund", {"order": 7}, id="r"))
    paused = await shop.agent([calls]).answer("Go.")
    agent = shop.agent(["Done."])
    for given_, words in (
        ({"results": {"k": 1}}, "does not wait for a call `k`. It waits for `l`, `r`."),
        ({"results": {"l": "text"}}, "expected object, got string"),
        ({"results": {"l": {"\ud800": 1}}}, "not valid Unicode"),
        ({"results": {"r": 1}}, "`r` (refund) waits for an approval: give it in `answers`"),
        ({"answers": {"l": "once"}}, "`l` (locate) waits for a result: give it in `results`"),
        ({"answers": {"r": "yes"}}, 'is "once", "always" or "no", not \'yes\''),
    ):
        with pytest.raises(ValueError, match=r".") as problem:
            await agent.resume(paused.state, **given_)  # pyright: ignore[reportArgumentType]
        assert words in str(problem.value)
    with pytest.raises(TypeError, match="`results` is a dict"):
        await agent.resume(paused.state, results=[{"x": 1}])  # pyright: ignore[reportArgumentType]
    ended = await agent.resume(paused.state, answers={"r": "once"}, results={"l": {}})
    assert ended.output == "Done."


# A state is trusted only as it was sealed, by its own user, once, and in time


async def test_a_state_is_resumed_once(shop: Shop) -> None:
    paused = await shop.agent([call("refund", {"order": 7})]).answer("Go.")
    answers = {paused.waiting[0].id: "once"}

    async def resumed() -> str:
        try:
            return (await shop.agent(["Done."]).resume(paused.state, answers=answers)).output
        except TurnStateError as error:
            return str(error)

    ends = await asyncio.gather(resumed(), resumed(), resumed())
    assert (ends.count("Done."), shop.did) == (1, ["refund 7"])
    assert all("resumed already" in one or "works on this turn" in one for one in ends if one != "Done.")
    assert "resumed already" in await resumed()


@pytest.mark.parametrize("change", [
    lambda state: state.replace('"order":7', '"order":70'),
    lambda state: json.dumps({**json.loads(state), "entries": json.loads(state)["entries"][:-1]}),
    lambda state: json.dumps({**json.loads(state), "seal": "0" * 64}),
    lambda state: json.dumps({**json.loads(state), "entries": []}),
    lambda state: json.dumps({"ferrule_turn": 1, "entries": [{"id": "x"}], "seal": ""}),
])  # fmt: skip
async def test_a_state_that_was_changed_is_refused(shop: Shop, change: Callable[[str], str]) -> None:
    paused = await shop.agent([call("refund", {"order": 7})]).answer("Go.")
    with pytest.raises(TurnStateError, match="not as Ferrule sealed it"):
        await shop.agent(["Done."]).resume(change(paused.state), answers={paused.waiting[0].id: "once"})
    assert shop.did == []


@given(st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_change_of_a_state_goes_unnoticed(shop: Shop, data: st.DataObject) -> None:
    async def fuzzed() -> None:
        paused = await shop.agent([call("refund", {"order": 7})], turns=TurnStore()).answer("Go.")
        state = paused.state
        at = data.draw(st.integers(0, 10_000)) % len(state)
        piece = data.draw(st.sampled_from(["", "0", "9", "x", '"', "{", "[", "null", "\\", "é", "once"]))
        changed = state[:at] + piece + state[at + data.draw(st.integers(0, 3)) :]
        with_same_values = False
        with suppress(ValueError, RecursionError):
            with_same_values = json.loads(changed) == json.loads(state)
        if not with_same_values:
            with pytest.raises(TurnStateError):
                await shop.agent(["Done."]).resume(changed, answers={paused.waiting[0].id: "once"})
        assert shop.did == []

    asyncio.run(fuzzed())


@pytest.mark.parametrize("state", ["", "nonsense", "[]", "null", "1", "{}", '{"ferrule_turn": 2}', "[" * 100_000])
async def test_what_is_no_state_is_refused(shop: Shop, state: str) -> None:
    with pytest.raises(TurnStateError):
        await shop.agent([]).resume(state)


async def test_another_key_another_store_and_another_user_are_refused(shop: Shop, tmp_path: Path) -> None:
    one, two = "first key of sixteen", "second key of sixteen"
    path = tmp_path / "keyed.db"
    paused = await shop.agent([call("refund", {"order": 7})], turns=TurnStore(path, key=one)).answer("Go.")
    cases = {
        "sealed with another key": {"turns": TurnStore(path, key=two)},
        "This store has no such turn": {"turns": TurnStore(tmp_path / "other.db", key=one)},
        "belongs to another user": {
            "turns": TurnStore(path, key=one),
            "session": Session(caller=Caller(user="eve")),
        },
    }
    for words, options in cases.items():
        with pytest.raises(TurnStateError, match=words):
            await shop.agent([], **options).resume(paused.state)
    # A new key seals from now on, and the old one still opens.
    rotated = TurnStore(path, key=[two, one])
    ended = await shop.agent(["Done."], turns=rotated).resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert ended.output == "Done."


async def test_a_state_expires(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TurnStore(expires=60)
    paused = await shop.agent([call("refund", {"order": 7})], turns=store).answer("Go.")
    later = time() + 4000
    monkeypatch.setattr("ferrule.agent.turn_store.time", lambda: later)
    with pytest.raises(TurnStateError, match="expired"):
        await shop.agent([], turns=store).resume(paused.state, answers={paused.waiting[0].id: "once"})
    await shop.agent(["Hi."], turns=store).answer("Something else.")
    assert store.turns() == []


async def test_a_turn_that_the_user_talked_past_is_over(shop: Shop) -> None:
    agent = shop.agent([call("refund", {"order": 7}), "Fine."])
    paused = await agent.answer("Refund order 7.")
    await agent.answer("Leave it.")
    assert "did not finish. The user went on without it." in shown(agent.conversation.messages)[2]
    with pytest.raises(TurnStateError, match="gone on"):
        await shop.agent([]).resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert shop.did == []


async def test_the_key_is_the_owner_s_alone(shop: Shop, tmp_path: Path) -> None:
    await shop.agent(["Hi."]).answer("Hello.")
    for name in ("turns.db", "turns.db.key"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_a_store_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_text("something else entirely")
    for path in (tmp_path / "other.db", tmp_path, tmp_path / "other.db" / "below"):
        with pytest.raises(TurnStateError, match="cannot be kept in"):
            TurnStore(path)
    with pytest.raises(ValueError, match="at least 16 secret bytes"):
        TurnStore(key="short")
    for expires in (0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="above 0"):
            TurnStore(expires=expires)


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_was_removed_is_noticed_before_anything_runs(shop: Shop, replaced: bool) -> None:
    """Else the call would run, and a copy of the file would let it run again."""
    store, file = TurnStore(shop.folder / "turns.db"), shop.folder / "turns.db"
    paused = await shop.agent([call("refund", {"order": 7})], turns=store).answer("Go.")
    file.rename(shop.folder / "away.db")
    if replaced:
        TurnStore(file)
    with pytest.raises(TurnStateError, match="file was removed or replaced"):
        await shop.agent(["Done."], turns=store).resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert shop.did == []
    if not replaced:
        (shop.folder / "away.db").rename(file)
        await shop.agent(["Done."], turns=store).resume(paused.state, answers={paused.waiting[0].id: "once"})
        assert shop.did == ["refund 7"]


async def test_a_state_has_no_secrets(shop: Shop) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    calls = say("", call("locate", {"what": secret}), call("refund", {"order": 7}))
    paused = await shop.agent([calls]).answer(f"My key is {secret}.", deps={"password": "hunter2"})
    assert secret not in paused.state
    assert "hunter2" not in paused.state
    assert secret not in repr(paused.waiting)


async def test_a_call_whose_secret_was_left_out_is_not_run_with_less(shop: Shop) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20

    @tool(kind="write")
    def send(text: str) -> str:
        """Send a text."""
        shop.did.append(text)
        return "sent"

    paused = await shop.agent([call("send", {"text": secret})], send).answer("Send it.")
    agent = shop.agent(["I see."], send)
    await agent.resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert shop.did == []
    assert "its arguments held a secret, which is not kept" in shown(agent.conversation.messages)[2]


# Sub-agents, budgets, outputs, handovers


def nested(shop: Shop, replies: list[Any], lower: list[Any], **options: Any) -> Agent[Any, Any]:
    helper = Agent(ScriptedModel(lower), [shop.refund, shop.look])
    return shop.agent(replies, helper.as_tool("helper", "Helps."), **options)


async def test_what_a_sub_agent_waits_for_pauses_the_turn_above(shop: Shop) -> None:
    calls = say("", call("look", {"number": 1}), call("helper", {"prompt": "Refund."}))
    lower = [call("look", {"number": 5}), call("refund", {"order": 7})]
    paused = await nested(shop, [calls], lower).answer("Go.")
    (one,) = paused.waiting
    assert (one.tool, one.id.count("/"), shop.did) == ("refund", 1, ["look 1", "look 5"])
    ended = await nested(shop, ["All done."], ["Refunded."]).resume(paused.state, answers={one.id: "once"})
    assert (ended.output, shop.did) == ("All done.", ["look 1", "look 5", "refund 7"])


async def test_a_sub_agent_waits_more_than_once(shop: Shop) -> None:
    """A call that is approved first, and whose result comes from elsewhere then, has run nothing of its own."""

    @tool(kind="write", deferred=True)
    def ship(order: int) -> str:
        """Have a carrier ship an order."""
        raise NotImplementedError

    def agent(replies: list[Any], lower: list[Any]) -> Agent[Any, Any]:
        helper = Agent(ScriptedModel(lower), [shop.refund, ship])
        return shop.agent(replies, helper.as_tool("helper", "Helps."))

    calls = say("", call("refund", {"order": 7}), call("ship", {"order": 7}))
    above = agent([call("helper", {"prompt": "Both."})], [calls])
    ended = await above.answer("Go.")
    waited: list[str] = []
    while ended.ending is Ending.PAUSED:
        last = ended.waiting[-1]
        waited.append(f"{last.tool} {last.kind}")
        given_: dict[str, Any] = {"results": {last.id: "shipped"}} if last.kind == "result" else {}
        above = agent(["All done."], ["Refunded and shipped."])
        ended = await above.resume(ended.state, **(given_ or {"answers": {last.id: "once"}}))
    assert waited == ["ship approval", "ship result", "refund approval"]
    assert (ended.output, shop.did) == ("All done.", ["refund 7"])
    assert "Refunded and shipped." in shown(above.conversation.messages)[-2]


async def test_what_was_used_before_the_pause_counts(shop: Shop) -> None:
    """Also what a sub-agent used (P9)."""
    usage = Usage(10, 5, cost=0.02)
    calls = say("", call("helper", {"prompt": "Refund."}), usage=usage)
    lower = [say("", call("refund", {"order": 7}), usage=usage)]
    limits = AgentLimits(cost=0.05)
    paused = await nested(shop, [calls], lower, limits=limits).answer("Go.")
    assert paused.usage.cost == pytest.approx(0.04)
    agent = nested(shop, [say("End.", usage=usage)], [say("Refunded.", usage=usage)], limits=limits)
    ended = await agent.resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert (ended.ending, ended.limit, ended.steps) == (Ending.LIMIT, "cost", 1)
    assert ended.usage.cost == pytest.approx(0.06)
    assert agent.conversation.usage.cost == pytest.approx(0.06)


async def test_a_typed_output_and_a_handover_survive_the_pause(shop: Shop) -> None:
    class Report(BaseModel):
        order: int

    def agent(replies: list[Any]) -> Agent[Any, Any]:
        billing = Agent(ScriptedModel(replies[1:]), [shop.refund], system="Billing.")
        return shop.agent(replies[:1], billing.as_handoff("to_billing", "Hand over."), output=Report)

    final = call("final_answer", {"order": 7})
    paused = await agent([call("to_billing", {}), call("refund", {"order": 7})]).answer("Go.")
    resumed = agent(["unused", final])
    ended = await resumed.resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert ended.output == Report(order=7)
    assert resumed.active.system == "Billing."


async def test_events_of_a_resumed_turn_are_those_of_any_turn(shop: Shop) -> None:
    paused = await shop.agent([call("refund", {"order": 7})]).answer("Go.")
    events = [
        one async for one in shop.agent(["Done."]).resume_run(paused.state, answers={paused.waiting[0].id: "once"})
    ]
    assert [one.result.llm_content for one in events if isinstance(one, Done)] == ["refunded 7"]
    assert isinstance(events[-1], TurnEnded)


async def test_a_store_lists_what_waits_and_what_was_left(shop: Shop) -> None:
    store = TurnStore()
    session = Session(caller=Caller(tenant="t", user="ann"))
    paused = await shop.agent([call("refund", {"order": 7})], turns=store, session=session).answer("Go.")
    (one,) = store.turns(paused=True)
    assert (one.tenant, one.user, one.waiting, one.state) == ("t", "ann", paused.waiting, paused.state)
    assert store.turns(paused=False) == []
    store.remove(one.id)
    assert store.turns() == []


async def test_where_nothing_can_wait_later_is_a_refusal(shop: Shop) -> None:
    runtime = Runtime([shop.refund, shop.locate], ask=lambda question: "later")
    result = await runtime.run("refund", {"order": 7})
    assert result.error is not None
    assert (result.error.kind, shop.did) == (ErrorKind.PERMISSION, [])
    result = await runtime.run("locate", {"what": "x"})
    assert result.llm_content == (
        "Error (deferred_error): `locate` was not run: its result comes from elsewhere, and nothing can wait for it "
        "here.\n\nSuggestion: An agent that has a TurnStore can wait for it."
    )
    agent = Agent(ScriptedModel([call("refund", {"order": 7}), "I see."]), runtime=runtime)
    assert (await agent.answer("Go.")).output == "I see."


async def test_a_tool_s_own_calls_cannot_wait(shop: Shop) -> None:
    @tool(kind="readonly")
    async def both(context: ToolContext) -> str:
        """Refund both."""
        return (await context.call("refund", {"order": 1})).llm_content

    agent = shop.agent([call("both"), "I see."], both)
    assert (await agent.answer("Go.")).output == "I see."
    assert "approval isn't available here" in shown(agent.conversation.messages)[2]


async def test_two_agents_of_one_runtime_never_hear_of_each_other(shop: Shop) -> None:
    """Models number their calls as they like."""
    runtime = Runtime([shop.look])

    async def one(number: int) -> list[str]:
        agent = Agent(ScriptedModel([call("look", {"number": number}, id="call_1"), "End."]), runtime=runtime)
        return [event.result.llm_content async for event in agent.run("Go.") if isinstance(event, Done)]

    assert await asyncio.gather(*map(one, range(20))) == [[str(number * 2)] for number in range(20)]


# Conversations as documents


async def test_a_conversation_is_dumped_and_loaded(shop: Shop) -> None:
    agent = shop.agent([call("look", {"number": 1}), "It is 2."], turns=TurnStore())
    await agent.answer("Look.\u2028And say.")
    loaded = Conversation.load(agent.conversation.dump())
    assert loaded.messages == agent.conversation.messages
    assert (loaded.turn, loaded.usage) == (1, agent.conversation.usage)
    whole = json.loads(agent.conversation.dump())
    odd = [{"usage": {"input_tokens": []}}, {"usage": {"cost": "much"}}, {"usage": 3}, {"messages": [{"type": "results",
           "results": "x"}]}, {"turn": float("inf")}, {"turn": None}]  # fmt: skip
    for text in ("[" * 100_000, *(json.dumps(whole | one) for one in odd)):
        with pytest.raises(ValueError, match="cannot be loaded"):
            Conversation.load(text)
    for text in ("", "{}", "x", '{"ferrule_conversation": 9}', '{"ferrule_conversation": 1}', b"\xff"):
        with pytest.raises(ValueError, match="cannot be loaded"):
            Conversation.load(text)


def test_sessions_of_0_1_are_read(tmp_path: Path) -> None:
    lines: list[Any] = [
        {"ferrule_session": 1, "id": "a", "workspace": "/w", "model": "m", "started": 1.0},
        {"type": "user", "text": "Hi.", "turn": 1},
        {"type": "assistant", "text": "", "calls": [{"id": "c", "name": "look", "arguments": {"number": 1}}]},
        {"type": "results", "results": [{"call_id": "c", "tool": "look", "success": True, "llm_content": "2",
                                         "display_content": "2"}]},
        {"type": "turn", "turn": 1, "ending": "done", "usage": {"input_tokens": 3}, "model": "m"},
        {"type": "user", "text": "And 5?", "turn": 2},
    ]  # fmt: skip
    conversation = Conversation.load("\n".join(map(json.dumps, lines)) + "\n")
    assert shown(conversation.messages) == ["person: Hi.", "model:  +look", "result: 2", "person: And 5?"]
    assert (conversation.turn, conversation.usage.input_tokens) == (2, 3)
    assert conversation.open is not None


async def test_history_processors_change_what_the_model_reads(shop: Shop) -> None:
    agent = shop.agent(["One.", "Two."], history=[lambda messages: messages[-1:]])
    await agent.answer("First.")
    await agent.answer("Second.")
    model: Any = agent.model
    assert shown(model.requests[1].messages) == ["person: Second."]
    assert len(agent.conversation.messages) == 4
    broken = shop.agent(["One."], history=[lambda messages: []])
    with pytest.raises(ValueError, match="no model takes: it is empty"):
        await broken.answer("First.")
