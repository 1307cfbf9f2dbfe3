"""Requests wait for approvals and results without memory, and go on anywhere, without doing anything twice."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ferrule import ToolError, tool
from ferrule.agent.turn import Turn
from ferrule.app.settings import PermissionSettings
from ferrule.client import AsyncClient, ServiceError
from ferrule.service.messages import RequestAnswer
from ferrule.service.tables import turn_entries, work
from ferrule.testing import ScriptedModel, call, say
from tests.service.serving import TOOLS, Running, running, started


@tool(kind="readonly", deferred=True)
def locate(what: str) -> dict[str, int]:
    """Find where something is."""
    raise NotImplementedError


WITH_DEFERRED = (*TOOLS, locate)


async def until_waiting(client: AsyncClient, request: str, count: int = 1) -> RequestAnswer:
    """The request once it waits for so many calls."""
    while len((found := await client.get_request(request)).waiting) != count:
        assert not found.finished, found
        await asyncio.sleep(0.02)
    return found


async def until_forgotten() -> None:
    """Nothing of a turn is in memory; timers that it started may have it for a moment."""
    deadline = time.monotonic() + 10
    gc.collect()
    while any(isinstance(one, Turn) for one in gc.get_objects()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
        gc.collect()


async def owner_of(service: Running, call_id: str) -> str | None:
    query = select(work.c.owner).where(work.c.call == call_id)
    return await service.service.database.read(None, lambda connection: connection.execute(query).scalar())


async def test_a_request_waits_without_memory_and_goes_on_after_the_decision(store: str, tmp_path: Path) -> None:
    started.clear()
    model = ScriptedModel([say("First this.", call("add", {"a": 1, "b": 2}), call("note", {"text": "milk"})), "Noted."])
    async with running(store, tmp_path, model=model) as service:
        client = await service.client()
        made = await client.ask("Note milk.", wait=0)
        waiting = await until_waiting(client, made.id)
        (one,) = waiting.waiting
        (approval,) = await client.approvals()
        assert (waiting.status, waiting.approval, one.approval) == ("awaiting_approval", approval.id, approval.id)
        assert (one.kind, one.tool, one.arguments) == ("approval", "note", {"text": "milk"})
        assert (approval.call, approval.arguments, approval.summary) == (made.id, {"text": "milk"}, one.summary)
        await until_forgotten()
        assert (service.service.calls.live, started) == ({}, [])
        assert await owner_of(service, made.id) == ""
        await client.approve(approval)
        answer = await client.get_request(made.id, wait=30)
        assert (answer.status, answer.answer, answer.waiting, started) == ("succeeded", "Noted.", [], ["milk"])
        assert [(one.tool, one.success) for one in answer.calls] == [("add", True), ("note", True)]
        kinds = [event.type async for event in client.events(made.id) if event.type != "call.output"]
        assert kinds == [
            "call.created", "call.started", "call.awaiting_approval", "approval.decided", "call.succeeded",
        ]  # fmt: skip
        assert (await client.verify_audit()).ok
        model.check()


async def test_a_stream_follows_a_request_over_its_pauses(store: str, tmp_path: Path) -> None:
    model = ScriptedModel([call("note", {"text": "milk"}), "It is noted."])
    async with running(store, tmp_path, model=model) as service:
        client, http = await service.client(), await service.http()
        kinds: list[str] = []
        async with http.stream("POST", "/v1/requests", json={"text": "Note it.", "stream": True}) as response:
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    kinds.append(line.removeprefix("event: "))
                    if kinds[-1] == "call.awaiting_approval":
                        await client.approve((await client.approvals())[0])
        assert [one for one in kinds if one != "call.output"] == [
            "call.created", "call.started", "call.awaiting_approval", "approval.decided", "call.succeeded",
        ]  # fmt: skip
        assert "call.output" in kinds


async def test_a_decision_after_a_restart(store: str, tmp_path: Path) -> None:
    started.clear()
    before = ScriptedModel([say("", call("note", {"text": "one"}), call("who", {}))])
    async with running(store, tmp_path, model=before) as service:
        key, client = service.key, await service.client()
        made = await client.ask("Note one.", wait=0)
        await until_waiting(client, made.id)
    after = ScriptedModel(["Noted."])
    async with running(store, tmp_path, model=after, key=key) as service:
        client = await service.client()
        assert (await client.get_request(made.id)).waiting[0].tool == "note"
        await client.approve((await client.approvals())[0])
        answer = await client.get_request(made.id, wait=30)
        assert (answer.answer, started) == ("Noted.", ["one"])
        assert [one.tool for one in answer.calls] == ["note", "who"]
        assert [getattr(one, "text", None) for one in after.requests[0].messages] == ["Note one.", "", None]


async def test_two_approvals_are_decided_one_by_one(store: str, tmp_path: Path) -> None:
    started.clear()
    calls = say("", call("note", {"text": "one"}), call("note", {"text": "two"}), call("note", {"text": "three"}))
    model = ScriptedModel([calls, "All noted."])
    async with running(store, tmp_path, model=model) as service:
        client = await service.client()
        made = await client.ask("Note them.", wait=0)
        await until_waiting(client, made.id, 3)
        by_text = {one.arguments["text"]: one for one in await client.approvals()}
        await client.approve(by_text["one"])
        await until_waiting(client, made.id, 2)
        assert started == ["one"]
        assert {one.id for one in await client.approvals()} == {by_text["two"].id, by_text["three"].id}
        await client.approve(by_text["three"])  # it comes after the other, which waits
        await until_waiting(client, made.id, 1)
        assert started == ["one"]
        await client.deny(by_text["two"], reason="not that")
        answer = await client.get_request(made.id, wait=30)
        assert (answer.answer, started) == ("All noted.", ["one", "three"])
        assert [one.success for one in answer.calls] == [True, False, True]
        assert "not that" in str(model.requests[1].messages[-1])
        kinds = [event.type async for event in client.events(made.id)]
        assert kinds.count("call.awaiting_approval") == kinds.count("approval.decided") == 3
        model.check()


async def test_decisions_at_the_same_moment_are_none_too_many(store: str, tmp_path: Path) -> None:
    started.clear()
    texts = [str(number) for number in range(6)]
    model = ScriptedModel([say("", *(call("note", {"text": text}) for text in texts)), "Done."])
    async with running(store, tmp_path, model=model) as service:
        client = await service.client()
        made = await client.ask("Note them.", wait=0)
        await until_waiting(client, made.id, len(texts))
        await asyncio.gather(*map(client.approve, await client.approvals()))
        assert (await client.get_request(made.id, wait=30)).answer == "Done."
        assert started == texts
        kinds = [event.type async for event in client.events(made.id)]
        assert kinds.count("approval.decided") == len(texts)


async def test_a_denial_is_read_by_the_model(store: str, tmp_path: Path) -> None:
    started.clear()
    model = ScriptedModel([call("note", {"text": "milk"}), "You did not want that."])
    async with running(store, tmp_path, model=model) as service:
        client = await service.client()
        made = await client.ask("Note milk.", wait=0)
        await until_waiting(client, made.id)
        await client.deny((await client.approvals())[0], reason="no milk")
        answer = await client.get_request(made.id, wait=30)
        assert (answer.answer, started, [one.success for one in answer.calls]) == (
            "You did not want that.",
            [],
            [False],
        )
        assert "no milk" in str(model.requests[1].messages[-1])


async def test_an_approval_that_nobody_decides_is_read_by_the_model(store: str, tmp_path: Path) -> None:
    started.clear()
    model = ScriptedModel([call("note", {"text": "milk"}), "Nobody decided."])
    async with running(store, tmp_path, model=model, approval_hours=0.5 / 3600) as service:
        client = await service.client()
        made = await client.ask("Note milk.", wait=0)
        answer = await client.get_request(made.id, wait=30)
        assert (answer.status, answer.answer, started) == ("succeeded", "Nobody decided.", [])
        assert [one.status for one in await client.approvals(status="expired")] == ["expired"]
        assert "nobody decided in time" in str(model.requests[1].messages[-1])
        kinds = [event.type async for event in client.events(made.id)]
        assert kinds.count("approval.expired") == 1


async def test_a_request_that_waits_can_be_cancelled(store: str, tmp_path: Path) -> None:
    started.clear()
    model = ScriptedModel(
        [say("", call("note", {"text": "a"}), call("note", {"text": "b"}), call("locate", {"what": "x"}))]
    )
    async with running(store, tmp_path, model=model, tools=WITH_DEFERRED) as service:
        client = await service.client()
        made = await client.ask("Note it.", wait=0)
        await until_waiting(client, made.id, 3)
        approvals = await client.approvals()
        assert (await client.cancel(made.id)).status == "cancelled"
        assert await client.approvals() == []
        assert (await client.get_request(made.id)).waiting == []
        with pytest.raises(ServiceError) as gone:
            await client.approve(approvals[0])
        assert (gone.value.status, started) == (409, [])
        with pytest.raises(ServiceError) as ended:
            await client.give_results(made.id, {"call_3": {"x": 1}})
        assert (ended.value.status, ended.value.code) == (409, "finished")
        rows = [row for row in (await client.audit()).rows if row["call_id"] == made.id]
        assert rows[-1]["outcome"] == "cancelled_error"
        model.check()


async def test_a_request_that_goes_on_can_be_cancelled(store: str, tmp_path: Path) -> None:
    """What else it waits for is nobody's business then."""
    started.clear()
    calls = say("", call("slow_note", {"text": "slow"}), call("note", {"text": "b"}))
    async with running(store, tmp_path, model=ScriptedModel([calls])) as service:
        client = await service.client()
        made = await client.ask("Note it.", wait=0)
        await until_waiting(client, made.id, 2)
        await client.approve(next(one for one in await client.approvals() if one.tool == "slow_note"))
        while not started:
            await asyncio.sleep(0.02)
        await client.cancel(made.id)
        assert (await client.get_request(made.id, wait=30)).status == "cancelled"
        assert (started, await client.approvals()) == (["slow"], [])


