"""What a worker refuses, and what keeps pools and tenants apart, on a server with the configuration that is printed."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ferrule import Session, tool
from ferrule.core.context import Caller
from ferrule.remote.link import GIVEN_UP, NatsLink, NotReachedError, RemoteError
from ferrule.remote.server import ServerPlan, ServerUser, plan_users
from ferrule.remote.wire import (
    Nkey,
    claims_bucket,
    new_seed,
    read_call,
    read_key,
    require_pool,
    seal,
    subject_token,
    unsigned,
)
from tests.needs import needs, slow
from tests.remote.places import Server, calling, listening, working

STARTS: list[str] = []
MORE_CHANGES = ("arguments", "subject", "stranger", "protocol", "reply", "key", "garbage")


@tool(kind="readonly")
def mark(name: str) -> str:
    """Mark a start. Use this to count."""
    STARTS.append(name)
    return name


async def test_a_call_that_is_sent_again_is_not_run_again(server: Server, pool: str) -> None:
    STARTS.clear()
    async with (
        working(server, pool, [mark]),
        calling(server, pool, [mark]) as runtime,
        listening(server, f"call.{pool}.>") as (link, seen),
    ):
        assert (await runtime.run("mark", {"name": "one"})).success
        replayed = {name: value for name, value in seen[0].headers.items() if name != "Nats-Msg-Id"}
        await link.connection.request(seen[0].subject, seen[0].data, headers=replayed)
        assert (await runtime.run("mark", {"name": "two"})).success
    assert STARTS == ["one", "two"]


@pytest.mark.parametrize("change", ["signature", "old", *(slow(one) for one in MORE_CHANGES)])
async def test_a_call_that_was_tampered_with_is_refused(server: Server, pool: str, change: str) -> None:
    STARTS.clear()
    async with (
        working(server, pool, [mark]) as worker,
        calling(server, pool, [mark]) as runtime,
        listening(server, f"call.{pool}.>") as (link, seen),
    ):
        assert (await runtime.run("mark", {"name": "real"})).success
        call, subject = read_call(unsigned(seen[0].data)), seen[0].subject
        old, call.uid = call.uid, "f" * 32
        call.reply = call.reply.replace(old, call.uid)
        signing = server.key
        if change == "old":
            call.issued -= call.valid + 10
        if change == "stranger":
            signing = Nkey(new_seed())
        if change == "protocol":
            call.protocol = 99
        if change == "reply":  # where another caller hears
            call.reply = call.reply.replace(server.key.public, Nkey(new_seed()).public)
        if change == "key":  # the claim of another call
            call.reply = call.reply.replace(call.uid, "e" * 32)
        payload = call.pack()
        data = signing.sign(payload)
        if change == "signature":
            data = signing.sign(payload + b" ")[:-1]
        if change == "arguments":
            data = data.replace(b"real", b"fake")
        if change == "subject":
            subject = f"call.{pool}.other.mark"
        if change == "garbage":
            data = b"\xff{"
        told = json.loads((await link.connection.request(subject, data)).data)
        assert "error" not in told
        left = 1
        for _ in range(500):
            left = (await link.api(f"STREAM.INFO.FERRULE_CALLS_{pool}"))["state"]["messages"]
            if not left:
                break
            await asyncio.sleep(0.01)
        assert left == 0, "it was dropped, and does not come back"
        assert not worker.running
    assert STARTS == ["real"]


async def test_a_caller_whose_key_the_worker_does_not_trust_is_told(server: Server, pool: str, tmp_path: Path) -> None:
    both = [server.key, Nkey(new_seed())]
    users = ", ".join(f"{{ nkey: {one.public} }}" for one in both)
    own = Server(tmp_path / "own")
    own._config = (
        f'listen: "127.0.0.1:{own.port}"\njetstream {{ store_dir: {json.dumps(str(tmp_path / "s"))} }}\n'
        f"authorization {{ users: [ {users} ] }}\n"
    )
    own.start()
    try:
        trusting = Nkey(both[1].seed, [both[0].public])
        async with (
            working(own, pool, [mark], key=both[0]),
            calling(own, pool, [mark], key=trusting, wait=2.0) as runtime,
        ):
            told = (await runtime.run("mark", {"name": "x"})).llm_content
        assert "Its caller's key is not among those that the worker trusts (`remote.trusted`)." in told
    finally:
        own.stop()


async def test_a_result_that_somebody_else_made_up_is_not_believed(server: Server, pool: str) -> None:
    going, began = asyncio.Event(), asyncio.Event()

    @tool(kind="readonly")
    async def slowly() -> str:
        """Take a while. Use this to wait."""
        began.set()
        await going.wait()
        return "true"

    async with (
        working(server, pool, [slowly]),
        calling(server, pool, [slowly]) as runtime,
        listening(server, f"call.{pool}.>") as (link, seen),
    ):
        call = asyncio.create_task(runtime.run("slowly", {}))
        await began.wait()
        where = read_call(unsigned(seen[0].data))
        for state in (b"D", b"L", b"G"):
            for said in (b"{}", seal("another secret", {"kind": "done", "result": {}})):
                await link.connection.publish(where.reply, state + said, headers={"Nats-Sequence": "7"})
        await link.connection.flush()
        await asyncio.sleep(0.05)
        assert not call.done()
        going.set()
        assert (await call).llm_content == "true"


def certificate(folder: Path) -> tuple[str, str, str]:
    """A certificate for 127.0.0.1 that vouches for itself, its key, and whom to trust for it."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=ferrule", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "tls.key"),
         "-out", str(folder / "tls.crt")],
        check=True, capture_output=True,
    )  # fmt: skip
    return str(folder / "tls.crt"), str(folder / "tls.key"), str(folder / "tls.crt")


