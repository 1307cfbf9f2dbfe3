"""MCP clients at `/mcp`, in both eras: the same keys, roles, limits, approvals and records as everybody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from inline_snapshot import snapshot
from mcp import Client, types
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from ferrule import Output, ToolContext, tool
from ferrule.core.result import Attachment
from ferrule.mcp_server.opening import TASKS
from tests.mcp_server.serving import ERAS, answering, both_eras, text_of
from tests.mcp_server.test_tasks import begin, until
from tests.service.serving import TOOLS, Running, running, started

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 's.db'}"


@asynccontextmanager
async def connected(
    service: Running, era: str, key: str | None = None, headers: dict[str, str] | None = None, **options: Any
) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {key or service.key}", **(headers or {})}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as web,
        Client(streamable_http_client(f"{service.url}/mcp", http_client=web), mode=ERAS[era], **options) as client,
    ):
        yield client


async def member(service: Running, name: str, *roles: str, **key: Any) -> str:
    """The secret of a new user."""
    admin = await service.client()
    await admin.create_user(name, roles=roles or ("member",))
    return (await admin.create_key(name, **key)).secret


@both_eras
async def test_a_client_lists_and_calls_and_every_call_is_on_record(store: str, tmp_path: Path, era: str) -> None:
    """M3, P6: what an MCP client calls is a call of the service, with its row and its audit row."""
    async with running(store, tmp_path) as service, connected(service, era) as client:
        listed = {one.name for one in (await client.list_tools()).tools}
        assert "add" in listed
        assert "clerks_only" not in listed
        answer = await client.call_tool("add", {"a": 2, "b": 3})
        assert text_of(answer) == "5"
        said = (await client.call_tool("who", {})).structured_content
        assert said is not None
        assert (said["tenant"], said["user"]) == ("default", "admin")
        admin = await service.client()
        assert [(one.tool, one.status) for one in (await admin.calls()).calls] == [
            ("who", "succeeded"),
            ("add", "succeeded"),
        ]
        assert [row["tool"] for row in (await admin.audit()).rows] == ["add", "who"]
        assert (await admin.verify_audit()).ok


@both_eras
async def test_what_a_role_denies_is_neither_listed_nor_called(sqlite: str, tmp_path: Path, era: str) -> None:
    async with running(sqlite, tmp_path) as service:
        await (await service.client()).put_role("reader", deny=["note", "trip"])
        key = await member(service, "ann", "reader")
        async with connected(service, era, key) as client:
            listed = {one.name for one in (await client.list_tools()).tools}
            assert {"add", "who"} <= listed
            assert not {"note", "trip", "clerks_only"} & listed
            with pytest.raises(MCPError, match="There is no tool `trip`"):
                await client.call_tool("trip", {})


@both_eras
async def test_a_new_right_holds_for_the_next_request_of_an_open_session(sqlite: str, tmp_path: Path, era: str) -> None:
    async with running(sqlite, tmp_path) as service:
        admin = await service.client()
        key = await member(service, "ann")
        async with connected(service, era, key) as client:
            assert "add" in {one.name for one in (await client.list_tools()).tools}
            await admin.put_role("member", deny=["add"])
            with pytest.raises(MCPError, match="There is no tool `add`"):
                await client.call_tool("add", {"a": 1, "b": 1})
            await admin.put_role("clerk")
            await admin.change_user("ann", roles=["clerk"])
            assert text_of(await client.call_tool("clerks_only", {})) == "hello, clerk"


async def test_an_open_session_hears_that_its_rights_changed(sqlite: str, tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.set()

    async with running(sqlite, tmp_path) as service:
        key = await member(service, "ann")
        async with connected(service, "handshake", key, message_handler=hear) as client:
            await client.list_tools()
            await (await service.client()).put_role("member", deny=["add"])
            async with asyncio.timeout(60):
                await heard.wait()
            assert "add" not in {one.name for one in (await client.list_tools()).tools}


@both_eras
async def test_errors_and_pictures_come_through_the_store_as_they_were(sqlite: str, tmp_path: Path, era: str) -> None:
    @tool(kind="readonly")
    def picture() -> Output[None]:
        """Draw."""
        return Output(llm_content="a dot", attachments=[Attachment("image/png", bytes(range(256)))])

    async with running(sqlite, tmp_path, tools=(*TOOLS, picture)) as service, connected(service, era) as client:
        failed = await client.call_tool("refuse", {})
        assert (failed.is_error, text_of(failed)) == (
            True,
            "Error (execution_error): The shop is closed.\n\nSuggestion: Try on Monday.",
        )
        assert "hunter2" not in text_of(await client.call_tool("trip", {}))
        shown = (await client.call_tool("picture", {})).content
        (image,) = [one for one in shown if isinstance(one, types.ImageContent)]
        assert image.mime_type == "image/png"
        import base64

        assert base64.b64decode(image.data) == bytes(range(256))


@both_eras
async def test_progress_and_output_reach_the_client(sqlite: str, tmp_path: Path, era: str) -> None:
    heard: list[tuple[float, float | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total))

    async with running(sqlite, tmp_path) as service, connected(service, era) as client:
        await client.call_tool("count", {"to": 5}, progress_callback=hear)
    assert heard[-1] == (5, 5)
    assert heard == sorted(heard)


@both_eras
async def test_calls_of_one_session_share_what_it_remembers_and_others_do_not(
    sqlite: str, tmp_path: Path, era: str
) -> None:
    @tool(kind="readonly")
    def seen_before(context: ToolContext) -> bool:
        """Say whether this session was here before."""
        state = context.state
        before = "seen" in state
        state["seen"] = True
        return before

    async with running(sqlite, tmp_path, tools=(seen_before,)) as service:
        other = await member(service, "ann")
        async with connected(service, era) as one, connected(service, era, other) as two:
            said = [text_of(await client.call_tool("seen_before", {})) for client in (one, two, one, two)]
    assert said == ["false", "false", "true", "true"]


# Approvals


@both_eras
@pytest.mark.parametrize("answer", ["once", "always", "no"])
async def test_a_user_who_may_decides_through_the_client(store: str, tmp_path: Path, era: str, answer: str) -> None:
    """The elicitation is the approval: it is stored, decided by the user, and bound to the arguments."""
    mark = f"{era} {answer} {store[:6]}"
    asked = answering(answer=answer, reason="not today")
    async with running(store, tmp_path) as service, connected(service, era, elicitation_callback=asked) as client:
        said = await client.call_tool("note", {"text": mark})
        admin = await service.client()
        status = "denied" if answer == "no" else "approved"
        (approval,) = await admin.approvals(status=status)
        assert (approval.decided_by, approval.scope) == ("admin", "always" if answer == "always" else "once")
        if answer == "no":
            assert said.is_error
            assert "not today" in text_of(said)
            assert mark not in started
            return
        assert text_of(said) == f"noted {mark}"
        again = text_of(await client.call_tool("note", {"text": f"{mark} again"}))
        assert again == f"noted {mark} again"
        assert len(asked.seen) == (1 if answer == "always" else 2)
        assert started.count(mark) == 1


async def test_what_the_user_is_shown_before_they_decide(sqlite: str, tmp_path: Path) -> None:
    """Exactly what will run: a tool whose summary does not hold its arguments has them below."""

    @tool(kind="write", summary=lambda text: "Write a letter")
    def write_letter(text: str) -> str:
        """Write a letter."""
        return "sent"

    asked = answering(answer="once")
    async with (
        running(sqlite, tmp_path, tools=(*TOOLS, write_letter)) as service,
        connected(service, "handshake", elicitation_callback=asked) as client,
    ):
        await client.call_tool("note", {"text": "two\nlines\u202e"})
        await client.call_tool("write_letter", {"text": "Dear Ann,\nall is well."})
    assert [one.message for one in asked.seen] == snapshot(
        [
            """\
