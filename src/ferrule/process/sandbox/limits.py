"""Limits on processes, memory and files: those that the launcher sets on a box before it becomes the command, and for
root a control group.

Inside a user namespace the kernel counts the processes of the sandbox alone and not all of the person's. It does not
count those of root at all: for root a control group holds the number.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import resource
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.process.profile import Bounds

if TYPE_CHECKING:
    from collections.abc import Generator

    from ferrule.process.profile import Profile

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "ferrule-"
_TIDIED_EVERY = 64
_numbers = itertools.count()
_still_there: list[Path] = []
# Idle groups: the kernel takes longer to remove and make one than to start a command in it.
_idle: dict[tuple[int | None, int | None], list[Path]] = {}
_MOST_IDLE = 4


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


@contextlib.contextmanager
def control_group(bounds: Bounds) -> Generator[Path | None]:
    """The file to write `0` to, which joins the writer to a group of its own; None for ordinary users, and where no
    group can be made.
    """
    made: Path | None = None
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            made = _make(bounds)
    try:
        yield None if made is None else made / _joined_by(str(made.parent))
    finally:
        if made is not None:
            # Keep it for the next box with these bounds; the last process of this one may still be leaving it.
            idle = _idle.setdefault((bounds.processes, bounds.memory), [])
            if len(idle) < _MOST_IDLE:
                idle.append(made)
            else:
                _remove(made)


def can_count_processes() -> bool:
    """Whether a group can be made here, tried for real."""
    with control_group(Bounds()) as group:
        return group is not None


def _make(bounds: Bounds) -> Path | None:
    if bounds.processes is None or (parent := _parent()) is None:
        return None
    if idle := _idle.get((bounds.processes, bounds.memory)):
        return idle.pop()
    again, _still_there[:] = _still_there[:], []
    for group in again:
        _remove(group)
    number = next(_numbers)
    if number % _TIDIED_EVERY == 0:
        # Groups of a Ferrule that was killed.
        for other in parent.glob(f"{_PREFIX}*"):
            owner = other.name.removeprefix(_PREFIX).partition("-")[0]
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                _remove(other)
    group = parent / f"{_PREFIX}{os.getpid()}-{number}"
    group.mkdir()
    try:
        _write(group / "pids.max", bounds.processes)
        if bounds.memory is not None and (group / "memory.max").exists():
            _write(group / "memory.max", bounds.memory)
    except OSError:
        group.rmdir()
        raise
    return group


def _remove_idle() -> None:
    for groups in _idle.values():
        while groups:
            _remove(groups.pop())


@lru_cache(maxsize=4)
def _joined_by(parent: str) -> str:
    """Of the old hierarchy the file that moves a thread alone: moving a process waits for the whole system."""
    return "tasks" if os.path.exists(f"{parent}/tasks") else "cgroup.procs"  # noqa: PTH110


def _write(file: Path, number: int) -> None:
    opened = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(opened, str(number).encode())
    finally:
        os.close(opened)


@lru_cache(maxsize=1)
def _parent() -> Path | None:
    """Where our own group may have children that count processes: the old hierarchy of its own, or the new one."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            folder = _ROOT / "pids" / path.lstrip("/")
            return folder if folder.is_dir() else _ROOT / "pids"
    for folder in (_ROOT, _ROOT / "unified"):
        enabled = folder / "cgroup.subtree_control"
        if enabled.exists() and "pids" in enabled.read_text(encoding="utf-8").split():
            return folder
    return None


def _remove(group: Path) -> None:
    """Processes that were killed take a moment to be gone, and keep their group: that one is tried again later."""
    try:
        group.rmdir()
    except FileNotFoundError:
        return
    except OSError:
        _still_there.append(group)


atexit.register(_remove_idle)
os.register_at_fork(after_in_child=_idle.clear)