@pytest.mark.slow
async def test_calls_go_over_tls_and_not_to_a_server_that_nobody_vouches_for(
    server: Server, pool: str, tmp_path: Path
) -> None:
    needs(shutil.which("openssl"), "openssl")
    own = Server(tmp_path / "own")
    files = certificate(tmp_path)
    users = [ServerUser("all", own.key.public, (), ())]
    own._config = ServerPlan(users, f"127.0.0.1:{own.port}", str(tmp_path / "s"), tls=files).text()
    own.start()
    url = f"tls://127.0.0.1:{own.port}"
    try:
        async with (
            working(own, pool, [mark], url=url, ca=Path(files[2])),
            calling(own, pool, [mark], url=url, ca=Path(files[2])) as runtime,
        ):
            assert (await runtime.run("mark", {"name": "secure"})).success
        async with calling(own, pool, [mark], url=url) as runtime:
            told = (await runtime.run("mark", {"name": "x"})).llm_content
            assert f"No secure connection to {url}" in told
        url = f"tls://127.0.0.1:{server.port}"  # it offers no TLS
        async with calling(server, pool, [mark], url=url) as runtime:
            told = (await runtime.run("mark", {"name": "x"})).llm_content
            assert f"No secure connection to {url}" in told
    finally:
        own.stop()


# The configuration that `ferrule remote config` prints


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server for two pools and two tenants, and the keys that it lets in."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = folder / "keys"
    users = plan_users(keys, ["cpu", "gpu"], ["acme", "zen"])
    server = Server(folder / "server")
    plan = ServerPlan(users, f"127.0.0.1:{server.port}", str(folder / "store"))
    server._config = plan.text()
    server.start()
    yield server, keys
    server.stop()


def of_tenant(name: str) -> Session:
    return Session(caller=Caller(name))


async def prepared(server: Server, keys: Path) -> None:
    link = NatsLink(read_key(keys / "admin.key"), 5.0)
    await link.open([server.url], "setup")
    for pool in ("cpu", "gpu"):
        await link.prepare(pool)
    await link.close()


@pytest.mark.slow
async def test_with_the_printed_configuration_calls_run(guarded: tuple[Server, Path]) -> None:
    server, keys = guarded
    await prepared(server, keys)
    caller = read_key(keys / "caller.key")
    worker = read_key(keys / "worker-cpu-acme.key", [caller.public])
    trusting = read_key(keys / "caller.key", [worker.public])
    async with (
        working(server, "cpu", [mark], key=worker, tenants=["acme"], name="worker-cpu-acme"),
        calling(server, "cpu", [mark], key=trusting, wait=5.0) as runtime,
    ):
        assert (await runtime.run("mark", {"name": "mine"}, session=of_tenant("acme"))).success
        runtime_wait = await runtime.run("mark", {"name": "theirs"}, session=of_tenant("zen"), timeout=20)
        assert "offers the tool `mark` to this caller" in runtime_wait.llm_content


