"""Opens what lies below a folder by real names alone: a link on the way is an error, also one put there now."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_MOST_READ = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_plain(folder: int, path: str, flags: int = _FOLDER) -> int:
    """Open `path` below the open `folder`, part by part; "" is the folder itself."""
    parts = path.split("/") if path else ["."]
    at = folder
    try:
        for index, part in enumerate(parts):
            last = index == len(parts) - 1
            below = os.open(part, (flags | os.O_NOFOLLOW | os.O_CLOEXEC) if last else _FOLDER, dir_fd=at)
            if at != folder:
                os.close(at)
            at = below
    except BaseException:
        if at != folder:
            os.close(at)
        raise
    return at


@contextlib.contextmanager
def opened(folder: int, path: str, flags: int = _FOLDER) -> Generator[int]:
    """The same, for the length of a block."""
    descriptor = open_plain(folder, path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_plain(root: int, path: str) -> tuple[bytes, int] | None:
    """The content and mode of a plain file of moderate size; None for anything else."""
    try:
        with opened(root, path, os.O_RDONLY | os.O_NONBLOCK) as file:
            state = os.fstat(file)
            if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST_READ:
                return None
            return os.read(file, _MOST_READ), stat.S_IMODE(state.st_mode)
    except OSError:
        return None
