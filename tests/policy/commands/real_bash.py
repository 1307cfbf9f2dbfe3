"""A real bash among harmless stand-ins: runs a command, and tells which programs it started."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

STAND_INS = ("rm", "ls", "cat", "git", "touch", "id", "grep", "sort", "wc", "foo", "bar")
WRAPPERS = ("env", "nice", "timeout", "xargs", "find", "nohup", "setsid", "stdbuf", "bash", "sh")


class RealBash:
    """Programs on its path are stand-ins that only note their names, and real wrappers that start these."""

    def __init__(self, folder: Path) -> None:
        self._bin, self._work, self._log = folder / "bin", folder / "work", folder / "log"
        self._bin.mkdir()
        for name in STAND_INS:
            program = self._bin / name
            program.write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" >> "$STARTED"\n')
            program.chmod(0o755)
        for name in WRAPPERS:
            real = shutil.which(name)
            assert real is not None
            (self._bin / name).symlink_to(real)

    def started(self, command: str) -> set[str] | None:
        """The stand-ins that the command started; None where it did not end in time."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir()
        (self._work / "a.txt").write_text("a\n")
        self._log.write_text("")
        bash = shutil.which("bash")
        assert bash is not None
        running = subprocess.Popen(
            [bash, "--norc", "--noprofile", "-c", command],
            cwd=self._work,
            env={"PATH": str(self._bin), "STARTED": str(self._log), "HOME": str(self._work)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            running.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        return set(self._log.read_text().split())