async def test_rights_are_those_of_the_moment_when_it_goes_on(store: str, tmp_path: Path) -> None:
    started.clear()
    model = ScriptedModel([call("note", {"text": "milk"}), "It is not allowed.", call("note", {"text": "tea"})])
    async with running(store, tmp_path, model=model) as service:
        admin = await service.client()
        await admin.put_role("writer")
        ann = await service.user("ann", "writer")
        made = await ann.ask("Note milk.", wait=0)
        await until_waiting(ann, made.id)
        await admin.put_role("writer", deny=["note"])
        await admin.approve((await admin.approvals())[0])
        answer = await ann.get_request(made.id, wait=30)
        assert (answer.answer, [one.success for one in answer.calls]) == ("It is not allowed.", [False])
        await admin.put_role("writer")
        gone = await ann.ask("Note tea.", wait=0)
        await until_waiting(ann, gone.id)
        await admin.change_user("ann", enabled=False)
        await admin.approve((await admin.approvals())[0])
        assert (await admin.get_request(gone.id, wait=30)).status == "failed"
        assert started == []


async def test_a_request_that_asks_itself_asks_once(store: str, tmp_path: Path) -> None:
    started.clear()
    model = ScriptedModel([call("note", {"text": "milk"}), "Noted."])
    asks = PermissionSettings(ask=["answer_request"])
    async with running(store, tmp_path, model=model, permissions=asks) as service:
        client = await service.client()
        made = await client.ask("Note milk.", wait=0)
        assert (made.status, made.waiting) == ("awaiting_approval", [])
        await client.approve((await client.approvals())[0])
        await until_waiting(client, made.id)
        (approval,) = await client.approvals()
        assert approval.tool == "note"
        await client.approve(approval)
        assert (await client.get_request(made.id, wait=30)).answer == "Noted."
        assert (started, await client.approvals()) == (["milk"], [])


