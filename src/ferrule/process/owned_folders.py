"""Folders that belong to a running process: its temporary files, long outputs and probes. What a kill left is removed.

The owner holds a lock on the folder itself, which the kernel takes back however the process ends: nothing has to be
concluded from numbers of processes, and a zombie holds nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_KEPT = ".kept"
_PATIENCE = 1.0
_OLDEST_SECONDS = 7 * 24 * 3600
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnedFolder:
    """A new folder in `above`, held until it is closed or the process ends. What killed ones left is removed first."""

    def __init__(self, above: Path | None = None, *, prefix: str = "session-", mode: int = 0o700) -> None:
        if above is None:
            above = Path(tempfile.gettempdir())
        else:
            above.mkdir(mode=0o700, parents=True, exist_ok=True)
        above = Path(os.path.realpath(above))
        self._held = -1
        while self._held < 0:
            # One at a time: whoever sweeps must not take one for a dead one's that is not held yet.
            with _alone_in(above) as alone:
                if alone:
                    _sweep(above, prefix)
                self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
                self._hold(mode)

    def _hold(self, mode: int) -> None:
        """Make it ours, unless a sweep was quicker."""
        with suppress(FileNotFoundError):
            self._held = os.open(self.path, _FOLDER)
            fcntl.flock(self._held, fcntl.LOCK_EX)
            if not self.is_there():
                os.close(self._held)
                self._held = -1
                return
            os.fchmod(self._held, mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if (held := getattr(self, "_held", -1)) >= 0:  # nobody closed it: the next sweep takes it
            os.close(held)

    def is_there(self) -> bool:
        """Whether it is still in its place: somebody may have removed all that Ferrule keeps."""
        try:
            return os.path.samestat(os.fstat(self._held), self.path.lstat())
        except OSError:
            return False

    def close(self, *, keep_files: bool = False) -> None:
        """Remove it; with `keep_files` only if nothing is in it, and else it stays for a week."""
        if self._held < 0:
            return
        if self.is_there():
            if keep_files:
                with suppress(OSError):
                    self.path.rmdir()
                with suppress(OSError):
                    (self.path / _KEPT).touch(mode=0o600)
            else:
                _remove(self.path)
        os.close(self._held)
        self._held = -1


@contextmanager
def _alone_in(above: Path) -> Generator[bool]:
    """Be the only one who makes or sweeps folders in there; False where somebody else keeps it locked for too long."""
    end = time.monotonic() + _PATIENCE
    opened = os.open(above, _FOLDER)
    try:
        while not (alone := _locks(opened)) and time.monotonic() < end:
            time.sleep(0.01)
        yield alone
    finally:
        os.close(opened)


def _locks(opened: int) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(above: Path, prefix: str) -> None:
    """Remove the folders of processes that are gone, and those that were kept for their files and are a week old."""
    old = time.time() - _OLDEST_SECONDS
    for folder in above.glob(f"{prefix}*"):
        with suppress(OSError):  # another process was faster, or it is not ours
            found = folder.lstat()
            if found.st_uid != os.geteuid() or ((folder / _KEPT).exists() and found.st_mtime > old):
                continue
            held = os.open(folder, _FOLDER)
            try:
                if _locks(held):
                    _remove(folder)
            finally:
                os.close(held)


def _remove(folder: Path) -> None:
    def open_up(function: Callable[..., Any], path: str, _: object) -> None:
        """A command may have closed folders to everybody."""
        with suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)  # noqa: PTH101, PTH120
            if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
                os.chmod(path, 0o700)  # noqa: PTH101
                shutil.rmtree(path, ignore_errors=True)
            else:
                function(path)

    shutil.rmtree(folder, onerror=open_up)
