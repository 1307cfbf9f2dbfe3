"""The official conformance suite against our client, at both revisions (must-show 1)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "mcp-conformance"
TOOLS = Path(os.environ.get("MCP_NODE_TOOLS") or ROOT / ".venv" / "node-tools")
REQUIREMENTS = TOOLS / "conformance" / "node_modules" / "@modelcontextprotocol" / "conformance" / "requirements"
CLIENT = Path(__file__).with_name("conformance_client.py")


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


@pytest.mark.parametrize(("revision", "at_least"), [("2025-11-25", 18), ("2026-07-28", 32)])
def test_every_scenario_that_the_revision_requires_passes(
    suite: str, revision: str, at_least: int, tmp_path: Path
) -> None:
    scenarios = required(revision)
    assert len(scenarios) >= at_least
    for scenario in scenarios:  # one at a time: all at once, they measure how busy the machine is
        results = tmp_path / scenario.replace("/", "-")
        done = subprocess.run(
            [suite, "client", "--scenario", scenario, "--spec-version", revision, "--timeout", "120000",
             "--command", f"{sys.executable} {CLIENT}", "-o", str(results)],
            capture_output=True, text=True, timeout=300, cwd=ROOT,
        )  # fmt: skip
        assert done.returncode == 0, f"{scenario}: {done.stdout[-3000:]}{done.stderr[-2000:]}"
        (file,) = results.rglob("checks.json")
        checks = json.loads(file.read_text())
        assert any(one["status"] == "SUCCESS" for one in checks), f"{scenario} checked nothing: {checks}"
        for one in checks:
            assert one["status"] in ("SUCCESS", "INFO", "SKIPPED"), (scenario, one)
