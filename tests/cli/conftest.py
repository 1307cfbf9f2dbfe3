"""Runs the real command in its own process, with settings and records of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.warm_start import can_be_warm, run_warm

TOOLS = '''
import asyncio, time
from ferrule import ToolContext, ToolError, tool

@tool(kind="write")
def save_note(text: str) -> str:
    """Save a note. Use this to keep something for later."""
    return f"saved {text}"

@tool(kind="execute", dangerous=True)
def launch_rocket(name: str) -> str:
    """Launch a rocket. Use this when everybody is ready."""
    return f"{name} is up"

@tool(kind="readonly")
def sleep_long(seconds: float) -> str:
    """Sleep for a while. Use this to wait."""
    print_ready()
    time.sleep(seconds)
    return "slept"

@tool(kind="readonly")
async def wait_long(seconds: float) -> str:
    """Wait for a while. Use this to wait."""
    print_ready()
    await asyncio.sleep(seconds)
    return "waited"

@tool(kind="readonly")
async def block_long(seconds: float) -> str:
    """Block the event loop for a while. Use this to test time limits."""
    print_ready()
    time.sleep(seconds)
    return "slept"

@tool(kind="readonly", timeout=0.2)
async def hang_around() -> str:
    """Hang. Use this to test time limits."""
    await asyncio.sleep(60)
    return "never"

@tool(kind="readonly")
def fail_politely() -> str:
    """Fail. Use this to test failing."""
    raise ToolError("It is broken.", suggestion="Bring a spare one.")

@tool(kind="readonly")
def echo_text(text: str) -> str:
    """Echo a text. Use this to test."""
    return text

def print_ready():
    import sys
    print("ready", file=sys.stderr, flush=True)
'''


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Command:
    """The `ferrule` command in a folder of its own, with the test's tools in the person's settings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "a workspace"
        self.workspace.mkdir()
        self.settings = folder / "ferrule.toml"
        tools = folder / "tools"
        tools.mkdir()
        (tools / "mine.py").write_text(TOOLS)
        self.settings.write_text(f"[tools]\nfolders = [{json.dumps(str(tools))}]\n")
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("FERRULE_")},
            "FERRULE_DATA": str(folder / "data"),
            "FERRULE_CONFIG": str(self.settings),
            "LC_ALL": "C.UTF-8",
        }

    def arguments(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ferrule", *arguments]

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> Done:
        """Run it to its end, with Python started already where that makes no difference."""
        variables = {**self.environment, **environment}
        if not can_be_warm(variables):
            return self.from_cold(*arguments, stdin=stdin, **environment)
        done = run_warm(self.arguments(*arguments)[1:], self.workspace, variables, stdin=stdin)
        return Done(done.code, done.out, done.err)

    def from_cold(self, *arguments: str, stdin: str = "", **environment: str) -> Done:
        """Run it in a Python started for it alone, for what depends on that."""
        done = subprocess.run(
            self.arguments(*arguments),
            cwd=self.workspace,
            env={**self.environment, **environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def ferrule(tmp_path: Path) -> Command:
    return Command(tmp_path)
