"""The panel for everybody: no fault that axe-core finds, in both themes; on a phone; with the keyboard alone (O3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import axe_playwright_python  # pyright: ignore[reportMissingTypeStubs]
import pytest
from playwright.async_api import Page

from ferrule import RawCall, Runtime, tool
from ferrule.panel.local import local_panel, serve_local
from ferrule.records import AuditLog
from tests.panel.browser import Visitor, chromium, visitor
from tests.panel.served import lively, peopled, shown, start

pytestmark = pytest.mark.slow

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
CONTROLS = """() => {
    for (const one of document.querySelectorAll('details')) one.open = true;
    const kinds = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
    window.controls = () => [...document.querySelectorAll(kinds)].filter(one => one.checkVisibility() && !one.disabled);
    window.activated = new Set();
    const note = event => {
        window.activated.add(controls().indexOf(event.target.closest(kinds)));
        if (event.type === 'click') { event.preventDefault(); event.stopImmediatePropagation(); }
    };
    for (const kind of ['click', 'input']) addEventListener(kind, note, true);
    document.activeElement.blur();
    const kind = one => one.options && one.options.length < 2 ? 'no choice' : one.type || one.tagName.toLowerCase();
    return controls().map(one => [one.outerHTML.slice(0, 120), kind(one)]);
}"""
FOCUSED = """() => {
    const one = document.activeElement;
    return [controls().indexOf(one), getComputedStyle(one).outlineStyle !== 'none'];
}"""
KEYS = {
    "a": "Enter", "submit": "Enter", "button": "Space", "summary": "Space", "checkbox": "Space", "text": "x",
    "search": "x", "password": "x", "textarea": "x", "select-one": "ArrowDown ArrowUp",
}  # fmt: skip
"""What somebody presses on a control; what only scrolls needs no key."""


async def violations(page: Page) -> list[str]:
    await page.evaluate(AXE)
    found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{page.url} {one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found["violations"]
        for node in one["nodes"][:3]
    ]


@pytest.mark.parametrize(
    ("theme", "width", "language"),
    [("light", 1280, "en-GB"), ("dark", 1280, "zh-CN"), ("light", 380, "zh-CN"), ("dark", 380, "en-GB")],
)
async def test_axe_finds_nothing_on_any_page_and_nothing_is_wider_than_the_window(
    tmp_path: Path, theme: str, width: int, language: str
) -> None:
    """O3."""
    async with lively(tmp_path) as service, chromium() as browser:
        paths = await peopled(service)
        me = await visitor(
            browser, service.url, color_scheme=theme, viewport={"width": width, "height": 760}, locale=language,
            reduced_motion="reduce",
        )  # fmt: skip
        await me.open("/sign-in")
        found = await violations(me.page)
        await me.sign_in(service.key)
        for path in paths:
            await me.open(path)
            found += await violations(me.page)
            wide = await me.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (path, wide)
            if path in ("/", "/approvals") and width == 380:
                await me.picture(f"phone-{path.strip('/') or 'calls'}-{language[:2]}")
        assert found == []
        assert me.faults == []


@tool(kind="readonly")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@pytest.mark.parametrize(("theme", "width"), [("light", 380), ("dark", 1280)])
async def test_axe_finds_nothing_on_the_pages_of_own_records(tmp_path: Path, theme: Any, width: int) -> None:
    """O3: what `ferrule panel` shows, the locked door included."""
    with AuditLog(tmp_path / "audit.db") as recorder:
        runtime = Runtime([double], recorders=[recorder])
        for given in ('{"number": 7}', '{"name": 1}'):
            await runtime.run(RawCall("double", given))
    panel, sign_in = local_panel(tmp_path / "audit.db", tmp_path)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    end = asyncio.Event()
    serving = asyncio.create_task(serve_local(panel, 0, address.set_result, end))
    async with chromium() as browser:
        me = await visitor(browser, await address, color_scheme=theme, viewport={"width": width, "height": 760})
        found: list[str] = []
        for path in (
            "/sign-in",
            f"/open/{sign_in.token}",
            "/",
            "/calls/1",
            "/calls/2",
            "/audit",
            "/statistics",
            "/plugins",
        ):
            await me.open(path)
            found += await violations(me.page)
            assert await me.page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert found == []
        assert me.faults == []
    end.set()
    await serving


async def test_every_control_of_every_page_is_reached_with_tab_and_obeys_a_key(tmp_path: Path) -> None:
    """O3."""
    async with lively(tmp_path) as service, chromium() as browser:
        paths = await peopled(service)
        me = await visitor(browser, service.url)
        await me.sign_in(service.key)
        for path in paths:
            await me.open(path)
            if "/calls/" not in path and path.partition("?")[0] in ("/", "/approvals"):
                await me.page.wait_for_load_state("networkidle")
            controls = await me.page.evaluate(CONTROLS)
            reached: set[int] = set()
            for _ in range(len(controls) + 5):
                await me.page.keyboard.press("Tab")
                at, is_seen = await me.page.evaluate(FOCUSED)
                if at < 0 or at in reached:
                    continue
                assert is_seen, f"{path}: nobody sees that {controls[at][0]} has the focus"
                reached.add(at)
                for key in KEYS.get(controls[at][1], "").split():
                    await me.page.keyboard.press(key)
            missed = [text for at, (text, _) in enumerate(controls) if at not in reached]
            assert missed == [], path
            obeyed = set(await me.page.evaluate("[...activated]"))
            deaf = [text for at, (text, kind) in enumerate(controls) if kind in KEYS and at not in obeyed]
            assert deaf == [], path
        assert me.faults == []


async def reach(me: Visitor, selector: str) -> None:
    """Press Tab until something has the focus."""
    for _ in range(80):
        await me.page.keyboard.press("Tab")
        if await me.page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached with Tab on {me.page.url}")


async def test_a_morning_with_the_keyboard_alone(tmp_path: Path) -> None:
    """O3."""
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url)
        await me.open("/sign-in")
        await reach(me, "#key")
        await me.page.keyboard.type(service.key)
        await me.page.keyboard.press("Enter")
        await me.page.wait_for_selector("#calls")
        call = await start(service, "note", text="keys")
        await reach(me, "nav a[href='/approvals']")
        await me.page.keyboard.press("Enter")
        card = f"article[data-call='{call}']"
        await me.page.wait_for_selector(card)
        await me.page.keyboard.press("j")
        assert await me.page.evaluate("selector => document.activeElement.matches(selector)", card)
        await me.page.keyboard.press("a")
        await me.see("approved", card)
        call = await start(service, "rest", seconds=3000)
        await me.open(f"/calls/{call}")
        await reach(me, "button.danger")
        await me.page.keyboard.press("Enter")
        await me.see("cancelled", "h1")
        # What a form answers is where the keyboard goes on, not at the top of the page.
        await me.open("/admin/roles")
        await reach(me, "#testtool")
        await me.page.keyboard.type("note")
        await reach(me, "#tester button.primary")
        await me.page.keyboard.press("Enter")
        await me.page.wait_for_selector("[role=alert]")
        assert await me.page.evaluate("document.activeElement.id") == "main"
        assert me.faults == []
