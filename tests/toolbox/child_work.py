"""What the tests have a child do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from ferrule.core.errors import ToolError
from ferrule.toolbox.child import ChildAnswer


def echo(order: dict[str, Any], **files: BinaryIO | bytes) -> ChildAnswer:
    held = {name: one if isinstance(one, bytes) else one.read() for name, one in files.items()}
    print("a library that prints")
    return ChildAnswer({"order": order, "files": {name: one.decode() for name, one in held.items()}}, b"made\nof bytes")


def refuse(order: dict[str, Any]) -> None:
    raise ToolError("No such page.", kind="not_found_error", suggestion="Ask for page 1.", details={"pages": 1})


def misbehave(order: dict[str, Any]) -> Any:
    match order["how"]:
        case "abort":
            os.abort()
        case "hang":
            time.sleep(600)
        case "stop":
            signal.signal(signal.SIGTERM, lambda *_: Path(order["path"]).write_text("stopped") and os._exit(0))
            Path(order["path"]).write_text("started")
            time.sleep(600)
        case "ignore":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        case "spin":
            while True:
                pass
        case "fill":
            return len(b"x" * (4 << 30))
        case "flood":
            sys.stderr.write("x" * (1 << 22))
            os.kill(os.getpid(), 11)
        case "read":
            return Path(order["path"]).read_text()
        case "write":
            Path(order["path"]).write_text("mine")
        case "connect":
            socket.create_connection(("127.0.0.1", order["port"]), timeout=5).close()
            return "connected"
        case "leave":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            return child.pid
        case "fail":
            raise RuntimeError("a parser's own words")
        case other:
            return other
    return None
