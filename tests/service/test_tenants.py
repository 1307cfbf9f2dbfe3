"""Tenants: nothing of one is seen by another, whatever is tried (O4)."""

from __future__ import annotations

import json
import os
import random
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pytest

from ferrule import Registry, tool
from ferrule.app.settings import PermissionSettings, SandboxSettings, Settings, ShellSettings
from ferrule.process.sandbox import choose
from ferrule.process.sandbox.sandbox import NoSandbox
from ferrule.service.sessions import UnsafePlace, require_apart
from tests.needs import needs
from tests.service.serving import Running, running

SECRETS = {"vermilion": "crimson-7Qx", "cerulean": "azure-9Zt"}


async def furnished(service: Running, name: str) -> tuple[Any, dict[str, str]]:
    """A tenant with one of everything, all of which holds its secret; and the ids of it."""
    boss, _ = await service.tenant(name)
    mark = SECRETS[name]
    call = await boss.call("add", {"a": 1, "b": 1}, session=f"s-{mark}", metadata={"mark": mark}, key=f"k-{mark}")
    waiting = await boss.call("note", {"text": mark}, wait=0)
    batch = await boss.batch([{"tool": "who"}], session=f"s-{mark}")
    await boss.create_user(f"u-{mark}".lower())
    await boss.put_role(f"r-{mark}".lower())
    key = await boss.create_key("boss", name=mark)
    ids = {
        "call": call.id, "waiting": waiting.id, "approval": waiting.approval or "", "batch": batch.id, "key": key.id,
        "user": f"u-{mark}".lower(), "role": f"r-{mark}".lower(), "hash": "0" * 64, "tenant": name,
    }  # fmt: skip
    return boss, ids


REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/v1/calls/{call}", None),
    ("GET", "/v1/calls/{waiting}?wait=0", None),
    ("GET", "/v1/calls/{call}/events", None),
    ("POST", "/v1/calls/{waiting}/cancel", None),
    ("GET", "/v1/batches/{batch}", None),
    ("GET", "/v1/approvals/{approval}", None),
    ("POST", "/v1/approvals/{approval}/decision", {"decision": "approve", "args_hash": "0" * 64}),
    ("GET", "/v1/users/{user}", None),
    ("PATCH", "/v1/users/{user}", {"enabled": False}),
    ("DELETE", "/v1/users/{user}", None),
    ("GET", "/v1/roles/{role}", None),
    ("DELETE", "/v1/roles/{role}", None),
    ("GET", "/v1/keys/{key}", None),
    ("DELETE", "/v1/keys/{key}", None),
    ("POST", "/v1/keys/{key}/rotate", {}),
    ("POST", "/v1/keys", {"user": "{user}"}),
    ("GET", "/v1/tenants/{tenant}", None),
)
LISTS = (
    "/v1/calls", "/v1/calls?batch={batch}", "/v1/calls?user={user}", "/v1/approvals", "/v1/users", "/v1/roles",
    "/v1/keys", "/v1/audit", "/v1/audit/export", "/v1/usage", "/v1/tools", "/metrics", "/v1/me",
)  # fmt: skip


def times() -> int:
    return 2_000 if os.environ.get("CI") else 300


@pytest.mark.slow
async def test_two_tenants_with_each_others_ids_get_404s_and_not_one_foreign_byte(store: str, tmp_path: Path) -> None:
    chance = random.Random(0)
    async with running(store, tmp_path) as service:
        ids: dict[str, dict[str, str]] = {}
        for name in SECRETS:
            _, ids[name] = await furnished(service, name)
        clients = {}
        for name in SECRETS:
            admin = await service.client()
            clients[name] = await service.http((await admin.create_key("boss", tenant=name)).secret)
        for _ in range(times()):
            mine = chance.choice(list(SECRETS))
            foreign = next(name for name in SECRETS if name != mine)
            if chance.random() < 0.7:
                method, path, body = chance.choice(REQUESTS)
                body = json.loads(json.dumps(body).replace("{user}", ids[foreign]["user"]))
                answer = await clients[mine].request(method, path.format(**ids[foreign]), json=body)
                assert answer.status_code == 404, (method, path, answer.text)
            else:
                answer = await clients[mine].get(chance.choice(LISTS).format(**ids[foreign]))
                assert answer.status_code == 200
            echoed = [value for value in ids[foreign].values() if value in str(answer.request.url)]
            text = answer.text
            for value in echoed:
                text = text.replace(value, "")  # what the request said itself may be said back
            body_text = str(answer.request.content)
            for value in (SECRETS[foreign], SECRETS[foreign].lower(), *ids[foreign].values()):
                if value not in body_text and value != "0" * 64:
                    assert value not in text, (answer.request.url, value)
        for name, client in clients.items():
            assert (await client.get(f"/v1/calls/{ids[name]['waiting']}")).json()["status"] == "awaiting_approval"


