"""Runs the calls that stand in the tour of the file tools, and holds the page to what they really answer.

A `call` block is one call a line, `Tool {arguments}`, or a line that begins with `#` and names a step between calls,
done by someone else. The `text` block after it shows what the model reads. Each section (`##`) starts with a fresh
workspace and a session that has read nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.workspace.desk import Desk
from tests.workspace.nobody import as_nobody

from ferrule import ToolResult

PAGE = Path(__file__).parents[2] / "docs/guides/file-tools-tour.md"
_BLOCKS = re.compile(r"^```call\n(?P<calls>.*?)^```\n\n```text\n(?P<shown>.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = re.compile(r"(.)\1{99,}")
_MOMENT = 1_700_000_000

APP = """\
import os


def greet(name: str) -> str:
    if not name:
        return "hello, you"
    return f"hello, {name}"


def leave(name: str) -> str:
    return f"bye, {name}"
"""
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Sales\n"]},
        {
            "cell_type": "code", "execution_count": 1, "metadata": {}, "source": ["sum(range(4))\n"],
            "outputs": [{"output_type": "execute_result", "data": {"text/plain": ["6"]}, "execution_count": 1,
                         "metadata": {}}],
        },
    ],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
}  # fmt: skip
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
FILES: dict[str, str | bytes] = {
    "src/app.py": APP,
    "src/util.py": "LIMIT = 10\nRETRIES = 10\n",
    "src/Makefile": "all:\n\techo one\n\techo two\n",
    "docs/guide.md": "The app greets – politely.\n“Hello”, it says.\n",
    "docs/windows.txt": b"first\r\nsecond\r\nthird\r\n",
    "docs/latin.txt": "Größe: 10\n".encode("latin-1"),
    "data/app.log": "".join(f"event {number}\n" for number in range(1, 5001)),
    "data/wide.txt": "x" * 2500 + "\nshort\n",
    "data/logo.png": PICTURE,
    "data/sales.ipynb": json.dumps(NOTEBOOK),
    "data/tool.bin": b"\x7fELF\x02\x01\x01" + bytes(range(256)),
    "data/empty.txt": "",
    "notes.txt": "buy milk\ncall Ada\n",
    ".gitignore": "build/\n*.tmp\n",
    "build/out.txt": "made by a program\n",
    "scratch.tmp": "x\n",
}


def _other_program_changes(desk: Desk) -> None:
    desk.put("notes.txt", "buy milk\ncall Grace\n")


def _commit(desk: Desk) -> None:
    who = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    when = {f"GIT_{role}_DATE": "2026-01-01T00:00:00Z" for role in ("AUTHOR", "COMMITTER")}
    clean = {"PATH": os.defpath, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **who, **when}
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=desk.workspace, env=clean, check=True, capture_output=True)
    subprocess.run(
        ["git", "remote", "add", "origin", "https://me:secret@example.org/app.git"],
        cwd=desk.workspace, env=clean, check=True, capture_output=True,
    )  # fmt: skip
    desk.put("notes.txt", "changed\n")
    desk.put("new.txt", "new\n")
    (desk.workspace / "src/util.py").unlink()


def _links(desk: Desk) -> None:
    (desk.workspace / "inner").symlink_to("src/app.py")
    (desk.workspace / "out").symlink_to("/etc")
    (desk.workspace / "ring").symlink_to("ring")


def _twice(desk: Desk) -> None:
    os.link(desk.workspace / "notes.txt", desk.workspace / "same-notes.txt")


STEPS: dict[str, Callable[[Desk], object]] = {
    "another program changes notes.txt": _other_program_changes,
    "someone makes notes.txt unreadable": lambda desk: (desk.workspace / "notes.txt").chmod(0),
    "everything is committed; then notes.txt changes, new.txt is added, src/util.py is deleted": _commit,
    "links are made: inner to src/app.py, out to /etc, ring to itself": _links,
    "a pipe is made: queue": lambda desk: os.mkfifo(desk.workspace / "queue"),
    "notes.txt gets a second name": _twice,
    "the name of résumé.txt is written with é as one character; the file on the disk has e and an accent": (
        lambda desk: desk.put("re\u0301sume\u0301.txt", "Ada Lovelace\n")
    ),
}


def sections(page: str) -> list[str]:
    """The page cut before each heading; joined they are the page."""
    return re.split(r"(?m)^(?=## )", page)


def renewed(page: str) -> str:
    """The page with what its calls really answer."""
    return "".join(_renewed_section(section) for section in sections(page))


def _renewed_section(section: str) -> str:
    if "```call\n" not in section:
        return section
    before = os.environ.get("FERRULE_DATA")
    with tempfile.TemporaryDirectory() as name:
        os.environ["FERRULE_DATA"] = f"{name}/data"
        try:
            desk = _workspace(Path(name))

            def answer(found: re.Match[str]) -> str:
                said = "\n".join(filter(None, (_played(desk, line) for line in found["calls"].splitlines())))
                return f"```call\n{found['calls']}```\n\n```text\n{_steady(said, desk)}\n```"

            return _BLOCKS.sub(answer, section)
        finally:
            os.environ.pop("FERRULE_DATA")
            if before is not None:
                os.environ["FERRULE_DATA"] = before


def _workspace(folder: Path) -> Desk:
    folder.chmod(0o755)
    desk = Desk(folder / "app")
    desk.workspace.chmod(0o755)
    for second, (name, content) in enumerate(FILES.items()):
        path = desk.put(name, content)
        os.utime(path, (_MOMENT + second, _MOMENT + second))
    return desk


def _played(desk: Desk, line: str) -> str:
    if line.startswith("# "):
        STEPS[line.removeprefix("# ")](desk)
        return ""
    tool, _, arguments = line.partition(" ")
    closed = any(not path.stat().st_mode & 0o777 for path in desk.workspace.rglob("*") if not path.is_symlink())
    if closed:
        with as_nobody():
            return _words(asyncio.run(desk.runtime.run(tool, arguments or "{}")))
    return _words(asyncio.run(desk.runtime.run(tool, arguments or "{}")))


def _words(result: ToolResult) -> str:
    attached = [f"(attached: {one.media_type}, {len(one.data or b''):,} bytes)" for one in result.attachments]
    return "\n".join([result.llm_content, *attached])


def _steady(text: str, desk: Desk) -> str:
    """Without what differs from run to run, and with very long runs of one character shortened."""
    text = text.replace(str(desk.workspace), "/home/you/app")
    text = _RUN.sub(lambda run: f"{run[1] * 5}⟨{len(run[0]):,} of them⟩", text)
    return "\n".join(line.rstrip() if not line.strip() else line for line in text.splitlines())
