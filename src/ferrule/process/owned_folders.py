"""Folders that belong to a running process: its temporary files, long outputs and probes. What a kill left is removed.

The owner holds a lock on the folder itself, which the kernel takes back however the process ends: nothing has to be
concluded from numbers of processes, and a zombie holds nothing.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from ferrule.core.files import lock, locked

_KEPT = ".kept"
_PATIENCE = 1.0
_OLDEST_SECONDS = 7 * 24 * 3600
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OwnedFolder:
    """A new folder in `parent`, held until it is closed or the process ends. What killed ones left is removed first."""

    def __init__(self, parent: Path | None = None, *, prefix: str = "session-", mode: int = 0o700) -> None:
        if parent is None:
            parent = Path(tempfile.gettempdir())
        else:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        parent = Path(os.path.realpath(parent))
        self._held = -1
        while self._held < 0:
            # One at a time: whoever sweeps must not take one for a dead one's that is not held yet.
            with locked(parent, _PATIENCE) as alone:  # not for ever: another may keep it locked
                if alone:
                    _sweep(parent, prefix)
                self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
                self._hold(mode)

    def _hold(self, mode: int) -> None:
        """Make it ours, unless a sweep or another program was quicker."""
        with suppress(FileNotFoundError):
            self._held = os.open(self.path, _FOLDER)
            if not lock(self._held, _PATIENCE) or not self.is_there():
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
                with suppress(OSError):  # the next sweep tries again
                    remove_tree(self.path)
        os.close(self._held)
        self._held = -1


_MEMORY = "/dev/shm"  # noqa: S108 - a folder in it belongs to its owner alone
_LEAST_ROOM = 256 << 20


def memory_folder() -> Path | None:
    """Where small files of short life are best: making and removing folders on a disk may take milliseconds."""
    try:
        state = os.statvfs(_MEMORY)
    except OSError:
        return None
    can = os.access(_MEMORY, os.W_OK | os.X_OK) and not state.f_flag & (os.ST_RDONLY | getattr(os, "ST_NOEXEC", 0))
    return Path(_MEMORY) if can and state.f_bavail * state.f_frsize > _LEAST_ROOM else None


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
                if lock(held, 0):
                    remove_tree(folder)
            finally:
                os.close(held)


def remove_tree(folder: Path | str, *, dir_fd: int | None = None) -> None:
    """Remove a folder whatever a command left in it: closed folders, and trees deeper than any path can be long. Links
    are never followed, also those put there meanwhile. Raises OSError where something could not be removed.
    """
    token, moved = secrets.token_hex(8), 0
    try:
        top = _open_up(folder, dir_fd)
    except FileNotFoundError:
        return
    try:
        waiting = ["."]
        while waiting:
            name = waiting.pop()
            with suppress(OSError):  # then it is not empty in the end
                one = _open_up(name, top)
                try:
                    with os.scandir(one) as entries:
                        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
                    for below, is_folder in found:
                        with suppress(OSError):
                            if not is_folder:
                                os.unlink(below, dir_fd=one)
                            elif name == ".":
                                waiting.append(below)
                            else:
                                os.close(_open_up(below, one))  # the kernel wants to write to a folder that moves
                                moved += 1
                                os.rename(below, f".{token}-{moved}", src_dir_fd=one, dst_dir_fd=top)
                                waiting.append(f".{token}-{moved}")
                finally:
                    os.close(one)
                if name != ".":
                    os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(folder, dir_fd=dir_fd)


def _open_up(name: Path | str, above: int | None) -> int:
    """Open a folder in which things are to be removed: a command may have closed it to everybody."""
    try:
        opened = os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:
        if os.chmod in os.supports_follow_symlinks:
            os.chmod(name, 0o700, dir_fd=above, follow_symlinks=False)
        else:
            seen = os.open(name, os.O_PATH | _FOLDER, dir_fd=above)
            try:
                Path(f"/proc/self/fd/{seen}").chmod(0o700)
            finally:
                os.close(seen)
        opened = os.open(name, _FOLDER, dir_fd=above)
    if os.fstat(opened).st_mode & 0o700 != 0o700:
        os.fchmod(opened, 0o700)
    return opened