async def test_a_result_comes_from_elsewhere(store: str, tmp_path: Path) -> None:
    started.clear()
    calls = say(
        "", call("locate", {"what": "keys"}, id="k"), call("locate", {"what": "hat"}, id="h"),
        call("note", {"text": "n"}, id="n"),
    )  # fmt: skip
    model = ScriptedModel([calls, "On the table."])
    async with running(store, tmp_path, model=model, tools=WITH_DEFERRED) as service:
        client, http = await service.client(), await service.http()
        made = await client.ask("Where are they?", wait=0)
        waiting = await until_waiting(client, made.id, 3)
        assert {(one.id, one.kind) for one in waiting.waiting} == {("k", "result"), ("h", "result"), ("n", "approval")}
        assert next(one for one in waiting.waiting if one.id == "k").arguments == {"what": "keys"}
        assert service.service.calls.live == {}
        for body, status, code, said in (
            ({"x": 1}, 422, "unknown_call", "does not wait for a call `x`"),
            ({"k": "text"}, 422, "result", "expected object, got string"),
            ({"n": 1}, 422, "unknown_call", "waits for an approval"),
            ({"h": {"y": 2}, "x": 1}, 422, "unknown_call", "`x`"),
        ):
            refused = await http.post(f"/v1/requests/{made.id}/results", json={"results": body})
            assert (refused.status_code, refused.json()["code"]) == (status, code)
            assert said in refused.json()["detail"]
        assert (await http.post(f"/v1/requests/{made.id}/results", json={"results": {}})).status_code == 400
        given = await client.give_results(made.id, {"h": {"y": 2}}, wait=0)
        assert {one.id for one in given.waiting} <= {"k", "n"}
        with pytest.raises(ServiceError) as twice:
            await client.give_results(made.id, {"h": {"y": 3}})
        assert twice.value.code in ("given", "unknown_call")
        await client.give_results(made.id, {"k": {"x": 1}}, wait=3)  # it may still go on with the other one
        assert (await until_waiting(client, made.id)).waiting[0].id == "n"
        await client.approve((await client.approvals())[0])
        answer = await client.get_request(made.id, wait=30)
        assert (answer.answer, [one.success for one in answer.calls]) == ("On the table.", [True] * 3)
        assert [one.llm_content for one in _results(model)] == ['{"x":1}', '{"y":2}', "noted n"]
        with pytest.raises(ServiceError) as ended:
            await client.give_results(made.id, {"k": {"x": 1}})
        assert ended.value.code == "finished"
        model.check()


