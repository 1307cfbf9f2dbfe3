"""A real Chromium on the panel of a real service, that notes whatever a page does wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from tests.needs import needs

PICTURES = Path(os.environ.get("FERRULE_PICTURES") or Path(__file__).parents[2] / ".pictures")
"""What a run of the tests leaves for people to look at; those of the guide are made the same way."""
SECONDS = 120_000
"""Milliseconds that a page may take: a busy machine is no reason to fail."""
_CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_TELL = """
addEventListener('securitypolicyviolation', (event) =>
    console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


class Visitor:
    """One browser window with its own cookies. `faults` is what pages did that they must not."""

    def __init__(self, context: BrowserContext, page: Page, url: str) -> None:
        self.context = context
        self.page = page
        self.url = url
        self.faults: list[str] = []
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", self._dismiss)

    def _note(self, kind: str, text: str) -> None:
        # A refusal that a test asks for is no fault of the page, nor is a connection that it cuts.
        if kind == "error" and not text.startswith("Failed to load resource") and "net::ERR" not in text:
            self.faults.append(text)

    async def _dismiss(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    async def sign_in(self, key: str) -> None:
        await self.page.goto(f"{self.url}/sign-in")
        await self.page.fill("#key", key)
        await self.page.press("#key", "Enter")
        await self.page.wait_for_selector("#calls", state="attached")

    async def open(self, path: str) -> None:
        await self.page.goto(self.url + path)

    async def see(self, text: str, selector: str = "main") -> None:
        await self.page.wait_for_function(
            "([selector, text]) => [...document.querySelectorAll(selector)].some(one => one.innerText.includes(text))",
            arg=[selector, text],
        )

    async def text(self, selector: str) -> str:
        return await self.page.inner_text(selector)

    async def picture(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        # Hiding the caret, as it does otherwise, leaves styles on the fields that the page's own policy forbids.
        taken = Image.open(BytesIO(await self.page.screenshot(caret="initial"))).convert("RGB")
        # Few colours, as a page has: a third of the bytes.
        taken.quantize(64, dither=Image.Dither.NONE).save(PICTURES / f"{name}.png", optimize=True)


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser]:
    needs(_CHROMIUM, "Chromium; on Debian: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=_CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            timeout=SECONDS,
        )  # fmt: skip
        try:
            yield browser
        finally:
            await browser.close()


async def visitor(browser: Browser, url: str, **options: Any) -> Visitor:
    chosen: dict[str, Any] = {"viewport": {"width": 1100, "height": 760}, "locale": "en-GB", **options}
    context = await browser.new_context(**chosen)
    context.set_default_timeout(SECONDS)
    await context.add_init_script(_TELL)
    return Visitor(context, await context.new_page(), url)
