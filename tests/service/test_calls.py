"""Calls over HTTP: stored, waited for, repeated safely, cancelled, made in batches."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.app.settings import PermissionSettings
from ferrule.builtin.surroundings import get_current_date_time as NOW
from ferrule.client import ServiceError
from ferrule.core.context import Session
from ferrule.core.tool import Invocation
from ferrule.pipeline.stages import Decision
from ferrule.policy import RulePolicy
from tests.service.serving import TOOLS, running, started

ALLOW_NOTES = PermissionSettings(allow=["note", "slow_note"])


async def test_a_call_gives_its_result(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        call = await client.call("add", {"a": 2, "b": 40}, metadata={"ticket": "7"})
        assert (call.status, call.user, call.version) == ("succeeded", "admin", "1.0.0")
        assert call.result is not None
        assert (call.result.data, call.result.llm_content) == (42, "42")
        assert await client.get_call(call.id) == call
        assert call.metadata == {"ticket": "7"}


async def test_what_the_pipeline_decides_is_a_call_and_no_error_of_http(store: str, tmp_path: Path) -> None:
    """P1, P2, P10: unknown tools, bad arguments and failing tools; nothing of the machine leaves."""
    async with running(store, tmp_path) as service:
        client = await service.client()
        said: dict[str, str] = {}
        for name, arguments in (("ad", {}), ("add", {"a": "two"}), ("add", "{broken"), ("trip", {}), ("refuse", {})):
            call = await client.call(name, arguments)
            assert call.status == "failed"
            assert call.result is not None
            said[f"{name} {arguments}"] = call.result.llm_content
        assert said == snapshot(
            {
                "ad {}": """\
Error (not_found_error): There is no tool `ad`.

Suggestion: The tools are: `add`, `rest`, `count`, `note`, `slow_note`, `who`, `trip`, `refuse`, `large`, \
`create_new_intent`, `query_entity_schema`.\
""",
                "add {'a': 'two'}": """\
Error (validation_error): The arguments of `add` have 2 problems:
- `a`: expected integer, got string "two"
- `b`: required, but missing (expected integer)

Suggestion: Call `add` again with {"a": integer, "b": integer}.\
""",
                "add {broken": """\
Error (validation_error): The arguments of `add` were not accepted: they are not valid JSON: \
a key must be in double quotes (after `{`).

Suggestion: Call `add` again with {"a": integer, "b": integer}.\
""",
                "trip {}": """\
Error (execution_error): `trip` failed. RuntimeError: could not open …/file.db with password=[redacted]\
""",
                "refuse {}": """\
Error (execution_error): The shop is closed.

Suggestion: Try on Monday.\
""",
            }
        )


@pytest.mark.parametrize(("name", "arguments"), [("add", {"a": 2, "b": 40}), ("note", {"text": "one"}), (NOW.name, {})])
async def test_a_call_is_decided_once(
    store: str, tmp_path: Path, name: str, arguments: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service decides whether to ask before it stores a call, and hands what it decided to the pipeline."""
    decided: list[str] = []
    decide = RulePolicy.decide

    def counted(policy: RulePolicy, invocation: Invocation, session: Session) -> Decision:
        decided.append(invocation.tool.name)
        return decide(policy, invocation, session)

    monkeypatch.setattr(RulePolicy, "decide", counted)
    async with running(store, tmp_path, tools=(*TOOLS, NOW), permissions=ALLOW_NOTES) as service:
        call = await (await service.client()).call(name, arguments)
        assert call.status == "succeeded"
        assert decided == [name]