def _results(model: ScriptedModel, at: int = -1) -> Any:
    last: Any = model.requests[at].messages[-1]
    return last.results


async def test_a_call_that_failed_elsewhere_has_an_error_for_the_model(store: str, tmp_path: Path) -> None:
    calls = say("", call("locate", {"what": "keys"}, id="k"), call("locate", {"what": "hat"}, id="h"))
    model = ScriptedModel([calls, "The hat is there."])
    async with running(store, tmp_path, model=model, tools=WITH_DEFERRED) as service:
        client, http = await service.client(), await service.http()
        made = await client.ask("Where are they?")
        both = {"results": {"k": {"x": 1}}, "errors": {"k": {"message": "No."}}}
        for body, said in ((both, "`k` has a result and an error"), ({}, "give `results`, `errors` or both")):
            refused = await http.post(f"/v1/requests/{made.id}/results", json=body)
            assert refused.status_code == 400
            assert said in refused.json()["detail"]
        gone = ToolError("The keys have no beacon.", suggestion="Ask where they were last.")
        answer = await client.give_results(made.id, {"k": gone, "h": {"x": 1}})
        assert (answer.answer, {one.id: one.success for one in answer.calls}) == (
            "The hat is there.", {"k": False, "h": True},
        )  # fmt: skip
        assert _results(model)[0].llm_content == (
            "Error (execution_error): The keys have no beacon.\n\nSuggestion: Ask where they were last."
        )


