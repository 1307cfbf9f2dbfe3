# ruff: noqa: E501 - words as they are read
"""Pools: who offers what, who has its turn, and clear words where nobody is there (O4, O6, R5)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import RegistryEvent, Runtime, Session, ToolContext, tool
from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.access import reads
from ferrule.core.call import RawCall
from ferrule.core.context import Caller
from ferrule.policy.decide import RulePolicy
from ferrule.registry.registry import Registry
from ferrule.remote.link import NatsLink
from ferrule.remote.offers import follow
from ferrule.remote.wire import Nkey, RemoteError, calls_stream, new_seed
from ferrule.remote.worker import HERE
from tests.remote.places import Server, calling, calls_to, free_port, working


@tool(kind="readonly", tags=("sums",))
def add(first: int, second: int = 2) -> int:
    """Add two numbers. Use this for sums."""
    return first + second


@pytest.mark.slow
async def test_words_for_whatever_is_missing(server: Server) -> None:
    async def said(**options: Any) -> str:
        async with calling(server, "empty", [add], wait=0.3, **options) as runtime:
            return (await runtime.run("add", {"first": 1})).llm_content

    gone = free_port()
    assert await said() == snapshot("""\
Error (execution_error): `add` was not run: The pool `empty` has no workers (waited 0.3 s). Start one: `ferrule worker --pool empty`.

Suggestion: It was not run; the same call may work later.\
""")
    told = await said(url=f"nats://127.0.0.1:{gone}")
    assert told.replace(str(gone), "PORT") == snapshot("""\
Error (execution_error): `add` was not run: No NATS server answers at nats://127.0.0.1:PORT. Start one (`ferrule remote dev` runs one on this machine), or set `remote.url` to where it is.

Suggestion: It was not run; the same call may work later.\
""")
    stranger = Nkey(new_seed())
    told = await said(key=stranger)
    assert told.replace(stranger.public, "KEY").replace(str(server.port), "PORT") == snapshot("""\
Error (execution_error): `add` was not run: The NATS server at nats://127.0.0.1:PORT does not accept this key (KEY). Add that public key to the server's configuration (`ferrule remote config` prints one), or use another: `remote.key`.

Suggestion: It was not run; the same call may work later.\
""")


@pytest.mark.slow
async def test_many_calls_without_a_server_fail_together(server: Server) -> None:
    async with calling(server, "empty", [add], url=f"nats://127.0.0.1:{free_port()}") as runtime:
        began = asyncio.get_running_loop().time()
        results = await asyncio.gather(*(runtime.run("add", {"first": 1}) for _ in range(20)))
        assert asyncio.get_running_loop().time() - began < 30
    assert all("No NATS server answers" in one.llm_content for one in results)


async def test_a_tool_for_a_pool_needs_a_connection() -> None:
    @tool(kind="readonly", remote="gpu")
    def train() -> str:
        """Train. Use this to train."""
        return "trained"

    assert (await Runtime([train]).run("train")).llm_content == snapshot("""\
Error (execution_error): `train` was not run: it runs on the workers of the pool `gpu`, and this program has no connection to them.

