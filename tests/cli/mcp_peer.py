"""The plain server of the client's tests, as a command that the person would add."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .conftest import Command, Done

PLAIN = Path(__file__).parents[1] / "mcp_client" / "plain_peer.py"
TOOLS = 24
"""How many it offers."""
PATIENT = str(Path(__file__).with_name("patient_ferrule.py"))
"""A program that waits for servers as long as it takes."""


def add(ferrule: Command, name: str = "peer", behaviour: str = "good", *options: str) -> Done:
    command = [sys.executable, "-I", str(PLAIN), behaviour, str(ferrule.folder / "notes")]
    return ferrule("mcp", "add", *options, name, "--", *command)


def write_json(ferrule: Command, name: str = "theirs") -> None:
    table = {"command": sys.executable, "args": ["-I", str(PLAIN), "good", str(ferrule.folder / "notes")]}
    (ferrule.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {name: {**table, "env": {"TOKEN": "x"}}}}))


def started(ferrule: Command) -> int:
    notes = ferrule.folder / "notes"
    return notes.read_text().count("started") if notes.exists() else 0


def told(pipe: Path, program: subprocess.Popen[Any]) -> str:
    """A line from a named pipe; a program that ends without anybody writing one is not waited for."""
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    line = b""
    try:
        while not line.endswith(b"\n"):
            assert program.poll() is None, program.communicate()
            time.sleep(0.01)
            with suppress(BlockingIOError):  # it is open at the other end, and nothing has come yet
                line += os.read(reader, 1)
    finally:
        os.close(reader)
    return line.decode()
