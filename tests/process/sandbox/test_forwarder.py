"""The program that passes connections on, started for real."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

from ferrule.process.sandbox import forwarder


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_a_connection_goes_through_and_the_command_takes_over(tmp_path: Path) -> None:
    path, port = str(tmp_path / "s"), free_port()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()

    def answer() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(connection.recv(100).upper())

    thread = threading.Thread(target=answer)
    thread.start()
    command = (
        "import os, signal, socket\n"
        "from pathlib import Path\n"
        f"with socket.create_connection(('127.0.0.1', {port})) as s:\n"
        "    s.sendall(b'hello'); s.shutdown(1); print(s.recv(100).decode())\n"
        "child = int(Path(f'/proc/self/task/{os.getpid()}/children').read_text().split()[0])\n"
        "os.kill(child, signal.SIGKILL); os.waitpid(child, 0)\n"
    )
    source = Path(forwarder.__file__).read_text()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", source, str(port), path, sys.executable, "-c", command],
        capture_output=True,
        text=True,
        timeout=30,
    )
    thread.join()
    listening.close()
    assert (done.stdout, done.stderr) == ("HELLO\n", "")


def test_it_needs_only_the_standard_library() -> None:
    assert "ferrule." not in Path(forwarder.__file__).read_text()
