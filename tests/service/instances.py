"""Instances of `ferrule serve` as processes of their own, which a test may kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

TOOLS = '''
"""Tools that leave a mark when they start and when they end."""

import os
import time
from pathlib import Path

from ferrule import tool

MARKS = Path(os.environ["MARKS"])


def mark(word, text):
    with MARKS.open("a") as file:
        file.write(f"{word} {text}\\n")


@tool(kind="write")
def strike(text: str, seconds: float = 0.0) -> str:
    """Change something that cannot be changed twice."""
    mark("strike", text)
    time.sleep(seconds)
    mark("struck", text)
    return f"struck {text}"


@tool(kind="write")
def ask(text: str, seconds: float = 0.0) -> str:
    """Change something after an approval."""
    mark("ask", text)
    time.sleep(seconds)
    return f"asked {text}"


@tool(kind="readonly")
def look(text: str, seconds: float = 0.0) -> str:
    """Look at something, which may be done twice."""
    mark("look", text)
    time.sleep(seconds)
    return f"saw {text}"
'''
_LISTENING = re.compile(r"Listening on (http://\S+)")
_KEY = re.compile(r"shown this once: (fk_\S+)")


class Instance:
    """One process. It is killed at the end of a test, whatever happened."""

    def __init__(self, folder: Path, store: str, name: str = "one", *, lease: float = 2.0) -> None:
        self.folder = folder
        tools = folder / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "marks.py").write_text(TOOLS)
        self.marks = folder / "marks.txt"
        self.marks.touch()
        config = folder / "config.toml"
        config.write_text(
            f"[tools]\nplugins = false\nfolders = ['{tools}']\n[permissions]\nallow = ['strike']\n"
            f"[service]\nport = 0\ndatabase = '{store}'\nworkspace_root = '{folder / 'workspaces'}'\n"
            f"lease_seconds = {lease}\ndrain_seconds = 10\n"
        )
        self._log = folder / f"{name}-{time.monotonic_ns()}.log"
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("FERRULE_")},
            "FERRULE_CONFIG": str(config), "FERRULE_DATA": str(folder / f"data-{name}"), "MARKS": str(self.marks),
            "LC_ALL": "C.UTF-8",
        }  # fmt: skip
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ferrule", "serve"], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        self.url = self._wait(_LISTENING)

    def _wait(self, pattern: re.Pattern[str]) -> str:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if found := pattern.search(self.log):
                return found[1]
            assert self.process.poll() is None, self.log
            time.sleep(0.05)
        raise AssertionError(self.log)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def key(self) -> str:
        return self._wait(_KEY)

    def kill(self) -> None:
        """With no chance to say anything."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def marks_of(file: Path) -> list[str]:
    return file.read_text().splitlines()
