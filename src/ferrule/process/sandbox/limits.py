"""Limits on processes, memory and files: control groups where this user can make them, and what the launcher sets on
a box before it becomes the command.

Inside a user namespace the kernel counts the processes of the sandbox alone and not all of the user's. It does not
count those of root at all: for root a control group holds the number.

A control group belongs to the process that holds the lock on its folder. The lock is on the group itself, so it is
seen from every namespace that sees the group, and the kernel releases it when its owner ends: no number of a process
has to be trusted, and what is locked is left alone.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import resource
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ferrule.core.files import start_of
from ferrule.core.sizes import size_words
from ferrule.process.owned_folders import OwnedFolder
from ferrule.process.profile import Bounds
from ferrule.process.sandbox.denials import Denial, memory_denial, processes_denial

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from ferrule.process.profile import Profile

logger = logging.getLogger("ferrule.process")

_ROOT = Path("/sys/fs/cgroup")
_PREFIX = "ferrule-box-"
Controller = Literal["pids", "memory"]
# Of the new hierarchy, then of the old one, which has files of its own for memory.
_BOUNDS_OF: dict[Controller, tuple[str, ...]] = {
    "pids": ("pids.max",),
    "memory": ("memory.max", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
}
_EVENTS: dict[Controller, tuple[tuple[str, bytes], ...]] = {
    "pids": (("pids.events", b"max "),),
    "memory": (("memory.events", b"oom_kill "), ("memory.oom_control", b"oom_kill ")),
}
_NO_SWAP = "memory.swap.max"
_MOST_IDLE, _MOST_READ = 4, 1 << 20
_LEAST_MEMORY = 2 << 30


@dataclass(slots=True)
class BoxGroup:
    """The control groups of one box: one, or one for each controller where those have hierarchies of their own."""

    folders: dict[Controller, OwnedFolder] = field(default_factory=dict["Controller", OwnedFolder])
    before: dict[Controller, int] = field(default_factory=dict["Controller", int])
    """How often each limit was met by the boxes that had the group before."""

    @property
    def joins(self) -> tuple[str, ...]:
        """The files to write `0` to, which joins the writer to the group."""
        paths = dict.fromkeys(folder.path for folder in self.folders.values())
        return tuple(str(path / _joined_by(str(path.parent))) for path in paths)

    def met(self, controller: Controller) -> bool:
        """Whether its limit kept the box from something."""
        folder = self.folders.get(controller)
        return folder is not None and _met(controller, folder.path) > self.before.get(controller, 0)

    def denials(self, profile: Profile) -> tuple[Denial, ...]:
        """Which limits ended something, or kept it from starting, as the kernel counted."""
        found: list[Denial] = []
        if (memory := memory_of(profile.bounds)) is not None and self.met("memory"):
            found.append(memory_denial(profile, f"was ended: it used more than {size_words(memory)} of memory"))
        if profile.bounds.processes is not None and self.met("pids"):
            found.append(processes_denial(profile))
        return tuple(found)


# Idle groups: the kernel takes longer to remove and make one than to start a command in it.
_idle: dict[tuple[int | None, int | None], list[BoxGroup]] = {}


_kept_out: set[int] = set()
"""Users who may make groups, but not move processes to them."""


def memory_of(bounds: Bounds) -> int | None:
    """What all processes of a box may use together."""
    return bounds.memory if bounds.total_memory is None else bounds.total_memory


def limits_of(
    profile: Profile, *, processes: bool, beside: int = 0, group: BoxGroup | None = None
) -> tuple[tuple[int, int], ...]:
    """Which, and how much. The number of processes only where it is counted for the box, or `beside` what else runs.
    Memory that no group counts together is bounded for each process.
    """
    bounds = profile.bounds
    file_size = bounds.file_size
    if profile.layers:
        file_size = bounds.layer if file_size is None else min(file_size, bounds.layer)
    memory = bounds.memory
    if memory is None and (group is None or "memory" not in group.folders):
        memory = bounds.total_memory
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: bounds.open_files,
        resource.RLIMIT_FSIZE: file_size,
        resource.RLIMIT_DATA: memory,
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
def control_group(bounds: Bounds) -> Generator[BoxGroup]:
    """The control groups for one box, with its bounds; without any folder where no group can be made."""
    key = (bounds.processes, memory_of(bounds))
    group = _taken(key)
    try:
        yield group
    finally:
        if group.folders:
            # Keep it for the next box with these bounds; the last process of this one may still be leaving it.
            idle = _idle.setdefault(key, [])
            if len(idle) < _MOST_IDLE:
                idle.append(group)
            else:
                _close(group)


def can_group() -> Mapping[Controller, Path]:
    """Where groups of ours can be made for each controller; tried once by making some."""
    user = os.geteuid()
    return {} if user in _kept_out else _tried(user)


def could_not_join(joins: Sequence[str]) -> None:
    """Make no more groups where those that there are cannot be joined; one that was removed is made anew."""
    if all(map(os.path.exists, joins)):
        logger.warning("Processes cannot be moved to control groups here; limits are those of each process.")
        _kept_out.add(os.geteuid())


@lru_cache(maxsize=2)
def _tried(user: int) -> Mapping[Controller, Path]:
    found: dict[Controller, Path] = {}
    for controller, parent in _parents().items():
        try:
            _close(_made({controller: parent}, 64, 64 << 20))
        except OSError as error:
            logger.info("User %d cannot make control groups for %s: %s", user, controller, error)
        else:
            found[controller] = parent
    return found


def _taken(key: tuple[int | None, int | None]) -> BoxGroup:
    """An idle group with these bounds that is still there, or a new one."""
    parents = can_group()
    idle = _idle.get(key, []) if parents else []
    while True:
        try:
            group = idle.pop()
        except IndexError:
            try:
                group = _made(parents, *key)
            except OSError as error:
                logger.warning("A box has no control group: %s", error)
                group = BoxGroup()
            break
        if all(folder.is_there() for folder in group.folders.values()):
            break
        _close(group)
    group.before = {one: _met(one, folder.path) for one, folder in group.folders.items()}
    return group


def _made(parents: Mapping[Controller, Path], processes: int | None, memory: int | None) -> BoxGroup:
    wanted: dict[Controller, int | None] = {"pids": processes, "memory": memory}
    group, made = BoxGroup(), dict[Path, OwnedFolder]()
    try:
        for controller, parent in parents.items():
            if (bound := wanted[controller]) is None:
                continue
            if parent not in made:
                made[parent] = OwnedFolder(parent, prefix=_PREFIX)
            folder = group.folders[controller] = made[parent]
            files = [file for name in _BOUNDS_OF[controller] if (file := folder.path / name).exists()]
            if not files:
                raise FileNotFoundError(f"{folder.path} has no {_BOUNDS_OF[controller][0]}")
            for file in files:
                _write(file, bound)
            if controller == "memory" and (folder.path / _NO_SWAP).exists():
                _write(folder.path / _NO_SWAP, 0)
    except OSError:
        _close(group)
        raise
    return group


def _close(group: BoxGroup) -> None:
    """Remove it. Where the last process is still leaving it, the next group that is made removes it."""
    for folder in group.folders.values():
        folder.close()


def _remove_idle() -> None:
    for groups in _idle.values():
        while groups:
            _close(groups.pop())


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


def _met(controller: Controller, folder: Path) -> int:
    """How often the limit of a group was met."""
    for name, word in _EVENTS[controller]:
        with contextlib.suppress(OSError), open(f"{folder}/{name}", "rb", 0) as file:  # noqa: PTH123 - at every start
            found = (line.removeprefix(word) for line in file.read().splitlines() if line.startswith(word))
            return int(next(found, 0))
    return 0


# Where groups can be made


def _parents() -> dict[Controller, Path]:
    """The folder that groups with each controller may be made in. In an old hierarchy it is our own group; in the new
    one the nearest above it that passes the controller on, as only its top may have both processes and groups.
    """
    found: dict[Controller, Path] = {}
    for controller, own, top in _own_groups():
        is_new = (top / "cgroup.controllers").exists()
        above = [one for one in own.parents if one.is_relative_to(top)] if is_new and own != top else [own]
        for folder in above:
            passes_on = not is_new or controller in _text(folder / "cgroup.subtree_control").split()
            if passes_on and all(os.access(path, os.W_OK) for path in (folder, folder / "cgroup.procs")):
                found.setdefault(controller, folder)
                break
    return found


def _own_groups() -> Iterator[tuple[Controller, Path, Path]]:
    """The group that this process is in for each controller, and the top of its hierarchy; the new one last."""
    lines = [line.split(":", 2) for line in _text(Path("/proc/self/cgroup")).splitlines()]
    new = _ROOT if (_ROOT / "cgroup.controllers").exists() else _ROOT / "unified"
    for _, controllers, path in sorted(lines, key=lambda line: not line[1]):
        for controller in _BOUNDS_OF:
            if not controllers or controller in controllers.split(","):
                top = _ROOT / controller if controllers else new
                folder = top / path.lstrip("/")
                yield controller, folder if folder.is_dir() else top, top


def _text(file: Path) -> str:
    return start_of(str(file), _MOST_READ).decode(errors="surrogateescape")


# What is a sensible limit on this machine


@lru_cache(maxsize=1)
def default_bounds() -> Bounds:
    """For a command: half of the memory, and processes for builds that use every processor."""
    memory = machine_memory()
    return Bounds(processes=512 + 64 * (os.cpu_count() or 1), total_memory=max(memory // 2, min(memory, _LEAST_MEMORY)))


def machine_memory() -> int:
    """Of the machine, or of the container that this process is in."""
    least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for controller, own, _top in _own_groups():
        if controller == "memory":
            for folder in (own, *own.parents):
                for name in ("memory.max", "memory.limit_in_bytes"):
                    if (limit := _text(folder / name).strip()).isdigit() and int(limit):
                        least = min(least, int(limit))
    return least


atexit.register(_remove_idle)
os.register_at_fork(after_in_child=_idle.clear)
