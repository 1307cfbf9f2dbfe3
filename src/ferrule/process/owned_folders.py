"""Folders that belong to a running process: its temporary files, long outputs and probes. What a kill left is removed.

The owner holds a lock on the folder itself, which the kernel takes back however the process ends: nothing has to be
concluded from numbers of processes, and a zombie holds nothing.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT = ".kept"
_NEW = ".ferrule-new-"
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
        sweep(above, prefix)
        # It has its name only once it is held: nobody else sees it before, and takes it for a dead one's.
        new = tempfile.mkdtemp(prefix=_NEW, dir=above)
        self._held = os.open(new, _FOLDER)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        os.chmod(new, mode)  # noqa: PTH101
        self.path = Path(new).rename(above / f"{prefix}{secrets.token_hex(6)}")

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


def sweep(above: Path, prefix: str) -> None:
    """Remove the folders of processes that are gone, and those that were kept for their files and are a week old."""
    old = time.time() - _OLDEST_SECONDS
    for folder in [*above.glob(f"{prefix}*"), *above.glob(f"{_NEW}*")]:
        with suppress(OSError):  # another process was faster, or it is not ours
            found = folder.lstat()
            if found.st_uid != os.geteuid():
                continue
            if (folder.name.startswith(_NEW) or (folder / _KEPT).exists()) and found.st_mtime > old:
                continue
            held = os.open(folder, _FOLDER)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
