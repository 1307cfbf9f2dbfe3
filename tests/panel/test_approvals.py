"""The inbox in a real browser: whoever decides sees all that would happen, and what "always" would add (O3, M4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.panel.browser import Visitor, chromium, visitor
from tests.panel.served import lively, peopled, shown, start
from tests.service.serving import Running

pytestmark = pytest.mark.slow

NOTIFIED = """
window.notified = [];
window.Notification = class extends Notification {
    constructor(title, options) { super(title, options); notified.push([title, options.body]); }
};
Object.defineProperty(document, 'hidden', { get: () => true });
"""


async def inbox(service: Running, me: Visitor) -> dict[str, str]:
    """Open the inbox: the selector of the card of each tool that waits."""
    await me.sign_in(service.key)
    await me.open("/approvals")
    waiting = await (await service.client()).approvals()
    return {one.tool: f"#approval-{one.id}" for one in waiting}


async def test_a_card_shows_what_would_run_and_change_who_asked_and_what_always_adds(tmp_path: Path) -> None:
    async with lively(tmp_path) as service, chromium() as browser:
        await peopled(service)
        me = await visitor(browser, service.url)
        cards = await inbox(service, me)
        written = await me.text(cards["Write"])
        assert "asked by ann" in written
        assert "docs/list.txt" in written
        assert "+bread\n+milk" in written
        assert await me.page.locator(f"{cards['Write']} .diff .added").all_inner_texts() == ["+bread", "+milk"]
        # A draft: what a model reads of it, its trial, what its box permits, and its code line by line.
        drafted = await me.text(cards["draft_tool"])
        for part in (
            "count_words 1.0.0 (readonly) → intent__count_words", "- input.text (string)", '{"text": "one two"} → 2',
            "What its box permits, on every call:\n", "- reach no host\n", "    return len(text.split())\n",
        ):  # fmt: skip
            assert part in drafted
        # "Always": the rule, a call that it covers and one that it does not; and it does what it says.
        command = await me.text(cards["Bash"])
        assert '"Always" would add the rule Bash(touch *), Bash(ls *)' in command
        assert "It covers: touch " in command
        assert "It does not cover: touch-" in command
        assert "create done" in command
        await me.page.eval_on_selector(cards["Bash"], "card => card.scrollIntoView()")
        await me.picture("approvals-en")
        await me.page.click(f"{cards['Bash']} button[value=always]")
        await me.see("approved", cards["Bash"])
        admin = await service.client()
        (ann,) = [one for one in await admin.users() if one.name == "ann"]
        assert ann.allow == ["Bash(touch *)", "Bash(ls *)"]
        await me.page.click(f"{cards['draft_tool']} button[value=approve]")
        await me.see("approved", cards["draft_tool"])
        async with asyncio.timeout(60):
            while "intent__count_words" not in [one.name for one in await admin.tools()]:
                await asyncio.sleep(0.1)
        assert me.faults == []


async def test_nothing_in_a_card_hides_or_reads_the_other_way_round(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        await start(service, "slow_note", text="pay \u202e001 ot 1\u2066\u200b", seconds=1)
        await start(service, "note", text="line\n" * 3 + "שלום عليكم")
        me = await visitor(browser, service.url, viewport={"width": 380, "height": 760})
        cards = await inbox(service, me)
        card = await me.text(cards["slow_note"])
        assert r"pay \u{202e}001 ot 1\u{2066}\u{200b}" in card
        assert "\u202e" not in card
        assert "שלום عليكم" in await me.text(cards["note"])  # what is only another script stays readable
        # The call's own page has the arguments as JSON does: no less plain.
        await me.page.click(f"{cards['slow_note']} a")
        await me.page.wait_for_selector("#call")
        assert "\u202e" not in await me.text("main")
        assert me.faults == []


async def test_the_desktop_is_told_of_what_waits(tmp_path: Path) -> None:
    async with shown(tmp_path) as service, chromium() as browser:
        me = await visitor(browser, service.url, permissions=["notifications"])
        await me.context.add_init_script(NOTIFIED)
        await inbox(service, me)
        assert await me.page.is_hidden("#notify")  # it was allowed already
        await me.page.wait_for_function("() => document.querySelector('#connection').textContent === 'live'")
        await start(service, "note", text="ring")
        await me.page.wait_for_function("() => notified.length > 0")
        assert await me.page.evaluate("notified") == [["Approval needed", 'note {"text":"ring"}']]
        assert 'note {"text":"ring"}' in await me.page.inner_text("#said")  # and a screen reader
        other = await visitor(browser, service.url)
        await inbox(service, other)
        assert await other.page.is_visible("#notify")
        assert [*me.faults, *other.faults] == []
