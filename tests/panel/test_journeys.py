"""The panel as people use it, in a real browser: every page, in both languages (O3, M2)."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from playwright.async_api import Route

from tests.panel.browser import Visitor, chromium, visitor
from tests.panel.served import shown, start
from tests.service.serving import Running

pytestmark = pytest.mark.slow

WORDS: dict[str, dict[str, str]] = {
    "en": {"calls": "Calls", "cancelled": "cancelled", "approved": "approved", "denied": "denied", "intact": "intact",
           "broken": "failed at row 2", "revoked": "revoked", "first": "Someone else decided"},
    "zh": {"calls": "调用", "cancelled": "已取消", "approved": "已批准", "denied": "已拒绝", "intact": "链完好",
           "broken": "第 2 行验证失败", "revoked": "已吊销", "first": "已有其他人"},
}  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_day_with_the_panel(tmp_path: Path, language: str) -> None:
    words = {**WORDS[language], "language": language}
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url, locale="zh-CN" if language == "zh" else "en-GB")
        await me.open("/")
        assert me.page.url.endswith("/sign-in")
        await me.page.fill("#key", "fk_wrong")
        await me.page.press("#key", "Enter")
        await me.page.wait_for_selector("[role=alert]")
        await me.sign_in(service.key)
        await me.see(words["calls"], "h1")

        await watch_a_call_and_cancel_it(service, me, words)
        other = await visitor(browser, service.url, locale="zh-CN" if language == "zh" else "en-GB")
        await other.sign_in(service.key)
        await decide_from_two_browsers(service, me, other, words)
        late = await visitor(
            browser, service.url, java_script_enabled=False, locale="zh-CN" if language == "zh" else "en-GB"
        )
        await decide_too_late_without_scripts(service, late, words)
        await try_a_tool(me)
        await find_a_record_and_break_the_chain(tmp_path, me, words)
        await make_and_revoke_a_key(me, words)

        for path in ("/", "/tools/add", "/statistics", "/audit"):
            await me.open(path)
            await me.picture(f"{path.strip('/').partition('?')[0].replace('/', '-') or 'calls'}-{language}")
        await me.page.click("text=Sign out" if language == "en" else "text=退出登录")
        await me.page.wait_for_selector("#key")
        await me.open("/audit")
        assert "/sign-in" in me.page.url
        assert me.faults == []
        assert other.faults == []


async def watch_a_call_and_cancel_it(service: Running, me: Visitor, words: dict[str, str]) -> None:
    """A streaming call appears in the list by itself, is followed on its page, and is stopped there."""
    await me.page.wait_for_function("() => document.querySelector('#connection').textContent !== ''")
    call = await start(service, "count", to=3000)
    row = f"tr[data-call='{call}']"
    await me.page.wait_for_selector(row)
    await me.page.click(f"{row} a")
    await me.page.wait_for_function("() => document.querySelector('#output').textContent.includes('3 ')")
    await me.page.wait_for_function("() => document.querySelector('#bar').value > 3")
    await me.picture(f"call-{words['language']}")
    await me.page.click("button.danger")
    await me.see(words["cancelled"], "h1")
    await me.page.wait_for_selector("#call:not([data-follow])")


async def decide_from_two_browsers(service: Running, me: Visitor, other: Visitor, words: dict[str, str]) -> None:
    """Approvals come in by themselves; whoever is second is told who was first."""
    await me.open("/approvals")
    await other.open("/approvals")
    first = await start(service, "note", text="one")
    card = f"article[data-call='{first}']"
    await me.page.wait_for_selector(card)
    await other.page.wait_for_selector(card)
    # Both decide at once: the one that comes second hears it, and both see the same in the end.
    both = asyncio.Barrier(2)

    async def together(route: Route) -> None:
        if route.request.method == "POST":
            await both.wait()
        await route.continue_()

    for one in (me, other):
        await one.page.route("**/approvals/*", together)
    await asyncio.gather(me.page.click(f"{card} button[value=approve]"), other.page.click(f"{card} button[value=deny]"))
    for one in (me, other):
        await one.page.wait_for_selector(f"{card}:not([data-status=pending])")
    seen = {await one.page.get_attribute(card, "data-status") for one in (me, other)}
    assert len(seen) == 1
    for one in (me, other):
        await one.page.unroute("**/approvals/*")
    # With the keyboard alone, and a reason.
    second = await start(service, "note", text="two")
    card = f"article[data-call='{second}']"
    await me.page.wait_for_selector(card)
    await me.page.fill(f"{card} input[name=reason]", "not today")
    await me.page.focus(card)
    await me.page.eval_on_selector(card, "card => card.scrollIntoView()")
    await me.picture(f"deny-{words['language']}")
    await me.page.keyboard.press("d")
    await me.see(words["denied"], card)
    await other.see(words["denied"], card)  # without a click there
    await me.open(f"/calls/{second}")
    await me.see("not today")


async def decide_too_late_without_scripts(service: Running, late: Visitor, words: dict[str, str]) -> None:
    """A page from before cannot decide again; and every action is a form that needs no script."""
    await late.sign_in(service.key)
    call = await start(service, "note", text="three")
    await late.open("/approvals")
    client = await service.client()
    await client.approve(next(one for one in await client.approvals() if one.call == call))
    await late.page.click(f"article[data-call='{call}'] button[value=deny]")
    assert words["first"] in await late.text("[role=alert]")
    assert words["approved"] in await late.text(f"article[data-call='{call}']")
    call = await start(service, "rest", seconds=3000)
    await late.open(f"/calls/{call}")
    await late.page.click("button.danger")
    for _ in range(100):
        if words["cancelled"] in await late.text("h1"):
            return
        await late.page.reload()
    raise AssertionError("the call was not cancelled")


async def try_a_tool(me: Visitor) -> None:
    await me.open("/tools?q=add")
    await me.page.click("tbody a")
    await me.page.fill("[name='argument.a']", "x")
    await me.page.click("button.primary")
    await me.page.wait_for_selector(".field .problem")
    await me.page.fill("[name='argument.a']", "20")
    await me.page.fill("[name='argument.b']", "22")
    await me.page.click("button.primary")
    await me.page.wait_for_url("**/calls/*")
    await me.page.wait_for_selector("#call:not([data-follow])")
    await me.see("42")


async def find_a_record_and_break_the_chain(
    folder: Path, me: Visitor, words: dict[str, str]
) -> None:  # fmt: skip
    await me.open("/audit")
    await me.page.fill("#q", "not today")
    await me.page.fill("#tool", "note")
    await me.page.press("#tool", "Enter")
    await me.page.wait_for_url("**q=not*")
    await me.page.fill("#q", "")
    await me.page.press("#q", "Enter")
    await me.see("note", "tbody")
    await me.page.click("button[name=verify]")
    await me.see(words["intact"], "#verification")
    with closing(sqlite3.connect(folder / "s.db", timeout=60, isolation_level=None)) as store:
        store.execute("UPDATE audit SET content = replace(content, '\"two\"', '\"2\"') WHERE seq = 2")
        store.execute("UPDATE audit SET content = replace(content, 'note', 'nope') WHERE seq = 2")
    await me.page.click("button[name=verify]")
    await me.see(words["broken"], "#verification")
    await me.page.click("#verification a")
    assert me.page.url.endswith("/audit/row/2")


async def make_and_revoke_a_key(me: Visitor, words: dict[str, str]) -> None:
    await me.open("/admin/keys")
    await me.page.fill("#user", "admin")
    await me.page.fill("#keyname", "for a robot")
    await me.page.click("form.stack button.primary")
    await me.page.wait_for_selector("#secret")
    assert re.fullmatch(r"fk_[\w-]{40,}", (await me.text("#secret")).strip())
    await me.open("/admin/keys")
    assert await me.page.query_selector("#secret") is None
    row = me.page.locator("tr", has_text="for a robot")
    await row.locator("button.danger").click()
    await me.see(words["revoked"], "tbody tr:last-child")
