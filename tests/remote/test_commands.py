"""The commands, as a newcomer types them: `ferrule remote` and `ferrule worker` (O6)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.remote.places import SOURCE, Server

ROOT = SOURCE.parent


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Any]:
    """A home of one's own; whatever was started in it is ended."""
    started: list[subprocess.Popen[str]] = []
    surroundings = {
        **os.environ, "FERRULE_DATA": str(tmp_path / "data"), "FERRULE_CONFIG": os.devnull, "PYTHONPATH": str(SOURCE),
        "LC_ALL": "C.UTF-8",
    }  # fmt: skip

    def start(*words: str) -> subprocess.Popen[str]:
        one = subprocess.Popen(
            [sys.executable, "-m", "ferrule", *words], cwd=tmp_path, env=surroundings, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        started.append(one)
        return one

    yield start
    for one in reversed(started):
        one.send_signal(signal.SIGTERM)
    for one in started:
        try:
            one.communicate(timeout=30)
        finally:
            one.kill()


@pytest.mark.slow
def test_the_four_lines_of_the_readme_give_two_workers_and_a_call(shell: Any) -> None:
    block = re.search(r"```sh\n(\./run remote dev.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block
    lines = block[1].strip().splitlines()
    assert len(lines) == 4
    began = time.monotonic()
    running = [shell(*line.removesuffix("&").split()[1:]) for line in lines]
    output, _ = running[-1].communicate(timeout=60)
    assert running[-1].returncode == 0, output
    assert json.loads(output)["timestamp"]
    assert time.monotonic() - began < 60
    pool: dict[str, Any] = {"workers": []}
    for _ in range(20):
        told, _ = shell("remote", "status", "--json").communicate(timeout=60)
        (pool,) = json.loads(told)
        if len(pool["workers"]) == 2:
            break
    assert len(pool["workers"]) == 2
    assert {name: pool[name] for name in ("pool", "pending", "in_flight", "lost")} == {
        "pool": "demo", "pending": 0, "in_flight": 0, "lost": 0,
    }  # fmt: skip
    table, _ = shell("remote", "status").communicate(timeout=60)
    assert table.splitlines()[0].split() == ["POOL", "WORKERS", "PENDING", "IN", "FLIGHT", "LOST", "(1", "H)"]
    running[1].send_signal(signal.SIGTERM)
    words, _ = running[1].communicate(timeout=60)
    assert running[1].returncode == 0
    assert words.splitlines()[-1] == "Stopped."


@pytest.mark.slow
def test_a_call_waits_for_the_server_and_its_first_worker(shell: Any) -> None:
    call = shell("call", "getCurrentDateTime", "--pool", "demo")
    assert call.stdout.readline() == "Waiting 30 s for a server on this machine. Start one: ferrule remote dev\n"
    shell("remote", "dev")
    shell("worker", "--pool", "demo")
    output, _ = call.communicate(timeout=60)
    assert call.returncode == 0, output
    assert json.loads(output)["timestamp"]


@pytest.mark.slow
def test_a_configuration_is_printed_and_its_keys_are_kept(shell: Any, tmp_path: Path) -> None:
    first, _ = shell("remote", "config", "cpu", "--tenant", "acme").communicate(timeout=60)
    again, _ = shell("remote", "config", "cpu", "--tenant", "acme").communicate(timeout=60)
    assert first == again
    assert "sync_interval: always" in first
    keys = tmp_path / "remote-keys"
    assert sorted(one.name for one in keys.iterdir()) == ["admin.key", "caller.key", "worker-cpu-acme.key"]
    assert all(one.stat().st_mode & 0o077 == 0 for one in keys.iterdir())
    assert not any(one.read_text().strip() in first for one in keys.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["worker", "--pool", "a b", "--url", "nats://127.0.0.1:1"], "cannot name a pool"),
        (["worker", "--pool", "p", "--url", "nats://127.0.0.1:1"], "`remote.key` is missing"),
        (["worker", "--pool", "p", "--url", "nats://127.0.0.1:1", "--key", "none.key"], "could not be read"),
        (["worker", "--pool", "p", "--url", "nats://127.0.0.1:1", "--key", "bad.key"], "is not an nkey seed"),
        (["worker", "--pool", "p", "--url", "nats://127.0.0.1:1", "--key", "good.key"], "No NATS server answers"),
        (["worker", "--pool", "p", "--url", "URL", "--key", "good.key"], "does not accept this key"),
        (["remote", "status", "--url", "URL", "--key", "own.key"], "There are no pools yet"),
    ],
)
def test_words_for_what_is_wrong(shell: Any, tmp_path: Path, server: Server, words: list[str], told: str) -> None:
    from ferrule.remote.wire import new_seed, write_key

    (tmp_path / "bad.key").write_text("hello\n")
    write_key(tmp_path / "good.key", new_seed())
    write_key(tmp_path / "own.key", server.key.seed)
    said, _ = shell(*(server.url if word == "URL" else word for word in words)).communicate(timeout=60)
    assert told in " ".join(said.split())
    assert "Traceback" not in said
