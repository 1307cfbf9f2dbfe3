"""The panel when things go wrong: sessions that end, networks that fail, a store that is gone, names without end."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx2
import pytest
from playwright.async_api import Route

from ferrule import RawCall, Runtime, tool
from ferrule.panel.calls import ROWS
from ferrule.panel.local import local_panel
from ferrule.records import AuditLog
from tests.panel.browser import chromium, visitor
from tests.panel.served import shown, start
from tests.panel.test_accessibility import violations
from tests.panel.test_pages import browsing, token_on
from tests.service.serving import add

PAGES = (
    "/", "/approvals", "/tools", "/statistics", "/audit?verify=1", "/admin/tenants", "/admin/users", "/admin/roles",
    "/admin/keys", "/admin/intents", "/admin/servers",
)  # fmt: skip


@pytest.mark.slow
async def test_a_session_that_ends_leads_to_sign_in_and_back_to_the_same_page(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        admin = await service.client()
        made = await admin.create_key("admin", scopes=["tools", "calls", "approvals", "admin"])
        me = await visitor(browser, service.url)
        await me.sign_in(made.secret)
        second = await me.context.new_page()  # two tabs of one session
        await second.goto(f"{service.url}/?tool=add&status=failed")
        await start(service, "note", text="x")
        await me.open("/approvals")
        await me.page.wait_for_selector("#inbox .card")
        await admin.revoke_key(made.id)
        # A decision under a session that has ended decides nothing.
        await me.page.click("#inbox button[value=approve]")
        await me.page.wait_for_selector("#key")
        assert [one.status for one in await admin.approvals()] == ["pending"]
        # The other tab finds out by itself once its stream ends, or with the next click.
        await second.click("form.filters button >> nth=0")
        await second.wait_for_selector("#key")
        await second.fill("#key", service.key)
        await second.press("#key", "Enter")
        await second.wait_for_selector("#calls")
        assert await second.input_value("#tool") == "add"
        assert await second.input_value("#status") == "failed"
        assert me.faults == []


@pytest.mark.slow
async def test_two_clicks_on_a_slow_network_are_one_decision_and_none_is_lost_silently(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url)
        await me.sign_in(service.key)
        call = await start(service, "note", text="x")
        await me.open("/approvals")
        card = f"article[data-call='{call}']"
        sent: list[str] = []
        answers = asyncio.Event()

        async def slowly(route: Route) -> None:
            if route.request.method == "POST":
                sent.append(route.request.url)
                await answers.wait()
            await route.continue_()

        await me.page.route("**/approvals/*", slowly)
        await me.page.dblclick(f"{card} button[value=approve]")
        await me.page.focus(card)
        await me.page.keyboard.press("a")
        answers.set()
        await me.see("approved", card)
        assert len(sent) == 1
        await me.page.unroute("**/approvals/*")
        # Where it cannot be sent at all, the card says so, and the next click sends it.
        call = await start(service, "note", text="y")
        card = f"article[data-call='{call}']"
        await me.page.wait_for_selector(card)
        await me.page.route("**/approvals/*", lambda route: route.abort() if route.request.method == "POST" else None)
        await me.page.fill(f"{card} input[name=reason]", "enough")
        await me.page.click(f"{card} button[value=deny]")
        await me.see("could not be sent", f"{card} [role=alert]")
        await me.page.unroute("**/approvals/*")
        await me.page.click(f"{card} button[value=deny]")
        await me.see("denied", card)
        await me.see("enough", card)


@pytest.mark.slow
async def test_a_stream_that_is_refused_for_a_while_comes_back_by_itself(tmp_path: Path) -> None:
    """Behind a proxy, a service that restarts answers 502: browsers never ask for such a stream again."""
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url)
        await me.page.route("**/events", lambda route: route.fulfill(status=502, body="bad gateway"))
        await me.sign_in(service.key)
        live = "word => document.querySelector('#connection').textContent === word"
        await me.page.wait_for_function(live, arg="not connected")
        call = await start(service, "add", a=1, b=2)
        await me.page.unroute("**/events")
        await me.page.wait_for_selector(f"tr[data-call='{call}']")
        await me.page.wait_for_function(live, arg="live")
        await me.page.route("**/events", lambda route: route.fulfill(status=502, body="bad gateway"))
        await me.open("/approvals")
        await me.page.wait_for_function(live, arg="not connected")
        waiting = await start(service, "note", text="while away")
        await me.page.unroute("**/events")
        await me.page.wait_for_selector(f"article[data-call='{waiting}']")
        await me.page.wait_for_function(live, arg="live")
        assert await me.page.locator("#inbox .card").count() == 1


@pytest.mark.slow
async def test_going_back_to_a_form_and_sending_something_else_is_another_call(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url)
        await me.sign_in(service.key)
        await me.open("/tools/add")
        for a, total in (("1", "3"), ("40", "42")):
            await me.page.fill("[name='argument.a']", a)
            await me.page.fill("[name='argument.b']", "2")
            await me.page.click("form.stack button.primary")
            await me.page.wait_for_url("**/calls/*")
            await me.page.wait_for_selector("#call:not([data-follow])")
            await me.see(total, "pre")
            await me.page.go_back()
            await me.page.wait_for_selector("[name='argument.a']")
        assert len((await (await service.client()).calls()).calls) == 2
        assert me.faults == []


@pytest.mark.slow
async def test_a_new_service_and_one_without_tools_say_so_on_every_page(tmp_path: Path) -> None:
    async with shown(tmp_path, tools=()) as service, chromium() as browser:
        me = await visitor(browser, service.url, viewport={"width": 380, "height": 760})
        await me.sign_in(service.key)
        await me.see("No calls yet.")
        for path in PAGES:
            await me.open(path)
            assert await violations(me.page) == []
        await me.open("/audit")
        await me.see("Nothing is on record yet.")
        await me.open("/approvals")
        await me.see("Nothing is waiting for a decision.")
        assert me.faults == []


@pytest.mark.slow
async def test_names_of_two_hundred_letters_and_text_of_any_direction_fit_a_phone(tmp_path: Path) -> None:
    long, right = "x" * 200, "שלום " * 30 + "\u202eevil" + "漢字" * 60

    @tool(name="y" * 64, kind="write")
    def named(text: str) -> str:
        """Do it."""
        return text

    async with shown(tmp_path, tools=(named,)) as service, chromium() as browser:
        admin, http = await service.client(), await service.http()
        for name in (long, right[:200]):
            await http.post("/v1/calls", json={"tool": name, "arguments": {"a": right}, "metadata": {}})
        await start(service, "y" * 64, text=right + long)
        await admin.create_key("admin", name="k" * 100)
        await http.put(f"/v1/roles/{'r' * 60}", json={"allow": [f"Bash({long})"]})
        await http.patch("/v1/tenants/default", json={"display_name": right[:100]})
        me = await visitor(browser, service.url, viewport={"width": 380, "height": 760})
        await me.sign_in(service.key)
        calls = [f"/calls/{one.id}" for one in (await admin.calls()).calls]
        for path in (*PAGES, *calls, f"/tools/{'y' * 64}", "/audit/row/1", f"/?tool={long}"):
            await me.open(path)
            assert await me.page.evaluate("document.documentElement.scrollWidth") <= 380, path
        assert me.faults == []


async def test_another_tenant_gets_nothing_from_ids_that_it_learnt(tmp_path: Path) -> None:
    async with shown(tmp_path) as service:
        admin = await service.client()
        await admin.call("add", {"a": 1, "b": 2})
        running, waiting = await start(service, "rest", seconds=3000), await start(service, "note", text="mine")
        (approval,) = await admin.approvals()
        (key,) = [one for one in await admin.keys() if one.name == "first start"]
        _, elsewhere = await service.tenant("mallory")
        async with browsing(service, elsewhere) as client:
            token = await token_on(client, "/admin/users")
            for path in (f"/calls/{running}", f"/calls/{running}/events", f"/approvals/{approval.id}"):
                assert (await client.get(path)).status_code == 404, path
            decided = {"token": token, "decision": "approve", "args_hash": approval.args_hash}
            assert (await client.post(f"/approvals/{approval.id}", data=decided)).status_code == 404
            assert (await client.post(f"/calls/{running}/cancel", data={"token": token})).status_code == 404
            for do in ("revoke", "rotate"):
                form = {"token": token, "do": do, "id": key.id}
                assert (await client.post("/admin/keys", data=form)).status_code == 404
            for page in ("/", "/approvals", "/audit", "/statistics", "/admin/users", "/admin/keys"):
                text = (await client.get(page)).text
                assert running not in text
                assert waiting not in text
                assert "mine" not in text
        assert [one.status for one in await admin.approvals()] == ["pending"]
        assert (await admin.get_call(running)).status == "running"


async def test_a_store_that_fails_is_named_and_its_inside_stays_inside(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client:
        assert (await client.get("/")).status_code == 200
        with closing(sqlite3.connect(tmp_path / "s.db", timeout=60, isolation_level=None)) as store:
            store.execute("ALTER TABLE calls RENAME TO calls_gone")
        answer = await client.get("/")
        assert answer.status_code == 503
        assert "The store cannot be reached. Try again." in answer.text
        assert "sqlite" not in answer.text.lower()
        assert str(tmp_path) not in answer.text
        with closing(sqlite3.connect(tmp_path / "s.db", timeout=60, isolation_level=None)) as store:
            store.execute("ALTER TABLE calls_gone RENAME TO calls")
        assert (await client.get("/")).status_code == 200


async def test_a_form_that_no_browser_sends_is_refused_in_words(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client:
        for form, headers in (
            ({"token": "é💥"}, {}), ({"token": "x"}, {"Sec-Fetch-Site": "", "Origin": "http://["}),
            ({"token": "\u202e"}, {"Sec-Fetch-Site": "", "Origin": "null"}),
        ):  # fmt: skip
            answer = await client.post("/admin/users", data={**form, "do": "create", "name": "eve"}, headers=headers)
            assert answer.status_code == 403
            assert "The form has expired." in answer.text
        assert (await client.get(f"/static/{'x' * 5000}")).status_code == 404


async def test_half_a_form_changes_nothing(tmp_path: Path) -> None:
    """A connection that breaks off while a form is sent: what was left out may be a limit."""
    async with shown(tmp_path) as service, browsing(service) as client:
        sent = urlencode({"token": await token_on(client, "/admin/users"), "do": "create", "name": "eve"}).encode()
        place = urlsplit(service.url)
        _, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(
            f"POST /admin/users HTTP/1.1\r\nHost: {place.netloc}\r\nSec-Fetch-Site: same-origin\r\n"
            f"Cookie: ferrule_session={service.key}\r\nContent-Length: {len(sent) + 40}\r\n\r\n".encode()
            + sent
        )
        await writer.drain()
        await asyncio.sleep(0.3)
        writer.close()
        await asyncio.sleep(0.3)
        assert [one.name for one in await (await service.client()).users()] == ["admin"]


CHANGED = (
    "garbage", "5", "{}", "null", "[]", "[1, 2]", "[" * 20_000, json.dumps(["x"] * 10 + [7] + ["x"] * 18),
    json.dumps(["x"] * 15 + [{}] + ["x"] * 13),
)  # fmt: skip
"""What somebody may write in place of a row of the audit log."""


async def test_a_row_of_any_form_is_shown_named_and_exported(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client:
        admin = await service.client()
        for a in range(3):
            await admin.call("add", {"a": a, "b": 2})
        calls = [f"/calls/{one.id}" for one in (await admin.calls()).calls]
        for content in CHANGED:
            with closing(sqlite3.connect(tmp_path / "s.db", timeout=60, isolation_level=None)) as store:
                store.execute("UPDATE audit SET content = ? WHERE seq = 2", (content,))
            for path in ("/audit", "/audit?q=add", "/audit?outcome=failure", "/audit/row/2", "/statistics", *calls):
                assert (await client.get(path)).status_code == 200, (path, content[:50])
            assert "failed at row 2." in (await client.get("/audit?verify=1")).text, content[:50]
            assert [json.loads(one)["seq"] for one in (await client.get("/audit/export")).text.splitlines()] == [
                1,
                2,
                3,
            ]


@tool(kind="readonly")
def half() -> str:
    """Give half a character."""
    return "a\ud800b"


async def test_half_a_character_is_shown_as_what_it_is_not(tmp_path: Path) -> None:
    async with shown(tmp_path, tools=(half,)) as service, browsing(service) as client:
        made = await (await service.http()).post("/v1/calls", json={"tool": "half", "arguments": {}})
        answer = await client.get(f"/calls/{made.json()['id']}")
        assert answer.status_code == 200
        assert "a\\u{d800}b" in answer.text or "a\\ud800b" in answer.text


@asynccontextmanager
async def own_records(folder: Path) -> AsyncGenerator[tuple[httpx2.AsyncClient, Path]]:
    """Somebody who looks at their own records, and the file with those."""
    log = folder / "audit.db"
    with AuditLog(log) as recorder:
        for a in range(3):
            await Runtime([add], recorders=[recorder]).run(RawCall("add", {"a": a, "b": 2}))
    panel, sign_in = local_panel(log, folder)
    transport: Any = httpx2.ASGITransport(app=panel)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
        await client.get(f"/open/{sign_in.token}")
        yield client, log


OWN_PAGES = (
    "/", "/audit", "/audit?q=add", "/audit?verify=1", "/audit/row/2", "/calls/2", "/statistics", "/audit/export",
)  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        "time = 'yesterday'", "time = 1e20", "time = 9e999", "time = x'00ff'", "duration = 'long'", "waited = 'x'",
        "arguments = CAST(x'ff22' AS TEXT)", "effects = '[1]'", "effects = '\"x\"'", "effects = '{\"counts\": {}}'",
    ],
)  # fmt: skip
async def test_own_records_that_somebody_changed_are_shown_and_named(tmp_path: Path, change: str) -> None:
    async with own_records(tmp_path) as (client, log):
        with closing(sqlite3.connect(log, isolation_level=None)) as store:
            for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                store.execute(f"DROP TRIGGER {name}")
            store.execute(f"UPDATE calls SET {change} WHERE seq = 2")
        for path in OWN_PAGES:
            assert (await client.get(path)).status_code == 200, path
        assert "failed at row 2." in (await client.get("/audit?verify=1")).text


async def test_own_records_without_a_head_blame_no_row(tmp_path: Path) -> None:
    async with own_records(tmp_path) as (client, log):
        with closing(sqlite3.connect(log, isolation_level=None)) as store:
            for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                store.execute(f"DROP TRIGGER {name}")
            store.execute("DELETE FROM head")
        page = (await client.get("/audit?verify=1")).text
        assert "Audit log verification failed. " in page
        assert "None" not in page


async def test_own_records_that_are_gone_or_damaged_are_named(tmp_path: Path) -> None:
    async with own_records(tmp_path) as (client, log):
        for number in ("9223372036854775808", "9" * 40):
            for path in (f"/?cursor={number}", f"/audit?before={number}"):
                assert (await client.get(path)).status_code == 200, path
        kept = log.read_bytes()
        for damage, words in (
            (b"no database" * 999, "is damaged or not an audit log"),
            (None, "There is no audit log"),
        ):
            log.write_bytes(damage) if damage else log.unlink()
            for path in OWN_PAGES:
                answer = await client.get(path)
                assert answer.status_code == 503, path
                assert words in answer.text
        assert "处没有审计日志" in (await client.get("/", headers={"Accept-Language": "zh"})).text
        log.write_bytes(kept)
        assert (await client.get("/")).status_code == 200


LIVE = "word => document.querySelector('#connection').textContent === word"
IDS = "[...document.querySelectorAll('#rows tr')].map(row => row.dataset.call)"


@pytest.mark.slow
async def test_what_leaves_the_list_as_calls_come_is_on_the_next_page(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        me, admin = await visitor(browser, service.url), await service.client()
        await me.sign_in(service.key)
        await me.page.wait_for_function(LIVE, arg="live")
        assert await me.page.is_hidden("#older")
        for more in (ROWS + 5, 15):
            for _ in range(more):
                await admin.call("add", {"a": 1, "b": 2})
            newest = (await admin.calls()).calls[0].id
            await me.page.wait_for_selector(f"#rows tr[data-call='{newest}']")
        listed = await me.page.evaluate(IDS)
        await me.page.click("#older a")
        await me.page.wait_for_url("**cursor=*")
        listed += await me.page.evaluate(IDS)
        assert listed == [one.id for one in (await admin.calls(limit=200)).calls]
        assert await me.page.is_hidden("#older")
        assert me.faults == []


@pytest.mark.slow
async def test_a_filtered_list_says_the_same_live_as_loaded_again(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url)
        await me.sign_in(service.key)
        await me.open("/?status=succeeded")
        await me.page.wait_for_function(LIVE, arg="live")
        call = await start(service, "rest", seconds=1.5)
        row = f"#rows tr[data-call='{call}']"
        await me.page.wait_for_selector(row)
        live = await me.text(row)
        assert "1.5 s" in live or "1.6 s" in live
        await me.page.reload()
        assert await me.text(row) == live
        # A state that there is not filters nothing, now or later.
        await me.open("/?status=bogus")
        await me.page.wait_for_function(LIVE, arg="live")
        call = await start(service, "add", a=1, b=2)
        await me.page.wait_for_selector(f"#rows tr[data-call='{call}'][data-status=succeeded]")
        # Pausing and going on makes no connection of none.
        await me.page.route("**/events", lambda route: route.fulfill(status=502, body="bad gateway"))
        await me.open("/")
        await me.page.wait_for_function(LIVE, arg="not connected")
        for _ in range(2):
            await me.page.click("#pause")
            assert await me.text("#connection") == "not connected"
        assert me.faults == []


@pytest.mark.slow
async def test_a_call_that_somebody_goes_back_to_has_its_output_once(tmp_path: Path) -> None:
    """Browsers may keep a page that was left, and show it again as it was."""
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url)
        await me.sign_in(service.key)
        await me.open(f"/calls/{await start(service, 'count', to=60)}")
        await me.page.wait_for_function("() => document.querySelector('#output').textContent.includes('9 ')")
        for kind in ("pagehide", "pageshow"):
            await me.page.evaluate("kind => dispatchEvent(new PageTransitionEvent(kind, {persisted: true}))", kind)
        await me.page.wait_for_function("() => document.querySelector('#output').textContent.includes('25 ')")
        said = (await me.text("#output")).split()
        assert said == [str(number) for number in range(1, len(said) + 1)]
        assert me.faults == []


@pytest.mark.slow
async def test_a_phone_that_lets_no_page_notify_still_shows_what_waits(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url)
        await me.context.add_init_script(
            "window.Notification = class { static permission = 'granted'; constructor() { throw new TypeError(); } };"
            "Object.defineProperty(document, 'hidden', { get: () => true });"
        )
        await me.sign_in(service.key)
        await me.open("/approvals")
        await me.page.wait_for_function(LIVE, arg="live")
        call = await start(service, "note", text="x")
        await me.page.wait_for_selector(f"article[data-call='{call}']")
        assert me.faults == []


@pytest.mark.slow
async def test_a_form_sends_what_was_entered_and_nothing_that_was_not(tmp_path: Path) -> None:
    @tool(kind="readonly")
    def wipe(all_of_it: bool, text: str, times: int) -> str:
        """Wipe."""
        return f"{all_of_it} {text!r} {times}"

    async with shown(tmp_path, tools=(wipe,)) as service, chromium() as browser:
        me = await visitor(browser, service.url)
        await me.sign_in(service.key)
        await me.open("/tools/wipe")
        # Nobody said yes yet; and what was written is still there, its first line too, once something is wrong.
        await me.page.fill("[name='argument.text']", "\n\n two\n")
        await me.page.fill("[name='argument.times']", "3")
        await me.page.click("form.stack button.primary")
        await me.see("This is required.", ".field .problem")
        assert await me.page.input_value("[name='argument.text']") == "\n\n two\n"
        await me.page.select_option("[name='argument.all_of_it']", "false")
        await me.page.click("form.stack button.primary")
        await me.page.wait_for_url("**/calls/*")
        await me.see(r"False '\n\n two\n' 3", "pre")
        assert me.faults == []


async def test_a_user_without_roles_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client:
        await (await service.client()).create_user("bob", roles=["member"])
        form = {
            "token": await token_on(client, "/admin/users"),
            "do": "change",
            "name": "bob",
            "roles": "",
            "allow": "",
        }
        answer = await client.post("/admin/users", data=form)
        assert answer.status_code == 400
        assert "/roles" in answer.text


async def test_an_inbox_with_more_than_it_shows_says_so(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client:
        await asyncio.gather(*(start(service, "note", text=str(at)) for at in range(199)))
        assert "Only the newest" not in (await client.get("/approvals")).text
        await asyncio.gather(*(start(service, "note", text=str(at)) for at in range(3)))
        page = (await client.get("/approvals")).text
        assert page.count("<article ") == 200
        assert "Only the newest 200 are shown." in page


@pytest.mark.slow
async def test_a_decision_that_is_refused_is_not_taken_for_one(tmp_path: Path) -> None:
    """Whoever may no longer decide, or finds the store away, is told so, and sees no card go as if it was decided."""
    async with shown(tmp_path) as service, chromium() as browser:
        admin = await service.client()
        await admin.put_role("approver", allow=["Admin(approve others)"])
        await admin.create_user("ann", roles=["member", "approver"])
        me = await visitor(browser, service.url)
        await me.sign_in((await admin.create_key("ann")).secret)
        call = await start(service, "note", text="x")
        for words in ("There is no such thing, or it is not for you.", "The store cannot be reached."):
            await me.open("/approvals")
            await me.page.wait_for_selector(f"article[data-call='{call}']")
            if "store" in words:
                with closing(sqlite3.connect(tmp_path / "s.db", timeout=60, isolation_level=None)) as store:
                    store.execute("ALTER TABLE approvals RENAME TO approvals_gone")
            else:
                await (await service.http()).patch("/v1/users/ann", json={"roles": ["member"]})
            await me.page.click(f"article[data-call='{call}'] button[value=approve]")
            await me.see(words)
            if "store" in words:
                with closing(sqlite3.connect(tmp_path / "s.db", timeout=60, isolation_level=None)) as store:
                    store.execute("ALTER TABLE approvals_gone RENAME TO approvals")
            await (await service.http()).patch("/v1/users/ann", json={"roles": ["member", "approver"]})
        assert [one.status for one in await admin.approvals()] == ["pending"]
        assert me.faults == []


async def test_own_records_lead_to_no_page_without_rows(tmp_path: Path) -> None:
    async with own_records(tmp_path) as (client, log):
        with AuditLog(log) as recorder:
            await Runtime([add], recorders=[recorder]).run(RawCall("add", "{"))
        for path in ("/audit", "/audit?outcome=failure", "/audit?q=add", "/audit?tool=add"):
            assert "before=" not in (await client.get(path)).text, path
        assert "No row matches." in (await client.get("/audit?q=nothing-like-it")).text


ODD_TEXTS = ('say "hi"', "back\\slash", "line\nbreak", "tab\there", "50%_x", "日本é", "💥", "שלום", "<b>")


async def test_the_audit_log_finds_any_text_that_was_sent(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, browsing(service) as client, own_records(tmp_path) as (own, log):
        with AuditLog(log) as recorder:
            for text in ODD_TEXTS:
                await (await service.client()).call("add", {"a": 1, "text": text})
                await Runtime([add], recorders=[recorder]).run(RawCall("add", {"a": 1, "text": text}))
        for at, text in enumerate(ODD_TEXTS):
            for one, first in ((client, 1), (own, 4)):
                page = (await one.get(f"/audit?q={quote(text)}")).text
                assert re.findall(r'scope="row"><a href="/audit/row/(\d+)"', page) == [str(first + at)], text