@pytest.mark.parametrize("foreign", ["pool", slow("tenant")])
async def test_a_worker_can_neither_read_nor_answer_what_is_not_its_own(
    guarded: tuple[Server, Path], foreign: str
) -> None:
    server, keys = guarded
    await prepared(server, keys)
    pool, tenant = ("gpu", "acme") if foreign == "pool" else ("cpu", "zen")
    link = NatsLink(read_key(keys / "worker-cpu-acme.key"), 0.4)
    await link.open([server.url], "intruder")
    heard: list[Any] = []

    async def keep(message: Any) -> None:
        heard.append(message)

    stream, bucket = f"FERRULE_CALLS_{pool}", claims_bucket(pool)
    inbox = f"_INBOX.{link.key.public}.x"
    await link.connection.subscribe(inbox, cb=keep)
    for subject in (f"call.{pool}.{tenant}.>", f"ctl.{pool}.{tenant}.>", f"reply.{pool}.{tenant}.>", f"$KV.{bucket}.>"):
        await link.connection.subscribe(subject, cb=keep)
    config = {"name": "mine", "filter_subject": f"call.{pool}.{tenant}.>", "ack_policy": "explicit"}
    for name in ("mine", f"t-{subject_token(tenant)}", "t-acme"):
        body = {"stream_name": stream, "config": {**config, "name": name, "durable_name": name}, "action": ""}
        with pytest.raises(NotReachedError):
            await link.api(f"CONSUMER.CREATE.{stream}.{name}.call.{pool}.{tenant}.>", body, timeout=0.2)
    with pytest.raises(NotReachedError):
        await link.api(f"STREAM.CREATE.{stream}2", {"name": f"{stream}2", "sources": [{"name": stream}]}, timeout=0.2)
    with pytest.raises((NotReachedError, RemoteError)):
        await asyncio.wait_for(link.set_claim(pool, f"{tenant}.x", GIVEN_UP, 0), 5)
    with pytest.raises(NotReachedError):
        await link.claim(pool, f"{tenant}.x")
    with pytest.raises(NotReachedError):  # it would list the keys of others' claims
        await link.api(f"STREAM.INFO.KV_{bucket}", {"subjects_filter": ">"}, timeout=0.2)
    # Somebody else's call goes by, and its answer.
    other = NatsLink(read_key(keys / "admin.key"), 5.0)
    await other.open([server.url], "admin")
    for subject in (f"call.{pool}.{tenant}.t", f"reply.{pool}.{tenant}.k.i.u"):
        await other.connection.publish(subject, b"secret")
    got: list[Any] = []

    async def note(message: Any) -> None:
        got.append(message)

    await other.connection.subscribe(f"reply.{pool}.{tenant}.>", cb=note)
    await other.connection.flush()
    await link.connection.publish(f"reply.{pool}.{tenant}.k.i.u", b"forged")
    await link.connection.flush()
    await asyncio.sleep(0.1)
    await link.close()
    await other.close()
    assert heard == []
    assert got == []


@pytest.mark.slow
@pytest.mark.parametrize("tenant", ["w-acme", "Ümläut & co.", "租" * 64, "x" * 5000], ids=lambda one: str(len(one)))
async def test_a_tenant_may_have_any_name(tmp_path: Path, tenant: str) -> None:
    pool, keys, server = "p" * 64, tmp_path / "keys", Server(tmp_path / "server")
    users = plan_users(keys, [pool, pool], [tenant, "acme", tenant])
    server._config = ServerPlan(users, f"127.0.0.1:{server.port}", str(tmp_path / "store"), name="a{").text()
    server.start()
    name = users[2].name
    assert require_pool(name) == name, "`ferrule worker --name` takes it"
    try:
        admin = NatsLink(read_key(keys / "admin.key"), 5.0)
        await admin.open([server.url], "setup")
        await admin.prepare(pool)
        await admin.close()
        caller = read_key(keys / "caller.key")
        worker = read_key(keys / f"{name}.key", [caller.public])
        trusting = read_key(keys / "caller.key", [worker.public])
        async with (
            working(server, pool, [mark], key=worker, tenants=[tenant], name=name, workspace=tmp_path),
            calling(server, pool, [mark], key=trusting, wait=5.0, queue=5.0) as runtime,
        ):
            assert (await runtime.run("mark", {"name": "mine"}, session=of_tenant(tenant))).success
    finally:
        server.stop()