async def test_every_user_has_a_folder_of_their_own(store: str, tmp_path: Path) -> None:
    """S1, O4: the workspace is the caller's, and paths do not lead out of it."""
    from ferrule.builtin.all_tools import builtin_tools

    allow = PermissionSettings(allow=["Write(/**)"])
    async with running(store, tmp_path, tools=tuple(builtin_tools()), permissions=allow) as service:
        red, _ = await service.tenant("red")
        blue, _ = await service.tenant("blue")
        assert (await red.call("Write", {"file_path": "a.txt", "content": "red"})).status == "succeeded"
        assert (tmp_path / "workspaces/red/boss/a.txt").read_text() == "red"
        for path in ("a.txt", "../../red/boss/a.txt", str(tmp_path / "workspaces/red/boss/a.txt"), "/etc/passwd"):
            call = await blue.call("Read", {"file_path": path})
            assert call.result is not None
            assert call.status == "failed"
            assert str(tmp_path) not in call.result.llm_content.replace(path, "")


async def test_the_tenant_comes_from_the_key_and_from_nothing_else(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        await service.tenant("red")
        boss, secret = await service.tenant("blue")
        http = await service.http(secret)
        answer = await http.post(
            "/v1/calls?tenant=red", json={"tool": "who"}, headers={"X-Tenant": "red", "X-Forwarded-User": "admin"}
        )
        said = answer.json()["result"]["data"]
        assert (said["tenant"], said["user"], said["role"]) == ("blue", "boss", "admin")
        refused = await http.post("/v1/calls", json={"tool": "who", "tenant": "red"})
        assert refused.status_code == 400
        for method, path, body in (("GET", "/v1/tenants", None), ("POST", "/v1/tenants", {"name": "green"})):
            assert (await http.request(method, path, json=body)).status_code == 403
        assert (await http.post("/v1/keys", json={"user": "boss", "tenant": "red"})).status_code == 403
        assert (await boss.me()).tenant == "blue"


async def test_each_tenant_has_an_audit_chain_of_its_own(store: str, tmp_path: Path) -> None:
    """O3, O4."""
    async with running(store, tmp_path) as service:
        red, _ = await service.tenant("red")
        blue, _ = await service.tenant("blue")
        for number in range(3):
            await red.call("add", {"a": number, "b": 0})
        await blue.call("nothing")
        assert [row["seq"] for row in (await red.audit()).rows] == [1, 2, 3]
        (row,) = (await blue.audit()).rows
        assert (row["tool"], row["outcome"], row["tenant"]) == ("nothing", "not_found_error", "blue")
        first, second = await red.verify_audit(), await blue.verify_audit()
        assert (first.ok, first.rows, second.ok, second.rows) == (True, 3, True, 1)


async def test_a_changed_or_missing_audit_row_is_found(tmp_path: Path) -> None:
    """O3."""
    import sqlite3

    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path) as service:
        client = await service.client()
        for number in range(4):
            await client.call("add", {"a": number, "b": 0})
        with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as file:
            file.execute("UPDATE audit SET content = replace(content, 'add', 'sub') WHERE seq = 2")
        changed = await client.verify_audit()
        assert (changed.ok, changed.first_bad_seq, changed.why) == (False, 2, "Row 2 was changed.")
        with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as file:
            file.execute("UPDATE audit SET content = replace(content, 'sub', 'add') WHERE seq = 2")
            file.execute("DELETE FROM audit WHERE seq = 4")
        assert not (await client.verify_audit()).ok


