"""A control group for one sandbox, where root may make one: the kernel's own count of processes and memory.

Ordinary users need none, for whom the kernel counts processes by user.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.process.profile import Bounds

if TYPE_CHECKING:
    from collections.abc import Generator


_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "ferrule-"
_numbers = itertools.count()


@contextlib.contextmanager
def control_group(bounds: Bounds) -> Generator[Path | None]:
    """A group for one start; None for ordinary users, and where none can be made."""
    made: Path | None = None
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            made = _make(bounds)
    try:
        yield made
    finally:
        if made is not None:
            _remove(made)


def can_count_processes() -> bool:
    """Whether a group can be made here, tried for real."""
    with control_group(Bounds()) as group:
        return group is not None


def _make(bounds: Bounds) -> Path | None:
    if bounds.processes is None or (parent := _parent()) is None:
        return None
    _remove_abandoned(parent)
    group = parent / f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
    group.mkdir()
    try:
        (group / "pids.max").write_text(str(bounds.processes))
        if bounds.memory is not None and (group / "memory.max").exists():
            (group / "memory.max").write_text(str(bounds.memory))
    except OSError:
        group.rmdir()
        raise
    return group


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
    """A group that still has processes stays, and is removed with the abandoned ones of a later start."""
    with contextlib.suppress(OSError):
        group.rmdir()


def _remove_abandoned(parent: Path) -> None:
    """Those of a Ferrule that was killed, and our own whose processes took a moment to end."""
    for group in parent.glob(f"{_PREFIX}*"):
        owner = group.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            _remove(group)
