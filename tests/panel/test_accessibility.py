"""The panel for everybody: no fault that axe-core finds, in both themes; on a phone; with the keyboard alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python  # pyright: ignore[reportMissingTypeStubs]
import pytest
from playwright.async_api import Page

from tests.panel.browser import Visitor, chromium, visitor
from tests.panel.served import shown
from tests.service.serving import Running

pytestmark = pytest.mark.slow

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


async def paths_of(service: Running) -> list[str]:
    """Every page there is, with something on it."""
    client, http = await service.client(), await service.http()
    await client.call("add", {"a": 1, "b": 2})
    await client.call("refuse", {})
    done = (await client.calls()).calls[0].id
    asked = {"tool": "note", "arguments": {"text": "x"}}
    call = (await http.post("/v1/calls", json=asked, headers={"Prefer": "respond-async"})).json()
    return [
        "/", "/?status=failed", f"/calls/{done}", f"/calls/{call['id']}", "/approvals", "/tools", "/tools/add",
        "/statistics", "/audit?verify=1", "/audit/row/1", "/admin/tenants?edit=default", "/admin/users?edit=admin",
        "/admin/roles?edit=admin", "/admin/keys", "/admin/intents", "/admin/servers", "/calls/none",
    ]  # fmt: skip


async def violations(page: Page) -> list[str]:
    await page.evaluate(AXE)
    found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{page.url} {one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found["violations"]
        for node in one["nodes"][:3]
    ]


async def test_axe_finds_nothing_in_either_theme_and_nothing_is_wider_than_a_phone(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        paths = await paths_of(service)
        for scheme, width in (("light", 1100), ("dark", 380)):
            me = await visitor(
                browser, service.url, color_scheme=scheme, viewport={"width": width, "height": 760},
                reduced_motion="reduce",
            )  # fmt: skip
            await me.open("/sign-in")
            found = await violations(me.page)
            await me.sign_in(service.key)
            for path in paths:
                await me.open(path)
                found += await violations(me.page)
                if width == 380:
                    wide = await me.page.evaluate("document.documentElement.scrollWidth")
                    assert wide <= 380, (path, wide)
                    if path in ("/", "/approvals"):
                        await me.picture(f"phone-{path.strip('/') or 'calls'}")
            assert found == []
            assert me.faults == []


async def reach(me: Visitor, selector: str) -> None:
    """Press Tab until something has the focus."""
    for _ in range(80):
        await me.page.keyboard.press("Tab")
        if await me.page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached with Tab on {me.page.url}")


async def test_everything_can_be_done_with_the_keyboard_alone(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url)
        http = await service.http()
        await me.open("/sign-in")
        await reach(me, "#key")
        await me.page.keyboard.type(service.key)
        await me.page.keyboard.press("Enter")
        await me.page.wait_for_selector("#calls")
        asked = {"tool": "note", "arguments": {"text": "keys"}}
        call = (await http.post("/v1/calls", json=asked, headers={"Prefer": "respond-async"})).json()["id"]
        await reach(me, "nav a[href='/approvals']")
        await me.page.keyboard.press("Enter")
        card = f"article[data-call='{call}']"
        await me.page.wait_for_selector(card)
        await me.page.keyboard.press("j")
        assert await me.page.evaluate("selector => document.activeElement.matches(selector)", card)
        await me.page.keyboard.press("a")
        await me.see("approved", card)
        running = {"tool": "rest", "arguments": {"seconds": 3000}}
        call = (await http.post("/v1/calls", json=running, headers={"Prefer": "respond-async"})).json()["id"]
        await me.open(f"/calls/{call}")
        await reach(me, "button.danger")
        await me.page.keyboard.press("Enter")
        await me.see("cancelled", "h1")
        for path, selector in (
            ("/tools/add", "section button.primary"), ("/audit", "button[name=verify]"), ("/statistics", "#by"),
            ("/admin/keys", "button.danger"), ("/admin/roles", "#tester button.primary"), ("/", "#pause"),
        ):  # fmt: skip
            await me.open(path)
            await reach(me, selector)
        assert me.faults == []
