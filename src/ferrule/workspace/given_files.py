"""Small files that a workspace brings along and that are read without a question: settings, servers.

Whoever made the workspace chose what they are. A pipe would be waited for, a device read without end, and every
command would hang before it did anything; so only an ordinary file of a reasonable size is read, links followed.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MOST = 1 << 20


def read_given(file: Path, most: int = MOST) -> bytes:
    """What the file holds; raises `OSError`, whose `strerror` completes «could not be read: …»."""
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "rb") as opened:  # noqa: PTH123 - a descriptor
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no ordinary file", str(file))
        found = opened.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"it holds more than {most:,} bytes", str(file))
    return found
