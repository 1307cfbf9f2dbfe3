"""Moves what must not stay where it is to a private folder outside the workspace, and follows no link on the way."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from pathlib import Path

from ferrule.process.sandbox.plain_path import opened

_PIECE, _MOST = 1 << 20, 64 << 20


class Quarantine:
    """The folder, made when it is first needed. It is left in place: a person may want what is in it."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def take(self, root: int, path: str) -> Path:
        """Move `path` below the open `root` out of it; raises OSError where that cannot be."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="ferrule-quarantine-"))
        to = self._folder / f"{len(os.listdir(self._folder))}-{path.replace('/', '_')}"[:200]  # noqa: PTH208
        parent, _, name = path.rpartition("/")
        with opened(root, parent) as folder:
            try:
                os.rename(name, to, src_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _copy(folder, name, to)
                remove(folder, name)
        with contextlib.suppress(OSError):
            if stat.S_ISREG(to.lstat().st_mode):
                to.chmod(0o600)  # whatever it was, it is not to be run
        return to


def remove(folder: int, name: str) -> None:
    """Remove an entry of an open folder, with all that is below it."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _copy(folder: int, name: str, to: Path) -> None:
    """Files, folders and links; what is neither (a pipe, a socket) leaves nothing behind."""
    state = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(state.st_mode):
        to.symlink_to(os.readlink(name, dir_fd=folder))
    elif stat.S_ISDIR(state.st_mode):
        to.mkdir(mode=0o700)
        with opened(folder, name) as below, os.scandir(below) as entries:
            for entry in entries:
                _copy(below, entry.name, to / entry.name)
    elif stat.S_ISREG(state.st_mode):
        with opened(folder, name, os.O_RDONLY | os.O_NONBLOCK) as source, to.open("wb") as target:
            left = _MOST
            while left > 0 and (piece := os.read(source, min(_PIECE, left))):
                target.write(piece)
                left -= len(piece)
