"""The panel without a browser: who gets in, what a form must have, and that nobody sees more than the API shows."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import Connection

from ferrule import RawCall, Registry, tool
from ferrule.app.service_settings import OidcSettings
from ferrule.panel.local import local_panel
from ferrule.pipeline.run import Runtime
from ferrule.records import AuditLog
from ferrule.service.directory import create_user
from ferrule.service.messages import UserRequest
from tests.panel.served import shown
from tests.service.issuer import AUDIENCE, issuing
from tests.service.serving import Running, add

OWN = {"Sec-Fetch-Site": "same-origin"}


@asynccontextmanager
async def browsing(service: Running, key: str | None = None) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client that holds what a browser would after signing in."""
    cookies = {"ferrule_session": service.key if key is None else key} if key != "" else {}
    async with httpx2.AsyncClient(base_url=service.url, cookies=cookies, headers=OWN, timeout=60) as client:
        yield client


async def token_on(client: httpx2.AsyncClient, path: str) -> str:
    found = re.search(r'name="token" value="(\w+)"', (await client.get(path)).text)
    assert found
    return found[1]


async def test_a_key_opens_the_panel_and_its_cookie_is_out_of_reach(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service, "") as client:
        assert (await client.get("/")).headers["location"] == "/sign-in"
        assert (await client.get("/audit")).headers["location"] == "/sign-in?next=/audit"
        assert (await client.post("/sign-in", data={"key": "fk_no"})).status_code == 401
        entered = await client.post("/sign-in", data={"key": service.key, "next": "/audit"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/audit")
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        away = await client.post("/sign-in", data={"key": service.key, "next": "//elsewhere.example/x"})
        assert away.headers["location"] == "/"
        assert (await client.get("/audit")).status_code == 200
        left = await client.post("/sign-out")
        assert 'ferrule_session=""' in left.headers["set-cookie"]


async def test_a_page_lets_nothing_but_our_own_files_run(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client:
        for path in ("/", "/sign-in", "/nothing-here", "/calls/none", "/static/panel.js", "/admin/keys"):
            answer = await client.get(path)
            if path == "/nothing-here":  # still the API's
                assert answer.headers["content-type"] == "application/problem+json"
                continue
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "http" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert not re.search(r"<script(?! src=\"/static/)|\son\w+=|style=|https?://", answer.text) or path.endswith(
                "js"
            )


async def test_a_form_of_another_site_or_without_its_token_does_nothing(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client:
        token = await token_on(client, "/admin/users")
        form = {"do": "create", "name": "eve", "roles": "admin"}
        for sent, headers in (
            (form, {}), ({**form, "token": "0" * 64}, {}), ({**form, "token": token}, {"Sec-Fetch-Site": "cross-site"}),
            ({**form, "token": token}, {"Sec-Fetch-Site": "same-site"}),
            ({**form, "token": token}, {"Sec-Fetch-Site": "", "Origin": "https://elsewhere.example"}),
            ({**form, "token": token}, {"Sec-Fetch-Site": ""}),
        ):  # fmt: skip
            assert (await client.post("/admin/users", data=sent, headers=headers)).status_code == 403
        assert [one.name for one in await (await service.client()).users()] == ["admin"]
        assert (await client.post("/admin/users", data={**form, "token": token})).status_code == 303
        assert [one.name for one in await (await service.client()).users()] == ["admin", "eve"]
        bob = (await (await service.client()).create_key("eve")).secret
        async with browsing(service, bob) as other:  # the token of somebody else's form
            assert (
                await other.post("/admin/users", data={**form, "name": "mallory", "token": token})
            ).status_code == 403


async def test_a_long_list_goes_on_with_another_page(tmp_path: Path) -> None:
    """P5."""
    async with shown(tmp_path) as service, browsing(service) as client:

        def fill(connection: Connection) -> None:
            for number in range(60):
                create_user(connection, "default", UserRequest(name=f"user{number:03}"))

        await service.service.change("default", fill)
        first = (await client.get("/admin/users")).text
        assert ("user048" in first, "user049" in first) == (True, False)
        (following,) = re.findall(r'href="(\?cursor=[^"]+)">Next page', first)
        second = (await client.get(f"/admin/users{following}")).text
        assert ("user048</th>" in second, "user059</th>" in second, "Next page" in second) == (False, True, False)
        assert "?edit=user059&amp;cursor=user048" in second


async def test_everybody_sees_what_the_api_shows_them_and_no_more(tmp_path: Path) -> None:
    async with shown(tmp_path) as service:
        admin = await service.client()
        await admin.call("add", {"a": 1, "b": 2})
        mine = (await admin.calls()).calls[0].id
        await admin.create_user("bob", roles=["member"])
        bob = (await admin.create_key("bob")).secret
        _, elsewhere = await service.tenant("acme")
        reader = (await admin.create_key("admin", scopes=["tools"])).secret
        async with browsing(service) as client:  # the operator is offered every part
            offered = re.findall(r'<a href="(/\w*)"', (await client.get("/")).text)
            assert offered == ["/", "/approvals", "/tools", "/statistics", "/audit", "/plugins", "/admin"]
        async with browsing(service, bob) as client:
            assert mine not in (await client.get("/")).text
            assert (await client.get(f"/calls/{mine}")).status_code == 404
            front = (await client.get("/")).text
            assert 'href="/audit"' not in front
            for path in ("/audit", "/audit/row/1", "/admin/keys", "/admin/servers", "/statistics?by=tenant"):
                assert (await client.get(path)).status_code == 403, path
            assert (await client.get("/audit/export")).status_code == 403
        async with browsing(service, elsewhere) as client:
            assert (await client.get(f"/calls/{mine}")).status_code == 404
            assert (await client.get("/admin/tenants")).status_code == 403
            assert mine not in (await client.get("/audit")).text
        async with browsing(service, reader) as client:
            assert (await client.get("/")).status_code == 403
            assert (await client.get("/tools")).status_code == 200
            assert "/try" not in (await client.get("/tools/add")).text


async def test_a_revoked_key_ends_its_session_at_once(tmp_path: Path) -> None:
    async with shown(tmp_path) as service:
        admin = await service.client()
        made = await admin.create_key("admin")
        async with browsing(service, made.secret) as client:
            assert (await client.get("/")).status_code == 200
            await admin.revoke_key(made.id)
            answer = await client.get("/")
            assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
            assert 'ferrule_session=""' in answer.headers["set-cookie"]


@pytest.mark.parametrize("other", ['a={"b": 1}', "a b=1", "=x; ;;", "ÿ=ÿ", 'a=\\"; b="c'])
async def test_a_cookie_of_another_program_on_the_host_ends_no_session(tmp_path: Path, other: str) -> None:
    async with shown(tmp_path) as service, browsing(service, "") as client:
        for cookies in (f"{other}; ferrule_session={service.key}", f"ferrule_session={service.key}; {other}"):
            assert (await client.get("/", headers={b"Cookie": cookies.encode("latin-1")})).status_code == 200


async def test_language_and_theme_are_chosen_or_follow_the_browser(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client:
        chinese = {"Accept-Language": "fr, zh-CN;q=0.8, en;q=0.5"}
        assert "<h1>调用</h1>" in (await client.get("/", headers=chinese)).text
        assert "<h1>Calls</h1>" in (await client.get("/")).text
        await client.post("/preferences", data={"lang": "zh", "theme": "dark", "next": "/tools"})
        page = (await client.get("/tools")).text
        assert 'lang="zh-CN" data-theme="dark"' in page
        assert "<h1>工具</h1>" in page
        # The page stays the one that it was, with what it was asked for.
        for place in ("/?tool=a%26b&amp;status=failed", "/sign-in?next=%2Faudit%3Fq%3D1"):
            page = (await client.get(place.replace("&amp;", "&"))).text
            assert f'name="next" value="{place}"' in page
            there = await client.post("/preferences", data={"lang": "en", "next": place.replace("&amp;", "&")})
            assert there.headers["location"] == place.replace("&amp;", "&")


async def test_rules_are_tested_without_running_anything(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client:
        token = await token_on(client, "/admin/roles")
        form = {"token": token, "do": "test", "tool": "note", "arguments": '{"text": "x"}', "roles": "member"}
        assert "state ask" in (await client.post("/admin/roles", data=form)).text
        assert "state allow" in (await client.post("/admin/roles", data={**form, "allow": "note"})).text
        assert "state deny" in (await client.post("/admin/roles", data={**form, "deny": "note"})).text
        assert (await client.post("/admin/roles", data={**form, "arguments": "{"})).status_code == 400
        assert (await client.post("/admin/roles", data={**form, "roles": "nobody"})).status_code == 404
        assert (await (await service.client()).calls()).calls == []


async def test_the_call_page_has_the_decision_and_the_calls_that_it_made(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client:
        admin = await service.client()
        await admin.call("refuse", {})
        found = (await admin.calls()).calls[0]
        page = (await client.get(f"/calls/{found.id}")).text
        assert "The shop is closed." in page
        assert "Try on Monday." in page
        assert "Decision" in page


@tool(name="versions", version="1.0.0", kind="readonly")
def older(old: str) -> str:
    """Take a text."""
    return old


@tool(name="versions", version="2.0.0", kind="readonly")
def newer(new: int) -> int:
    """Take a number."""
    return new


async def test_the_form_of_a_version_calls_that_version(tmp_path: Path) -> None:
    async with shown(tmp_path, tools=(older, newer)) as service, browsing(service) as client:
        http = await service.http()
        for version, name, value in (("1.0.0", "old", "7"), ("2.0.0", "new", "7")):
            place = f"/tools/versions?version={version}"
            form = {"token": await token_on(client, place), "version": version, f"argument.{name}": value}
            made = await client.post("/tools/versions/try", data=form)
            call = (await http.get(f"/v1{made.headers['location']}/record")).json()
            assert call["call"]["version"] == version
            assert list(call["arguments"]) == [name]
        # What was wrong with the form is said on a page that has the same version.
        refused = await client.post("/tools/versions/try", data={**form, "argument.new": "x"})
        assert refused.status_code == 400
        assert 'name="version" value="2.0.0"' in refused.text
        assert 'name="argument.new"' in refused.text
        assert (await client.post("/tools/versions/try", data={**form, "version": "3.0.0"})).status_code == 404


async def test_the_issuer_of_the_settings_signs_people_in(tmp_path: Path) -> None:
    with issuing() as issuer:
        oidc = OidcSettings(issuer=issuer.url, audience=AUDIENCE, client_id="panel", default_roles=["member"])
        async with shown(tmp_path, oidc=oidc) as service, browsing(service, "") as client:
            assert "/sign-in/oidc" in (await client.get("/sign-in")).text
            away = await client.get("/sign-in/oidc")
            assert away.headers["location"].startswith(f"{issuer.url}/authorize?")
            async with httpx2.AsyncClient() as there:
                back = (await there.get(away.headers["location"])).headers["location"]
            async with browsing(service, "") as another:  # who did not begin it cannot finish it
                assert (await another.get(back)).status_code == 400
            assert (await client.get(back.replace("state=", "state=x"))).status_code == 400
            entered = await client.get(back)
            assert entered.status_code == 200
            assert 'http-equiv="refresh"' in entered.text
            front = (await client.get("/")).text
            assert "u-1" in front
            assert 'href="/audit"' not in front
            assert (await client.get(back)).status_code == 400  # a second time


@pytest.mark.parametrize("path", ["/v1/calls", "/v1/audit/export", "/", "/audit"])
async def test_own_records_open_with_the_printed_address_once(tmp_path: Path, path: str) -> None:
    log = tmp_path / "audit.db"
    with AuditLog(log) as recorder:
        runtime = Runtime(Registry([add]), recorders=[recorder])
        await runtime.run(RawCall("add", {"a": 1, "b": 2}))
    panel, sign_in = local_panel(log, tmp_path)
    transport: Any = httpx2.ASGITransport(app=panel)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
        assert (await client.get(path)).status_code in (303, 401)
        token = sign_in.token
        assert (await client.get(f"/open/{token}x")).status_code == 403
        assert (await client.get(f"/open/{token}")).status_code == 303
        assert (await client.get("/audit?verify=1&q=add")).text.count("add") > 1
        assert (await client.get("/calls/1")).status_code == 200
        assert (await client.get("/statistics")).status_code == 200
        assert (await client.get("/", headers={"Host": "elsewhere.example:1"})).status_code == 421
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as another:
        assert (await another.get(f"/open/{token}")).status_code == 403
        assert (await another.get("/audit")).status_code == 303


async def test_a_tool_that_was_switched_off_is_switched_on_again(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as admin:
        admin_client = await service.client()
        await admin_client.create_user("ann", roles=["member"])
        key = (await admin_client.create_key("ann")).secret
        assert "Switched off for the tenant" not in (await admin.get("/tools")).text
        form = {"token": await token_on(admin, "/tools/add"), "enabled": "false"}
        assert (await admin.post("/tools/add/switch", data=form)).headers["location"] == "/tools"
        page = (await admin.get("/tools")).text
        assert "Switched off for the tenant" in page
        assert 'aria-label="Switch add on"' in page
        async with browsing(service, key) as ann:
            assert "add" not in (await ann.get("/tools")).text
        form = {"token": await token_on(admin, "/tools"), "enabled": "true"}
        assert (await admin.post("/tools/add/switch", data=form)).headers["location"] == "/tools/add"
        assert (await admin.get("/tools/add")).status_code == 200
        assert "Switched off for the tenant" not in (await admin.get("/tools")).text


async def test_own_records_say_what_is_missing_and_two_panels_do_not_end_each_other(tmp_path: Path) -> None:
    log = tmp_path / "data" / "audit.db"
    with AuditLog(log) as recorder:
        runtime = Runtime(Registry([add]), recorders=[recorder])
        await runtime.run(RawCall("add", {"a": 1, "b": 2}))
        recorder.flush()
        shutil.rmtree(log.parent)
        await runtime.run(RawCall("add", {"a": 3, "b": 4}))
    panels = [local_panel(log, tmp_path) for _ in range(2)]
    cookies = httpx2.Cookies()  # a browser has the same ones for every port of a host
    for panel, sign_in in panels:
        transport: Any = httpx2.ASGITransport(app=panel)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:1", cookies=cookies) as client:
            assert (await client.get(f"/open/{sign_in.token}")).status_code == 303
            cookies.update(client.cookies)
    for panel, _ in panels:
        transport = httpx2.ASGITransport(app=panel)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:1", cookies=cookies) as client:
            page = await client.get("/audit?verify=1")
            assert page.status_code == 200
            assert "Rows are missing before row 1:" in page.text
            assert "It ended at row 1, and the one in its place at row 0." in page.text