async def test_a_call_outlives_its_request(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client, http = await service.client(), await service.http()
        answer = await http.post(
            "/v1/calls", json={"tool": "rest", "arguments": {"seconds": 0.5}}, headers={"Prefer": "respond-async"}
        )
        assert answer.status_code == 202
        assert answer.json()["status"] in ("running", "queued")
        assert answer.headers["location"] == f"/v1/calls/{answer.json()['id']}"
        ended = await client.get_call(answer.json()["id"], wait=30)
        assert (ended.status, ended.result and ended.result.data) == ("succeeded", "rested")


async def test_a_call_goes_on_when_its_connection_breaks(store: str, tmp_path: Path) -> None:
    started.clear()
    async with running(store, tmp_path, permissions=ALLOW_NOTES) as service:
        client = await service.client()
        _, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]))
        body = b'{"tool": "slow_note", "arguments": {"text": "alone", "seconds": 0.4}}'
        head = f"POST /v1/calls HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.key}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        while not started:
            await asyncio.sleep(0.02)
        writer.close()
        found = (await client.calls(tool="slow_note")).calls
        ended = await client.get_call(found[0].id, wait=30)
        assert ended.status == "succeeded"
        assert started == ["alone"]


async def test_an_idempotency_key_makes_a_call_once(store: str, tmp_path: Path) -> None:
    started.clear()
    async with running(store, tmp_path, permissions=ALLOW_NOTES) as service:
        client, http = await service.client(), await service.http()
        first = await client.call("note", {"text": "once"}, key="k1")
        again = await client.call("note", {"text": "once"}, key="k1")
        assert first == again
        assert started == ["once"]
        replayed = await http.post(
            "/v1/calls", json={"arguments": {"text": "once"}, "tool": "note"}, headers={"Idempotency-Key": "k1"}
        )
        assert replayed.headers["idempotent-replayed"] == "true"
        with pytest.raises(ServiceError) as other:
            await client.call("note", {"text": "twice"}, key="k1")
        assert (other.value.status, other.value.code) == (422, "key_reused")
        other_user = await service.user("ann")
        theirs = await other_user.call("note", {"text": "theirs"}, key="k1")
        assert theirs.id != first.id
        assert started == ["once", "theirs"]


async def test_a_key_whose_first_request_is_open_is_in_flight(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        http = await service.http()
        body = {"tool": "rest", "arguments": {"seconds": 1.5}}
        headers = {"Idempotency-Key": "k2"}
        first = asyncio.create_task(http.post("/v1/calls", json=body, headers=headers))
        while not service.service.calls.live:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.05)
        second = await http.post("/v1/calls", json=body, headers=headers)
        assert (second.status_code, second.json()["code"]) == (409, "key_in_flight")
        ended = await first
        assert second.headers["location"] == f"/v1/calls/{ended.json()['id']}"
        joined = await (await service.client()).call("rest", {"seconds": 1.5}, key="k2")
        assert joined.id == ended.json()["id"]


async def test_cancelling_stops_the_work(store: str, tmp_path: Path) -> None:
    """P6."""
    async with running(store, tmp_path) as service:
        client = await service.client()
        call = await client.call("rest", wait=0)
        assert not call.finished
        await client.cancel(call.id)
        ended = await client.get_call(call.id, wait=30)
        assert ended.status == "cancelled"
        assert ended.result is not None
        assert ended.result.error is not None
        assert ended.result.error.type == "cancelled_error"
        with pytest.raises(ServiceError) as late:
            await client.cancel(call.id)
        assert (late.value.status, late.value.code) == (409, "finished")


async def test_a_time_limit_holds(store: str, tmp_path: Path) -> None:
    """P6."""
    async with running(store, tmp_path) as service:
        call = await (await service.client()).call("rest", timeout=0.2)
        assert call.result is not None
        assert call.result.error is not None
        assert (call.status, call.result.error.type) == ("failed", "timeout_error")


