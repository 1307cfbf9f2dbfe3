"""Limits on processes, memory and files, set by a shell that then becomes the command.

Inside a user namespace the kernel counts the processes of the sandbox alone and not all of the person's. It does not
count those of root at all: for root a control group holds the number.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.process.profile import Bounds

SHELL = "/bin/sh"
_FILE_BLOCK = 512  # in every shell that is called `sh`


def bounded(bounds: Bounds, arguments: Sequence[str], group: Path | None = None) -> tuple[str, ...]:
    """The command, started under its limits and in the control group that is joined by writing to a file."""
    script: list[str] = []
    if group is not None:
        script.append(f"echo 0 >{shlex.quote(str(group))}")
    if bounds.open_files is not None:
        script.append(f"ulimit -n {_at_most_ours(bounds.open_files)}")
    if bounds.file_size is not None:
        script.append(f"ulimit -f {max(1, bounds.file_size // _FILE_BLOCK)}")
    if bounds.memory is not None:
        script.append(f"ulimit -d {max(1, bounds.memory // 1024)}")
    if bounds.processes is not None:
        script.append(f"ulimit {_processes_flag()} {bounds.processes}")
    if not script:
        return tuple(arguments)
    return (SHELL, "-c", " && ".join([*script, 'exec "$@"']), "sh", *arguments)


def with_what_runs(bounds: Bounds) -> Bounds:
    """The same for a command that is counted together with all else that the person runs."""
    if bounds.processes is None:
        return bounds
    return replace(bounds, processes=bounds.processes + _threads_of_person())


def _threads_of_person() -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                count += len(list((entry / "task").iterdir()))
    return count


def _at_most_ours(wanted: int) -> int:
    """A limit can only be lowered."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


@lru_cache(maxsize=1)
def _is_bash() -> bool:
    return os.path.basename(os.path.realpath(SHELL)).startswith("bash")  # noqa: PTH119 - a string in, a string out


def _processes_flag() -> str:
    return "-u" if _is_bash() else "-p"