Suggestion: Set `remote.url` in the settings, or give the Runtime remote=RemoteCalls(…).\
""")


async def test_another_definition_is_not_the_tool(server: Server, pool: str) -> None:
    @tool(kind="readonly", name="add", version="2.0.0")
    def other(first: int) -> int:
        """Add two to a number. Use this for sums."""
        return first + 2

    async with working(server, pool, [other]), calling(server, pool, [add], wait=0.3) as runtime:
        told = (await runtime.run("add", {"first": 1})).llm_content
        assert (
            f"The workers of the pool `{pool}` offer a different definition of `add` (version 2.0.0; here it is 1.0.0)"
            in told
        )


async def test_tools_go_to_pools_by_name_tag_and_kind(server: Server) -> None:
    @tool(kind="execute", remote="gpu")
    def build_all() -> str:
        """Build. Use this to build."""
        return ""

    routes = {"sums": ["tag:sum*"], "shells": ["kind:execute"], "named": ["add"]}
    assert calls_to(server, "x", pools=routes).pool_of(add) == "sums"
    assert calls_to(server, "x", pools={"named": ["a*"]}).pool_of(add) == "named"
    assert calls_to(server, "x", pools=routes).pool_of(build_all) == "shells"
    assert calls_to(server, "x", pools={}).pool_of(build_all) == "gpu"
    assert calls_to(server, "x", pools={}).pool_of(add) is None


async def test_one_tenants_many_calls_do_not_keep_another_waiting(server: Server, pool: str) -> None:
    order: list[str | None] = []

    @tool(kind="readonly")
    async def note(context: ToolContext) -> str:
        """Note who called. Use this to see turns."""
        order.append(context.caller.tenant)
        await asyncio.sleep(0.02)
        return ""

    async with working(server, pool, [note], concurrency=1), calling(server, pool, [note]) as runtime:
        many = [asyncio.create_task(runtime.run("note", {}, session=Session(caller=Caller("many")))) for _ in range(30)]
        while len(order) < 3:
            await asyncio.sleep(0.005)
        await runtime.run("note", {}, session=Session(caller=Caller("few")))
        before = order.index("few")
        await asyncio.gather(*many)
    assert before < 15, order
    assert len(order) == 31


async def test_a_worker_runs_so_many_at_once(server: Server, pool: str) -> None:
    now, most = 0, 0

    @tool(kind="readonly")
    async def busy() -> str:
        """Be busy. Use this to wait."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.03)
        now -= 1
        return ""

    async with working(server, pool, [busy], concurrency=3), calling(server, pool, [busy]) as runtime:
        results = await asyncio.gather(*(runtime.run("busy", {}) for _ in range(15)))
    assert all(one.success for one in results)
    assert most == 3


async def test_a_worker_that_is_told_to_stop_ends_its_calls_first(server: Server, pool: str) -> None:
    began = asyncio.Event()

    @tool(kind="readonly")
    async def slowly() -> str:
        """Take a while. Use this to wait."""
        began.set()
        await asyncio.sleep(0.3)
        return "ended"

    async with calling(server, pool, [slowly], wait=0.5) as runtime:
        async with working(server, pool, [slowly]):
            going = asyncio.create_task(runtime.run("slowly", {}))
            await began.wait()
        assert (await going).llm_content == "ended"
        assert "has no workers" in (await runtime.run("slowly", {})).llm_content


async def test_tools_that_only_workers_have_come_and_go_with_them(server: Server, pool: str) -> None:
    registry = Registry()
    heard: list[RegistryEvent] = []
    registry.subscribe(heard.append)
    remote = calls_to(server, pool, pools={pool: []})
    runtime = Runtime(registry, remote=remote)
    async with working(server, pool, [add]):
        await follow(remote, registry, 5.0)
        assert (await runtime.run("add", {"first": 1})).data == 3
        assert "`first`: required, but missing" in (await runtime.run("add", {})).llm_content
        found = registry.get("add")
        assert found is not None
        assert found.read_only
    for _ in range(200):
        if "add" not in registry:
            break
        await asyncio.sleep(0.01)
    assert [(one.change, one.name, one.origin) for one in heard] == [
        ("registered", "add", "remote"),
        ("unregistered", "add", "remote"),
    ]
    await remote.close()


