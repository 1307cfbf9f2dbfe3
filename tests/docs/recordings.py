"""Records the conversations that stand in the guide «your first hour», and holds the page to what really happens.

A person at a real terminal talks to the real `ferrule chat`; only the model follows a script. A block of the page
after `<!-- recording: NAME -->` shows the rows from one mark of the recording to the next.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.cli.terminal import CTRL_C, CTRL_D, Terminal

PAGE = Path(__file__).parents[2] / "docs/guides/first-hour.md"
_BLOCK = re.compile(
    r"(?P<head><!-- recording: (?P<name>[\w-]+) -->\n```terminal\n)(?P<shown>.*?)(?P<tail>^```$)", re.M | re.S
)

PRICE = """\
def total(prices: list[float], discount: float = 0) -> float:
    \"\"\"What all of it costs, less a discount in percent.\"\"\"
    return sum(prices) - discount
"""
CHECK = """\
from price import total

for prices, discount, wanted in (([40, 60], 0, 100), ([40, 60], 10, 90), ([20, 30], 10, 45)):
    if (found := total(prices, discount)) != wanted:
        raise SystemExit(f"total({prices}, {discount}) is {found}, not {wanted}")
print("all is well")
"""


def _says(text: str, *calls: tuple[str, dict[str, Any]], read: int = 0, written: int = 0) -> dict[str, Any]:
    wanted = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"text": text, "calls": wanted, "usage": {"input_tokens": read, "output_tokens": written}}


FIRST = [
    _says("I look at the code and run the check.", ("Read", {"file_path": "price.py"}), read=2100, written=40),
    _says("", ("Bash", {"command": "python3 check.py"}), read=2300, written=30),
    _says(
        "The check fails because `discount` is **taken off as an amount**, not as a percentage:\n\n"
        "- `total([20, 30], 10)` gives 40\n"
        "- it should give 45, which is 10 % less than 50\n\n"
        "Shall I mend it?",
        read=2500,
        written=70,
    ),
    _says(
        "",
        (
            "Edit",
            {
                "file_path": "price.py",
                "old_string": "return sum(prices) - discount",
                "new_string": "return sum(prices) * (1 - discount / 100)",
            },
        ),
        read=2700,
        written=60,
    ),
    _says("", ("Bash", {"command": "python3 check.py"}), read=2800, written=30),
    _says("Done: the discount is a percentage now, and the check passes.", read=2900, written=20),
    _says("I tidy up.", ("Bash", {"command": "rm check.py"}), read=3000, written=30),
    _says("Then `check.py` stays.", read=3100, written=10),
    _says("", ("Bash", {"command": "sleep 600"}), read=3200, written=20),
]
LATER = [_says("You had me mend `total` in `price.py`, and took it back again.", read=3300, written=20)]


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
        self._shop = home / "shop"
        self._shop.mkdir()
        (self._shop / "price.py").write_text(PRICE)
        (self._shop / "check.py").write_text(CHECK)
        self._parts: dict[str, str] = {}
        self._shown = 0

    def parts(self) -> dict[str, str]:
        with self._chat(FIRST) as chat:
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
            chat.type("n keep the check, I need it")
            chat.prompt(4)
            self._mark("refuse", chat)
            chat.type("wait for me")
            chat.wait("running `sleep 600`…")
            chat.press(CTRL_C)
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
        with self._chat(LATER, "--continue") as chat:
            chat.prompt(1)
            chat.type("what did we do?")
            chat.prompt(2)
            self._mark("resume", chat)
        return self._parts

    def _chat(self, script: list[Any], *arguments: str) -> Terminal:
        file = self._home / "script.json"
        file.write_text(json.dumps(script))
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("FERRULE_")},
            "FERRULE_DATA": str(self._home / "data"),
            "FERRULE_CONFIG": os.devnull,
            "LC_ALL": "C.UTF-8",
            "TERM": "linux",
        }
        environment.pop("NO_COLOR", None)
        command = [sys.executable, "-m", "ferrule", "chat", "--model", f"scripted:{file}", *arguments]
        return Terminal(command, self._shop, environment, columns=100, rows=40)

    def _mark(self, name: str, chat: Terminal) -> None:
        rows = chat.text.split("\n")
        end = len(rows) - 1 if rows[-1] == "›" else len(rows)
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
