"""Lists of tenants, users and keys are read a page at a time, as calls are (P5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ferrule.cli.tenants import users_command
from ferrule.service.database import Database
from ferrule.service.directory import create_key, create_tenant, create_user
from ferrule.service.messages import KeyRequest, TenantRequest, UserRequest
from tests.service.serving import running


def fill(url: str, many: int) -> None:
    database = Database(url)
    with database.transaction("default", writes=True) as connection:
        for number in range(many):
            create_user(connection, "default", UserRequest(name=f"user{number:03}", roles=["member"]))
            create_key(connection, "default", KeyRequest(user=f"user{number:03}", name=f"key {number}"))
    for number in range(many):
        with database.transaction(f"t{number:03}", writes=True) as connection:
            create_tenant(connection, TenantRequest(name=f"t{number:03}"))
    database.close()


async def test_pages_hold_everything_once_in_order(store: str, tmp_path: Path) -> None:
    async with running(store, tmp_path) as service:
        admin, http = await service.client(), await service.http()
        fill(store, 7)
        for what, name in (("tenants", "name"), ("users", "name"), ("keys", "id")):
            whole = (await http.get(f"/v1/{what}")).json()
            assert (len(whole[what]), whole["next"]) == (8, None)
            read: list[Any] = []
            cursor: dict[str, str] = {}
            for size in (3, 3, 2):
                page = (await http.get(f"/v1/{what}", params={"limit": "3", **cursor})).json()
                assert len(page[what]) == size
                read, cursor = read + page[what], {"cursor": page["next"]}
            assert (read, page["next"]) == (whole[what], None)
            assert [getattr(one, name) for one in await getattr(admin, what)()] == [one[name] for one in read]
        assert [one["name"] for one in whole["keys"]][1:] == [f"key {number}" for number in range(7)]
        assert (await http.get("/v1/users", params={"limit": "201"})).status_code == 400
        for bad in ("nonsense", "user003", "nan_x", "inf_x", "-1e999_x", "1.5", "1.5_", "_x"):
            assert (await http.get("/v1/keys", params={"cursor": bad})).status_code == 422, bad


async def test_a_page_of_users_is_of_one_tenant_alone(store: str, tmp_path: Path) -> None:
    """O4."""
    async with running(store, tmp_path) as service:
        fill(store, 3)
        _, secret = await service.tenant("red")
        http = await service.http(secret)
        for what, names in (("users", ["boss"]), ("keys", [""])):
            found = (await http.get(f"/v1/{what}", params={"limit": "1"})).json()
            assert ([one["name"] for one in found[what]], found["next"]) == (names, None)


async def test_the_client_reads_every_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule.client._LARGE_PAGES", {"limit": 2})
    store = f"sqlite:///{tmp_path / 'a.db'}"
    async with running(store, tmp_path) as service:
        fill(store, 6)
        admin = await service.client()
        assert [one.name for one in await admin.users()] == ["admin", *(f"user{number:03}" for number in range(6))]
        assert len(await admin.keys()) == len(await admin.tenants()) == 7


async def test_the_command_line_reads_on_where_a_page_ends(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'a.db'}"
    async with running(store, tmp_path):
        fill(store, 6)
    listing = ["list", "--database", store, "--limit", "2"]
    first = CliRunner().invoke(users_command, listing)
    assert "user000" in first.stdout
    assert first.stderr.splitlines()[-1] == "There are more. Read on with --cursor user000"
    second = CliRunner().invoke(users_command, [*listing, "--cursor", "user000", "--json"])
    document = json.loads(second.stdout)
    assert [one["name"] for one in document["users"]] == ["user001", "user002"]
    assert document["next"] == "user002"