async def test_a_client_is_told_at_once_that_its_result_is_wanted(store: str, tmp_path: Path) -> None:
    model = ScriptedModel([call("locate", {"what": "keys"}, id="k"), "There."])
    async with running(store, tmp_path, model=model, tools=WITH_DEFERRED) as service:
        client = await service.client()
        waiting = await client.ask("Where are my keys?")
        assert (waiting.status, waiting.approval, waiting.finished) == ("awaiting_result", None, False)
        assert [one.id for one in (await client.calls(status="awaiting_result")).calls] == [waiting.id]
        answer = await client.give_results(waiting.id, {"k": {"x": 1}})
        assert (answer.status, answer.answer) == ("succeeded", "There.")
        kinds = [event.type async for event in client.events(waiting.id) if event.type != "call.output"]
        assert kinds == ["call.created", "call.started", "call.awaiting_result", "call.succeeded"]


async def test_only_the_owner_gives_results(store: str, tmp_path: Path) -> None:
    model = ScriptedModel([call("locate", {"what": "keys"}, id="k"), "There."])
    async with running(store, tmp_path, model=model, tools=WITH_DEFERRED) as service:
        admin, ann, bob = await service.client(), await service.user("ann"), await service.user("bob")
        made = await ann.ask("Where are my keys?")
        for other, status in ((admin, 403), (bob, 404)):
            with pytest.raises(ServiceError) as refused:
                await other.give_results(made.id, {"k": {"x": 1}})
            assert refused.value.status == status
        results = [ann.give_results(made.id, {"k": {"x": number}}) for number in range(3)]
        ends = await asyncio.gather(*results, return_exceptions=True)
        assert sum(isinstance(one, RequestAnswer) for one in ends) == 1
        assert {one.code for one in ends if isinstance(one, ServiceError)} <= {"given", "finished", "unknown_call"}


async def test_a_call_with_a_secret_is_approved_while_the_request_waits(tmp_path: Path) -> None:
    """It is not kept, so that the call could not be made from what is."""
    started.clear()
    secret = "sk-ant-api03-" + "a1B2" * 20
    model = ScriptedModel([call("note", {"text": secret}), "Noted."])
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, model=model) as service:
        client = await service.client()
        made = await client.ask("Note it.", wait=0)
        while not (found := await client.approvals()):
            await asyncio.sleep(0.02)
        await client.approve(found[0])
        assert (await client.get_request(made.id, wait=30)).answer == "Noted."
        assert started == [secret]

        def entries(connection: Any) -> str:
            return str(connection.execute(select(turn_entries.c.text)).all())

        assert secret not in await service.service.database.read("default", entries)


@pytest.mark.slow
async def test_another_instance_decides_and_goes_on(postgres_url: str, tmp_path: Path) -> None:
    started.clear()
    model = ScriptedModel([say("", *(call("note", {"text": str(n)}) for n in range(5))), "Noted."])
    async with (
        running(postgres_url, tmp_path, model=model) as one,
        running(postgres_url, tmp_path, model=model, key=one.key) as two,
    ):
        here, there = await one.client(), await two.client()
        waiting = asyncio.create_task(here.ask("Note it."))
        while len(found := await there.approvals()) < 5:
            await asyncio.sleep(0.02)
        await asyncio.gather(*((here, there)[n % 2].approve(approval) for n, approval in enumerate(found)))
        assert (await waiting).answer == "Noted."
        assert started == [str(n) for n in range(5)]
        assert (await here.verify_audit()).ok


async def test_a_request_of_a_session_waits_and_others_go_on(store: str, tmp_path: Path) -> None:
    started.clear()
    model = ScriptedModel(["Hello Ann.", call("note", {"text": "milk"}), "You are Ann.", "Noted.", "We did."])
    async with running(store, tmp_path, model=model) as service:
        client = await service.client()
        await client.ask("I am Ann.", session="desk")
        made = await client.ask("Note milk.", session="desk", wait=0)
        await until_waiting(client, made.id)
        assert service.service.calls.live == {}
        assert (await client.ask("Who am I?", session="desk")).answer == "You are Ann."
        await client.approve((await client.approvals())[0])
        assert (await client.get_request(made.id, wait=30)).answer == "Noted."
        assert [getattr(one, "text", "…") for one in model.requests[3].messages] == [
            "I am Ann.", "Hello Ann.", "Note milk.", "", "…",
        ]  # fmt: skip
        await client.ask("Did we?", session="desk")
        assert [getattr(one, "text", "…") for one in model.requests[4].messages] == [
            "I am Ann.", "Hello Ann.", "Who am I?", "You are Ann.", "Note milk.", "Noted.", "Did we?",
        ]  # fmt: skip


