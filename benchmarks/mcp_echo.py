"""Echo over MCP, ours against the bare SDK's in the same run: `python benchmarks/mcp_echo.py`.

Both servers are programs of their own with the same tool; the client is as thin as can be, so that what is compared is
the servers. Calls to both take turns, and the medians are compared. Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from _measure import Row, report

HERE = Path(__file__).parent
BAR = 1.2
ERAS = ("2025-11-25", "2026-07-28")
Call = Callable[[dict[str, Any]], dict[str, Any]]


def main() -> int:
    arguments = argparse.ArgumentParser(description="Echo over MCP against the bare SDK.")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--quick", action="store_true", help="fewer calls: rougher figures in less time")
    chosen = arguments.parse_args()
    calls = 300 if chosen.quick else 1500
    rows = [_compare(transport, era, calls) for transport in ("stdio", "http") for era in ERAS]
    return report(rows, as_json=chosen.json)


def _compare(transport: str, era: str, calls: int) -> Row:
    with ExitStack() as stack:
        echoes = {whose: _echo(stack, whose, transport, era) for whose in ("ours", "bare")}
        taken: dict[str, list[float]] = {whose: [] for whose in echoes}
        for number in range(calls):
            for whose, echo in echoes.items():
                began = perf_counter()
                echo(number)
                taken[whose].append(perf_counter() - began)
    half = calls // 10  # the first ones warm up
    ours, bare = (median(taken[whose][half:]) for whose in ("ours", "bare"))
    return Row(
        f"echo over {transport}, {era}: p50 against the SDK's", ours / bare, "×", BAR,
        f"{ours * 1e6:,.0f} µs against {bare * 1e6:,.0f} µs",
    )  # fmt: skip


def _echo(stack: ExitStack, whose: str, transport: str, era: str) -> Callable[[int], None]:
    call = _stdio(stack, whose) if transport == "stdio" else _http(stack, whose, era)
    envelope: dict[str, Any] = {}
    if era == ERAS[0]:
        hello = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "1"}}
        call({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        call({"jsonrpc": "2.0", "method": "notifications/initialized"})
    else:
        prefix = "io.modelcontextprotocol/"
        envelope = {"_meta": {f"{prefix}protocolVersion": era, f"{prefix}clientCapabilities": {}}}

    def echo(number: int) -> None:
        params = {"name": "echo", "arguments": {"text": f"hello {number}"}, **envelope}
        answer = call({"jsonrpc": "2.0", "id": number + 1, "method": "tools/call", "params": params})
        if answer["result"]["content"] != [{"type": "text", "text": f"hello {number}"}]:
            raise SystemExit(f"{whose} answered {answer}")

    return echo


def _start(stack: ExitStack, whose: str, transport: str) -> subprocess.Popen[bytes]:
    server = subprocess.Popen(
        [sys.executable, str(HERE / "_mcp_servers.py"), whose, transport], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    stack.callback(server.wait)
    stack.callback(server.terminate)
    return server


def _stdio(stack: ExitStack, whose: str) -> Call:
    server = _start(stack, whose, "stdio")
    assert server.stdin is not None
    assert server.stdout is not None
    stdin, stdout = server.stdin, server.stdout

    def call(message: dict[str, Any]) -> dict[str, Any]:
        stdin.write(json.dumps(message).encode() + b"\n")
        stdin.flush()
        return json.loads(stdout.readline()) if "id" in message else {}

    return call


def _http(stack: ExitStack, whose: str, era: str) -> Call:
    server = _start(stack, whose, "http")
    assert server.stdout is not None
    connection = http.client.HTTPConnection("127.0.0.1", int(server.stdout.readline()))
    stack.callback(connection.close)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or head and body wait for each other
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": era,
    }

    def call(message: dict[str, Any]) -> dict[str, Any]:
        routing = {"Mcp-Method": message["method"], "Mcp-Name": message.get("params", {}).get("name", "")}
        connection.request("POST", "/mcp", json.dumps(message), headers | (routing if era == ERAS[1] else {}))
        response = connection.getresponse()
        body = response.read()
        if session := response.getheader("mcp-session-id"):
            headers["Mcp-Session-Id"] = session
        if response.getheader("content-type", "").startswith("text/event-stream"):
            body = next(line[5:] for line in body.split(b"\n") if line.startswith(b"data:"))
        return json.loads(body) if body else {}

    return call


if __name__ == "__main__":
    raise SystemExit(main())
