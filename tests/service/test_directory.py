"""Keys, users, roles and tenants; a change holds from the next request on."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select

from ferrule.client import AsyncClient, ServiceError
from ferrule.service.tables import metadata
from ferrule.service.vocabulary import AREAS
from tests.service.serving import Running, running, started


async def status_of(service: Running, secret: str) -> int:
    answer = await (await service.http(secret)).get("/v1/me")
    return answer.status_code


async def refused(client: AsyncClient, area: str) -> int:
    """How a request about an area of administration is answered."""
    try:
        await getattr(client, area)()
    except ServiceError as error:
        return error.status
    return 200


async def test_a_secret_is_kept_nowhere(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        made = await client.create_key("admin", name="second")
        assert made.secret.startswith("fk_")
        assert len(made.secret) == 46
        for tenant in (None, "default"):
            with service.service.database.transaction(tenant) as connection:
                for table in metadata.sorted_tables:
                    kept = str(connection.execute(select(table)).all())
                    assert made.secret not in kept
                    assert made.secret[10:] not in kept


async def test_a_key_is_rotated_with_an_overlap_and_revoked_at_once(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        first = await client.create_key("admin")
        second = await client.rotate_key(first.id, overlap=3600)
        assert [await status_of(service, one.secret) for one in (first, second)] == [200, 200]
        third = await client.rotate_key(first.id)
        assert [await status_of(service, one.secret) for one in (first, second, third)] == [401, 401, 200]
        assert (await client.revoke_key(first.id)).revoked
        assert await status_of(service, third.secret) == 401
        with pytest.raises(ServiceError) as revoked:
            await client.rotate_key(first.id)
        assert revoked.value.status == 409


async def test_a_key_expires(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        for seconds in (1.0, 8.0, 60.0):  # on a busy machine a second may be over before the first question
            key = await client.create_key("admin", expires_in=seconds)
            if await status_of(service, key.secret) == 200:
                break
        else:
            pytest.fail("a key of a minute was never good")
        await asyncio.sleep(seconds + 0.1)
        assert await status_of(service, key.secret) == 401


async def test_a_key_does_what_its_scopes_say(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        narrow = await service.client((await client.create_key("admin", scopes=["tools"])).secret)
        assert [tool.name for tool in await narrow.tools()] != []
        with pytest.raises(ServiceError) as call:
            await narrow.call("add", {"a": 1, "b": 1})
        assert (call.value.status, call.value.code) == (403, "scope")
        assert await refused(narrow, "keys") == 403


async def test_roles_decide_what_is_listed_and_what_may_be_called(store: str, tmp_path: Path) -> None:
    """R4: what a role denies does not exist for it; rules and lists never differ."""
    async with running(store, tmp_path) as service:
        admin = await service.client()
        await admin.put_role("narrow", deny=["add"], allow=["note"])
        await admin.put_role("clerk")
        ann = await service.user("ann", "narrow")
        names = {tool.name for tool in await ann.tools()}
        assert "add" not in names
        assert "clerks_only" not in names
        assert "add" not in {one["function"]["name"] for one in await ann.definitions("openai")}
        for name in ("add", "clerks_only"):
            call = await ann.call(name, {"a": 1, "b": 2} if name == "add" else {})
            assert call.result is not None
            assert call.result.error is not None
            assert call.result.error.type == "not_found_error"
        assert (await ann.call("note", {"text": "allowed by the role"})).status == "succeeded"
        await admin.change_user("ann", roles=["narrow", "clerk"])
        assert (await ann.call("clerks_only")).status == "succeeded"
        await admin.put_role("narrow")
        assert (await ann.call("add", {"a": 1, "b": 2})).status == "succeeded"


async def test_a_role_in_plan_mode_reads_alone(store: str, tmp_path: Path) -> None:
    """R4."""
    async with running(store, tmp_path) as service:
        admin = await service.client()
        await admin.put_role("looker", mode="plan", allow=["note"])
        ann = await service.user("ann", "looker")
        assert {"note", "slow_note"}.isdisjoint({tool.name for tool in await ann.tools()})
        assert (await ann.call("note", {"text": "x"})).status == "failed"


async def test_administration_is_by_area(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin = await service.client()
        await admin.put_role("helpdesk", allow=["Admin(users)", "Admin(keys)"])
        await admin.put_role("most", allow=["Admin"], deny=["Admin(audit)"])
        member, helper, most = (
            await service.user("m"),
            await service.user("h", "helpdesk"),
            await service.user("a", "most"),
        )
        areas = ("users", "keys", "roles", "audit", "tenants")
        assert [await refused(member, area) for area in areas] == [403, 403, 403, 403, 403]
        assert [await refused(helper, area) for area in areas] == [200, 200, 403, 403, 403]
        assert [await refused(most, area) for area in areas] == [200, 200, 200, 403, 200]


async def test_a_misspelt_tool_restricts_nothing_and_is_refused(store: str, tmp_path: Path) -> None:
    """S1: in a role's rules and in the limits of tenants, users and keys; what is like no tool may still come."""
    async with running(store, tmp_path) as service:
        client = await service.client()
        limits: Any = {"tools": {"noet": {"rate": 1}}}
        for attempt in (
            client.put_role("clerk", deny=["noet"]),
            client.put_role("clerk", ask=["add", "noet"]),
            client.put_role("clerk", allow=["noet(x*)"]),
            client.create_user("ann", limits=limits),
            client.change_user("admin", limits=limits),
            client.change_tenant("default", limits=limits),
            client.create_key("admin", limits=limits),
        ):
            with pytest.raises(ServiceError) as problem:
                await attempt
            assert (problem.value.status, problem.value.problem.detail) == (
                422,
                "There is no tool `noet`; did you mean `note`?",
            )
        await client.put_role(
            "clerk", deny=["note", "launch_rocket", "mcp__late__x", "Bash(rm *)"], allow=["Admin(keys)"]
        )