async def test_a_session_goes_on_after_a_pause(tmp_path: Path) -> None:
    model = ScriptedModel(["Hello Ann.", call("note", {"text": "milk"}), "Noted.", "We did."])
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, model=model) as service:
        client = await service.client()
        await client.ask("I am Ann.", session="desk")
        made = await client.ask("Note milk.", session="desk", wait=0)
        await until_waiting(client, made.id)
        await client.approve((await client.approvals())[0])
        await client.get_request(made.id, wait=30)
        await client.ask("Did we?", session="desk")
        assert [getattr(one, "text", "…") for one in model.requests[3].messages] == [
            "I am Ann.", "Hello Ann.", "Note milk.", "", "…", "Noted.", "Did we?",
        ]  # fmt: skip


async def test_steps_are_removed_with_their_call(store: str, tmp_path: Path) -> None:
    model = ScriptedModel([call("note", {"text": "milk"}), "Noted."])
    async with running(store, tmp_path, model=model, keep_days=1e-6) as service:
        client = await service.client()
        made = await client.ask("Note milk.", wait=0)
        await until_waiting(client, made.id)

        def count(connection: Any) -> int:
            return len(connection.execute(select(turn_entries).where(turn_entries.c.call == made.id)).all())

        assert await service.service.database.read("default", count) > 0
        assert store.startswith("sqlite") or await service.service.database.read(None, count) == 0
        await client.approve((await client.approvals())[0])
        await client.get_request(made.id, wait=30)
        await asyncio.sleep(0.2)
        await service.service.upkeep.clean()
        assert await service.service.database.read("default", count) == 0


async def test_a_lease_that_was_lost_begins_nothing(store: str, tmp_path: Path) -> None:
    """Whoever has the request by now goes on with it."""
    started.clear()
    going = asyncio.Event()

    async def slowly(request: Any) -> Any:
        await going.wait()
        return call("slow_note", {"text": "never", "seconds": 0})

    allowed = PermissionSettings(allow=["slow_note"])
    async with running(store, tmp_path, model=ScriptedModel([slowly]), permissions=allowed) as service:
        client = await service.client()
        made = await client.ask("Note it.", wait=0)
        while made.id not in service.service.calls.live:
            await asyncio.sleep(0.02)
        live = service.service.calls.live[made.id]
        taken = work.update().where(work.c.call == made.id).values(owner="another", due=time.time() + 600)
        await service.service.writer.change("default", lambda connection: connection.execute(taken).rowcount)
        going.set()
        assert live.task is not None
        await asyncio.wait({live.task})
        assert (started, await owner_of(service, made.id)) == ([], "another")


async def test_a_stop_leaves_a_request_to_the_next_start(store: str, tmp_path: Path) -> None:
    """P4: what ran is not run again, and its model is told; what only waits for the model goes on as if nothing was."""
    started.clear()
    calls = say("", call("add", {"a": 1, "b": 2}), call("slow_note", {"text": "slow"}), call("note", {"text": "last"}))
    allowed = PermissionSettings(allow=["note", "slow_note"])
    silent = asyncio.Event()

    async def never(request: Any) -> Any:
        silent.set()
        await asyncio.Event().wait()

    before = ScriptedModel([calls, never])
    async with running(store, tmp_path, model=before, permissions=allowed, drain_seconds=0.05) as service:
        key, client = service.key, await service.client()
        noting = await client.ask("Note it.", wait=0)
        while not started:
            await asyncio.sleep(0.02)
        thinking = await client.ask("Think.", wait=0)
        await silent.wait()
    after = ScriptedModel([lambda request: "Noted." if "Note" in request.messages[0].text else "Thought."] * 2)
    async with running(store, tmp_path, model=after, key=key, permissions=allowed) as service:
        client = await service.client()
        noted, thought = [await client.get_request(one.id, wait=30) for one in (noting, thinking)]
        assert (noted.answer, thought.answer, started) == ("Noted.", "Thought.", ["slow", "last"])
        assert sorted((one.tool, one.success) for one in noted.calls) == [
            ("add", True), ("note", True), ("slow_note", False),
        ]  # fmt: skip
        (results,) = [_results(after, at)[1] for at in (0, 1) if len(after.requests[at].messages) > 1]
        assert "`slow_note` ran, so it is not known how far it came" in results.llm_content
        assert (await client.verify_audit()).ok


