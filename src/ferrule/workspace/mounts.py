"""Where other file systems are mounted inside a folder: a path that leads into one is not followed."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mount_between(root: Path, path: Path) -> Path | None:
    """The first mount point on the way from a folder down to a path, or None."""
    way = [folder for folder in (path, *path.parents) if root in folder.parents][::-1]
    points = _mount_points()
    return next((folder for folder in way if folder in points or (not points and folder.is_mount())), None)


def _mount_points() -> frozenset[Path]:
    """As Linux lists them, bind mounts too, which have no device of their own; empty where there is no list."""
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        return frozenset()
    return frozenset(Path(os.fsdecode(_unescaped(line.split(b" ")[4]))) for line in lines)


def _unescaped(field: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), field)
