"""Records the conversations of the tutorial "your first hour", and holds the page to what really happens.

A user at a real terminal follows the page: its block after `<!-- setup -->` makes the project, those after
`<!-- start: NAME -->` start the real `ferrule chat`, in which only the model follows a script. A block after
`<!-- recording: NAME -->` shows the rows from one mark of the recording to the next.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cli.terminal import CTRL_D, ESCAPE, Terminal

PAGE = Path(__file__).parents[2] / "docs/guides/first-hour.md"
_BLOCK = re.compile(
    r"(?P<head><!-- recording: (?P<name>[\w-]+) -->\n```terminal\n)(?P<shown>.*?)(?P<tail>^```$)", re.M | re.S
)

_SETUP = re.compile(r"<!-- setup -->\n```sh\n(.*?)^```$", re.M | re.S)
_START = re.compile(r"<!-- start: (\w+) -->\n```sh\n(.*?)^```$", re.M | re.S)


def recorded() -> dict[str, str]:
    """The rows of each part, by its name."""
    home = Path(tempfile.mkdtemp(prefix="f", dir="/tmp"))
    try:
        return _Recording(home).parts()
    finally:
        shutil.rmtree(home)


class _Recording:
    def __init__(self, home: Path) -> None:
        self._home = home
        page = PAGE.read_text(encoding="utf-8")
        self._starts = dict(_START.findall(page))
        setup = _SETUP.search(page)
        assert setup is not None
        subprocess.run(["bash", "-eu", "-c", setup[1]], cwd=home, check=True)
        self._parts: dict[str, str] = {}
        self._shown = 0

    def parts(self) -> dict[str, str]:
        with self._chat("monday") as chat:
            chat.prompt(1)
            chat.type("why does @check.py fail?")
            chat.prompt(2)
            self._mark("ask", chat)
            chat.type("yes")
            chat.question()
            chat.type("y")
            chat.prompt(3)
            self._mark("edit", chat)
            chat.type("clean up")
            chat.question()
            chat.type("keep the check, I need it")
            chat.prompt(4)
            self._mark("refuse", chat)
            chat.type("wait for me")
            chat.wait("running `sleep 600`…")
            chat.press(ESCAPE)
            chat.wait("Stopped.")
            chat.prompt(5)
            self._mark("stop", chat)
            chat.type("/undo")
            chat.prompt(6)
            self._mark("undo", chat)
            chat.type("/cost")
            chat.prompt(7)
            self._mark("cost", chat)
            chat.press(CTRL_D)
            chat.ended()
            self._mark("leave", chat)
        self._shown = 0
        with self._chat("tuesday") as chat:
            chat.prompt(1)
            chat.type("what did we do?")
            chat.prompt(2)
            self._mark("resume", chat)
        return self._parts

    def _chat(self, day: str) -> Terminal:
        """Start what the page says, in the folder that it says."""
        *_, line = self._starts[day].splitlines()
        program, *arguments = shlex.split(line)
        assert program == "ferrule"
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("FERRULE_")},
            "FERRULE_DATA": str(self._home / "data"),
            "FERRULE_CONFIG": os.devnull,
            "LC_ALL": "C.UTF-8",
            "TERM": "linux",
        }
        environment.pop("NO_COLOR", None)
        command = [sys.executable, "-m", "ferrule", *arguments]
        return Terminal(command, self._home / "shop", environment, columns=100, rows=40)

    def _mark(self, name: str, chat: Terminal) -> None:
        rows = chat.text.split("\n")
        end = len(rows) - 2 if rows[-1] == "›" else len(rows)  # without the status line and the prompt
        self._parts[name] = self._steady("\n".join(rows[self._shown : end]).strip("\n"))
        self._shown = end

    def _steady(self, text: str) -> str:
        """What differs from run to run is taken out."""
        text = text.replace(str(self._home), "/home/you")
        text = re.sub(r"\(\d+\.\d s\)", "(0.1 s)", text)
        return re.sub(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8}\b", "3f2a91c7", text)


def renewed(page: str, parts: dict[str, str]) -> str:
    """The page with every block as it was recorded."""
    return _BLOCK.sub(lambda found: f"{found['head']}{parts[found['name']]}\n{found['tail']}", page)


def named(page: str) -> list[str]:
    """The recordings that the page shows."""
    return [found["name"] for found in _BLOCK.finditer(page)]