async def test_a_request_that_is_cancelled_is_not_left(store: str, tmp_path: Path) -> None:
    async def never(request: Any) -> Any:
        await asyncio.Event().wait()

    async with running(store, tmp_path, model=ScriptedModel([never]), drain_seconds=0.05) as service:
        key, client = service.key, await service.client()
        made = await client.ask("Think.", wait=0)
        while (live := service.service.calls.live.get(made.id)) is None or live.journal is None:
            await asyncio.sleep(0.02)
        service.service.calls.stop(live, leave=True)
        service.service.calls.stop(live)  # its user
    async with running(store, tmp_path, model=ScriptedModel([]), key=key) as service:
        assert (await (await service.client()).get_request(made.id)).status == "cancelled"


# Killed


SCRIPT = """
import asyncio, json, os, sys
from pathlib import Path
from ferrule.app.settings import PermissionSettings
from tests.service.test_request_turns import marking, played
from tests.service.serving import running

async def main():
    store, folder, key = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    allow = PermissionSettings(allow=["strike", "ask"] if "allow" in sys.argv else ["strike"])
    async with running(store, folder, model=played(), tools=marking(folder), key=key, permissions=allow,
                       lease_seconds=2) as service:
        print(json.dumps([service.url, service.key]), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def marking(folder: Path) -> tuple[Any, ...]:
    """Tools that leave a mark when they begin and when they end."""

    def mark(word: str, text: str) -> None:
        with (folder / "marks").open("a") as file:
            file.write(f"{word} {text}\n")

    @tool(kind="write", touches=lambda params: [])
    async def strike(text: str, seconds: float = 0.0) -> str:
        """Change something that cannot be changed twice."""
        mark("strike", text)
        await asyncio.sleep(seconds)
        mark("struck", text)
        return f"struck {text}"

    @tool(kind="readonly")
    async def look(text: str, seconds: float = 0.0) -> str:
        """Look at something, which may be done twice."""
        mark("look", text)
        await asyncio.sleep(seconds)
        return f"saw {text}"

    @tool(kind="write")
    async def ask(text: str) -> str:
        """Change something after an approval."""
        mark("ask", text)
        return f"asked {text}"

    return strike, look, ask


def played() -> ScriptedModel:
    """Does what the user's JSON says, one answer after the other; how far it is follows from the messages."""

    def reply(request: Any) -> Any:
        plan = json.loads(request.messages[0].text)
        step = sum(type(one).__name__ == "ToolResults" for one in request.messages)
        if step < len(plan):
            return say("", *(call(name, values, id=f"s{step}c{n}") for n, (name, values) in enumerate(plan[step])))
        return "; ".join(
            one.llm_content.split("\n")[0]
            for message in request.messages
            if type(message).__name__ == "ToolResults"
            for one in message.results
        )

    return ScriptedModel([reply] * 1000)


LOST = "The program ended while `strike` ran, so it is not known how far it came. It was not run again."


