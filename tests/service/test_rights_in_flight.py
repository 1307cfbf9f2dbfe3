"""Rights that change while work runs: what has not started by then does not start (O4)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from ferrule import ToolContext, tool
from ferrule.client import AsyncClient
from ferrule.service.database import DatabaseProblem
from ferrule.service.directory import Principal
from ferrule.service.messages import NewApiKey
from ferrule.testing import ScriptedModel, call
from tests.needs import needs
from tests.service.serving import Running, running, slow_note, started

TEXT = {"type": "object", "properties": {"text": {"type": "string", "description": "What to note"}}}


@tool(kind="write")
def second(text: str) -> str:
    """Write a note after another."""
    started.append(f"second {text}")
    return f"noted {text}"


@tool(kind="write")
async def both(context: ToolContext, text: str) -> str:
    """Write two notes."""
    await context.call("slow_note", {"text": text, "seconds": 0.6})
    return (await context.call("second", {"text": text})).llm_content


@tool(kind="write", idempotent=True)
def put_note(text: str) -> str:
    """Write a note, or the same one again."""
    started.append(f"put {text}")
    return f"noted {text}"


class Office:
    """A tenant with an administrator, and a user who may write notes."""

    def __init__(self, service: Running, boss: AsyncClient, ann: AsyncClient, key: NewApiKey) -> None:
        self.service, self.boss, self.ann, self.key = service, boss, ann, key


async def role(office: Office) -> None:
    await office.boss.put_role("writer", allow=["slow_note", "both", "intent__two"], deny=["second"])


async def asks(office: Office) -> None:
    await office.boss.put_role("writer", allow=["slow_note", "both", "intent__two"])


async def other_role(office: Office) -> None:
    await office.boss.change_user("ann", roles=["member"])


async def tool_off(office: Office) -> None:
    await office.boss.switch_tool("second", enabled=False)


async def key(office: Office) -> None:
    await office.boss.revoke_key(office.key.id)


async def user_off(office: Office) -> None:
    await office.boss.change_user("ann", enabled=False)


async def user_deleted(office: Office) -> None:
    await office.boss.delete_user("ann")


async def tenant_off(office: Office) -> None:
    await (await office.service.client()).change_tenant("other", enabled=False)


async def in_a_batch(ann: AsyncClient) -> Any:
    return await ann.batch(
        [
            {"tool": "slow_note", "arguments": {"text": "first", "seconds": 0.6}},
            {"tool": "second", "arguments": {"text": "it"}},
        ],
        wait=0,
    )


async def in_a_chain(ann: AsyncClient) -> Any:
    return await ann.run_intent("two", {"text": "first"}, wait=0)


async def for_a_model(ann: AsyncClient) -> Any:
    return await ann.ask("Write two notes.", wait=0)


async def by_a_tool(ann: AsyncClient) -> Any:
    return await ann.call("both", {"text": "first"}, wait=0)


Change = Callable[[Office], Awaitable[None]]
Way = Callable[[AsyncClient], Awaitable[Any]]
CHANGES = [role, asks, other_role, tool_off, key, user_off, user_deleted, tenant_off]
WAYS = [in_a_batch, in_a_chain, for_a_model, by_a_tool]


async def _open(service: Running) -> Office:
    boss, _ = await service.tenant("other")
    await boss.put_role("writer", allow=["slow_note", "second", "both", "intent__two"])
    steps = [
        {"id": "one", "tool": "slow_note", "arguments": {"text": {"$ref": "input.text"}, "seconds": 0.6}},
        {"id": "two", "tool": "second", "arguments": {"text": {"$ref": "one"}}},
    ]
    await boss.put_intent(
        "two", description="Write two notes.", parameters=TEXT, handler={"type": "chain", "steps": steps}
    )
    await boss.create_user("ann", roles=["writer"])
    made = await boss.create_key("ann")
    return Office(service, boss, await service.client(made.secret), made)


async def _ended(service: Running) -> None:
    while service.service.calls.live:
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
async def test_what_has_not_started_does_not_start(store: str, tmp_path: Path, change: Change, way: Way) -> None:
    started.clear()
    model = ScriptedModel(
        [call("slow_note", {"text": "first", "seconds": 0.6}), call("second", {"text": "it"}), "Done."]
    )
    async with running(store, tmp_path, tools=(slow_note, second, both), model=model) as service:
        office = await _open(service)
        await way(office.ann)
        while not started:
            await asyncio.sleep(0.01)
        await change(office)
        await _ended(service)
        assert started == ["first"]


@pytest.mark.parametrize("way", WAYS)
async def test_without_a_change_everything_runs(store: str, tmp_path: Path, way: Way) -> None:
    """Also where somebody else's rights change meanwhile."""
    started.clear()
    model = ScriptedModel(
        [call("slow_note", {"text": "first", "seconds": 0.6}), call("second", {"text": "it"}), "Done."]
    )
    async with running(store, tmp_path, tools=(slow_note, second, both), model=model) as service:
        office = await _open(service)
        await way(office.ann)
        while not started:
            await asyncio.sleep(0.01)
        await office.boss.put_role("reader", deny=["second"])
        await _ended(service)
        assert [one.split()[0] for one in started] == ["first", "second"]


