"""Records the conversations of guides, and holds their pages to what really happens.

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

GUIDES = Path(__file__).parents[2] / "docs/guides"
FIRST_HOUR, TWENTY_STEPS = GUIDES / "first-hour.md", GUIDES / "twenty-steps.md"
_BLOCK = re.compile(
    r"(?P<head><!-- recording: (?P<name>[\w-]+) -->\n```terminal\n)(?P<shown>.*?)(?P<tail>^```$)", re.M | re.S
)

_SETUP = re.compile(r"<!-- setup -->\n```sh\n(.*?)^```$", re.M | re.S)
_START = re.compile(r"<!-- start: (\w+) -->\n```sh\n(.*?)^```$", re.M | re.S)
_STATUS = re.compile(r"  (default|accept-edits|plan) · ")
_SHOWN_IDS = ("3f2a91c7", "8c40d1ab", "51e7b20f")
_UP, _SHIFT_TAB, _CTRL_O, _EDIT = "\x1b[A", "\x1b[Z", "\x0f", "\x18\x05"


def recorded(page: Path) -> dict[str, str]:
    """The rows of each part of a page, by its name."""
    home = Path(tempfile.mkdtemp(prefix="f", dir="/tmp"))
    try:
        recording = _Recording(page, home)
        first_hour(recording) if page == FIRST_HOUR else twenty_steps(recording)
        return recording.parts
    finally:
        shutil.rmtree(home)


class _Recording:
    def __init__(self, page: Path, home: Path) -> None:
        self._home = home
        text = page.read_text(encoding="utf-8")
        self._starts = dict(_START.findall(text))
        setup = _SETUP.search(text)
        assert setup is not None
        subprocess.run(["bash", "-eu", "-c", setup[1]], cwd=home, check=True)
        self.parts: dict[str, str] = {}
        self._shown = 0
        self._ids: list[str] = []

    def chat(self, name: str) -> Terminal:
        """Start what the page says, in the folder that it says."""
        self._shown = 0
        *_, line = self._starts[name].splitlines()
        words = shlex.split(line)
        program = words.index("ferrule")
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("FERRULE_")},
            **dict(word.split("=", 1) for word in words[:program]),
            "FERRULE_DATA": str(self._home / "data"),
            "FERRULE_CONFIG": os.devnull,
            "LC_ALL": "C.UTF-8",
            "TERM": "linux",
        }
        for name in ("NO_COLOR", "DISPLAY", "WAYLAND_DISPLAY", "VISUAL"):
            environment.pop(name, None)
        command = [sys.executable, "-m", "ferrule", *words[program + 1 :]]
        return Terminal(command, self._home / "shop", environment, columns=100, rows=40)

    def mark(self, name: str, chat: Terminal, *, now: bool = False) -> None:
        """What came since the last mark; `now` with what is going on, the status line and what is typed."""
        rows = chat.text.split("\n")
        status = [at for at, row in enumerate(rows) if _STATUS.match(row)]
        end = status[-1] if status else len(rows)
        self.parts[name] = self._steady("\n".join(rows[self._shown : None if now else end]).strip("\n"))
        self._shown = self._shown if now and rows[-1].startswith("»") else end  # what is going on comes again

    def _steady(self, text: str) -> str:
        """What differs from run to run is taken out."""
        text = text.replace(str(self._home), "/home/you")
        text = re.sub(r"\(\d+\.\d(\s+)s\)", r"(0.1\1s)", text)
        text = re.sub(r"Thought for \d+ s", "Thought for 1 s", text)
        text = re.sub(r" \(\d+ s\)", "", re.sub(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋", text))
        return re.sub(r"\b[0-9a-f]{8}\b", self._id, text)

    def _id(self, found: re.Match[str]) -> str:
        if found[0] not in self._ids:
            self._ids.append(found[0])
        return _SHOWN_IDS[self._ids.index(found[0])]


def first_hour(recording: _Recording) -> None:
    with recording.chat("monday") as chat:
        chat.prompt(1)
        chat.type("why does @check.py fail?")
        chat.prompt(2)
        recording.mark("ask", chat)
        chat.type("yes")
        chat.question()
        chat.type("y")
        chat.prompt(3)
        recording.mark("edit", chat)
        chat.type("clean up")
        chat.question()
        chat.type("keep the check, I need it")
        chat.prompt(4)
        recording.mark("refuse", chat)
        chat.type("wait for me")
        chat.wait("running `sleep 600`…")
        chat.press(ESCAPE)
        chat.wait("Stopped.")
        chat.prompt(5)
        recording.mark("stop", chat)
        chat.type("/undo")
        chat.prompt(6)
        recording.mark("undo", chat)
        chat.type("/cost")
        chat.prompt(7)
        recording.mark("cost", chat)
        chat.press(CTRL_D)
        chat.ended()
        recording.mark("leave", chat)
    with recording.chat("tuesday") as chat:
        chat.prompt(1)
        chat.type("what did we do?")
        chat.prompt(2)
        recording.mark("resume", chat)


def twenty_steps(recording: _Recording) -> None:
    """One conversation with everything that the assistant has for a user."""
    with recording.chat("steps") as chat:

        def typed(rows: str) -> None:
            chat.wait(lambda: chat.visible.endswith(f"\n{rows}"))

        chat.wait("adds up prices.")
        chat.prompt()
        recording.mark("first-prompt", chat)
        chat.press(_CTRL_O)
        chat.wait("That is all there is.")
        recording.mark("reasoning", chat)
        chat.type("fix the discount")
        chat.question()
        recording.mark("steps", chat)
        chat.type("y")
        chat.wait("The check passes.")
        chat.prompt()
        recording.mark("edit", chat)
        recording.mark("status", chat, now=True)
        chat.type("run the long test")
        chat.wait("running `sleep 600`…")
        chat.type("/cost")
        chat.wait("tokens read")
        chat.wait(lambda: chat.text.count("tokens read") == 3)
        recording.mark("at-once", chat)
        chat.type("add a test")
        chat.wait("» add a test (queued")
        recording.mark("queued", chat, now=True)
        chat.press(_UP)
        typed("» add a test")
        chat.press(" for 0 %")
        typed("» add a test for 0 %")
        chat.press(ESCAPE)
        chat.wait("Stopped.")
        typed("› add a test for 0 %")
        recording.mark("stopped", chat, now=True)
        chat.press("\r")
        chat.question()
        chat.type("put it into check.py")
        chat.wait("into check.py.")
        chat.prompt()
        recording.mark("reason", chat)
        chat.press(_SHIFT_TAB)
        typed("accept-edits ›")
        chat.type("go on")
        chat.wait("It is in check.py now.")
        typed("accept-edits ›")
        recording.mark("accept-edits", chat)
        chat.press(_SHIFT_TAB)
        typed("plan ›")
        chat.type("remove check.py")
        chat.wait("I can only read now.")
        typed("plan ›")
        recording.mark("plan", chat)
        chat.press(_SHIFT_TAB)
        typed("›")
        chat.type("/effort high")
        chat.wait("› high")
        chat.prompt()
        chat.type("/todos")
        chat.wait(lambda: chat.text.count("run the check") > 2)
        chat.prompt()
        recording.mark("effort", chat)
        chat.type("!python3 check.py")
        chat.wait(lambda: "\n  all checks passed" in chat.text)
        chat.prompt()
        recording.mark("own-command", chat)
        chat.press("\x1b[200~explain teh difference:\na percentage\nan amount\x1b[201~")
        typed("› explain teh difference:\n… a percentage\n… an amount")
        recording.mark("paste", chat, now=True)
        chat.press(_EDIT)
        typed("› explain the difference:\n… a percentage\n… an amount")
        chat.press("\r")
        chat.wait("of 50 is 5.")
        chat.prompt()
        recording.mark("editor", chat)
        chat.type("look at @prise.py")
        chat.wait("There is no such file.")
        chat.prompt()
        recording.mark("mistyped", chat)
        chat.press("/re")
        chat.wait(lambda: "  /rewind  Go back" in chat.visible)
        recording.mark("completed", chat, now=True)
        chat.press("\x15/review price.py\r")
        chat.wait("Nothing to complain about.")
        chat.prompt()
        recording.mark("review", chat)
        chat.type("/tidy")
        chat.wait("Sorted already.")
        chat.prompt()
        recording.mark("skill", chat)
        chat.type("/undo 2")
        chat.wait("price.py — as before")
        chat.prompt()
        recording.mark("undo", chat)
        chat.type("/rewind 1")
        typed("› /tidy")
        recording.mark("rewind", chat, now=True)
        chat.press("\x15/fork\r")
        chat.wait("stays as it was.")
        chat.prompt()
        chat.type("/copy")
        chat.wait("to the terminal's clipboard.")
        chat.prompt()
        chat.type("/export talk.md")
        chat.wait("Written to")
        chat.prompt()
        recording.mark("fork", chat)
        chat.press(CTRL_D)
        chat.ended()
    with recording.chat("again") as chat:
        chat.wait(lambda: "Which conversation?" in chat.visible)
        chat.wait("what does this project do?")
        recording.mark("choose", chat, now=True)


def renewed(page: str, parts: dict[str, str]) -> str:
    """The page with every block as it was recorded."""
    return _BLOCK.sub(lambda found: f"{found['head']}{parts[found['name']]}\n{found['tail']}", page)


def named(page: str) -> list[str]:
    """The recordings that the page shows."""
    return [found["name"] for found in _BLOCK.finditer(page)]