async def test_a_call_of_a_batch_that_runs_is_listed_as_running(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        http = await service.http()
        calls = [{"id": "a", "tool": "rest", "arguments": {"seconds": 30}}]
        calls += [{"tool": "large", "arguments": {"size": {"$ref": "a"}}}]
        sent = await http.post("/v1/calls/batch", json={"calls": calls}, headers={"Prefer": "respond-async"})
        first, second = [one["id"] for one in sent.json()["calls"]]

        async def listed(query: str) -> dict[str, str]:
            return {one["id"]: one["status"] for one in (await http.get(f"/v1/calls{query}")).json()["calls"]}

        async with asyncio.timeout(30):
            while (await http.get(f"/v1/calls/{first}")).json()["status"] != "running":
                await asyncio.sleep(0.05)
        assert await listed("") == {first: "running", second: "queued"}
        assert await listed("?status=running") == {first: "running"}
        assert await listed("?status=queued") == {second: "queued"}


async def test_a_batch_runs_in_order_and_may_use_earlier_results(store: str, tmp_path: Path) -> None:
    """P5, P8."""
    async with running(store, tmp_path) as service:
        client = await service.client()
        batch = await client.batch(
            [
                {"id": "first", "tool": "add", "arguments": {"a": 1, "b": 2}},
                {"tool": "add", "arguments": {"a": {"$ref": "first"}, "b": 10}},
                {"tool": "nothing"},
            ],
            key="b1",
        )
        assert [call.status for call in batch.calls] == ["succeeded", "succeeded", "failed"]
        assert [call.result.data for call in batch.calls if call.result] == [3, 13, None]
        again = await client.batch(
            [
                {"id": "first", "tool": "add", "arguments": {"a": 1, "b": 2}},
                {"tool": "add", "arguments": {"a": {"$ref": "first"}, "b": 10}},
                {"tool": "nothing"},
            ],
            key="b1",
        )
        assert again == batch
        assert [call.id for call in (await client.calls(batch=batch.id)).calls][::-1] == [c.id for c in batch.calls]


async def test_calls_are_listed_newest_first_page_by_page(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        made = [(await client.call("add", {"a": number, "b": 0})).id for number in range(5)]
        await client.call("refuse")
        found: list[str] = []
        cursor = None
        while True:
            page = await client.calls(tool="add", limit=2, cursor=cursor)
            found += [call.id for call in page.calls]
            cursor = page.next
            if cursor is None:
                break
        assert found == made[::-1]
        assert [call.tool for call in (await client.calls(status="failed")).calls] == ["refuse"]


async def test_users_see_their_own_calls_and_administrators_all(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin, ann = await service.client(), await service.user("ann")
        mine, theirs = await admin.call("add", {"a": 1, "b": 1}), await ann.call("add", {"a": 2, "b": 2})
        assert [call.id for call in (await ann.calls()).calls] == [theirs.id]
        assert {call.id for call in (await admin.calls()).calls} == {mine.id, theirs.id}
        with pytest.raises(ServiceError) as hidden:
            await ann.get_call(mine.id)
        assert hidden.value.status == 404


async def test_a_session_keeps_what_calls_did(store: str, tmp_path: Path) -> None:
    """A file must have been read before it is edited, in the same session."""
    from ferrule.builtin.all_tools import builtin_tools

    allow = PermissionSettings(allow=["Edit(/**)", "Write(/**)"])
    async with running(store, tmp_path, tools=tuple(builtin_tools()), permissions=allow) as service:
        client = await service.client()
        path = tmp_path / "workspaces" / "default" / "admin"
        path.mkdir(parents=True)
        (path / "a.txt").write_text("one\n")
        edit = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
        alone = await client.call("Edit", edit)
        assert alone.status == "failed"
        await client.call("Read", {"file_path": "a.txt"}, session="s")
        together = await client.call("Edit", edit, session="s")
        assert together.status == "succeeded", together
        assert (path / "a.txt").read_text() == "two\n"


async def test_a_tool_that_needs_what_the_context_lacks_is_refused_before_anybody_is_asked(
    store: str, tmp_path: Path
) -> None:
    """T8: "Missing … in context"; tenant and user are always there."""
    from ferrule import tool

    @tool(kind="write", needs=("model", "tenant", "user"))
    def summarise() -> str:
        """Ask a model."""
        return "never"

    @tool(kind="readonly", needs=("tenant", "user"))
    def look() -> str:
        """Look at something of the tenant."""
        return "seen"

    async with running(store, tmp_path, tools=(summarise, look)) as service:
        client = await service.client()
        refused = await client.call("summarise")
        assert refused.status == "failed"
        assert refused.result is not None
        assert refused.result.error is not None
        assert refused.result.error.message == "Missing model in context: `summarise` needs it."
        assert await client.approvals() == []
        assert (await client.call("look")).status == "succeeded"
