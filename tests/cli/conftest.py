"""Runs the real command, with settings and records of its own: in this process, or in one of its own."""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from contextlib import ExitStack, chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

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
    """The `ferrule` command in a folder of its own, with the test's tools in the user's settings."""

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
        """Run it to its end inside this process, which takes a tenth of the time; in English, and with pipes."""
        variables = {**self.environment, **environment}
        spoken = "--lang" in " ".join(arguments) or environment.keys() & {"FERRULE_LANG", "LC_ALL", "LANG"}
        if spoken or not can_be_warm(variables):
            return self.process(*arguments, stdin=stdin, **environment)
        return run_here(["ferrule", *arguments], self.workspace, variables, stdin)

    def process(self, *arguments: str, stdin: str = "", **environment: str) -> Done:
        """Run it in a process of its own, with Python started already where that makes no difference."""
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


def run_here(arguments: list[str], folder: Path, environment: dict[str, str], stdin: str = "") -> Done:
    """`main` as a program would run it, with all that it changes in this process put back."""
    from ferrule.cli import output, words
    from ferrule.cli.main import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with ExitStack() as after, tempfile.TemporaryFile() as given:
        given.write(stdin.encode())
        given.seek(0)
        after.enter_context(warnings.catch_warnings())
        after.enter_context(chdir(folder))
        after.enter_context(patch.dict(os.environ, environment, clear=True))
        for target, name, value in (
            (sys, "argv", arguments), (sys, "stdin", io.TextIOWrapper(given, encoding="utf-8")),
            (sys, "stdout", out), (sys, "stderr", err), (sys, "unraisablehook", sys.unraisablehook),
            (output, "_promise", output._Promise()), (output, "_own", None), (output, "_clear_row", None),
            (words, "_translations", words._translations), (words, "_of_the_person", words._of_the_person),
            (logging, "lastResort", logging.lastResort), (logging.getLogger(), "handlers", []),
        ):  # fmt: skip
            after.enter_context(patch.object(target, name, value))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            after.callback(signal.signal, number, signal.getsignal(number))
        for name in ("ferrule.mcp", "ferrule.dialects", "ferrule.plugins"):
            after.callback(logging.getLogger(name).setLevel, logging.getLogger(name).level)
            logging.getLogger(name).setLevel(logging.NOTSET)  # as in a process of its own
        after.callback(gc.set_threshold, *gc.get_threshold())
        after.callback(gc.callbacks.__setitem__, slice(None), list(gc.callbacks))
        code: Any = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        except Exception:
            traceback.print_exc(file=err)
            code = 1
        out.flush()
        err.flush()
    texts = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return Done(code, *(text.replace("\r\n", "\n").replace("\r", "\n") for text in texts))


@pytest.fixture
def ferrule(tmp_path: Path) -> Command:
    return Command(tmp_path)
