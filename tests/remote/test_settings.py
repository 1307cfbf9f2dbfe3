"""Settings alone send tools to other machines: in the program, and in the service with its metrics (O1, O4, O6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ferrule import Runtime
from ferrule.app.build import App
from ferrule.app.settings import AuditSettings, RemoteSettings, Settings, SettingsError
from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.call import RawCall
from ferrule.remote.wire import write_key
from ferrule.remote.worker import HERE
from tests.remote.places import Server, working
from tests.service.serving import add, running, who


class Seen:
    """What a worker has run."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str | None]] = []

    def record(self, record: Any) -> None:
        self.calls.append((record.tool, record.caller.tenant))


def remote_to(server: Server, folder: Path, pool: str, *tools: str) -> RemoteSettings:
    write_key(folder / "caller.key", server.key.seed)
    return RemoteSettings(url=server.url, key=folder / "caller.key", pools={pool: list(tools)})


async def test_a_program_runs_tools_on_workers(server: Server, pool: str, tmp_path: Path) -> None:
    tools, seen = [one for one in builtin_tools() if one.name == "getCurrentDateTime"], Seen()
    settings = Settings(
        remote=remote_to(server, tmp_path, pool, "getCurrentDateTime"), audit=AuditSettings(enabled=False)
    )
    runtime = Runtime(tools, remote=HERE, recorders=[seen])
    async with working(server, pool, tools, runtime=runtime, lease=10.0), App(settings, tmp_path) as app:
        assert (await app.runtime.run(RawCall("getCurrentDateTime", {}))).success
        assert (await app.runtime.run(RawCall("getCurrentDirectory", {}))).success
    assert [name for name, _ in seen.calls] == ["getCurrentDateTime"]


@pytest.mark.slow
async def test_the_service_runs_tools_on_workers_and_counts_them(server: Server, pool: str, tmp_path: Path) -> None:
    seen = Seen()
    runtime = Runtime([add, who], remote=HERE, recorders=[seen])
    chosen = remote_to(server, tmp_path, pool, "add")
    async with (
        working(server, pool, [add, who], runtime=runtime, lease=10.0),
        running(f"sqlite:///{tmp_path}/s.db", tmp_path, remote=chosen) as service,
    ):
        call = await (await service.client()).call("add", {"a": 1, "b": 2})
        assert call.status == "succeeded"
        await (await service.client()).call("who", {})
        page = (await (await service.http()).get("/metrics")).text
    assert seen.calls == [("add", "default")]
    for line in (f'ferrule_pool_workers{{pool="{pool}"}} 1', f'ferrule_pool_pending{{pool="{pool}"}} 0'):
        assert line in page


async def test_a_pool_without_a_server_never_runs_here(
    pool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    settings = Settings(remote=RemoteSettings(pools={pool: ["getCurrentDateTime"]}), audit=AuditSettings(enabled=False))
    async with App(settings, tmp_path) as app:
        told = (await app.runtime.run(RawCall("getCurrentDateTime", {}))).llm_content
    assert "`getCurrentDateTime` was not run: There is no NATS server to connect to." in told


def test_a_key_is_needed(tmp_path: Path) -> None:
    settings = Settings(remote=RemoteSettings(url="nats://127.0.0.1:1"), audit=AuditSettings(enabled=False))
    with pytest.raises(SettingsError, match=r"`remote\.key` is missing"):
        App(settings, tmp_path)
