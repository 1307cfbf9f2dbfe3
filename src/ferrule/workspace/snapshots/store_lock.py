"""One at a time in a folder, over all threads and processes. The kernel lets go of it when a process dies."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.pipeline.threads import seen_through
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


class StoreLock:
    """Nothing else may be locked while it is held, so that nobody waits in a ring."""

    def __init__(self, path: Path, patience: float) -> None:
        self._path, self._patience = path, patience
        self._threads = threading.Lock()
        self._opened: int | None = None

    @contextmanager
    def held(self) -> Generator[None]:
        """Hold it; a tool whose call is given up meanwhile goes on until it has let go."""
        with seen_through(), self._taken():
            yield

    @contextmanager
    def _taken(self) -> Generator[None]:
        deadline = time.monotonic() + self._patience
        if not self._threads.acquire(timeout=self._patience):
            raise self._busy()
        try:
            if self._opened is None:
                self._opened = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._wait(self._opened, deadline)
            try:
                yield
            finally:
                fcntl.flock(self._opened, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def close(self) -> None:
        with self._threads:
            if self._opened is not None:
                os.close(self._opened)
                self._opened = None

    def _wait(self, opened: int, deadline: float) -> None:
        pause = 0.0005
        while True:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise self._busy() from None
                time.sleep(pause)
                pause = min(pause * 1.5, 0.01)
            else:
                return

    def _busy(self) -> PathProblem:
        return PathProblem(
            "busy",
            phrase(
                "The history of changes has been in use by another program for {seconds} seconds, "
                "so nothing was changed.",
                seconds=f"{self._patience:g}",
            ),
            suggestion=phrase("Try again, or end the other Ferrule that works in this folder."),
        )
