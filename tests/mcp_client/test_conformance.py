"""The official conformance suite against our client, at both revisions (must-show 1)."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs
from tests.warm_start import USUAL, start_warm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "mcp-conformance"
TOOLS = Path(os.environ.get("MCP_NODE_TOOLS") or ROOT / ".venv" / "node-tools")
REQUIREMENTS = TOOLS / "conformance" / "node_modules" / "@modelcontextprotocol" / "conformance" / "requirements"
CLIENT = Path(__file__).with_name("conformance_client.py")
RELAY = Path(__file__).with_name("conformance_relay.py")


@pytest.fixture(scope="module")
def suite() -> str:
    needs(shutil.which("npm"), "npm, which brings Node 22 and the suite")
    subprocess.run([str(SCRIPT), "list"], check=True, capture_output=True, timeout=600)
    return str(SCRIPT)


def required(revision: str) -> list[str]:
    """What the revision requires of a client."""
    text = (REQUIREMENTS / f"{revision}.yaml").read_text()
    section = re.search(r"^client:\n((?:(?:  .*|#.*)?\n)+)", text, re.MULTILINE)
    assert section is not None
    return re.findall(r"^  - (\S+)$", section[1], re.MULTILINE)


class Turns:
    """Starts the clients that the suite asks for, one after the other: all at once, they would measure how busy the
    machine is."""

    def __init__(self, place: Path) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(place))
        self._listening.listen(100)
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Turns:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                relay, _ = self._listening.accept()
            except OSError:
                return
            with relay:
                _, descriptors, _, _ = socket.recv_fds(relay, 1, 3)
                with relay.makefile("rw") as lines:
                    wanted = json.loads(lines.readline())
                    given, out, err = descriptors
                    client = start_warm(
                        [str(CLIENT), wanted["address"]], ROOT, wanted["environment"], given, out, err
                    )  # fmt: skip
                    for descriptor in descriptors:
                        os.close(descriptor)
                    try:
                        code = client.wait(120)
                    except subprocess.TimeoutExpired:
                        client.kill()
                        code = 1
                    lines.write(f"{code}\n")


@pytest.mark.parametrize(("revision", "at_least"), [("2025-11-25", 18), ("2026-07-28", 32)])
def test_every_scenario_that_the_revision_requires_passes(
    suite: str, revision: str, at_least: int, tmp_path: Path
) -> None:
    scenarios = required(revision)
    assert len(scenarios) >= at_least
    place = tmp_path / "turns"
    with Turns(place):
        done = subprocess.run(
            [suite, "client", "--requirements", revision, "--timeout", "600000", "-o", str(tmp_path / "results"),
             "--command", f"{sys.executable} -IS {RELAY} {place}"],
            capture_output=True, text=True, timeout=900, cwd=ROOT, env=USUAL,
        )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-5000:]}{done.stderr[-2000:]}"
    for scenario in scenarios:
        checks = checks_of(tmp_path / "results", scenario)
        assert any(one["status"] == "SUCCESS" for one in checks), f"{scenario} checked nothing: {checks}"
        for one in checks:
            assert one["status"] in ("SUCCESS", "INFO", "SKIPPED"), (scenario, one)


def checks_of(results: Path, scenario: str) -> list[dict[str, Any]]:
    """Each folder is named for the scenario and when it ran, and a name with `/` is a folder in a folder."""
    (file,) = results.glob(f"{scenario}-20*/checks.json")
    return json.loads(file.read_text())