@pytest.mark.parametrize("change", [key, user_off, tenant_off])
async def test_what_runs_for_a_credential_that_is_gone_is_stopped(store: str, tmp_path: Path, change: Change) -> None:
    started.clear()
    async with running(store, tmp_path, tools=(slow_note, second, both)) as service:
        office = await _open(service)
        running_call = await office.ann.call("slow_note", {"text": "first", "seconds": 60}, wait=0)
        while not started:
            await asyncio.sleep(0.01)
        await change(office)
        async with asyncio.timeout(20):
            await _ended(service)
        row = await service.service.calls.stored.row("other", running_call.id)
        assert row is not None
        assert row["status"] == "cancelled"
        assert "revoked or expired" in row["result"]


async def test_what_was_read_before_a_change_is_not_kept_after_it(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is stored and told of while the rights are read for the first call of a batch."""
    started.clear()
    async with running(store, tmp_path, tools=(slow_note, second, both)) as service:
        office, directory = await _open(service), service.service.directory
        await service.service.upkeep.stop()
        read, changed = directory.of_call, asyncio.Event()

        async def read_slowly(row: Any) -> Principal | None:
            found = await read(row)
            if not changed.is_set():
                changed.set()
                await role(office)
                await directory.look_now()  # as another call does meanwhile
            return found

        monkeypatch.setattr(directory, "of_call", read_slowly)
        await in_a_batch(office.ann)
        await _ended(service)
        assert changed.is_set()
        assert started == ["first"]


async def test_what_runs_is_stopped_also_if_the_database_is_away_for_a_moment(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started.clear()
    async with running(store, tmp_path, tools=(slow_note, second, both)) as service:
        office, directory = await _open(service), service.service.directory
        await office.ann.call("slow_note", {"text": "first", "seconds": 60}, wait=0)
        while not started:
            await asyncio.sleep(0.01)
        read, failed = directory.of_call, asyncio.Event()

        async def read_badly(row: Any) -> Principal | None:
            if not failed.is_set():
                failed.set()
                raise DatabaseProblem("It is away.")
            return await read(row)

        monkeypatch.setattr(directory, "of_call", read_badly)
        await key(office)
        async with asyncio.timeout(20):
            await _ended(service)
        assert failed.is_set()


@pytest.mark.parametrize("change", [key, user_off, user_deleted, tenant_off])
async def test_commands_in_the_background_end_with_the_last_key_of_their_session(
    store: str, tmp_path: Path, change: Change
) -> None:
    needs(which("bwrap"), "bubblewrap, the sandbox of commands; on Debian: apt-get install bubblewrap")
    command = "while true; do date +%N > beat; sleep 0.05; done"
    arguments = {"command": command, "description": "Beat", "run_in_background": True}
    async with running(store, tmp_path, tools=None) as service:
        boss, _ = await service.tenant("other")
        await boss.put_role("writer", allow=["Bash"])
        await boss.create_user("ann", roles=["writer"])
        made, other = [await boss.create_key("ann") for _ in range(2)]
        office = Office(service, boss, await service.client(made.secret), made)
        began = await office.ann.call("Bash", arguments, session="shared")
        again = await (await service.client(other.secret)).call("Bash", {"command": "true"}, session="shared")
        assert [began.status, again.status] == ["succeeded", "succeeded"]

        def beat() -> str:
            return (tmp_path / "workspaces/other/ann/beat").read_text()

        async def goes_on() -> bool:
            before = beat()
            await asyncio.sleep(0.5)
            return beat() != before

        await office.boss.revoke_key(other.id)
        await asyncio.sleep(0.5)
        assert await goes_on()
        await change(office)
        async with asyncio.timeout(20):
            while await goes_on():
                pass


@pytest.mark.parametrize("change", ["denied", "off", "none"])
async def test_what_a_command_was_tried_with_is_kept_under_the_rights_of_its_approval(
    store: str, tmp_path: Path, change: str
) -> None:
    needs(which("bwrap"), "bubblewrap, the sandbox of commands; on Debian: apt-get install bubblewrap")
    async with running(store, tmp_path, tools=None) as service:
        boss, _ = await service.tenant("other")
        await boss.create_user("ann", roles=["member"])
        ann = await service.client((await boss.create_key("ann")).secret)
        tried = await ann.call("Bash", {"command": "echo hi > made.txt", "description": "Try"}, wait=0)
        async with asyncio.timeout(20):
            while not (asked := await boss.approvals()):
                await asyncio.sleep(0.05)
        assert asked[0].effects
        if change == "denied":
            await boss.put_role("member", deny=["Bash"])
        elif change == "off":
            await boss.switch_tool("Bash", enabled=False)
        else:
            await boss.put_role("member", ask=["Bash"])
        await boss.approve(asked[0])
        ended = await ann.get_call(tried.id, wait=20)
        assert ended.status == ("succeeded" if change == "none" else "failed")
        assert (tmp_path / "workspaces/other/ann/made.txt").exists() == (change == "none")


@pytest.mark.slow
async def test_another_instance_starts_nothing_after_the_change(postgres_url: str, tmp_path: Path) -> None:
    """The instance that runs the batch hears of the change from the database, not only by its notification."""
    started.clear()
    async with (
        running(postgres_url, tmp_path, tools=(slow_note, second, both)) as one,
        running(postgres_url, tmp_path, tools=(slow_note, second, both), key=one.key) as two,
    ):
        office = await _open(one)
        ann = await two.client(office.key.secret)
        two.service.upkeep.hear = lambda news: None
        await in_a_batch(ann)
        while not started:
            await asyncio.sleep(0.01)
        await role(office)
        await _ended(two)
        assert started == ["first"]


@pytest.mark.slow
async def test_another_instance_starts_no_write_that_could_be_repeated(postgres_url: str, tmp_path: Path) -> None:
    """Such a call is not stored before it starts."""
    started.clear()
    tools = (slow_note, second, both, put_note)
    async with (
        running(postgres_url, tmp_path, tools=tools) as one,
        running(postgres_url, tmp_path, tools=tools, key=one.key) as two,
    ):
        office = await _open(one)
        await office.boss.put_role("writer", allow=["put_note"])
        ann = await two.http(office.key.secret)
        two.service.upkeep.hear = lambda news: None
        body = {"tool": "put_note", "arguments": {"text": "it"}}
        assert (await ann.post("/v1/calls", json=body)).json()["status"] == "succeeded"
        await office.boss.put_role("writer", deny=["put_note"])
        assert (await ann.post("/v1/calls", json=body)).json()["status"] == "failed"
        assert started == ["put it"]