async def test_what_cannot_be_is_refused_in_words(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        client = await service.client()
        said: list[tuple[int, str]] = []
        for attempt in (
            client.create_user("ann", roles=["nobody"]),
            client.create_user("admin"),
            client.put_role("odd", allow=["Grep(x)"]),
            client.put_role("odd", ask=["Admin(keys)"]),
            client.put_role("odd", allow=["Admin(kyes)"]),
            client.delete_role("admin"),
            client.create_key("ghost"),
            client.revoke_key("nothing"),
            client.create_tenant("default"),
            client.change_tenant("default", enabled=False),
        ):
            with pytest.raises(ServiceError) as problem:
                await attempt
            said.append((problem.value.status, problem.value.problem.detail))
        assert said == [
            (404, "There is no role `nobody`."),
            (409, "There is a user `admin` already."),
            (422, "The rule `Grep(x)` cannot work: rules for paths apply to every tool; write `Read(x)`."),
            (422, "The rule `Admin(keys)` cannot work: administration never asks."),
            (422, f"The rule `Admin(kyes)` cannot work: there is {', '.join(f'`{area}`' for area in AREAS)}."),
            (409, "The role `admin` is held by `admin`. Give them another role first."),
            (404, "There is no user `ghost`."),
            (404, "There is no key `nothing`."),
            (409, "There is a tenant `default` already."),
            (409, "`default` manages the other tenants and cannot be switched off."),
        ]
        assert [user.name for user in await client.users()] == ["admin"]


async def test_a_user_or_tenant_that_is_switched_off_is_out_at_once(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin = await service.client()
        ann = await service.user("ann")
        boss, secret = await service.tenant("other")
        assert (await boss.me()).tenant == "other"
        await admin.change_user("ann", enabled=False)
        with pytest.raises(ServiceError) as off:
            await ann.me()
        assert off.value.status == 401
        await admin.change_tenant("other", enabled=False)
        assert await status_of(service, secret) == 401
        await admin.change_tenant("other", enabled=True)
        assert await status_of(service, secret) == 200
        await admin.delete_user("ann")
        assert [user.name for user in await admin.users()] == ["admin"]


async def test_another_instance_hears_of_a_revoked_key(postgres_url: str, tmp_path: Path) -> None:
    async with running(postgres_url, tmp_path) as one, running(postgres_url, tmp_path, key=one.key) as two:
        client = await one.client()
        key = await client.create_key("admin")
        assert await status_of(two, key.secret) == 200
        await client.revoke_key(key.id)
        for _ in range(100):
            if await status_of(two, key.secret) == 401:
                break
            await asyncio.sleep(0.05)
        assert await status_of(two, key.secret) == 401


async def test_a_tool_is_switched_off_for_one_tenant(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin = await service.client()
        boss, _ = await service.tenant("other")
        await boss.switch_tool("add", enabled=False)
        assert (await boss.call("add", {"a": 1, "b": 1})).status == "failed"
        assert (await admin.call("add", {"a": 1, "b": 1})).status == "succeeded"
        await boss.switch_tool("add", enabled=True)
        assert (await boss.call("add", {"a": 1, "b": 1})).status == "succeeded"


@pytest.mark.parametrize("change", ["role", "key"])
async def test_rights_are_those_of_the_moment_when_the_whole_request_is_there(
    store: str, tmp_path: Path, change: str
) -> None:
    """A body that comes slowly does not keep rights alive that were taken meanwhile."""
    async with running(store, tmp_path) as service:
        admin = await service.client()
        await admin.put_role("writer", allow=["note"])
        await admin.create_user("ann", roles=["writer"])
        key = await admin.create_key("ann")
        body = json.dumps({"tool": "note", "arguments": {"text": f"too late {change}"}}).encode()
        host, port = service.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = (
            f"POST /v1/calls HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {key.secret}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body[:5])
        await writer.drain()
        await asyncio.sleep(0.5)
        if change == "role":
            await admin.put_role("writer", deny=["note"])
        else:
            await admin.revoke_key(key.id)
        writer.write(body[5:])
        answer = (await reader.read()).decode()
        writer.close()
        assert ("not_found_error" if change == "role" else "401 Unauthorized") in answer
        assert f"too late {change}" not in started


async def test_what_was_read_before_a_change_does_not_speak_for_what_comes_after(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        ann = await service.user("ann")
        access, directory = service.service.access, service.service.directory
        before = await directory.user("default", "ann")
        assert before is not None
        await (await service.client()).put_role("member", deny=["add"])
        await ann.me()
        directory.forget()
        assert "add" in access.of(before).tools  # a request that was slow
        assert "add" not in [tool.name for tool in await ann.tools()]


async def test_a_change_is_not_told_of_before_it_is_committed(tmp_path: Path) -> None:
    """Who reads anew too early reads what was there before, and nothing would make them read again."""
    async with running(f"sqlite:///{tmp_path / 'service.db'}", tmp_path) as service:
        admin, ann, store = await service.client(), await service.user("ann"), service.service
        approval = await admin.approval((await ann.call("note", {"text": "one"}, wait=0)).approval or "")
        at_commit, go_on = threading.Event(), threading.Event()

        @event.listens_for(store.database.engine, "commit")
        def wait(connection: object) -> None:  # pyright: ignore[reportUnusedFunction]
            if threading.current_thread().name == "ferrule-write" and not at_commit.is_set():
                at_commit.set()
                go_on.wait(30)

        deciding = asyncio.create_task(admin.approve(approval, scope="always"))
        assert await asyncio.to_thread(at_commit.wait, 30)
        store.directory._look_at = 0.0  # pyright: ignore[reportPrivateUsage] - it is time to look again
        await ann.me()
        go_on.set()
        assert (await deciding).scope == "always"
        await asyncio.sleep(0.1)
        assert (await ann.call("note", {"text": "two"}, wait=5)).status == "succeeded"


async def test_a_key_that_is_revoked_while_it_is_looked_up_starts_nothing(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(store, tmp_path) as service:
        admin, database = await service.client(), service.service.database
        key = await admin.create_key("admin")
        client, read, is_read, go_on = await service.http(key.secret), database.read, asyncio.Event(), asyncio.Event()

        async def read_slowly(*given: Any) -> Any:
            found = await read(*given)
            # The service's own upkeep reads as well; the reader of secrets is the one to hold up.
            if "Directory.principal" in given[1].__qualname__ and not is_read.is_set():
                is_read.set()
                await go_on.wait()
            return found

        monkeypatch.setattr(database, "read", read_slowly)
        calling = asyncio.create_task(client.post("/v1/calls", json={"tool": "add", "arguments": {"a": 1, "b": 1}}))
        await is_read.wait()
        await admin.revoke_key(key.id)
        go_on.set()
        assert (await calling).status_code == 401
