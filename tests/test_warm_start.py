"""A program that is forked finds what one finds that Python was started for."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm_start import USUAL, can_be_warm, popen_warm, run_warm, start_warm

PROBE = """
import json, os, signal, sys, threading
streams = [sys.stdin, sys.stdout, sys.stderr]
found = {
    "arguments": sys.argv[1:],
    "program": sys.argv[0],
    "folder": os.getcwd(),
    "path": sys.path[0],
    "variables": {name: value for name, value in os.environ.items() if name != "LC_CTYPE"},
    "streams": [(one.encoding, one.errors, one.isatty(), one.line_buffering, one.write_through) for one in streams],
    "open": sorted(int(name) for name in os.listdir("/dev/fd") if os.path.exists(f"/dev/fd/{name}")),
    "handlers": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "leads a session": os.getsid(0) == os.getpid(),
    "group": os.getpgid(0) == os.getpid(),
    "threads": threading.active_count(),
    "main": __name__,
    "said": sys.stdin.read() if not sys.stdin.isatty() else "",
    "bytecode": sys.dont_write_bytecode,
}
print(json.dumps(found))
"""


@pytest.mark.parametrize("by", ["file", "module"])
@pytest.mark.parametrize("variables", [{}, {"A": "é\udcff", "PYTHONDONTWRITEBYTECODE": "1"}], ids=["usual", "own"])
def test_it_finds_what_a_cold_one_finds(tmp_path: Path, by: str, variables: dict[str, str]) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    arguments = [*([str(tmp_path / "probe.py")] if by == "file" else ["-m", "probe"]), "one", "--two", "drei 三"]
    environment = {**USUAL, **variables}
    cold = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=environment, input="words", capture_output=True, text=True
    )
    warm = run_warm(arguments, tmp_path, environment, stdin="words")
    assert (warm.code, warm.err) == (cold.returncode, cold.stderr) == (0, "")
    assert json.loads(warm.out) == json.loads(cold.stdout)


def test_at_a_terminal_it_leads_a_session_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text(PROBE)
    ours, theirs = pty.openpty()
    program = start_warm(["probe.py"], tmp_path, USUAL, theirs, theirs, theirs, at_a_terminal=True)
    os.close(theirs)
    with os.fdopen(ours, "rb") as shown:
        found = json.loads(shown.readline())
        assert program.wait() == 0
    assert found["leads a session"]
    assert all(stream[2] for stream in found["streams"])


@pytest.mark.parametrize("code", [0, 1, 3, 130])
def test_its_exit_code_is_told(tmp_path: Path, code: int) -> None:
    (tmp_path / "end.py").write_text(f"import sys; print('so'); sys.exit({code})")
    done = run_warm([str(tmp_path / "end.py")], tmp_path, USUAL)
    assert (done.code, done.out, done.err) == (code, "so\n", "")


def test_a_signal_ends_it_as_it_ends_any_other(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text("import time; print('ready', flush=True); time.sleep(600)")
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        started = popen_warm([str(tmp_path / "wait.py")], tmp_path, USUAL)
        with started.stdin, started.stdout, started.stderr:
            assert started.stdout.readline() == b"ready\n"
            assert started.program.poll() is None
            started.program.send_signal(number)
            assert started.program.wait() == -number


def test_what_python_reads_when_it_starts_is_not_for_a_warm_one() -> None:
    assert can_be_warm({**USUAL, "FERRULE_LANG": "zh"})
    assert not can_be_warm({**USUAL, "PYTHONWARNINGS": "ignore"})
    assert not can_be_warm({**USUAL, "LC_ALL": "C"})
    assert not can_be_warm({name: value for name, value in USUAL.items() if name != "LC_ALL"})
