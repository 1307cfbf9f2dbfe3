"""The official conformance suite against our server, at both revisions (must-show 1)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "mcp-conformance"
OF_THE_WIRE = ("wire-schema-valid", "wire-schema-harness-error")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    needs(shutil.which("npm"), "npm, which brings Node 22 and the suite")
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("fixture_server.py"))],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        yield f"http://127.0.0.1:{port}/mcp"
        server.terminate()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_that_the_revision_requires_passes(revision: str, url: str, tmp_path: Path) -> None:
    every_scenario_passes(revision, url, tmp_path)


def every_scenario_passes(revision: str, url: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(SCRIPT), "server", "--url", url, "--requirements", revision, "-o", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    required = scenarios(done.stdout)
    assert len(required) >= 30
    for scenario in required:
        checks = checks_of(tmp_path, scenario)
        told = [one for one in checks if one["id"] not in OF_THE_WIRE and one["status"] == "SUCCESS"]
        assert told, f"{scenario} checked nothing: {checks}"
        for one in checks:
            assert one["status"] in ("SUCCESS", "INFO"), (scenario, one)
            assert not (one.get("details") or {}).get("untestable"), (scenario, one)


def scenarios(said: str) -> list[str]:
    """Those that count. What is only run to be reported stands again under a heading of its own."""
    ran, _, unscored = said.rpartition("Not scored")
    left_out = re.findall(r"[✓✗] (\S+) \(", unscored)
    return [name for name in re.findall(r"[✓✗] (\S+):", ran) if name not in left_out]


def checks_of(results: Path, scenario: str) -> list[dict[str, Any]]:
    (folder,) = [one for one in results.iterdir() if one.name.startswith(f"server-{scenario}-20")]
    return json.loads((folder / "checks.json").read_text())
