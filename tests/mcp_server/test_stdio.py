"""The stdio server as a real process: nothing but protocol on its output, and no client harms it (must-show 6)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from mcp import Client, StdioServerParameters

from tests.mcp_server.processes import environment, stdio_server
from tests.mcp_server.serving import ERAS, both_eras, text_of

PING = {"jsonrpc": "2.0", "id": "still there", "method": "ping"}


def soon(true: Callable[[], bool]) -> None:
    """Wait for what is certain to come."""
    ends = time.monotonic() + 60
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@both_eras
async def test_the_sdks_client_calls_a_tool(era: str, tmp_path: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "ferrule", "mcp", "--workspace", str(tmp_path)],
        env=environment(tmp_path),
    )
    (tmp_path / "notes.txt").write_text("one\n")
    async with Client(server, mode=ERAS[era]) as client:
        assert {"Read", "echo_text"} <= {one.name for one in (await client.list_tools()).tools}
        assert "one" in text_of(await client.call_tool("Read", {"file_path": "notes.txt"}))


def test_nothing_but_protocol_is_on_the_output(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        assert server.call(1, "print_much")["result"]["content"][0]["text"] == "printed"
        server.close_input()
        assert server.process.wait(60) == 0
        assert server.lines.get(timeout=60) == b""
        soon(lambda: b"printed by a program\n" in server.errors)
    assert {b"a plugin that prints while it is imported\n", b"written by a tool\n"} <= set(server.errors)


def test_garbage_gets_an_error_each_and_the_next_request_its_answer(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        server.send(b"garbage\n\n[]\n{}\n" + b'{"jsonrpc":"2.0","id":9,"method":"no/such"}\n')
        answers = [server.receive() for _ in range(4)]
        server.send(PING)
        assert server.receive()["result"] == {}
    assert [(one.get("id"), one["error"]["code"]) for one in answers] == [
        (None, -32700), (None, -32600), (None, -32600), (9, -32601),
    ]  # fmt: skip


def test_wrong_types_are_refused_and_harm_nothing(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        assert server.request(1, "tools/call", name=5)["error"]["code"] == -32602
        assert server.request(2, "tools/call", name="echo_text", arguments=[])["error"]["code"] == -32602
        assert server.request(3, "tools/list", cursor="?")["error"] == snapshot(
            {"code": -32602, "message": "'?' is not a cursor of this list. Start again without one."}
        )
        wrong = server.call(4, "echo_text", text=7, more=True)["result"]
        assert wrong["isError"]
        assert server.request(5, "ping")["result"] == {}


def test_a_message_that_is_too_long_is_skipped_and_said_so(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        for _ in range(40):
            server.send(b"x" * 1024 * 1024)
        server.send(b"\n")
        assert server.receive()["error"]["message"] == snapshot(
            "A message may have at most 16,777,216 bytes. This one was skipped."
        )
        server.send(PING)
        assert server.receive()["result"] == {}
        status = Path(f"/proc/{server.process.pid}/status")
        if status.exists():
            peak = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
            assert peak < 400_000  # kB, of which most is the program itself


def test_half_a_message_is_none(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        server.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"print_much"')
        server.close_input()
        assert server.process.wait(60) == 0
        assert server.lines.get(timeout=60) == b""


def test_an_id_that_is_in_use_is_refused_and_the_first_request_goes_on(tmp_path: Path) -> None:
    marker = tmp_path / "running"
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        params = {"name": "wait_long", "arguments": {"marker": str(marker)}}
        server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        soon(marker.exists)
        server.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert server.receive() == snapshot(
            {
                "jsonrpc": "2.0",
                "id": None,
                "error": {
                    "code": -32600,
                    "message": "The id 1 is that of a request which still runs. This one was not accepted.",
                },
            }
        )
        assert marker.exists()


def test_a_flood_of_requests_is_answered_or_refused_and_never_piled_up(tmp_path: Path) -> None:
    marker = tmp_path / "running"
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        for number in range(600):
            params = {"name": "wait_long", "arguments": {"marker": f"{marker}{number}"}}
            server.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        refused = [server.receive() for _ in range(600 - 256)]
        assert {one["error"]["message"] for one in refused} == snapshot(
            {"256 requests run already. Wait for one of them, and send this again."}
        )
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}})
        soon(lambda: not Path(f"{marker}0").exists())
        assert server.request("next", "ping")["result"] == {}


def test_a_client_that_does_not_read_is_waited_for(tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        answer = server.call(1, "give_much", characters=5_000_000)["result"]["content"][0]["text"]
    assert len(answer) < 40_000
    assert "left out" in answer


def test_cancelling_stops_the_work(tmp_path: Path) -> None:
    marker = tmp_path / "running"
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        params = {"name": "wait_long", "arguments": {"marker": str(marker)}}
        server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        soon(marker.exists)
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        soon(lambda: not marker.exists())
        server.send(PING)
        assert server.receive()["id"] == "still there"  # the cancelled request has no answer


@pytest.mark.parametrize("ending", ["end of input", "SIGTERM", "SIGKILL"])
def test_nothing_that_a_client_began_goes_on_after_the_end(ending: str, tmp_path: Path) -> None:
    with stdio_server(tmp_path, tmp_path, "--no-sandbox", "--allow", "Bash") as server:
        server.greet()
        said = server.call(1, "Bash", command="sleep 600 & echo $! $$; echo $! > pid", run_in_background=True)
        assert not said["result"]["isError"], said
        soon(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text().strip()))
        sleeping = int((tmp_path / "pid").read_text())
        assert alive(sleeping)
        if ending == "end of input":
            server.close_input()
        else:
            server.process.send_signal(getattr(signal, ending))
        code = server.process.wait(60)
        assert code == (-signal.SIGKILL if ending == "SIGKILL" else 0)
        soon(lambda: not alive(sleeping))


def test_a_call_that_runs_is_stopped_at_the_end_of_input(tmp_path: Path) -> None:
    marker = tmp_path / "running"
    with stdio_server(tmp_path, tmp_path) as server:
        server.greet()
        params = {"name": "wait_long", "arguments": {"marker": str(marker)}}
        server.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        soon(marker.exists)
        server.close_input()
        assert server.process.wait(60) == 0
        assert not marker.exists()


def test_input_from_a_file_is_served_too(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}]
    (tmp_path / "input").write_text("".join(json.dumps(one) + "\n" for one in lines))
    with (tmp_path / "input").open() as given, (tmp_path / "output").open("w") as taken:
        ended = subprocess.run(
            [sys.executable, "-m", "ferrule", "mcp"], stdin=given, stdout=taken, env=environment(tmp_path), timeout=60
        )
    assert ended.returncode == 0
    assert json.loads((tmp_path / "output").read_text())["result"]["serverInfo"]["name"] == "ferrule"


def test_without_an_input_there_is_nobody_to_serve(tmp_path: Path) -> None:
    program = f"exec {sys.executable} -m ferrule mcp <&-"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, env=environment(tmp_path), timeout=60)
    assert done.returncode == 1
    assert done.stderr == "Error: Standard input or output is closed, so there is no client to serve.\n"
