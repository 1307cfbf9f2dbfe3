"""`ferrule mcp` as a process of its own, spoken to line by line: what no client of an SDK would send can be sent."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

from tests.warm_start import WarmProgram, popen_warm, start_warm

TOOLS = '''
import asyncio, os, subprocess, sys
from ferrule import ToolContext, tool

print("a plugin that prints while it is imported")

@tool(kind="readonly")
async def echo_text(text: str) -> str:
    """Say it again."""
    return text

@tool(kind="readonly")
def print_much() -> str:
    """Print to standard output, in every way there is."""
    print("printed by a tool")
    os.write(1, b"written by a tool\\n")
    subprocess.run(["echo", "printed by a program"], check=True)
    return "printed"

@tool(kind="readonly")
async def wait_long(context: ToolContext, marker: str) -> str:
    """Wait until somebody ends it."""
    open(marker, "w").close()
    try:
        await asyncio.sleep(600)
    finally:
        os.unlink(marker)
    return "never"

@tool(kind="readonly", max_result=10**9)
async def give_much(characters: int) -> str:
    """Give a long text."""
    return "x" * characters
'''


def environment(home: Path) -> dict[str, str]:
    """Settings and records of its own, with the tools above."""
    (home / "tools").mkdir(exist_ok=True)
    (home / "tools" / "tools.py").write_text(TOOLS)
    (home / "ferrule.toml").write_text(f'[tools]\nfolders = ["{home / "tools"}"]\n')
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FERRULE_")}
    return {
        **kept, "FERRULE_CONFIG": str(home / "ferrule.toml"), "FERRULE_DATA": str(home / "data"), "LC_ALL": "C.UTF-8"
    }  # fmt: skip


class StdioServer:
    """One server on stdio. What it writes is read as it comes, so that nothing blocks."""

    def __init__(self, home: Path, workspace: Path, *options: str) -> None:
        arguments = ["-m", "ferrule", "mcp", "--workspace", str(workspace), *options]
        self.pipes = popen_warm(arguments, Path.cwd(), environment(home))
        self.process = self.pipes.program
        self.lines: Queue[bytes] = Queue()
        self.errors: list[bytes] = []
        self._readers = [threading.Thread(target=one) for one in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        for line in self.pipes.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def _read_errors(self) -> None:
        self.errors.extend(self.pipes.stderr)

    def send(self, data: bytes | dict[str, Any]) -> None:
        self.pipes.stdin.write(json.dumps(data).encode() + b"\n" if isinstance(data, dict) else data)
        self.pipes.stdin.flush()

    def receive(self) -> dict[str, Any]:
        line = self.lines.get(timeout=60)
        assert line, b"".join(self.errors).decode()
        return json.loads(line)

    def request(self, number: int | str, method: str, **params: Any) -> dict[str, Any]:
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while (answer := self.receive()).get("id") != number:
            pass
        return answer

    def greet(self) -> None:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        assert "result" in self.request("hello", "initialize", **hello)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, number: int, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.request(number, "tools/call", name=tool, arguments=arguments)

    def end(self) -> None:
        """Whatever it does, it is gone after this, and so are the pipes."""
        self.process.kill()
        for reader in self._readers:
            reader.join()
        for pipe in (self.pipes.stdin, self.pipes.stdout, self.pipes.stderr):
            with suppress(BrokenPipeError):
                pipe.close()
        self.process.wait()

    def close_input(self) -> None:
        self.pipes.stdin.close()


@contextmanager
def stdio_server(home: Path, workspace: Path, *options: str) -> Generator[StdioServer]:
    server = StdioServer(home, workspace, *options)
    try:
        yield server
    finally:
        server.end()


@dataclass
class Serving:
    process: WarmProgram
    said: list[str]


@contextmanager
def http_server(home: Path, workspace: Path, *options: str, **variables: str) -> Generator[tuple[str, Serving]]:
    """One over HTTP; gives its address, and the process with what it said first."""
    arguments = ["-m", "ferrule", "mcp", "serve", "--workspace", str(workspace), *options]
    hears, err = os.pipe()
    with Path(os.devnull).open("r+b") as nothing:
        process = start_warm(
            arguments, Path.cwd(), environment(home) | variables, nothing.fileno(), nothing.fileno(), err
        )
    os.close(err)
    said: list[str] = []
    draining: threading.Thread | None = None
    with os.fdopen(hears) as errors:
        try:
            for line in errors:
                said.append(line)
                if found := re.search(r"http://\S+", line):
                    break
            else:
                raise AssertionError("".join(said))
            draining = threading.Thread(target=errors.read)
            draining.start()
            yield found[0], Serving(process, said)
        finally:
            process.kill()
            if draining is not None:
                draining.join()
            process.wait()
