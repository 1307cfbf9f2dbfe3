"""The forms of administration in a real browser, in both languages: the service does what they say (O3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ferrule.app.service_settings import OidcSettings
from ferrule.client import ServiceError
from tests.panel.browser import Visitor, chromium, visitor
from tests.panel.served import lively, shown
from tests.service.issuer import AUDIENCE, issuing
from tests.service.serving import Running
from tests.service.shop import INTENTS

pytestmark = pytest.mark.slow

WORDS = {
    "en": {"on": "on", "off": "off", "number": "must be a number", "json": "not valid JSON", "allow": "allowed",
           "ask": "asks", "deny": "denied", "trusted": "trusted", "untrusted": "not trusted"},
    "zh": {"on": "已开启", "off": "已关闭", "number": "必须是数字", "json": "不是有效的 JSON", "allow": "已允许",
           "ask": "需要批准", "deny": "已拒绝", "trusted": "已信任", "untrusted": "未信任"},
}  # fmt: skip


async def send(me: Visitor, form: str) -> None:
    """Send a form, and wait until its answer is on the page."""
    await me.page.eval_on_selector("#main", "main => { main.dataset.before = 'yes'; }")
    await me.page.click(f"{form} button.primary")
    await me.page.wait_for_selector("#main:not([data-before])")


def form(do: str) -> str:
    return f"form:has(input[name=do][value={do}])"


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_an_administrator_sets_up_a_service(tmp_path: Path, language: str) -> None:
    """O3, S5."""
    words = WORDS[language]
    async with lively(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url, locale="zh-CN" if language == "zh" else "en-GB")
        await me.sign_in(service.key)
        await set_up_tenants(service, me, words)
        await set_up_roles(service, me, words)
        await set_up_users(service, me, words)
        await set_up_intents(service, me, words)
        await see_servers(me, words)
        assert me.faults == []


async def set_up_tenants(service: Running, me: Visitor, words: dict[str, str]) -> None:
    admin = await service.client()
    await me.open("/admin")
    new = form("create")
    await me.page.fill("#name", "acme")
    await me.page.fill("#display", "Acme <Ltd>")
    await me.page.click(f"{new} summary")
    await me.page.fill("#new-rate", "quick")
    await send(me, new)
    await me.see(words["number"], "[role=alert]")
    await me.page.fill("#name", "acme")
    await me.page.fill("#display", "Acme <Ltd>")
    await me.page.click(f"{new} summary")
    await me.page.fill("#new-rate", "7.5")
    await send(me, new)
    await me.see("rate=7.5", "tbody")
    row = me.page.locator("tr", has_text="acme")
    await row.locator("a.button").click()
    await me.page.fill("#shown", "Acme 有限公司")
    await me.page.fill("#days", "30")
    await me.page.fill("#change-concurrency", "3")
    await me.picture(f"admin-tenants-{'zh' if words['on'] != 'on' else 'en'}")
    await send(me, form("change"))
    (acme,) = [one for one in await admin.tenants() if one.name == "acme"]
    assert (acme.display_name, acme.audit_days) == ("Acme 有限公司", 30)
    assert (acme.limits.rate, acme.limits.concurrency) == (7.5, 3)
    for state in ("off", "on"):
        await me.page.locator("tr", has_text="acme").locator("button").click()
        await me.page.wait_for_function(
            "word => [...document.querySelectorAll('tbody tr')].some(row => row.cells[0].innerText === 'acme' "
            "&& row.cells[2].innerText.trim() === word)",
            arg=words[state],
        )


async def set_up_roles(service: Running, me: Visitor, words: dict[str, str]) -> None:
    admin = await service.client()
    await me.open("/admin/roles")
    # The tester: as the rules are, then with some that are not saved; nothing runs.
    tester = form("test")
    await me.page.fill("#testtool", "note")
    await me.page.fill("#testarguments", '{"text": "x"')
    await send(me, tester)
    await me.see(words["json"], "[role=alert]")
    assert await me.page.input_value("#testarguments") == '{"text": "x"'  # what was written is still there
    await me.page.fill("#testarguments", '{"text": "x"}')
    await send(me, tester)
    await me.see(words["ask"], "#verdict")
    for verdict in ("allow", "deny"):
        await me.page.eval_on_selector(f"{tester} details", "one => { one.open = true; }")
        await me.page.fill(f"#test-{verdict}", "note")
        await send(me, tester)
        await me.see(words[verdict], "#verdict")
        assert await me.page.evaluate("document.querySelector('#verdict').getBoundingClientRect().top") >= 0  # in view
    await me.picture(f"admin-roles-{'zh' if words['on'] != 'on' else 'en'}")
    assert (await admin.calls()).calls == []
    # A role, with a rule that cannot work first.
    await me.open("/admin/roles")
    await me.page.fill("#name", "writer")
    await me.page.fill("#new-allow", "Note(")
    await send(me, f"section:last-of-type {form('put')}")
    await me.page.wait_for_selector("[role=alert]")
    await me.page.fill("#name", "writer")
    await me.page.fill("#new-allow", "note\nRead(/docs/**)")
    await send(me, f"section:last-of-type {form('put')}")
    await me.page.locator("tr", has_text="writer").locator("a.button").click()
    await me.page.fill("#change-deny", "Bash")
    await me.page.select_option("#change-mode", "plan")
    await send(me, f"section:has(#change-deny) {form('put')}")
    (writer,) = [one for one in await admin.roles() if one.name == "writer"]
    assert (writer.allow, writer.deny, writer.mode) == (["note", "Read(/docs/**)"], ["Bash"], "plan")
    await admin.put_role("writer", allow=["note"])


async def set_up_users(service: Running, me: Visitor, words: dict[str, str]) -> None:
    admin = await service.client()
    await me.open("/admin/users")
    await me.page.fill("#name", "bob")
    await me.page.fill("#newroles", "nobody-made-this")
    await send(me, form("create"))
    await me.see("nobody-made-this", "[role=alert]")
    await me.page.fill("#name", "bob")
    await me.page.fill("#newroles", "member\nwriter")
    await send(me, form("create"))
    bob = await service.client((await admin.create_key("bob")).secret)
    assert (await bob.call("note", {"text": "by role"})).status == "succeeded"
    # A limit that is set here holds from the next call.
    await me.page.locator("tr", has_text="bob").locator("a.button").click()
    await me.page.click(f"{form('change')} summary")
    await me.page.fill("#change-calls_per_day", "1")
    await me.page.fill("#roles", "member")
    await send(me, form("change"))
    with pytest.raises(ServiceError) as refused:
        for _ in range(3):
            await bob.call("add", {"a": 1, "b": 2})
    assert refused.value.status == 429
    await me.page.locator("tr", has_text="bob").locator("button").click()
    await me.page.locator("tr", has_text="bob").get_by_role("cell", name=words["off"], exact=True).wait_for()
    with pytest.raises(ServiceError) as refused:
        await bob.calls()
    assert refused.value.status == 401
    await me.open("/admin/users?edit=bob")
    await me.page.click("button[value=delete]")
    await me.page.wait_for_selector("tr:has-text('bob')", state="detached")
    assert [one.name for one in await admin.users()] == ["admin"]


async def set_up_intents(service: Running, me: Visitor, words: dict[str, str]) -> None:
    admin = await service.client()
    await me.open("/admin/intents")
    await me.page.fill("#code", "find_orders")
    await me.page.fill("#definition", "{'not': 'json'}")
    await send(me, form("put"))
    await me.see(words["json"], "[role=alert]")
    assert await me.page.input_value("#definition") == "{'not': 'json'}"
    await me.page.fill("#definition", json.dumps({**INTENTS["find_orders"], "handler": {"type": "query"}}))
    await send(me, form("put"))
    await me.page.wait_for_selector("[role=alert]")
    for version in (1, 2):
        described = f"Find orders, version {version}."
        await me.page.fill("#code", "find_orders")
        await me.page.fill("#definition", json.dumps({**INTENTS["find_orders"], "description": described}))
        await send(me, form("put"))
        await me.see(described, "article")
    await me.see("v2", "article")
    for state in ("off", "on"):
        await me.page.click("article button[name=enabled]")
        await me.see(f"v2 · {words[state]}", "article")
    await me.page.click("details:has-text('order') summary >> text=order >> nth=-1")
    await me.see("customer", "table")
    await me.page.click("article button.danger")
    await me.page.wait_for_selector("article", state="detached")
    assert await admin.intents() == []


async def see_servers(me: Visitor, words: dict[str, str]) -> None:
    await me.open("/admin/servers")
    clock, weather = me.page.locator("tr", has_text="clock"), me.page.locator("tr", has_text="weather")
    assert await clock.locator("td").nth(2).inner_text() == words["trusted"]
    assert words["untrusted"] in await weather.locator("td").nth(2).inner_text()
    assert "hidden" not in await me.text("main")  # an argument may be a secret
    assert await clock.locator("a").count() > 3
    assert await weather.locator("a").count() == 0


async def test_an_organisation_signs_its_people_in(tmp_path: Path) -> None:
    """O3."""
    with issuing() as issuer:
        oidc = OidcSettings(issuer=issuer.url, audience=AUDIENCE, client_id="panel", default_roles=["member"])
        async with shown(tmp_path, oidc=oidc) as service, chromium() as browser:
            me = await visitor(browser, service.url)
            await me.open("/tools")
            await me.page.click("a[href='/sign-in/oidc']")
            await me.page.wait_for_selector("#calls")
            await me.see("u-1", "header")
            assert await me.page.query_selector("nav a[href='/admin']") is None
            await me.open("/tools/add")
            await me.page.fill("[name='argument.a']", "20")
            await me.page.fill("[name='argument.b']", "22")
            await me.page.click("button.primary")
            await me.see("42")
            await me.page.click("text=Sign out")
            await me.page.wait_for_selector("#key")
            # Somebody whom the service does not know is told so, and an issuer that is down is named.
            issuer.signs_in = {"tenant": "elsewhere"}
            await me.page.click("a[href='/sign-in/oidc']")
            await me.page.wait_for_selector("[role=alert]")
            assert "/sign-in" in me.page.url
            issuer.failing = True
            await me.open("/sign-in")
            await me.page.click("a[href='/sign-in/oidc']")
            await me.page.wait_for_selector("h1")
            assert me.faults == []
