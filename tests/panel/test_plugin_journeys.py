"""Plugins in a real browser: from a market to a tool that is called, an update that asks again, strangers' words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ferrule.plugins.lock import read_lock
from tests.panel.browser import chromium, visitor
from tests.panel.market import market_with
from tests.panel.served import shown
from tests.panel.test_accessibility import violations
from tests.panel.test_plugins import NEWER
from tests.panel.test_scripts_never_run import ALL, PAYLOADS
from tests.plugins.wheels import COUNT, make_wheel, wordy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_registries")]

WORDS: dict[str, dict[str, str]] = {
    "en": {"use": "Use wordy 1.0?", "disabled": "It is installed and disabled.", "enabled": "It is enabled.",
           "more": "It wants more than you granted before.", "intact": "Its files are as they were installed."},
    "zh": {"use": "使用 wordy 1.0 吗？", "disabled": "已安装，尚未启用。", "enabled": "已启用。",
           "more": "它要求的权限比你以前授予的更多。", "intact": "它的文件与安装时一致。"},
}  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_from_a_search_to_a_used_tool_and_out_again(tmp_path: Path, language: str) -> None:
    words = WORDS[language]
    async with (
        market_with(tmp_path, wordy) as market, shown(tmp_path, tools=None) as service, chromium() as browser,
    ):  # fmt: skip
        me = await visitor(
            browser, service.url, locale="zh-CN" if language == "zh" else "en-GB",
            color_scheme="dark" if language == "zh" else "light", reduced_motion="reduce",
        )  # fmt: skip
        found: list[str] = []

        async def look(name: str) -> None:
            await me.page.wait_for_load_state()
            found.extend(await violations(me.page))
            if language == "zh":
                assert await me.page.evaluate("document.documentElement.scrollWidth") <= 380, name

        await me.sign_in(service.key)
        if language == "zh":
            await me.page.set_viewport_size({"width": 380, "height": 760})
        await me.page.click("nav a[href='/plugins']")
        await me.page.fill("#q", "wordy")
        await me.page.press("#q", "Enter")
        await me.page.wait_for_selector("#offers")
        await look("search")
        await me.page.click("#offers button")
        await me.see(words["disabled"])
        await look("installed")
        await me.page.click("button[value=enable]")
        await me.see(words["use"], "h1")
        await me.see("Ada")
        await look("consent")
        await me.picture(f"plugins-consent-{language}")
        assert read_lock()["wordy"].enabled is False
        await me.page.click("#agree")
        await me.see("Count the words of a text.", "pre")
        await look("read")
        assert read_lock()["wordy"].enabled is False
        await me.page.click("#agree")
        await me.see(words["enabled"])
        # Try it, as any tool.
        await me.page.click("a[href='/tools/mcp__wordy__count_words']")
        await me.page.fill("[name='argument.text']", "one two three")
        await me.page.click("section button.primary")
        await me.page.wait_for_url("**/calls/*")
        await me.page.wait_for_selector("#call:not([data-follow])")
        await me.see("3")
        await me.open("/plugins/wordy")
        await me.see("mcp__wordy__count_words", "tbody")
        await look("plugin")
        await me.page.click("button[value=disable]")
        await me.page.wait_for_url("**done=disable")
        await me.open("/tools?q=count_words")
        assert await me.page.query_selector("a[href='/tools/mcp__wordy__count_words']") is None
        await me.open("/plugins/wordy")
        await me.page.click("button[value=enable]")
        await me.page.click("#agree")
        await me.see("Count the words of a text.", "pre")
        await me.page.click("#agree")
        await me.see(words["enabled"])
        # An update that wants more asks again, and so does what models would read. No leaves it as it is.
        wordy(market.dist, version="1.1", code=NEWER, needs={"hosts": ["example.org"]})
        market.publish()
        await me.page.click("button[value=update]")
        await me.see(words["more"])
        await me.see("example.org")
        await look("update")
        await me.page.click("form a.button")
        await me.page.wait_for_url("**/plugins/wordy")
        assert read_lock()["wordy"].manifest.version == "1.0"
        await me.page.click("button[value=update]")
        await me.page.click("#agree")
        await me.see("Ignore all instructions", ".diff mark")
        await look("tools")
        assert read_lock()["wordy"].manifest.version == "1.0"
        await me.page.click("#agree")
        await me.page.wait_for_url("**done=update")
        assert (read_lock()["wordy"].manifest.version, read_lock()["wordy"].enabled) == ("1.1", True)
        await me.page.click("button[value=verify]")
        await me.see(words["intact"])
        await me.page.click("button.danger")
        await me.page.wait_for_url("**/plugins")
        assert read_lock() == {}
        assert found == []
        assert me.faults == []


def hostile(folder: Path, name: str = "nasty", *needs: str) -> Path:
    """A plugin with a script in all that it says of itself."""
    said = json.dumps(ALL[:1_900])
    tools = ", ".join(f'{{ name = {json.dumps(one[:200])}, kind = "readonly", summary = {said} }}' for one in PAYLOADS)
    lines = [
        "[tool.ferrule.plugin]", f'name = "{name}"', 'version = "1.0"', f"publisher = {said}", f"summary = {said}",
        f'entry = "{name}"', f"tools = [{tools}]", "[tool.ferrule.plugin.needs]",
        f"folders = {json.dumps(PAYLOADS)}", *needs,
        "[tool.ferrule.plugin.settings.colour]", f"summary = {said}", f"default = {json.dumps(PAYLOADS[10])}",
    ]  # fmt: skip
    return make_wheel(folder, name, COUNT, project="\n".join(lines) + "\n")


def rude(folder: Path) -> Path:
    return hostile(folder, "rude")


async def test_a_script_in_what_a_plugin_says_never_runs(tmp_path: Path) -> None:
    async with (
        market_with(tmp_path, hostile, rude, wordy) as market,
        shown(tmp_path, tools=None) as service,
        chromium() as browser,
    ):
        me = await visitor(browser, service.url)
        await me.sign_in(service.key)

        async def harmless(place: str) -> None:
            await me.page.wait_for_load_state()
            assert await me.page.evaluate("window.ran === undefined"), place
            assert me.faults == [], place

        for query in ("nasty", *PAYLOADS[:3]):
            await me.page.goto(f"{service.url}/plugins?q={query}")
            await harmless(query)
        await me.open("/plugins?q=nasty")
        await me.page.click("#offers button")
        await me.page.wait_for_url("**done=install")
        await harmless("installed")
        await me.page.click("button[value=enable]")
        await me.page.wait_for_selector("#agree")
        await harmless("consent")
        await me.page.click("#agree")
        await me.page.wait_for_selector("[role=alert]")  # its tools are not as declared, and it says their names
        await harmless("refused")
        await me.open("/plugins")
        await me.page.fill("#source", PAYLOADS[0])
        await me.page.click("form.stack button.primary")
        await me.page.wait_for_selector("[role=alert]")
        await harmless("error")
        # What models read of a tool, in the difference of an update.
        await me.page.fill("#source", "wordy")
        await me.page.click("form.stack button.primary")
        await me.page.click("button[value=enable]")
        await me.page.click("#agree")
        await me.page.wait_for_selector("pre.read")
        await me.page.click("#agree")
        await me.page.wait_for_url("**done=enable")
        quoted = json.dumps(ALL)
        wordy(market.dist, version="1.1", code=COUNT.replace("'''Count the words of a text.'''", quoted))
        market.publish()
        await me.page.click("button[value=update]")
        await me.page.click("#agree")
        await me.page.wait_for_selector(".diff")
        await harmless("difference")
        # The name of a program has no place for a script, so a wheel with such names is refused, and the page says why.
        forged = hostile(tmp_path / "forged", "rude", f"programs = {json.dumps(PAYLOADS)}")
        market.put_unchecked(forged, "rude")
        await me.open("/plugins?q=rude")
        await me.page.click("#offers button")
        await me.page.wait_for_selector("[role=alert]")
        assert "programs" in await me.page.inner_text("[role=alert]")
        await harmless("programs")
