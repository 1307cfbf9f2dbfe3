"""One at a time in a folder, over all threads and processes. The kernel lets go of it when a process dies."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.pipeline.threads import seen_through
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


_HELD, _LET_GO = b"1", b"0"


class StoreLock:
    """Nothing else may be locked while it is held, so that nobody waits in a ring.

    The file says that somebody works inside, and who was killed there, or failed, does not take that back.
    """

    def __init__(self, path: Path, patience: float) -> None:
        self._path, self._patience = path, patience
        self._threads = threading.Lock()
        self._opened: int | None = None

    @contextmanager
    def held(self) -> Generator[bool]:
        """Hold it; a tool whose call is given up meanwhile goes on until it has let go.

        Gives whether whoever held it last came to the end of their work.
        """
        with seen_through(), self._taken() as opened:
            whole = os.pread(opened, 1, 0) != _HELD
            _write(opened, _HELD)
            yield whole
            _write(opened, _LET_GO)

    @contextmanager
    def _taken(self) -> Generator[int]:
        deadline = time.monotonic() + self._patience
        if not self._threads.acquire(timeout=self._patience):
            raise self._busy()
        try:
            opened = self._lock(deadline)
            try:
                yield opened
            finally:
                fcntl.flock(opened, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def is_current(self) -> bool:
        """Whether the file that is open is the one that others find, and not one that was removed or replaced."""
        if self._opened is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._opened), self._path.stat())
        except OSError:
            return False

    def close(self) -> None:
        with self._threads:
            self._drop()

    def _lock(self, deadline: float) -> int:
        """The file, locked. Only once it is locked can it be told whether others will lock the same."""
        while True:
            if self._opened is None:
                self._opened = self._open()
            self._wait(self._opened, deadline)
            if self.is_current():
                return self._opened
            self._drop()
            if time.monotonic() > deadline:
                raise self._busy()

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(self._path, flags, 0o600)

    def _drop(self) -> None:
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


def _write(opened: int, said: bytes) -> None:
    with suppress(OSError):  # a full disk: what a kill leaves behind is then found by the sweep now and then
        os.pwrite(opened, said, 0)
