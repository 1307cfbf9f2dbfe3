"""Approvals: they wait in the store, are decided once, and outlive requests, restarts and instances."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from sqlalchemy import select

from ferrule.app.settings import PermissionSettings
from ferrule.client import AsyncClient, ServiceError
from ferrule.core.call import CallInfo
from ferrule.core.context import Session, ToolContext
from ferrule.core.tool import Kind, Tool
from ferrule.service import upkeep
from ferrule.service.messages import ApprovalRecord, StoredCall
from ferrule.service.tables import approvals, calls
from ferrule.service.upkeep import _read  # pyright: ignore[reportPrivateUsage]
from tests.service.serving import running, started


async def asked(client: AsyncClient, text: str) -> tuple[StoredCall, ApprovalRecord]:
    """A call that waits for its approval."""
    call = await client.call("note", {"text": text}, wait=0)
    assert call.status == "awaiting_approval"
    assert call.approval is not None
    return call, await client.approval(call.approval)


async def test_an_approved_call_runs_once_and_a_denied_one_never(store: str, tmp_path: Path) -> None:
    started.clear()
    async with running(store, tmp_path) as service:
        client = await service.client()
        yes, no = await asked(client, "yes"), await asked(client, "no")
        assert yes[1].arguments == {"text": "yes"}
        assert [one.call for one in await client.approvals()] == [no[0].id, yes[0].id]
        await client.approve(yes[1])
        await client.deny(no[1], reason="not today")
        ran, denied = await client.get_call(yes[0].id, wait=30), await client.get_call(no[0].id, wait=30)
        assert (ran.status, ran.result and ran.result.data) == ("succeeded", "noted yes")
        assert denied.status == "failed"
        assert denied.result is not None
        assert "not today" in denied.result.llm_content
        assert started == ["yes"]
        assert await client.approvals() == []
        assert (await client.verify_audit()).rows == 2


async def test_a_decision_is_about_what_was_shown_and_is_taken_once(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        _, approval = await asked(client, "x")
        with pytest.raises(ServiceError) as other:
            await client.approve(approval.model_copy(update={"args_hash": "0" * 64}))
        assert (other.value.status, other.value.code) == (409, "other_arguments")
        decisions = [client.approve(approval), client.deny(approval), client.approve(approval)]
        outcomes = await asyncio.gather(*decisions, return_exceptions=True)
        refused = [one for one in outcomes if isinstance(one, ServiceError)]
        assert [(one.status, one.code) for one in refused] == [(409, "decided")] * 2


async def test_who_may_decide_is_a_matter_of_roles(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin = await service.client()
        await admin.put_role("approver", allow=["Admin(approve others)"])
        ann, bob = await service.user("ann"), await service.user("bob", "approver")
        _, of_ann = await asked(ann, "ann's")
        _, of_bob = await asked(bob, "bob's")
        for client, approval in ((ann, of_ann), (bob, of_bob)):
            with pytest.raises(ServiceError) as own:
                await client.approve(approval)
            assert own.value.status == 403
        with pytest.raises(ServiceError) as unseen:
            await ann.approval(of_bob.id)
        assert unseen.value.status == 404
        assert (await bob.approve(of_ann)).decided_by == "bob"


async def test_always_adds_the_rule_that_was_shown(store: str, tmp_path: Path) -> None:
    from ferrule.builtin.all_tools import builtin_tools

    async with running(store, tmp_path, tools=tuple(builtin_tools())) as service:
        client = await service.client()
        first = await client.call("Write", {"file_path": "a.txt", "content": "x"}, wait=0)
        approval = await client.approval(first.approval or "")
        assert (approval.summary, approval.rule) == ("Write a.txt", "Edit(/**)")
        assert (await client.approve(approval, scope="always")).scope == "always"
        assert (await client.get_call(first.id, wait=30)).status == "succeeded"
        assert (await client.call("Write", {"file_path": "b.txt", "content": "y"})).status == "succeeded"
        assert (await client.users())[0].allow == ["Edit(/**)"]
        await client.change_user("admin", allow=[])
        assert (await client.call("Write", {"file_path": "c.txt", "content": "z"}, wait=0)).status != "succeeded"


async def test_an_approval_nobody_decides_expires(store: str, tmp_path: Path) -> None:
    started.clear()
    async with running(store, tmp_path, approval_hours=0.5 / 3600) as service:
        client = await service.client()
        call, approval = await asked(client, "late")
        ended = await client.get_call(call.id, wait=30)
        assert ended.status == "expired"
        assert (await client.approval(approval.id)).status == "expired"
        with pytest.raises(ServiceError) as late:
            await client.approve(approval)
        assert (late.value.status, late.value.code) == (409, "expired")
        assert started == []


async def test_a_call_that_waits_can_be_cancelled(store: str, tmp_path: Path) -> None:
    started.clear()
    async with running(store, tmp_path) as service:
        client = await service.client()
        call, approval = await asked(client, "never")
        assert (await client.cancel(call.id)).status == "cancelled"
        with pytest.raises(ServiceError) as gone:
            await client.approve(approval)
        assert gone.value.status == 409
        assert started == []


async def test_an_approval_outlives_a_restart(store: str, tmp_path: Path) -> None:
    started.clear()
    async with running(store, tmp_path) as service:
        key = service.key
        call, approval = await asked(await service.client(), "later")
    async with running(store, tmp_path, key=key) as service:
        client = await service.client()
        assert (await client.get_call(call.id)).status == "awaiting_approval"
        await client.approve(approval)
        assert (await client.get_call(call.id, wait=30)).status == "succeeded"
    assert started == ["later"]


async def test_another_instance_decides_and_the_waiting_request_hears_of_it(postgres_url: str, tmp_path: Path) -> None:
    """R4, O4: two instances on one database; the call runs on one of them, once."""
    started.clear()
    async with running(postgres_url, tmp_path) as one, running(postgres_url, tmp_path, key=one.key) as two:
        here, there = await one.client(), await two.client()
        waiting = asyncio.create_task(here.call("note", {"text": "across"}))
        while not (found := await there.approvals()):
            await asyncio.sleep(0.05)
        await there.approve(found[0])
        assert (await waiting).status == "succeeded"
        assert started == ["across"]


async def test_a_role_that_denies_by_then_overrules_the_approval(store: str, tmp_path: Path) -> None:
    """A decision does not widen what the rules of the moment forbid."""
    started.clear()
    async with running(store, tmp_path, permissions=PermissionSettings()) as service:
        admin = await service.client()
        await admin.put_role("writer")
        ann = await service.user("ann", "writer")
        call, approval = await asked(ann, "denied by now")
        await admin.put_role("writer", deny=["note"])
        await admin.approve(approval)
        ended = await ann.get_call(call.id, wait=30)
        assert ended.status == "failed"
        assert started == []


async def test_a_question_in_a_batch_is_an_approval_too(store: str, tmp_path: Path) -> None:
    started.clear()
    async with running(store, tmp_path) as service:
        client = await service.client()
        making = asyncio.create_task(
            client.batch(
                [
                    {"id": "sum", "tool": "add", "arguments": {"a": 1, "b": 2}},
                    {"tool": "note", "arguments": {"text": "in a batch"}},
                ]
            )
        )
        while not (found := await client.approvals()):
            await asyncio.sleep(0.05)
        await client.approve(found[0])
        batch = await making
        assert [call.status for call in batch.calls] == ["succeeded", "succeeded"]
        assert started == ["in a batch"]


async def test_a_question_in_a_batch_that_outlives_its_instance_can_be_denied(store: str, tmp_path: Path) -> None:
    """It had begun when it asked, and was not approved by that."""
    started.clear()
    async with running(store, tmp_path) as service:
        key, client = service.key, await service.client()
        made = await client.batch([{"tool": "note", "arguments": {"text": text}} for text in ("yes", "no")], wait=0)
        while not await client.approvals():
            await asyncio.sleep(0.05)
    async with running(store, tmp_path, key=key) as service:
        client = await service.client()
        (approval,) = await client.approvals()
        await client.deny(approval)
        ended = [await client.get_call(one.id, wait=30) for one in made.calls]
        assert {one.status for one in ended} <= {"failed", "cancelled"}
        assert started == []


async def test_an_administrator_may_be_kept_from_deciding_their_own_calls(store: str, tmp_path: Path) -> None:
    """Two people for every change: a role denies `Admin(approve own)`, and that beats `Admin`."""
    started.clear()
    async with running(store, tmp_path) as service:
        first = await service.client()
        await first.put_role("four-eyes", deny=["Admin(approve own)"])
        ann, bob = await service.user("ann", "admin", "four-eyes"), await service.user("bob", "admin", "four-eyes")
        call, approval = await asked(ann, "both looked")
        with pytest.raises(ServiceError) as own:
            await ann.approve(approval)
        assert (own.value.status, own.value.code) == (403, "forbidden")
        assert started == []
        await bob.approve(approval)
        assert (await ann.get_call(call.id, wait=30)).status == "succeeded"


async def test_secrets_do_not_outlive_the_decision_and_a_call_that_never_began_is_on_record(
    store: str, tmp_path: Path
) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    async with running(store, tmp_path) as service:
        client = await service.client()
        cancelled = await client.call("note", {"text": f"token={secret}"}, wait=0)
        await client.cancel(cancelled.id)
        approved = await client.call("note", {"text": f"token={secret}"}, wait=0)
        asked = (await client.approvals())[0]
        assert secret in asked.arguments["text"]
        await client.approve(asked)
        assert (await client.get_call(approved.id, wait=30)).status == "succeeded"
        assert f"token={secret}" in started

        web = await service.http()
        for status in ("cancelled", "approved"):
            assert secret not in str(
                (await web.get(f"/v1/approvals?status={status}")).json()["approvals"][0]["arguments"]
            )
        kept = await service.service.database.read(
            "default", lambda connection: connection.execute(select(calls.c.arguments)).scalars().all()
        )
        assert len(kept) == 2
        assert secret not in str(kept)
        rows = (await client.audit()).rows
        assert [row["outcome"] for row in rows if row["call_id"] == cancelled.id] == ["cancelled_error"]
        assert (await client.verify_audit()).ok


SECRET = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


class LetterParams(BaseModel):
    """What a letter says."""

    text: str


class WriteLetter(Tool[LetterParams]):
    """Write a letter."""

    name = "write_letter"
    kind = Kind.WRITE

    def describe(self, params: LetterParams, session: Session) -> CallInfo:
        return CallInfo(summary=f"Write: {params.text}")

    async def run(self, params: LetterParams, context: ToolContext) -> str:
        return "written"


async def test_only_whoever_decides_reads_the_secrets_of_a_question(store: str, tmp_path: Path) -> None:
    """O3: neither events nor decided, expired or cancelled approvals have them, in the store or over HTTP."""
    async with running(store, tmp_path, tools=(WriteLetter(),)) as service:
        client, web = await service.client(), await service.http()
        heard: list[str] = []

        async def watch() -> None:
            async with web.stream("GET", "/v1/events") as stream:
                async for line in stream.aiter_lines():
                    heard.append(line)  # noqa: PERF401 - each is looked at as it comes

        watching = asyncio.create_task(watch())
        while not heard:
            await asyncio.sleep(0.02)
        waiting = [await client.call("write_letter", {"text": f"use token={SECRET}"}, wait=0) for _ in range(3)]
        shown = [await client.approval(one.approval or "") for one in waiting]
        assert all(SECRET in one.arguments["text"] for one in shown)
        await client.approve(shown[0])
        await client.deny(shown[1])
        await client.cancel(waiting[2].id)
        for call in waiting:
            await client.get_call(call.id, wait=30)
            events = await web.get(f"/v1/calls/{call.id}/events")
            asked = next(line for line in events.text.splitlines() if '"call.awaiting_approval"' in line)
            assert SECRET not in asked
            assert "use token=" in asked
        decided = str([await client.approval(one.id) for one in shown])
        assert "use token=" in decided
        assert SECRET not in decided
        kept = await service.service.database.read(
            "default", lambda connection: connection.execute(select(approvals.c.question)).scalars().all()
        )
        assert SECRET not in str(kept)
        while sum("call.awaiting_approval" in line for line in heard) < 3:
            await asyncio.sleep(0.02)
        assert SECRET not in "".join(line for line in heard if "awaiting" in line)
        watching.cancel()
        await asyncio.wait({watching})


async def test_a_revoked_key_begins_nothing_any_more(store: str, tmp_path: Path) -> None:
    """Also not where the approval comes later, alone, in a batch, or on another instance."""
    started.clear()
    async with running(store, tmp_path) as service:
        admin, first = await service.client(), service.key
        key = await admin.create_key("admin")
        agent = await service.client(key.secret)
        alone, approval = await asked(agent, "alone")
        batch = asyncio.create_task(agent.batch([{"tool": "note", "arguments": {"text": "in a batch"}}], wait=0))
        made = await batch
        while len(found := await admin.approvals()) < 2:
            await asyncio.sleep(0.05)
        later, _ = await asked(agent, "later")
        await admin.revoke_key(key.id)
        await admin.approve(approval)
        for call, status in ((alone, "failed"), (made.calls[0], "cancelled")):
            ended = await admin.get_call(call.id, wait=30)
            assert ended.status == status
            assert ended.result is not None
            assert "revoked or expired" in ended.result.llm_content
        assert approval.id in {one.id for one in found}
    async with running(store, tmp_path, key=first) as service:
        admin = await service.client()
        await admin.approve((await admin.approvals())[0])
        assert (await admin.get_call(later.id, wait=30)).status == "failed"
    assert started == []


async def test_a_call_has_the_scopes_and_limits_of_its_key_also_after_an_approval(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin = await service.client()
        key = await admin.create_key("admin", scopes=["calls", "tools"], limits={"result_bytes": 3_000})
        agent = await service.client(key.secret)
        intent = {"intentCode": "more", "description": "Do more.", "handler": {"type": "tool", "tool": "who"}}
        assert "create_new_intent" not in {one.name for one in await agent.tools()}
        assert "create_new_intent" in {one.name for one in await admin.tools()}
        refused = await agent.call("create_new_intent", intent)
        assert refused.status == "failed"
        assert (await service.service.directory.user("default", "admin")) is not None
        both = await admin.create_key("admin", scopes=["calls", "tools", "admin"])
        waiting = await (await service.client(both.secret)).call("create_new_intent", intent, wait=0)
        await admin.approve(await admin.approval(waiting.approval or ""))
        assert (await admin.get_call(waiting.id, wait=30)).status == "succeeded"
    async with running(store, tmp_path, key=service.key, permissions=PermissionSettings(ask=["large"])) as service:
        admin, agent = await service.client(), await service.client(key.secret)
        waiting = await agent.call("large", {"size": 50_000}, wait=0)
        await admin.approve(await admin.approval(waiting.approval or ""))
        ended = await admin.get_call(waiting.id, wait=30)
        assert ended.result is not None
        assert "cut: the result has" in ended.result.llm_content


class Stale:
    """Reads of the store as they were at first; everything else as it is."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._first: Any = None

    async def read(self, tenant: str, query: Any) -> Any:
        found = await self._database.read(tenant, query)
        if getattr(found, "status", None) is None:
            return found
        self._first = self._first or found
        return self._first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


