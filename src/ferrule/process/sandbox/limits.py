"""Limits on processes, memory and files, as the launcher sets them on a box before it becomes the command.

Inside a user namespace the kernel counts the processes of the sandbox alone and not all of the person's. It does not
count those of root at all: for root a control group holds the number.
"""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferrule.process.profile import Profile


def limits_of(profile: Profile, *, processes: bool, beside: int = 0) -> tuple[tuple[int, int], ...]:
    """Which, and how much. The number of processes only where it is counted for the box, or `beside` what else runs."""
    bounds = profile.bounds
    file_size = bounds.file_size
    if profile.layers:
        file_size = bounds.layer if file_size is None else min(file_size, bounds.layer)
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: bounds.open_files,
        resource.RLIMIT_FSIZE: file_size,
        resource.RLIMIT_DATA: bounds.memory,
        resource.RLIMIT_NPROC: None if bounds.processes is None or not processes else bounds.processes + beside,
    }
    return tuple((which, limit) for which, limit in wanted.items() if limit is not None)


def threads_of_person() -> int:
    """How many run for this user by now."""
    count = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                count += len(list((entry / "task").iterdir()))
    return count
