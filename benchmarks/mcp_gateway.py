"""Through our server to a second one, against one hop, in the same run: `python benchmarks/mcp_gateway.py`.

One hop is a thin client to a server made with the SDK. Two hops are the same client to our server, which passes the
call through the whole pipeline to that same server, and back. Listing is timed with 1,000 tools behind the gateway,
once they are known. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from _measure import Row, report

HERE = Path(__file__).parent
BAR, LIST_BAR, TOOLS = 2.2, 200.0, 1_000
ERAS = ("2025-11-25", "2026-07-28")


class Server:
    """A server on standard input and output, spoken to as directly as can be."""

    def __init__(self, stack: ExitStack, era: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "_mcp_gateway_servers.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stack.callback(self._process.wait)
        stack.callback(self._process.terminate)
        self._number = 0
        self._envelope: dict[str, Any] = {}
        if era == ERAS[0]:
            hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
            self.ask("initialize", hello)
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        else:
            prefix = "io.modelcontextprotocol/"
            self._envelope = {"_meta": {f"{prefix}protocolVersion": era, f"{prefix}clientCapabilities": {}}}

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": {**params, **self._envelope}})
        assert self._process.stdout is not None
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise SystemExit(str(answer))
                return answer["result"]

    def echo(self, tool: str, text: str) -> float:
        began = perf_counter()
        result = self.ask("tools/call", {"name": tool, "arguments": {"text": text}})
        taken = perf_counter() - began
        if result["content"] != [{"type": "text", "text": text}]:
            raise SystemExit(f"{tool} answered {result}")
        return taken

    def list_all(self) -> int:
        found, cursor = 0, None
        while True:
            page = self.ask("tools/list", {"cursor": cursor} if cursor else {})
            found += len(page["tools"])
            cursor = page.get("nextCursor")
            if not cursor:
                return found

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()


def main() -> int:
    arguments = argparse.ArgumentParser(description="The MCP gateway against one hop.")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--quick", action="store_true", help="fewer calls: rougher figures in less time")
    chosen = arguments.parse_args()
    calls = 400 if chosen.quick else 2000
    rows = [*(_hops(era, calls) for era in ERAS), _listing()]
    return report(rows, as_json=chosen.json)


def _hops(era: str, calls: int) -> Row:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        one, two = Server(stack, era, "bare", folder), Server(stack, era, "gateway", folder)
        taken: dict[str, list[float]] = {"one": [], "two": []}
        for number in range(calls):
            taken["one"].append(one.echo("echo", f"hello {number}"))
            taken["two"].append(two.echo("mcp__bare__echo", f"hello {number}"))
    direct, through = _p50(taken["one"]), _p50(taken["two"])
    return Row(
        f"through the gateway, {era}: p50 against one hop", through / direct, "×", BAR,
        f"{through * 1e6:,.0f} µs against {direct * 1e6:,.0f} µs",
    )  # fmt: skip


def _listing() -> Row:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = Server(stack, ERAS[1], "gateway", folder, str(TOOLS))
        times: list[float] = []
        for _ in range(8):
            began = perf_counter()
            found = server.list_all()
            times.append((perf_counter() - began) * 1e3)
            if found < TOOLS:
                raise SystemExit(f"only {found} tools are listed")
    return Row(f"{TOOLS:,} tools behind the gateway listed, once warm", min(times[1:]), "ms", LIST_BAR)


def _p50(times: list[float]) -> float:
    """The median of the quietest of twenty stretches: what else the machine does only ever adds time."""
    length = len(times) // 20
    return min(median(times[start : start + length]) for start in range(length, len(times), length))


if __name__ == "__main__":
    raise SystemExit(main())
