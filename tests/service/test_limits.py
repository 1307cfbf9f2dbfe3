"""Limits: each holds for whom it is set, and a tenant that floods costs the others little."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import Output, ToolContext, tool
from ferrule.client import AsyncClient, ServiceError
from ferrule.service.limits import FairGate, LimitReached, TokenBucket
from ferrule.testing import ScriptedModel, call
from tests.service.serving import TOOLS, running, started


@tool(kind="readonly")
def paid(cost: float) -> Output[str]:
    """Do something that costs money."""
    return Output(data="done", metadata={"cost": cost})


WITH_PAID = (*TOOLS, paid)


async def over(client: AsyncClient, tool: str = "add", **arguments: object) -> ServiceError:
    with pytest.raises(ServiceError) as problem:
        await client.call(tool, arguments or {"a": 1, "b": 1})
    return problem.value


@given(rate=st.floats(0.5, 1000), burst=st.integers(1, 50), tries=st.integers(1, 300))
def test_a_bucket_never_lets_more_through_than_it_says(rate: float, burst: int, tries: int) -> None:
    began = monotonic()
    bucket = TokenBucket(rate, burst)
    through = sum(bucket.take() == 0.0 for _ in range(tries))
    assert through <= burst + (monotonic() - began) * rate + 1
    assert through >= min(tries, burst)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=60), st.integers(1, 5))
def test_waiting_tenants_take_turns(order: list[str], places: int) -> None:
    """Of those that wait, no tenant is let in twice before every other one was let in once."""

    async def let_in() -> list[str]:
        gate = FairGate(room=places, share=places)
        inside: list[str] = []

        async def one(tenant: str) -> None:
            turn = await gate.turn(tenant)
            inside.append(tenant)
            await asyncio.sleep(0)
            turn.release()

        await asyncio.gather(*(one(tenant) for tenant in order))
        return inside

    inside = asyncio.run(let_in())
    assert sorted(inside) == sorted(order)
    queued = inside[places:]
    for at in range(len(queued) - 1):
        if queued[at] == queued[at + 1]:  # twice in a row: nobody else waited any more
            assert set(queued[at + 1 :]) == {queued[at]}, (order, inside)


async def test_never_more_are_inside_than_there_are_places() -> None:
    gate = FairGate(room=8, share=3)
    inside: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def one(tenant: str) -> None:
        turn = await gate.turn(tenant)
        inside[tenant] += 1
        most[tenant] = max(most[tenant], inside[tenant])
        most["all"] = max(most["all"], inside.total())
        await asyncio.sleep(0)
        inside[tenant] -= 1
        turn.release()
        turn.release()  # once is enough, and twice does no harm

    await asyncio.gather(*(one("a") for _ in range(50)))
    assert most == {"a": 8, "all": 8}
    most.clear()
    await asyncio.gather(*(one("ab"[number % 2]) for number in range(50)))
    assert most["b"] == 3
    assert most["all"] <= 8
    most.clear()
    await asyncio.gather(*(one("abcdef"[number % 6]) for number in range(60)))
    assert most["all"] == 8


async def test_a_tenant_that_floods_waits_in_its_own_queue() -> None:
    gate = FairGate(room=8, share=2)
    (await gate.turn("calm")).release()
    flood = [asyncio.ensure_future(gate.turn("loud")) for _ in range(50)]
    await asyncio.sleep(0)
    assert sum(one.done() for one in flood) == 1
    calm = asyncio.ensure_future(gate.turn("calm"))
    await asyncio.sleep(0)
    assert calm.done()  # before the others that wait
    more = [asyncio.ensure_future(gate.turn("also loud")) for _ in range(50)]
    await asyncio.sleep(0)
    calm.result().release()
    await asyncio.sleep(0)
    assert [sum(one.done() for one in both) for both in (flood, more)] == [2, 2]  # all of them wait anyway
    for one in (*flood, *more):
        one.cancel()


async def test_one_that_floods_comes_in_the_pauses_of_others_and_every_few_milliseconds() -> None:
    """R8: whoever waits for each answer and asks again finds the gate free, and still nobody waits for ever."""
    gate = FairGate(room=8, share=2)
    (await gate.turn("calm")).release()
    flooding, through = True, 0

    async def flood() -> None:
        nonlocal through
        while flooding:
            turn = await gate.turn("loud")
            through += 1
            await asyncio.sleep(0)
            turn.release()

    floods = [asyncio.ensure_future(flood()) for _ in range(20)]
    end = monotonic() + 0.3
    calls = 0
    while monotonic() < end:
        turn = await gate.turn("calm")
        calls += 1
        await asyncio.sleep(0)
        turn.release()
        await asyncio.sleep(0)
    assert 3 <= through < calls / 2, (through, calls)
    beside, end = through, monotonic() + 0.3
    while monotonic() < end:  # nobody else is there any more
        await asyncio.sleep(0.01)
    assert through > beside * 2
    flooding = False
    await asyncio.wait_for(asyncio.gather(*floods), 30)


async def test_a_place_that_was_given_to_one_who_went_away_is_not_lost() -> None:
    gate = FairGate(room=1)
    first = await gate.turn("a")
    waiting = asyncio.ensure_future(gate.turn("b"))
    await asyncio.sleep(0)
    first.release()  # the place is b's by now, who has not heard of it
    waiting.cancel()
    await asyncio.wait({waiting})
    last = asyncio.ensure_future(gate.turn("c"))
    await asyncio.sleep(0)
    assert last.done()


async def test_a_clock_with_long_steps_lets_nobody_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers may come a little early by it, as all do on some systems."""
    monkeypatch.setattr("ferrule.service.limits.monotonic", lambda: monotonic() // 0.015 * 0.015)
    gate = FairGate()
    for _ in range(5):
        calm, loud = await gate.turn("calm"), await gate.turn("loud")
        waiting = asyncio.ensure_future(gate.turn("loud"))
        await asyncio.sleep(0)
        loud.release()
        calm.release()
        (await asyncio.wait_for(waiting, 5)).release()


async def test_a_call_that_waits_for_something_else_gives_its_place_up() -> None:
    gate = FairGate(room=1)
    await gate.turn("slow")
    await asyncio.wait_for(gate.turn("quick"), 30)


async def test_a_queue_has_an_end() -> None:
    gate = FairGate(room=1, most_waiting=0)
    await gate.turn("a")
    with pytest.raises(LimitReached, match="wait to be started already"):
        await gate.turn("a")


async def test_rate_concurrency_and_calls_a_day_are_429s_that_say_when_to_come_again(
    store: str, tmp_path: Path
) -> None:
    async with running(store, tmp_path) as service:
        admin = await service.client()
        slow = await service.user("slow", limits={"rate": 0.01, "burst": 2})
        for _ in range(2):
            await slow.call("add", {"a": 1, "b": 1})
        problem = await over(slow)
        assert (problem.status, problem.code) == (429, "rate")
        assert 1 <= (problem.retry_after or 0) <= 100
        narrow = await service.user("narrow", limits={"concurrency": 1})
        call = await narrow.call("rest", wait=0)
        assert (await over(narrow)).code == "concurrency"
        await narrow.cancel(call.id)
        await narrow.get_call(call.id, wait=30)
        assert (await narrow.call("add", {"a": 1, "b": 1})).status == "succeeded"
        await admin.create_user("daily", limits={"calls_per_day": 2})
        for key in ("first", "second"):  # of one user, whichever key it is
            daily = await service.client((await admin.create_key("daily", name=key)).secret)
            await daily.call("add", {"a": 1, "b": 1})
        daily = await service.client((await admin.create_key("daily")).secret)
        assert (await over(daily)).code == "calls_per_day"
        assert (await admin.call("add", {"a": 1, "b": 1})).status == "succeeded"


async def test_a_tenants_limits_are_the_services_unless_it_has_its_own(store: str, tmp_path: Path) -> None:
    from ferrule.app.service_settings import ServiceLimitSettings

    async with running(store, tmp_path, limits=ServiceLimitSettings(calls_per_day=3)) as service:
        admin = await service.client()
        boss, _ = await service.tenant("other", limits={"calls_per_day": 1})
        await boss.call("add", {"a": 1, "b": 1})
        assert (await over(boss)).code == "calls_per_day"
        for _ in range(3):
            await admin.call("add", {"a": 1, "b": 1})
        assert (await over(admin)).code == "calls_per_day"
        await admin.change_tenant("other", limits={"calls_per_day": 0})
        assert (await boss.call("add", {"a": 1, "b": 1})).status == "succeeded"


async def test_arguments_and_results_have_their_bytes(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        small = await service.user("small", limits={"argument_bytes": 500, "result_bytes": 3_000})
        problem = await over(small, "add", a=1, b=1, more="x" * 600)
        assert (problem.status, problem.code) == (413, "too_large")
        call = await small.call("large", {"size": 50_000})
        assert call.result is not None
        assert call.status == "succeeded"
        assert call.result.metadata["cut"] > 50_000
        assert len(call.result.model_dump_json()) < 4_000
        assert "cut: the result has" in call.result.llm_content


async def test_the_day_is_counted_over_all_instances(postgres_url: str, tmp_path: Path) -> None:
    async with running(postgres_url, tmp_path) as one:
        daily = await one.user("daily", limits={"calls_per_day": 2})
        key = daily._http.headers["authorization"].removeprefix("Bearer ")
        await daily.call("add", {"a": 1, "b": 1})
        await daily.call("add", {"a": 1, "b": 1})
        async with running(postgres_url, tmp_path, key=one.key) as two:
            assert (await over(await two.client(key))).code == "calls_per_day"


async def test_a_tool_has_limits_of_its_own(store: str, tmp_path: Path) -> None:
    """For the service, a tenant, a user and a key; other tools are not concerned."""
    from ferrule.app.service_settings import ServiceLimitSettings, ToolLimitSettings

    settings = ServiceLimitSettings(tools={"large": ToolLimitSettings(result_bytes=3_000)})
    async with running(store, tmp_path, limits=settings) as service:
        admin = await service.client()
        ann = await service.user("ann", limits={"tools": {"add": {"calls_per_day": 2}, "note": {"argument_bytes": 40}}})
        for _ in range(2):
            await ann.call("add", {"a": 1, "b": 1})
        problem = await over(ann)
        assert (problem.status, problem.code) == (429, "calls_per_day")
        assert problem.problem.detail == "This key has made 2 calls of `add` today (UTC), and 2 are allowed."
        assert (await ann.call("who")).status == "succeeded"
        assert (await admin.call("add", {"a": 1, "b": 1})).status == "succeeded"
        large = await over(ann, "note", text="x" * 100)
        assert (large.status, large.code) == (413, "too_large")
        cut = await ann.call("large", {"size": 50_000})
        assert cut.result is not None
        assert "cut: the result has" in cut.result.llm_content
        await admin.change_tenant("default", limits={"tools": {"rest": {"concurrency": 1}}})
        first = await ann.call("rest", wait=0)
        problem = await over(admin, "rest", seconds=1)
        assert problem.problem.detail == "1 calls of `rest` of this tenant run, and 1 may."
        await ann.cancel(first.id)
        with pytest.raises(ServiceError) as batch:
            await ann.batch([{"tool": "who"}, {"tool": "add", "arguments": {"a": 1, "b": 1}}])
        assert batch.value.code == "calls_per_day"


async def test_a_tool_cannot_be_called_more_often_under_another_name(tmp_path: Path) -> None:
    @tool(kind="readonly")
    def plus(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with running(f"sqlite:///{tmp_path / 'a.db'}", tmp_path) as service:
        service.service.tools.register(plus, aliases=["sum_up"])
        ann = await service.user("ann", limits={"tools": {"plus": {"calls_per_day": 1}}})
        assert (await ann.call("sum_up", {"a": 1, "b": 1})).tool == "plus"
        assert (await over(ann, "plus", a=1, b=1)).code == "calls_per_day"


async def test_what_calls_cost_is_stored_and_bounded(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path, tools=WITH_PAID) as service:
        admin = await service.client()
        key = service.key
        ann = await service.user("ann", limits={"spend_per_day": 1.0})
        secret = ann._http.headers["authorization"].removeprefix("Bearer ")
        await ann.call("paid", {"cost": 0.6})
        await ann.batch([{"tool": "paid", "arguments": {"cost": 0.1}}, {"tool": "who"}])
        await ann.call("paid", {"cost": 0.6})
        problem = await over(ann, "paid", cost=0.1)
        assert (problem.status, problem.code) == (429, "spend_per_day")
        assert problem.problem.detail == "The calls of this key have cost 1.3 today (UTC), and 1 is allowed."
        for odd in (-5.0, 1e300):
            await admin.call("paid", {"cost": odd})
        used = await admin.usage()
        assert used.cost_by_tool == {"paid": pytest.approx(1.3)}
        assert used.by_tool["paid"] == 5
    async with running(store, tmp_path, tools=WITH_PAID, key=key) as service:
        problem = await over(await service.client(secret), "paid", cost=0.1)
        assert problem.code == "spend_per_day"
        admin = await service.client()
        await admin.change_tenant("default", limits={"tools": {"paid": {"spend_per_month": 1.3}}})
        problem = await over(admin, "paid", cost=0.1)
        assert (problem.code, problem.problem.detail) == (
            "spend_per_month", "The calls of `paid` of this tenant have cost 1.3 this month (UTC), and 1.3 is allowed.",
        )  # fmt: skip
        assert 0 < (problem.retry_after or 0) <= 31 * 86_400


async def test_spending_is_counted_over_all_instances(postgres_url: str, tmp_path: Path) -> None:
    async with (
        running(postgres_url, tmp_path, tools=WITH_PAID) as one,
        running(postgres_url, tmp_path, tools=WITH_PAID, key=one.key) as two,
    ):
        ann = await one.user("ann", limits={"spend_per_day": 1.0})
        secret = ann._http.headers["authorization"].removeprefix("Bearer ")
        await ann.call("paid", {"cost": 1.5})
        assert (await over(await two.client(secret), "paid", cost=0.1)).code == "spend_per_day"


async def test_an_approved_call_costs_what_it_says(store: str, tmp_path: Path) -> None:
    from ferrule.app.settings import PermissionSettings

    async with running(store, tmp_path, tools=WITH_PAID, permissions=PermissionSettings(ask=["paid"])) as service:
        admin = await service.client()
        call = await admin.call("paid", {"cost": 0.25}, wait=0)
        await admin.approve(await admin.approval(call.approval or ""))
        assert (await admin.get_call(call.id, wait=30)).status == "succeeded"
        assert (await admin.usage()).cost == 0.25


async def test_an_approved_call_waits_for_a_place_and_takes_one(store: str, tmp_path: Path) -> None:
    """R5: `concurrency` holds for calls that an approval starts, with the limits of the key that made them."""
    from tests.service.serving import started

    started.clear()
    async with running(store, tmp_path) as service:
        admin = await service.client()
        ann = await service.user("ann", limits={"concurrency": 1})
        asked = [await ann.call("slow_note", {"text": str(number), "seconds": 0.3}, wait=0) for number in range(2)]
        busy = await ann.call("rest", wait=0)
        for call in asked:
            await admin.approve(await admin.approval(call.approval or ""))
        await asyncio.sleep(1.5)
        assert started == []
        assert [(await ann.get_call(call.id)).status for call in asked] == ["awaiting_approval"] * 2
        assert (await over(ann)).code == "concurrency"
        await ann.cancel(busy.id)
        most = 0
        while [(await ann.get_call(call.id)).status for call in asked] != ["succeeded"] * 2:
            most = max(most, sum(live.row["status"] == "running" for live in service.service.calls.live.values()))
            await asyncio.sleep(0.02)
        assert most == 1
        assert sorted(started) == ["0", "1"]
        assert (await ann.call("add", {"a": 1, "b": 1})).status == "succeeded"


@pytest.mark.parametrize("many", [False, True], ids=["alone", "in a batch"])
async def test_a_call_that_waits_for_its_turn_starts_with_the_rights_of_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """O4: not at all once its key is revoked, and not with a tool that a role has lost meanwhile."""
    monkeypatch.setattr("ferrule.service.limits._TURN_SECONDS", 60.0)
    started.clear()
    async with running(f"sqlite:///{tmp_path / 'service.db'}", tmp_path) as service:
        admin, gate = await service.client(), FairGate(room=1)
        service.service.calls.gate = gate
        key = await admin.create_key("admin")
        await admin.put_role("writer", allow=["note"])
        ann = await service.user("ann", "writer")

        async def send(client: AsyncClient, text: str) -> Any:
            if not many:
                return await client.call("note", {"text": text})
            return (await client.batch([{"tool": "note", "arguments": {"text": text}}])).calls[0]

        turn = await gate.turn("another")
        revoked = asyncio.create_task(send(await service.client(key.secret), "revoked"))
        denied = asyncio.create_task(send(ann, "denied"))
        allowed = asyncio.create_task(admin.call("add", {"a": 1, "b": 1}))
        while sum(len(queue) for queue in gate._waiting.values()) < 3:
            await asyncio.sleep(0.01)
        await admin.revoke_key(key.id)
        await admin.put_role("writer", deny=["note"])
        turn.release()
        with pytest.raises(ServiceError) as problem:
            await revoked
        assert (problem.value.status, problem.value.code) == (401, "bad_key")
        assert (await denied).status == "failed"
        assert (await allowed).status == "succeeded"
    assert not {"revoked", "denied"} & set(started)


async def test_a_call_that_waits_for_a_place_can_be_cancelled(store: str, tmp_path: Path) -> None:
    from tests.service.serving import started

    started.clear()
    async with running(store, tmp_path) as service:
        admin = await service.client()
        ann = await service.user("ann", limits={"concurrency": 1})
        call = await ann.call("note", {"text": "never"}, wait=0)
        busy = await ann.call("rest", wait=0)
        await admin.approve(await admin.approval(call.approval or ""))
        await asyncio.sleep(1.2)
        assert (await ann.cancel(call.id)).status in ("cancelled", "awaiting_approval")
        await ann.cancel(busy.id)
        assert (await ann.get_call(call.id, wait=30)).status == "cancelled"
        assert started == []


async def test_an_approved_call_ends_where_the_money_is_spent_by_then(store: str, tmp_path: Path) -> None:
    from ferrule.app.settings import PermissionSettings

    ask = PermissionSettings(ask=["paid"], allow=[])
    async with running(store, tmp_path, tools=WITH_PAID, permissions=ask) as service:
        admin = await service.client()
        ann = await service.user("ann", limits={"spend_per_day": 1.0})
        first, second = [await ann.call("paid", {"cost": 1.0}, wait=0) for _ in range(2)]
        await admin.approve(await admin.approval(first.approval or ""))
        assert (await ann.get_call(first.id, wait=30)).status == "succeeded"
        await admin.approve(await admin.approval(second.approval or ""))
        ended = await ann.get_call(second.id, wait=30)
        assert ended.status == "failed"
        assert ended.result is not None
        assert ended.result.error is not None
        assert ended.result.error.message == (
            "`paid` was approved and did not start. The calls of this key have cost 1 today (UTC), and 1 is allowed."
        )
        assert (await admin.usage()).cost == 1.0


@pytest.mark.parametrize(
    ("limits", "name", "most"),
    [
        ({"rate": 100, "burst": 3}, "burst", 3),
        ({"concurrency": 2}, "concurrency", 2),
        ({"calls_per_day": 4}, "calls_per_day", 4),
        ({"concurrency": 50, "tools": {"add": {"rate": 1, "burst": 2}}}, "burst", 2),
    ],
)
async def test_a_batch_that_no_waiting_makes_possible_is_too_large(
    store: str, tmp_path: Path, limits: dict[str, object], name: str, most: int
) -> None:
    one = {"tool": "add", "arguments": {"a": 1, "b": 1}}
    async with running(store, tmp_path) as service:
        ann = await service.user("ann", limits=limits)
        with pytest.raises(ServiceError) as problem:
            await ann.batch([one] * (most + 1))
        assert (problem.value.status, problem.value.code, problem.value.retry_after) == (413, "too_large", None)
        calls = "calls of `add`" if "tools" in limits else "calls"
        assert problem.value.problem.detail == (
            f"A batch with {most + 1} {calls} can never start: `{name}` of this key is {most}. "
            f"Send at most {most} in one batch."
        )
        assert len((await ann.batch([one] * most)).calls) == most  # nothing was counted for the other


@tool(kind="readonly")
async def buy(context: ToolContext, pieces: int, cost: float) -> str:
    """Have other tools do what costs money."""
    for _ in range(pieces):
        await context.call("paid", {"cost": cost})
    return "bought"


async def test_what_a_call_has_others_do_is_paid_too(store: str, tmp_path: Path) -> None:
    """Alone, in a batch, through an intent, and by the model that answers a request."""
    model = ScriptedModel([call("paid", {"cost": 0.2}), "Done."])
    async with running(store, tmp_path, tools=(*WITH_PAID, buy), model=model) as service:
        admin = await service.client()
        takes = {"type": "object", "properties": {"cost": {"type": "number", "description": "How much"}}}
        handler = {"type": "chain", "steps": [{"id": "one", "tool": "buy", "arguments": {"pieces": 2, "cost": 0.1}}]}
        await admin.put_intent("shop", description="Buy two.", parameters=takes, handler=handler)
        ann = await service.user("ann", limits={"spend_per_day": 1.5})
        await ann.call("buy", {"pieces": 3, "cost": 0.1})
        assert (await admin.usage()).cost == pytest.approx(0.3)
        await ann.batch([{"tool": "buy", "arguments": {"pieces": 2, "cost": 0.1}}, {"tool": "who"}])
        assert (await admin.usage()).cost == pytest.approx(0.5)
        assert (await ann.run_intent("shop", {})).status == "succeeded"
        assert (await admin.usage()).cost == pytest.approx(0.7)
        assert (await ann.ask("Buy something.")).status == "succeeded"
        assert (await admin.usage()).cost == pytest.approx(0.9)
        await ann.call("buy", {"pieces": 1, "cost": 0.6})
        assert (await over(ann)).code == "spend_per_day"


async def test_a_request_that_is_sent_again_gets_its_call_whatever_the_limits_say(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin = await service.client()
        key = await admin.create_key("admin", limits={"calls_per_day": 2, "concurrency": 1})
        web = await service.http(key.secret)
        headers = {"Idempotency-Key": "again", "Prefer": "respond-async"}
        body = {"tool": "rest", "arguments": {"seconds": 60}}
        first = await web.post("/v1/calls", json=body, headers=headers)
        again = [await web.post("/v1/calls", json=body, headers=headers) for _ in range(3)]
        assert [one.status_code for one in again] == [202] * 3
        assert {one.json()["id"] for one in again} == {first.json()["id"]}
        other = await web.post("/v1/calls", json=body, headers={"Idempotency-Key": "another"})
        assert (other.status_code, other.json()["code"]) == (429, "concurrency")

        await (await service.client(key.secret)).cancel(first.json()["id"])
        await admin.get_call(first.json()["id"], wait=30)
        batch = {"calls": [{"tool": "add", "arguments": {"a": 1, "b": 2}}]}
        headers = {"Idempotency-Key": "batch"}
        answers = [await web.post("/v1/calls/batch", json=batch, headers=headers) for _ in range(3)]
        assert [one.status_code for one in answers] == [200] * 3  # the second call of two, and its repetitions


async def test_a_tool_that_goes_while_a_call_waits_for_its_turn_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferrule.service.limits._TURN_SECONDS", 60.0)
    async with running(f"sqlite:///{tmp_path / 'service.db'}", tmp_path) as service:
        admin, gate = await service.client(), FairGate(room=1)
        service.service.calls.gate = gate
        turn = await gate.turn("another")
        waiting = asyncio.create_task(admin.call("add", {"a": 1, "b": 1}))
        while not gate._waiting:
            await asyncio.sleep(0.01)
        service.service.tools.unregister("add")
        turn.release()
        assert (await waiting).status == "failed"