a tool that writes asks first:
  note {"text":"two\\nlines\\u{202e}"}
Warning: it contains invisible characters or ones that reverse the text
"Always" would mean, for you, from now on: note\
""",
            """\
a tool that writes asks first:
  Write a letter
    text: Dear Ann,
      all is well.
"Always" would mean, for you, from now on: write_letter\
""",
        ]
    )


@both_eras
async def test_whoever_may_not_approve_waits_for_somebody_who_may(store: str, tmp_path: Path, era: str) -> None:
    """P9: a client that can elicit, of a user whose roles do not let them approve, is not even asked."""
    mark = f"others {era} {store[:6]}"
    asked = answering(answer="once")
    async with running(store, tmp_path) as service:
        key = await member(service, "ann")
        admin = await service.client()
        async with connected(service, era, key, elicitation_callback=asked) as client:
            calling = asyncio.create_task(client.call_tool("note", {"text": mark}))
            while not (waiting := await admin.approvals()):
                await asyncio.sleep(0.02)
            await admin.approve(waiting[0])
            assert text_of(await calling) == f"noted {mark}"
    assert not asked.seen
    assert started.count(mark) == 1


@both_eras
async def test_a_client_that_waits_too_long_is_told_and_the_same_call_joins(
    store: str, tmp_path: Path, era: str
) -> None:
    mark = f"joined {era} {store[:6]}"
    async with running(store, tmp_path, wait=0.2) as service, connected(service, era) as client:
        first = await client.call_tool("note", {"text": mark})
        assert first.is_error
        assert text_of(first) == snapshot("""\
