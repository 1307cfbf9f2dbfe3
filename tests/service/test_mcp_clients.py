"""Programs from elsewhere at `/mcp`: the official conformance suite and the official Inspector (must-show 5)."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp_server.test_conformance import every_scenario_passes
from tests.mcp_server.test_inspector import inspect
from tests.needs import needs
from tests.service.serving import running

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def conforming(tmp_path: Path) -> Iterator[str]:
    needs(shutil.which("npm"), "npm, which brings Node 22 and the suite")
    kept = {"FERRULE_DATA": str(tmp_path / "data"), "FERRULE_CONFIG": os.devnull}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.service.conformance_server", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | kept,
    ) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/mcp"
        server.terminate()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_that_the_revision_requires_passes(revision: str, conforming: str, tmp_path: Path) -> None:
    every_scenario_passes(revision, conforming, tmp_path / "results")


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_lists_and_calls_with_a_key(era: str, tmp_path: Path) -> None:
    needs(shutil.which("npm"), "npm, which brings Node 22 and the Inspector")
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path) as service:
        target = [f"{service.url}/mcp", "--header", f"Authorization: Bearer {service.key}"]
        listed = await asyncio.to_thread(inspect, era, target, "--method", "tools/list")
        assert {"add", "note"} <= {one["name"] for one in listed["tools"]}
        call = ("--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3")
        answer = await asyncio.to_thread(inspect, era, target, *call)
        assert answer["isError"] is False
        assert answer["content"][0]["text"] == "5"
        assert [one.tool for one in (await (await service.client()).calls()).calls] == ["add"]