@pytest.mark.slow
async def test_files_and_shells_are_where_their_workspace_is(server: Server, pool: str, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    tools = list(builtin_tools())
    policy = RulePolicy(mode="bypass")

    def runtime_in(folder: Path) -> Runtime:
        return Runtime(tools, remote=HERE, policy=policy, session=Session(workspace=folder))

    async with (
        working(server, pool, tools, workspace=mine, runtime=runtime_in(mine)) as first,
        working(server, pool, tools, workspace=other, runtime=runtime_in(other)),
        calling(server, pool, tools, policy=policy, wait=1.0, session=Session(workspace=mine)) as runtime,
    ):
        assert (await runtime.run("Write", {"file_path": "a.txt", "content": "hello\n"})).success
        assert (mine / "a.txt").read_text() == "hello\n"
        assert "hello" in (await runtime.run("Read", {"file_path": "a.txt"})).llm_content
        edit = {"file_path": "a.txt", "old_string": "hello", "new_string": "bye"}
        assert (await runtime.run("Edit", edit)).success  # it knows that the file was read
        assert first.sessions is not None
        elsewhere = Session(workspace=tmp_path / "nowhere")
        told = await runtime.run("Read", {"file_path": "a.txt"}, session=elsewhere)
        assert (
            f"No worker of the pool `{pool}` has the workspace {os.path.realpath(tmp_path / 'nowhere')}."
            in told.llm_content
        )


async def test_a_worker_refuses_what_its_own_rules_deny(server: Server, pool: str) -> None:
    runtime = Runtime([add], remote=HERE, policy=RulePolicy(deny=["add"]))
    async with working(server, pool, [add], runtime=runtime), calling(server, pool, [add]) as caller:
        result = await caller.run(RawCall("add", {"first": 1}))
    assert result.error is not None
    assert result.error.kind == "permission_error"


@pytest.mark.parametrize("name", ["", "a b", "x.y", "*", ">", "a" * 65])
def test_a_pool_has_a_name_that_a_subject_can_hold(name: str, server: Server) -> None:
    with pytest.raises(Exception, match="cannot name a pool"):
        calls_to(server, "x", pools={name: []})


@tool(kind="readonly", touches=reads("path", "{path}"))
async def see(path: str, seconds: float = 0.0) -> str:
    """Look at a file. Use this to see."""
    await asyncio.sleep(seconds)
    return "seen"


@pytest.mark.slow
@pytest.mark.parametrize("tenants", [[], ["acme"]])
@pytest.mark.parametrize("seconds", [0.0, 1.0])
async def test_a_worker_goes_on_when_its_consumers_were_deleted(
    server: Server, pool: str, tmp_path: Path, tenants: list[str], seconds: float
) -> None:
    """While it waits for calls, and while it has no place free and waits for none."""
    session, stream = Session(workspace=tmp_path, caller=Caller("acme")), calls_stream(pool)
    link, tools = NatsLink(server.key, 5.0), [add, see]
    await link.open([server.url], "admin")
    async with (
        working(server, pool, tools, workspace=tmp_path, tenants=tenants, concurrency=1),
        calling(server, pool, tools, session=session) as runtime,
    ):
        await runtime.run("add", {"first": 1})
        going = asyncio.create_task(runtime.run("see", {"path": "a", "seconds": seconds}))
        await asyncio.sleep(0.3)
        names = (await link.api(f"CONSUMER.NAMES.{stream}"))["consumers"]
        assert len(names) == 2
        for name in names:
            assert (await link.api(f"CONSUMER.DELETE.{stream}.{name}"))["success"]
        await going
        calls = runtime.run("add", {"first": 1}), runtime.run("see", {"path": "a"})
        results = await asyncio.wait_for(asyncio.gather(*calls), 15)
    await link.close()
    assert [one.data for one in results] == [3, "seen"]


@pytest.mark.slow
async def test_a_worker_without_a_queue_says_so_and_ends(server: Server, pool: str) -> None:
    link = NatsLink(server.key, 5.0)
    await link.open([server.url], "admin")
    with pytest.raises(RemoteError, match="has no queue for the pool"):
        async with working(server, pool, [add]) as worker:
            await link.api(f"STREAM.DELETE.{calls_stream(pool)}")
            await asyncio.sleep(1.5)
            before = worker.link.connection.stats["out_msgs"]
            await asyncio.sleep(1.0)
            assert worker.link.connection.stats["out_msgs"] - before < 40
            await asyncio.sleep(4.0)
    await link.close()


@pytest.mark.slow
async def test_a_tenant_may_be_called_like_what_belongs_to_a_worker(server: Server, pool: str, tmp_path: Path) -> None:
    async with (
        working(server, pool, [add, see], workspace=tmp_path, name="one"),
        calling(server, pool, [add, see], wait=2.0) as runtime,
    ):
        for tenant in ("w-one-all", "w-one", "t-x", "w-one-all"):
            session = Session(workspace=tmp_path, caller=Caller(tenant))
            calls = (
                runtime.run("add", {"first": 1}, session=session),
                runtime.run("see", {"path": "a"}, session=session),
            )
            results = await asyncio.wait_for(asyncio.gather(*calls), 10)
            assert [one.data for one in results] == [3, "seen"], tenant