class Killable:
    """A service in a process of its own."""

    def __init__(self, store: str, folder: Path, key: str = "", *more: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, store, str(folder), key, *more], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.url, self.key = json.loads(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def marks(folder: Path) -> list[str]:
    return (folder / "marks").read_text().splitlines() if (folder / "marks").exists() else []


@pytest.mark.slow
async def test_a_request_goes_on_from_its_last_step_after_a_kill(store: str, tmp_path: Path) -> None:
    """A call that had begun and cannot be made twice is told as lost, one that only reads is made again."""
    plan = [
        [("strike", {"text": "a"})],
        [("look", {"text": "b", "seconds": 3}), ("strike", {"text": "c", "seconds": 300})],
        [("strike", {"text": "d"})],
    ]
    first = await asyncio.to_thread(Killable, store, tmp_path)
    try:
        async with AsyncClient(first.url, first.key) as client:
            made = await client.ask(json.dumps(plan), cache=False, wait=0)
            deadline = time.monotonic() + 60
            while not {"look b", "strike c"} <= set(marks(tmp_path)):
                assert time.monotonic() < deadline, marks(tmp_path)
                await asyncio.sleep(0.05)
    finally:
        first.kill()
    second = await asyncio.to_thread(Killable, store, tmp_path, first.key)
    try:
        async with AsyncClient(second.url, first.key) as client:
            answer = await client.get_request(made.id, wait=50)
            assert (answer.status, answer.answer.split("; ")) == (
                "succeeded", ["struck a", "saw b", f"Error (unknown_error): {LOST}", "struck d"],
            )  # fmt: skip
            assert sorted((one.tool, one.success) for one in answer.calls) == [
                ("look", True), ("strike", False), ("strike", True), ("strike", True),
            ]  # fmt: skip
            assert (await client.verify_audit()).ok
    finally:
        second.kill()
    assert sorted(marks(tmp_path)) == [
        "look b", "look b", "strike a", "strike c", "strike d", "struck a", "struck d",
    ]  # fmt: skip


@pytest.mark.slow
async def test_a_request_that_ends_its_instance_each_time_is_lost(store: str, tmp_path: Path) -> None:
    key = ""
    made = None
    for _ in range(4):
        before = len(marks(tmp_path))
        one = await asyncio.to_thread(Killable, store, tmp_path, key)
        key = key or one.key
        try:
            async with AsyncClient(one.url, key) as client:
                if made is None:
                    made = await client.ask(json.dumps([[("look", {"text": "x", "seconds": 300})]]), wait=0)
                deadline = time.monotonic() + 60
                while len(marks(tmp_path)) == before:
                    answer = await client.get_request(made.id)
                    if answer.status == "lost":
                        assert marks(tmp_path) == ["look x"] * 3
                        return
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.05)
        finally:
            one.kill()
    raise AssertionError("it was begun again and again")


@pytest.mark.slow
async def test_requests_of_instances_killed_at_any_moment_do_nothing_twice(store: str, tmp_path: Path) -> None:
    import random

    chance = random.Random(5)
    plans = [
        [
            [(chance.choice(("strike", "look", "ask")), {"text": f"{n}-{step}-{one}"}) for one in range(3)]
            for step in range(3)
        ]
        for n in range(8)
    ]
    key, made = "", list[str]()
    for round_ in range(12):
        one = await asyncio.to_thread(Killable, store, tmp_path, key)
        key = key or one.key
        try:
            async with AsyncClient(one.url, key) as client:
                if not made:
                    made = [(await client.ask(json.dumps(plan), cache=False, wait=0)).id for plan in plans]
                end = time.monotonic() + (chance.uniform(0.1, 2.0) if round_ < 5 else 60)
                while time.monotonic() < end:
                    for approval in await client.approvals():
                        if chance.random() < 0.5:
                            await client.approve(approval)
                    found = [await client.get_request(request) for request in made]
                    if all(answer.finished for answer in found):
                        break
                    await asyncio.sleep(0.01)
                if round_ < 5:
                    continue
                found = [await client.get_request(request) for request in made]
                if all(answer.finished for answer in found):
                    assert {answer.status for answer in found} <= {"succeeded", "lost"}
                    assert await client.approvals() == []
                    assert (await client.verify_audit()).ok
                    break
        finally:
            one.kill()
    else:
        raise AssertionError("not all requests ended")
    done = marks(tmp_path)
    assert [mark for mark in set(done) if done.count(mark) > 1 and not mark.startswith("look")] == []
    for plan, answer in zip(plans, found, strict=True):
        if answer.status == "succeeded":
            assert len(answer.calls) == sum(map(len, plan))
            for name, values in (one for step in plan for one in step):
                said = {"strike": "struck", "look": "saw", "ask": "asked"}[name]
                assert f"{said} {values['text']}" in answer.answer or "not run again" in answer.answer