async def test_rows_that_were_sealed_over_their_values_verify_as_before(tmp_path: Path) -> None:
    """O3: as the first version of the service did."""
    import sqlite3

    from ferrule.records.row import hash_of

    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path) as service:
        client = await service.client()
        for number in range(3):
            await client.call("add", {"a": number, "b": 0})
        with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as file:
            before = ""
            for seq, content in file.execute("SELECT seq, content FROM audit ORDER BY seq").fetchall():
                sealed = hash_of(seq, json.loads(content), before)
                file.execute("UPDATE audit SET prev_hash = ?, hash = ? WHERE seq = ?", (before, sealed, seq))
                before = sealed
            file.execute("UPDATE audit_heads SET hash = ?", (before,))
        await client.call("add", {"a": 4, "b": 0})
        found = await client.verify_audit()
        assert (found.ok, found.rows) == (True, 4)
        with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as file:
            file.execute("UPDATE audit SET content = replace(content, 'add', 'sub') WHERE seq = 2")
        assert (await client.verify_audit()).first_bad_seq == 2


async def test_a_command_of_one_tenant_reads_nothing_of_another(tmp_path: Path) -> None:
    """S1, O4: commands too see the caller's folder alone, and not the store."""
    from ferrule.builtin.all_tools import builtin_tools

    needs(shutil.which("bwrap"), "bubblewrap, the sandbox of commands; on Debian: apt-get install bubblewrap")
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, tools=tuple(builtin_tools())) as service:
        blue, _ = await service.tenant("blue")
        secret = tmp_path / "workspaces/red/boss/secret.txt"
        secret.parent.mkdir(parents=True)
        secret.write_text("crimson")
        for path in (secret, "../../red/boss/secret.txt", tmp_path / "s.db"):
            call = await blue.call("Bash", {"command": f"cat {path}; echo over"})
            assert call.result is not None
            assert "over" in call.result.llm_content
            assert "crimson" not in call.result.llm_content
            assert "SQLite" not in call.result.llm_content


@pytest.mark.parametrize("unconfined", ["ask", "allow"])
async def test_no_approver_lets_commands_run_unconfined_unless_the_operator_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unconfined: Literal["ask", "allow"]
) -> None:
    """S1, O4: a tenant's approver answers for the tenant, and not for the machine that all share."""
    from ferrule.builtin.all_tools import builtin_tools

    monkeypatch.setattr(choose, "_best", lambda *_: (NoSandbox(), ()))
    shell, store = ShellSettings(unconfined=unconfined), f"sqlite:///{tmp_path / 's.db'}"
    async with running(store, tmp_path, tools=tuple(builtin_tools()), shell=shell) as service:
        blue, _ = await service.tenant("blue")
        if unconfined == "allow":
            assert (await blue.call("Bash", {"command": "touch made"}, wait=0)).status == "awaiting_approval"
        else:
            call = await blue.call("Bash", {"command": "touch made"})
            assert call.result is not None
            assert "no sandbox works on this machine" in call.result.llm_content
            assert await blue.approvals() == []
        assert not list(tmp_path.rglob("made"))


def test_where_commands_could_read_what_is_kept_nothing_is_served() -> None:
    @tool(kind="execute")
    def run_it() -> None:
        """Run something."""

    tools, off = Registry([run_it]), Settings(sandbox=SandboxSettings(enabled=False))
    require_apart(Settings(), tools, Path("/tmp/x"), Path.home() / "y")
    require_apart(off, Registry(), Path("/usr/x"))
    with pytest.raises(UnsafePlace, match="could read what is kept of others in /usr/x"):
        require_apart(Settings(), tools, Path("/tmp/x"), Path("/usr/x"))
    with pytest.raises(UnsafePlace, match="Without the sandbox"):
        require_apart(off, tools, Path("/tmp/x"))
