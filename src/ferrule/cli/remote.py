"""`ferrule worker` runs calls of other machines here; `ferrule remote` is about the server between them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.options import (
    SECONDS,
    PlainError,
    json_option,
    permission_options,
    report_broken,
    sandbox_options,
    settings_for,
    warn,
    with_options,
)
from ferrule.cli.output import print_table, write, write_json
from ferrule.cli.words import _, said_of
from ferrule.core.loops import on_signal
from ferrule.core.nearest import is_named
from ferrule.remote.wire import RemoteError
from ferrule.remote.wire import require_pool as checked_pool

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from ferrule.app.settings import Settings
    from ferrule.remote.link import NatsLink
    from ferrule.remote.worker import WorkerOptions

_STATUS_SECONDS = 0.5
DEV_SECONDS = 30.0
"""How long what is tried out on one machine waits for what was started with it: a server, and then a worker."""
_QUIET_SECONDS = 2.0


def _server_options(command: Any) -> Any:
    return with_options(
        command,
        click.option("--url", metavar="URL", help=_("The NATS server, as nats://host:4222; several with commas.")),
        click.option("--key", type=click.Path(path_type=Path), help=_("The file of the key to log in with.")),
    )


def _flags(url: str | None, key: Path | None) -> dict[str, Any]:
    given = {"url": url, "key": key}
    flags = {name: value for name, value in given.items() if value is not None}
    return {"remote": flags} if flags else {}


def require_pool(name: str) -> str:
    try:
        return checked_pool(name)
    except RemoteError as problem:
        raise PlainError(said_of(problem)) from None


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return asyncio.run(work)
    except RemoteError as problem:
        raise PlainError(said_of(problem)) from None


@click.command(
    "worker",
    help=_("Run calls from other machines on this one: take those of a pool from a NATS server."),
    epilog=_("SIGTERM lets running calls end before the worker does. Its own settings and rules hold for every call."),
)
@click.option("--pool", required=True, metavar="NAME", help=_("The pool whose calls it takes."))
@_server_options
@click.option("--tools", multiple=True, metavar="NAMES", help=_("Offer only these tools; a name may contain `*`."))
@click.option(
    "--concurrency",
    type=click.IntRange(min=1, max=10_000),
    default=8,
    show_default=True,
    help=_("How many calls run at once."),
)
@click.option(
    "--workspace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=_("Take calls on files and shells of this folder, and of workspaces inside it."),
)
@click.option("--tenant", "tenants", multiple=True, metavar="NAME", help=_("Only for this tenant. Repeatable."))
@click.option("--name", metavar="NAME", help=_("What the worker is called; the host's name and a number by default."))
@click.option("--drain", type=SECONDS, default=30.0, help=_("Seconds that running calls have to end on SIGTERM."))
@click.option("--replicas", type=click.IntRange(1, 5), default=1, help=_("Servers that keep each call, in a cluster."))
@permission_options
@sandbox_options
def worker_command(
    pool: str,
    url: str | None,
    key: Path | None,
    tools: tuple[str, ...],
    concurrency: int,
    workspace: Path | None,
    tenants: tuple[str, ...],
    name: str | None,
    drain: float,
    replicas: int,
) -> None:
    from ferrule.remote.worker import WorkerOptions

    folder = (workspace or Path()).resolve()
    settings = settings_for(folder, _flags(url, key)).settings
    named = {"name": require_pool(name)} if name else {}
    options = WorkerOptions(
        require_pool(pool),
        tools=tools,
        concurrency=concurrency,
        workspace=folder if workspace is not None else None,
        tenants=tenants,
        drain=drain,
        replicas=replicas,
        **named,
    )
    # What a worker has to say, where nobody has set up logging.
    if not logging.getLogger().handlers:
        from ferrule.cli.serve import LogWriter, ServiceLines

        handler = ServiceLines(LogWriter())
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger = logging.getLogger("ferrule.remote")
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    _run(_work(settings, folder, options))
    write(_("Stopped."), err=True)


async def _work(settings: Settings, folder: Path, options: WorkerOptions) -> None:
    from ferrule.app.build import App
    from ferrule.remote.worker import HERE, PoolWorker

    stop = asyncio.Event()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        on_signal(name, stop.set)
    await await_dev_server(settings)
    app = App(settings, folder, remote=HERE)
    for note in app.notes:
        warn(note)
    async with app:
        report_broken(app.tools)
        wanted = options.tools or ("*",)
        app.tools.unknown("--tools", wanted)  # raises for one that is misspelt
        tools = [
            one.tool
            for _name, one in app.tools.registry.entries()
            if one.enabled and one.tool.fault is None and is_named(one.tool.name, wanted)
        ]
        if not tools:
            raise RemoteError(_("There is no tool called {names}.").format(names=", ".join(wanted)))
        worker: list[PoolWorker] = []
        link = await _open(settings, f"ferrule worker {options.name}", lambda: [one.reconnected() for one in worker])
        try:
            worker.append(PoolWorker(link, app.runtime, tools, options))
            await worker[0].serve(stop, lambda: _greet(options, len(tools)))
        finally:
            await link.close()


def _greet(options: WorkerOptions, count: int) -> None:
    write(
        _(
            "Worker {name} takes calls of the pool {pool}: {count} tools, {concurrency} at once (Ctrl-C stops it)"
        ).format(name=options.name, pool=options.pool, count=count, concurrency=options.concurrency),
        err=True,
    )


async def await_dev_server(settings: Settings) -> None:
    """Where no server is set: the one of `ferrule remote dev`, which may just be starting."""
    from ferrule.remote.server import dev_connection

    for again in range(int(DEV_SECONDS / 0.1)):
        if settings.remote.url or dev_connection() is not None:
            return
        if again == int(_QUIET_SECONDS / 0.1):
            words = _("Waiting {seconds} s for a server on this machine. Start one: ferrule remote dev")
            write(words.format(seconds=f"{DEV_SECONDS:g}"), err=True)
        await asyncio.sleep(0.1)


async def _open(settings: Settings, name: str, reconnected: Any = None) -> NatsLink:
    """A connection by the settings, or to the server of `ferrule remote dev`."""
    from ferrule.app.build import build_remote
    from ferrule.remote.link import NatsLink

    calls = build_remote(settings)
    if calls is None or calls.key is None:
        raise RemoteError(
            _("There is no NATS server to connect to. Give --url, set `remote.url`, or start `ferrule remote dev`.")
        )
    link = NatsLink(calls.key, calls.lease)
    await link.open(calls.urls, name, ca=calls.ca, reconnected=reconnected or (lambda: None))
    return link


remote_command = click.Group("remote", help=_("Tools on other machines: the server between callers and workers."))


@remote_command.command("dev", help=_("Run a NATS server on this machine, for trying things out."))
@click.option("--port", type=click.IntRange(1, 65535), help=_("The port to listen on; 4222, or a free one."))
def dev(port: int | None) -> None:
    _run(_dev(port))


async def _dev(port: int | None) -> None:
    from ferrule.remote.server import DevServer, dev_connection

    if (running := dev_connection()) is not None:
        raise RemoteError(_("A server runs already, at {url}.").format(url=running[0]))
    stop = asyncio.Event()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        on_signal(name, stop.set)
    server = DevServer(port)
    await server.start()
    try:
        write(_("A NATS server listens on {url}, for this machine alone (Ctrl-C stops it).").format(url=server.url))
        write(_("Workers and callers on this machine find it by themselves:"))
        write("  ferrule worker --pool demo")
        waiting = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(server.wait())]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
    finally:
        await server.stop()


@remote_command.command("status", help=_("Show pools, workers, and the calls that wait, run or were lost."))
@_server_options
@click.option("--pool", "pools", multiple=True, metavar="NAME", help=_("Only this pool. Repeatable."))
@json_option
def status(url: str | None, key: Path | None, pools: tuple[str, ...], as_json: bool) -> None:
    settings = settings_for(Path(), _flags(url, key)).settings
    told = _run(_status(settings, [require_pool(one) for one in pools]))
    if as_json:
        write_json(told)
        return
    if not told:
        write(_("There are no pools yet. `ferrule worker --pool NAME` makes one."), err=True)
    rows = [[one["pool"], str(len(one["workers"])), *(str(one[name]) for name in _COUNTS)] for one in told]
    if rows:
        print_table([_("POOL"), _("WORKERS"), _("PENDING"), _("IN FLIGHT"), _("LOST (1 H)")], rows)
    listed = [
        [each["worker"], one["pool"], f"{each['running']}/{each['concurrency']}", str(len(each["tools"])),
         each["workspace"] or "-"]
        for one in told
        for each in one["workers"]
    ]  # fmt: skip
    if listed:
        write("")
        print_table([_("WORKER"), _("POOL"), _("RUNNING"), _("TOOLS"), _("WORKSPACE")], listed)


remote_command.add_command(status, "list")  # as every group has one

_COUNTS = ("pending", "in_flight", "lost")


async def _status(settings: Settings, pools: Sequence[str]) -> list[dict[str, Any]]:
    from ferrule.remote.roster import Roster, pool_counts, pools_on

    link = await _open(settings, "ferrule status")
    try:
        named = list(pools) or await pools_on(link) or sorted(settings.remote.pools)
        roster = Roster(link)
        for pool in named:
            await roster.watch(pool)
        await asyncio.sleep(_STATUS_SECONDS)
        return [
            {
                "pool": pool,
                "workers": [
                    {name: getattr(one, name) for name in ("worker", "tools", "workspace", "concurrency", "running")}
                    for one in sorted(roster.workers(pool), key=lambda one: one.worker)
                ],
                **await pool_counts(link, pool),
            }
            for pool in named
        ]
    finally:
        await link.close()


@remote_command.command("setup", help=_("Create the queues of POOLS on the server; needs the admin key."))
@click.argument("pools", nargs=-1, required=True)
@_server_options
@click.option("--replicas", type=click.IntRange(1, 5), default=1, help=_("Servers that keep each call, in a cluster."))
def setup(pools: tuple[str, ...], url: str | None, key: Path | None, replicas: int) -> None:
    settings = settings_for(Path(), _flags(url, key)).settings
    _run(_setup(settings, [require_pool(one) for one in pools], replicas))
    write(_("Ready: {pools}").format(pools=", ".join(pools)))


async def _setup(settings: Settings, pools: Sequence[str], replicas: int) -> None:
    link = await _open(settings, "ferrule setup")
    with suppress(asyncio.CancelledError):
        for pool in pools:
            await link.prepare(pool, replicas)
    await link.close()


@remote_command.command(
    "config",
    help=_("Print a server's configuration for POOLS, and create its keys."),
    epilog=_("Existing keys are kept. Each user can only use the subjects of its own pool and tenant."),
)
@click.argument("pools", nargs=-1, required=True)
@click.option("--keys", type=click.Path(file_okay=False, path_type=Path), default=Path("remote-keys"),
              show_default=True, help=_("The folder for the keys."))  # fmt: skip
@click.option(
    "--tenant", "tenants", multiple=True, metavar="NAME", help=_("Give this tenant its own workers. Repeatable.")
)
@click.option("--listen", default="0.0.0.0:4222", show_default=True, metavar="HOST:PORT")
@click.option("--store", default="/var/lib/nats", show_default=True, metavar="FOLDER")
@click.option("--server-name", default="ferrule-1", show_default=True, metavar="NAME")
@click.option("--route", "routes", multiple=True, metavar="HOST:PORT", help=_("A node of the cluster. Repeatable."))
@click.option("--tls", nargs=3, metavar="CERT KEY CA", help=_("The files for TLS."))
def config(
    pools: tuple[str, ...],
    keys: Path,
    tenants: tuple[str, ...],
    listen: str,
    store: str,
    server_name: str,
    routes: tuple[str, ...],
    tls: tuple[str, str, str] | None,
) -> None:
    from ferrule.remote.server import ServerPlan, plan_users

    try:
        users = plan_users(keys, [require_pool(one) for one in pools], tenants)
    except RemoteError as problem:
        raise PlainError(said_of(problem)) from None
    plan = ServerPlan(users, listen, store, server_name, routes, tls=tls)
    write(plan.text().rstrip("\n"))
    for user in users:
        write(f"{keys / user.name}.key: {user.public}", err=True)
    if tls is None:
        warn(_("Without --tls, anyone who can listen on the network can read the calls."))
