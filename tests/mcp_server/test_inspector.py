"""The official Inspector on the command line against our server, on stdio and HTTP, in both eras (must-show 3)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.processes import environment, http_server
from tests.needs import needs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def inspect(era: str, target: list[str], *arguments: str) -> Any:
    done = subprocess.run(
        [str(ROOT / "scripts" / "mcp-inspector"), "--protocol-era", era, *target, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"MCP_INSPECTOR_SECRET_STORE": "memory"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_lists_and_calls(transport: str, era: str, tmp_path: Path) -> None:
    needs(shutil.which("npm"), "npm, which brings Node 22 and the Inspector")
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    if transport == "http":
        with http_server(tmp_path, tmp_path, "--http", "127.0.0.1:0") as (url, _):
            look(era, [url])
        return
    ours = {key: value for key, value in environment(tmp_path).items() if key.startswith("FERRULE_")}
    path = os.pathsep.join(one for one in sys.path if one)
    variables = [f"{key}={value}" for key, value in ({"PYTHONPATH": path} | ours).items()]
    look(era, ["env", *variables, sys.executable, "-m", "ferrule", "mcp", "--workspace", str(tmp_path)])


def look(era: str, target: list[str]) -> None:
    listed = inspect(era, target, "--method", "tools/list")
    assert {"Read", "Bash", "echo_text"} <= {one["name"] for one in listed["tools"]}
    call = ("--method", "tools/call", "--tool-name", "Read", "--tool-arg", "file_path=notes.txt")
    answer = inspect(era, target, *call)
    assert answer["isError"] is False
    assert "     2\ttwo" in answer["content"][0]["text"]
