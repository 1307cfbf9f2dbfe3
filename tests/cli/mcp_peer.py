"""The plain server of the client's tests, as a command that the person would add."""

from __future__ import annotations

import json
import sys
from pathlib import Path

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
