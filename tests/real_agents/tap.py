"""Stands between an agent and `ferrule mcp` on stdio and keeps what they say to each other: `tap.py LOG COMMAND…`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any


def main() -> int:
    log_path, *command = sys.argv[1:]
    # Some agents do not let a server have this variable, and the one that is installed may be another Ferrule.
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        with Path(log_path).open("a", buffering=1) as log:
            threading.Thread(target=_carry, args=("agent", sys.stdin.buffer, server.stdin, log), daemon=True).start()
            _carry("ferrule", server.stdout, sys.stdout.buffer, log)
            return server.wait()


def _carry(who: str, source: IO[bytes], sink: IO[bytes], log: IO[str]) -> None:
    try:
        for line in source:
            log.write(json.dumps({"from": who, "said": json.loads(line)}) + "\n")
            sink.write(line)
            sink.flush()
        sink.close()
    except (BrokenPipeError, ValueError):
        pass  # the other side is gone


def conversation(log_path: Path) -> list[tuple[str, Any]]:
    """Who said what, in order."""
    entries = [json.loads(line) for line in log_path.read_text().splitlines()]
    return [(one["from"], one["said"]) for one in entries]


if __name__ == "__main__":
    sys.exit(main())
