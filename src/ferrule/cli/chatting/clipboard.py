"""The image in the clipboard, by the program that the desktop has for it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from shutil import which

from ferrule.cli.words import _
from ferrule.core.errors import ToolError
from ferrule.core.result import Attachment

_SECONDS = 10.0
_MOST_BYTES = 20 * 1024 * 1024
_KINDS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
_WINDOWS = (
    "Add-Type -AssemblyName System.Windows.Forms, System.Drawing; $i = [Windows.Forms.Clipboard]::GetImage(); "
    "if ($i) { $m = New-Object IO.MemoryStream; $i.Save($m, [Drawing.Imaging.ImageFormat]::Png); "
    "$o = [Console]::OpenStandardOutput(); $o.Write($m.ToArray(), 0, $m.Length) }"
)


def _programs() -> list[list[str]]:
    """What can be asked for it here, the likeliest first."""
    if sys.platform == "darwin":
        return [["pngpaste", "-"]]
    wayland = [["wl-paste", "--no-newline", "--type", "image/png"]]
    x11 = [["xclip", "-selection", "clipboard", "-target", "image/png", "-out"]]
    known = [*wayland, *x11] if os.environ.get("WAYLAND_DISPLAY") else [*x11, *wayland]
    return [*known, ["powershell.exe", "-NoProfile", "-STA", "-Command", _WINDOWS]]


async def image_in_clipboard() -> Attachment:
    """Raises `ToolError` that says why there is none."""
    programs = [one for one in _programs() if which(one[0]) is not None]
    if not programs:
        needed = "pngpaste" if sys.platform == "darwin" else "wl-clipboard, xclip"
        raise ToolError(_("Images are pasted with a program that isn't installed: {names}.").format(names=needed))
    for program in programs:
        data = await _output(program)
        for start, media_type in _KINDS.items():
            if data.startswith(start):
                if len(data) > _MOST_BYTES:
                    raise ToolError(_("The image in the clipboard is too large to send."))
                return Attachment(media_type, data)
    raise ToolError(_("The clipboard holds no image."))


async def _output(program: list[str]) -> bytes:
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *program, stdin=quiet, stdout=asyncio.subprocess.PIPE, stderr=quiet
        )
    except OSError:
        return b""
    try:
        async with asyncio.timeout(_SECONDS):
            return (await process.communicate())[0]
    except TimeoutError:
        return b""
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
