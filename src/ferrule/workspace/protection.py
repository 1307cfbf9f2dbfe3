"""Which walls keep file tools inside the workspace on this machine: each is tried, not asked for."""

from __future__ import annotations

import os
import tempfile
import threading
from enum import Enum
from pathlib import Path

from ferrule.process.landlock import Confinement, confine_thread
from ferrule.workspace.confined import LeadsOut, kernel_confines, open_beneath


class PathWall(Enum):
    """What stops a path from leading out."""

    KERNEL = "openat2"
    WALK = "walk"
    NONE = "none"


def path_wall() -> PathWall:
    """Try to leave a folder through a link; what stops it is what stops every file tool."""
    with tempfile.TemporaryDirectory() as name:
        inside, outside = Path(name, "inside"), Path(name, "outside")
        inside.mkdir()
        outside.touch()
        (inside / "file").touch()
        (inside / "link").symlink_to("../outside")
        (inside / "inner").symlink_to("file")
        folder = os.open(inside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.close(open_beneath(folder, "inner", os.O_RDONLY))
            os.close(open_beneath(folder, "link", os.O_RDONLY))
        except LeadsOut:
            return PathWall.KERNEL if kernel_confines() else PathWall.WALK
        finally:
            os.close(folder)
    return PathWall.NONE


def search_wall() -> bool:
    """Whether the kernel (Landlock) keeps a search to its folder: a thread is bound to one, and tries to leave it."""
    stopped: list[bool] = []
    with tempfile.TemporaryDirectory() as name:
        inside, outside = Path(name, "inside"), Path(name, "outside")
        inside.mkdir()
        outside.touch()
        (inside / "file").touch()
        folder = os.open(inside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

        def leave() -> None:
            bound = confine_thread(Confinement((), (folder,)))
            stopped.append(bound and _opens(inside / "file") and not _opens(outside))

        try:
            thread = threading.Thread(target=leave, name="ferrule-landlock-trial")  # the rules bind it for good
            thread.start()
            thread.join()
        finally:
            os.close(folder)
    return stopped == [True]


def _opens(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    return True
