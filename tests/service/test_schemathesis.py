"""Schemathesis on the OpenAPI document: nothing makes the service fail, every answer is in the schema (must-show 5)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.serving import running

pytestmark = pytest.mark.slow

# A rule, or an Idempotency-Key that was used for something else, is refused for what it means, which no schema tells.
LEFT_OUT = "positive_data_acceptance"
RUNS = {
    # What would take away the key that everything is asked with has a run of its own, and streams have no end.
    "most": ["--exclude-path-regex", r"/keys/\{id\}|/events|/export", "--exclude-method", "DELETE"],
    "keys": ["--include-path-regex", r"/keys/\{id\}"],
    "deleting": ["--include-method", "DELETE"],
}


@pytest.mark.parametrize("part", list(RUNS))
async def test_no_request_makes_it_fail_and_every_answer_is_in_the_schema(part: str, tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path) as service:
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json",
            "--header", f"Authorization: Bearer {service.key}", "--exclude-checks", LEFT_OUT,
            "--phases", "coverage,fuzzing", "--max-examples", "25", "--generation-deterministic",
            "--request-timeout", "60", "--no-color", *RUNS[part],
        ]  # fmt: skip
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=900, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        answers = service.service.requests
    assert not [counted for counted in answers if counted[1] == 500]
    assert sum(answers.values()) > 20