@pytest.mark.parametrize("held", [False, True])
async def test_a_decision_in_the_moment_of_the_expiry_counts_where_it_was_acknowledged(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """Whoever is about to let it expire has read it as pending; one of the two wins, and both know which."""
    started.clear()
    reading, decided = threading.Event(), threading.Event()

    def read(*given: Any) -> Any:
        found = _read(*given)
        reading.set()
        decided.wait(30)
        return found

    monkeypatch.setattr(upkeep, "_read", read)
    async with running(store, tmp_path, approval_hours=2 / 3600) as service:
        client = await service.client()
        if held:
            stale: Any = Stale(service.service.database)
            service.service.approvals.database = stale
            monkeypatch.setattr(service.service.approvals, "wake", lambda approval: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
            call = (await client.batch([{"tool": "note", "arguments": {"text": "just in time"}}], wait=0)).calls[0]
            while not (found := await client.approvals()):
                await asyncio.sleep(0.02)
            while stale._first is None:
                await asyncio.sleep(0.02)
            approval = found[0]
        else:
            call, approval = await asked(client, "just in time")
            assert await asyncio.to_thread(reading.wait, 30)
        monkeypatch.setattr("ferrule.service.approvals.time", lambda: 0.0)
        assert (await client.approve(approval)).status == "approved"
        monkeypatch.undo()
        decided.set()
        assert (await client.get_call(call.id, wait=30)).status == "succeeded"
        assert started == ["just in time"]
        service.service.approvals.database = service.service.database
        assert (await client.approval(approval.id)).status == "approved"
