"""A program pauses for approvals and results, outlives its process, and makes no call twice (X4, P4, P6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule import Answer, Choice, RulePolicy, tool
from ferrule.agent import Agent, Ending, TurnEnded, TurnStateError
from ferrule.testing import call

from .shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def program(code: str) -> Any:
    return call("run_code", {"code": code})


def read(agent: Agent[Any, Any]) -> str:
    """What the model read of the program."""
    return agent.conversation.messages[2].results[0].llm_content  # type: ignore[union-attr]


async def test_an_approval_is_given_a_day_later_in_another_process(shop: Shop) -> None:
    code = "n = await look(number=4)\nprint('before')\ndone = await refund(order=n)\nprint('after')\ndone"
    paused = await shop.agent([program(code)]).answer("Go.")
    assert (paused.ending, shop.did) == (Ending.PAUSED, ["look 4"])
    (one,) = paused.waiting
    assert (one.kind, one.tool, one.arguments) == ("approval", "refund", {"order": 8})
    agent = shop.agent(["Done."])
    ended = await agent.resume(paused.state, answers={one.id: "once"})
    assert (ended.output, shop.did) == ("Done.", ["look 4", "refund 8"])
    assert read(agent) == "before\nafter\nrefunded 8"


async def test_a_denial_is_an_exception_that_the_program_catches(shop: Shop) -> None:
    code = "try:\n    await refund(order=1)\nexcept PermissionError as error:\n    print(error)\nawait look(number=1)"
    paused = await shop.agent([program(code)]).answer("Go.")
    agent = shop.agent(["I see."])
    await agent.resume(paused.state, answers={paused.waiting[0].id: Answer(Choice.NO, "too much")})
    assert shop.did == ["look 1"]
    assert "permission_error: `refund` was not run: the user denied it. They said: too much" in read(agent)


async def test_a_loop_pauses_for_each_approval_and_repeats_nothing(shop: Shop) -> None:
    code = "for order in (await find_orders())[:3]:\n    await refund(order['id'])\n'ok'"
    agent = shop.agent([program(code)])
    ended: TurnEnded[Any] = await agent.answer("Go.")
    for number in range(3):
        assert ended.ending is Ending.PAUSED
        assert [one.arguments for one in ended.waiting] == [{"order": number}]
        agent = shop.agent(["Done."])
        ended = await agent.resume(ended.state, answers={ended.waiting[0].id: "once"})
    assert shop.did == ["find  open", "refund 0", "refund 1", "refund 2"]
    assert (ended.ending, read(agent)) == (Ending.DONE, "ok")


async def test_gathered_calls_wait_together_and_the_others_run_meanwhile(shop: Shop) -> None:
    code = "import asyncio\nawait asyncio.gather(look(1), refund(1), look(2), refund(2))"
    paused = await shop.agent([program(code)]).answer("Go.")
    assert [one.tool for one in paused.waiting] == ["refund", "refund"]
    again = await shop.agent([]).resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert [one.arguments for one in again.waiting] == [{"order": 2}]
    agent = shop.agent(["Done."])
    await agent.resume(again.state, answers={again.waiting[0].id: "no"})
    assert sorted(shop.did) == ["look 1", "look 2", "refund 1"]
    assert "`refund` was not run: the user denied it" in read(agent)


async def test_a_deferred_result_is_checked_and_given_to_the_program(shop: Shop) -> None:
    @tool(kind="readonly", deferred=True)
    def locate(what: str) -> dict[str, float]:
        """Find where something is."""
        raise NotImplementedError

    paused = await shop.agent([program("place = await locate('x')\nplace['lat'] * 2")], locate).answer("Go.")
    (one,) = paused.waiting
    assert (one.kind, one.tool) == ("result", "locate")
    agent = shop.agent(["Done."], locate)
    await agent.resume(paused.state, results={one.id: {"lat": 2.5}})
    assert read(agent) == "5.0"


@pytest.mark.parametrize("at", range(20, 2000, 97))
async def test_a_tampered_state_is_refused(shop: Shop, at: int) -> None:
    paused = await shop.agent([program("n = await look(4)\nawait refund(n)")]).answer("Go.")
    state = paused.state
    at %= len(state)
    changed = state[:at] + ("7" if state[at] != "7" else "8") + state[at + 1 :]
    with pytest.raises(TurnStateError):
        await shop.agent(["Done."]).resume(changed, answers={paused.waiting[0].id: "once"})
    assert shop.did == ["look 4"]


async def test_what_a_call_gave_cannot_be_exchanged(shop: Shop) -> None:
    paused = await shop.agent([program("n = await look(4)\nawait refund(n)")]).answer("Go.")
    document = json.loads(paused.state)
    (entry,) = [one for one in document["entries"] if one.get("type") == "done"]
    assert entry["data"] == "[8]"
    entry["data"] = "[9]"
    with pytest.raises(TurnStateError, match="not as Ferrule sealed it"):
        await shop.agent(["Done."]).resume(document, answers={paused.waiting[0].id: "once"})


async def test_a_state_resumes_once(shop: Shop) -> None:
    paused = await shop.agent([program("await refund(1)")]).answer("Go.")
    answers = {paused.waiting[0].id: "once"}
    await shop.agent(["Done."]).resume(paused.state, answers=answers)
    with pytest.raises(TurnStateError, match="gone on"):
        await shop.agent(["Done."]).resume(paused.state, answers=answers)
    assert shop.did == ["refund 1"]


async def test_the_clock_and_random_numbers_are_the_same_when_it_goes_on(shop: Shop) -> None:
    code = (
        "import random\nfrom datetime import datetime\nfirst = (random.randrange(10**9), datetime.now().isoformat())\n"
        "await note(str(first))\nawait refund(1)\nawait note(str(first))"
    )
    paused = await shop.agent([program(code)], policy=RulePolicy(allow=["note"])).answer("Go.")
    await shop.agent(["Done."], policy=RulePolicy(allow=["note"])).resume(
        paused.state, answers={paused.waiting[0].id: "once"}
    )
    first, refund, second = shop.did
    assert (first, refund) == (second, "refund 1")


async def test_a_result_comes_back_as_it_was_with_the_order_of_its_keys(shop: Shop) -> None:
    @tool(kind="readonly")
    def sizes() -> dict[str, Any]:
        """Give sizes."""
        return {"small": 1.0, "large": {"b": 2, "a": -0.0}, "medium": 2**80}

    code = "found = await sizes()\nfor name in found:\n    await look(len(name))\nawait refund(1)\nprint(found)"
    paused = await shop.agent([program(code)], sizes).answer("Go.")
    rewritten = json.dumps(json.loads(paused.state), sort_keys=True, indent=1)
    agent = shop.agent(["Done."], sizes)
    await agent.resume(rewritten, answers={paused.waiting[0].id: "once"})
    assert shop.did == ["look 5", "look 5", "look 6", "refund 1"]
    assert read(agent) == f"{{'small': 1.0, 'large': {{'b': 2, 'a': -0.0}}, 'medium': {2**80}}}"


async def test_a_result_with_a_secret_is_not_kept_and_the_program_ends_with_that(shop: Shop) -> None:
    @tool(kind="readonly")
    def key() -> str:
        """Give a key."""
        return "sk-ant-api03-" + "a1B2" * 24

    code = "k = await key()\nawait refund(1)"
    paused = await shop.agent([program(code)], key).answer("Go.")
    assert "a1B2a1B2" not in paused.state
    agent = shop.agent(["I see."], key)
    await agent.resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert shop.did == []
    assert "The program cannot go on: the result of `key` could not be kept whole." in read(agent)


async def test_a_rule_that_denies_by_then_is_stronger_than_the_answer(shop: Shop) -> None:
    paused = await shop.agent([program("await refund(1)")]).answer("Go.")
    agent = shop.agent(["I see."], policy=RulePolicy(deny=["refund"]))
    await agent.resume(paused.state, answers={paused.waiting[0].id: "once"})
    assert shop.did == []
    assert "refund" in read(agent)


async def test_without_a_store_later_is_a_refusal(shop: Shop) -> None:
    result = await shop.runtime(ask=lambda question: "later").run("run_code", {"code": "await refund(1)"})
    assert (result.success, shop.did) == (False, [])
    assert "approval isn't available here" in result.llm_content
