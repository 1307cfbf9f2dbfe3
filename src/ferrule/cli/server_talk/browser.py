"""Opens an address in the person's browser, out of the way of the terminal."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS_TO_FAIL = 3.0


def has_browser(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Whether a browser has somewhere to appear. One that would take over the terminal is not meant."""
    if platform in ("darwin", "win32"):
        return True
    return any(environment.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))


async def open_address(url: str) -> bool:
    """Hand it to the browser; False where that visibly failed. In a process of its own, which reads and writes nothing
    here and sees no module of the folder that we work in.
    """
    process = subprocess.Popen(  # noqa: ASYNC220, S603 - quickly started, waited for beside the loop; the address was checked
        [sys.executable, "-I", "-m", "webbrowser", url],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=os.path.sep,
        start_new_session=True,
    )
    try:
        return await asyncio.to_thread(process.wait, _SECONDS_TO_FAIL) == 0
    except subprocess.TimeoutExpired:
        return True  # a browser that stays in the foreground