Error (permission_error): `note` has not run yet: it waits for an approval, and nobody has decided so far.

Suggestion: Repeat the same call to wait for the decision; it runs once at most. Do not work around it.\
""")
        admin = await service.client()
        again = await client.call_tool("note", {"text": mark})
        assert "has not run yet" in text_of(again)
        (approval,) = await admin.approvals()  # one, however often it was asked for
        await admin.approve(approval)
        assert (await admin.get_call(approval.call, wait=30)).status == "succeeded"
        assert text_of(await client.call_tool("note", {"text": mark})) == f"noted {mark}"
        assert started.count(mark) == 1
        fresh = await client.call_tool("note", {"text": mark})  # its result was given: this is another call
        assert "has not run yet" in text_of(fresh)
        assert len(await admin.approvals()) == 1
        assert started.count(mark) == 1


@both_eras
async def test_another_key_of_the_same_user_does_not_join(sqlite: str, tmp_path: Path, era: str) -> None:
    async with running(sqlite, tmp_path, wait=0.1) as service:
        admin = await service.client()
        other = (await admin.create_key("admin")).secret
        for key in (service.key, other):
            async with connected(service, era, key) as client:
                await client.call_tool("note", {"text": f"two keys {era}"})
        assert len(await admin.approvals()) == 2


@both_eras
async def test_a_question_that_is_closed_stays_open_for_others(sqlite: str, tmp_path: Path, era: str) -> None:
    async def close(_context: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="cancel")

    async with running(sqlite, tmp_path, wait=0.2) as service:
        async with connected(service, era, elicitation_callback=close) as client:
            said = await client.call_tool("note", {"text": f"closed {era}"})
        assert "has not run yet" in text_of(said)
        assert len(await (await service.client()).approvals()) == 1


async def test_a_client_that_follows_tasks_gets_one_for_a_call_that_waits(
    sqlite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ferrule.mcp_server import server

    monkeypatch.setattr(server.McpServer.__init__, "__kwdefaults__", {**_defaults(server), "task_after": 0.1})
    async with running(sqlite, tmp_path, wait=0.1) as service:
        key = await member(service, "ann")
        admin = await service.client()
        async with connected(service, "stateless", key, extensions=[advertise(TASKS)]) as client:
            begun = await begin(client, "note", text="a task")
            assert begun["resultType"] == "task"
            await admin.approve((await admin.approvals())[0])
            done = await until(client, begun["taskId"], "completed")
            assert done["result"]["content"][0]["text"] == "noted a task"


def _defaults(server: Any) -> dict[str, Any]:
    return dict(server.McpServer.__init__.__kwdefaults__)


@both_eras
async def test_an_approval_outlives_the_client_and_the_instance(store: str, tmp_path: Path, era: str) -> None:
    mark = f"outlives {era} {store[:6]}"
    async with running(store, tmp_path) as service:
        key = service.key
        with suppress(MCPError, RuntimeError, ExceptionGroup):  # however a client words that its server is gone
            async with connected(service, era) as client, asyncio.timeout(60):
                calling = asyncio.create_task(client.call_tool("note", {"text": mark}))
                while not await (await service.client()).approvals():
                    await asyncio.sleep(0.02)
                await service.service.close_mcp()
                calling.cancel()
                raise RuntimeError("gone")
    async with running(store, tmp_path, key=key) as service, connected(service, era, key) as client:
        admin = await service.client()
        (approval,) = await admin.approvals()
        await admin.approve(approval)
        assert text_of(await client.call_tool("note", {"text": mark})) == f"noted {mark}"
    assert started.count(mark) == 1


@both_eras
async def test_a_call_that_the_client_takes_back_is_cancelled(sqlite: str, tmp_path: Path, era: str) -> None:
    async with running(sqlite, tmp_path) as service, connected(service, era) as client:
        calling = asyncio.create_task(client.call_tool("rest", {"seconds": 600}))
        admin = await service.client()
        while not (listed := (await admin.calls()).calls):
            await asyncio.sleep(0.02)
        calling.cancel()
        assert (await admin.get_call(listed[0].id, wait=30)).status == "cancelled"


# Who may


WRONG_KEYS: dict[str, str | None] = {"none": None, "unknown": "Bearer fk_wrong", "basic": "Basic Zm86YmFy"}


@pytest.mark.parametrize("given", list(WRONG_KEYS))
async def test_without_a_good_key_the_answer_is_401(sqlite: str, tmp_path: Path, given: str) -> None:
    async with running(sqlite, tmp_path) as service, httpx2.AsyncClient() as web:
        headers = {**HEADERS, **({"Authorization": found} if (found := WRONG_KEYS[given]) else {})}
        answer = await web.post(f"{service.url}/mcp", json=HELLO, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_session_is_nobody_elses(sqlite: str, tmp_path: Path) -> None:
    """Sessions belong to tenant, user and credential: even another key of the same user does not find one."""
    async with running(sqlite, tmp_path) as service:
        admin = await service.client()
        _, foreign = await service.tenant("acme")
        others = [(await admin.create_key("admin")).secret, await member(service, "ann"), foreign]
        own = await service.http()
        session = (await own.post("/mcp", json=HELLO, headers=HEADERS)).headers["mcp-session-id"]
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        headers = {**HEADERS, "Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25"}
        assert (await own.post("/mcp", json=listing, headers=headers)).status_code == 200
        for key in others:
            web = await service.http(key)
            assert (await web.post("/mcp", json=listing, headers=headers)).status_code == 404
            assert (await web.delete("/mcp", headers=headers)).status_code == 404
        assert (await own.post("/mcp", json=listing, headers=headers)).status_code == 200


async def test_a_revoked_key_ends_its_sessions_and_what_runs_in_them(sqlite: str, tmp_path: Path) -> None:
    async with running(sqlite, tmp_path) as service:
        admin = await service.client()
        key = await admin.create_key("admin")
        web = await service.http(key.secret)
        session = (await web.post("/mcp", json=HELLO, headers=HEADERS)).headers["mcp-session-id"]
        headers = {**HEADERS, "Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25"}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "rest", "arguments": {}}}
        async with web.stream("GET", "/mcp", headers=headers) as events:
            assert events.status_code == 200
            calling = asyncio.create_task(web.post("/mcp", json=call, headers=headers))
            while not (listed := (await admin.calls()).calls):
                await asyncio.sleep(0.02)
            await admin.revoke_key(key.id)
            async with asyncio.timeout(60):
                async for _ in events.aiter_bytes():
                    pass  # until it ends
        assert (await admin.get_call(listed[0].id, wait=30)).status == "cancelled"
        calling.cancel()
        assert (await web.post("/mcp", json=call, headers=headers)).status_code == 401


async def test_a_key_for_something_else_and_a_page_of_another_site_are_refused(sqlite: str, tmp_path: Path) -> None:
    async with running(sqlite, tmp_path) as service:
        for scopes in (["tools"], ["calls"], ["admin"]):
            secret = (await (await service.client()).create_key("admin", scopes=scopes)).secret
            answer = await (await service.http(secret)).post("/mcp", json=HELLO, headers=HEADERS)
            assert (answer.status_code, answer.json()["code"]) == (403, "scope")
        web = await service.http()
        for origin, status in (("https://evil.example", 403), ("null", 403), ("http://localhost:1234", 200)):
            answer = await web.post("/mcp", json=HELLO, headers={**HEADERS, "Origin": origin})
            assert answer.status_code == status, origin


# Limits


@both_eras
async def test_limits_hold_and_are_told(sqlite: str, tmp_path: Path, era: str) -> None:
    async with running(sqlite, tmp_path) as service:
        key = await member(service, "ann", limits={"calls_per_day": 1, "argument_bytes": 1_000})
        async with connected(service, era, key) as client:
            large = await client.call_tool("note", {"text": "x" * 2_000})
            assert text_of(large) == snapshot(
                "Error (execution_error): The arguments have more than 1,000 bytes, which this caller may send."
            )
            assert text_of(await client.call_tool("add", {"a": 1, "b": 1})) == "2"
            over = await client.call_tool("add", {"a": 1, "b": 1})
            assert over.is_error
            assert "has made 1 calls today (UTC), and 1 are allowed" in text_of(over)
        secret = await member(service, "bob", limits={"result_bytes": 2_000})
        async with connected(service, era, secret) as client:
            cut = await client.call_tool("large", {"size": 100_000})
            assert "cut: the result has" in text_of(cut)


async def test_a_service_that_stops_waits_for_no_open_stream(sqlite: str, tmp_path: Path) -> None:
    async with asyncio.timeout(60), running(sqlite, tmp_path) as service:
        web = await service.http()
        session = (await web.post("/mcp", json=HELLO, headers=HEADERS)).headers["mcp-session-id"]
        headers = {**HEADERS, "Mcp-Session-Id": session, "Mcp-Protocol-Version": "2025-11-25"}
        async with web.stream("GET", "/mcp", headers=headers) as events:
            assert events.status_code == 200
            await service.service.close_mcp()
            async for _ in events.aiter_bytes():
                pass
