"""A workspace with a history, and what a tree of files is."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ferrule.workspace.atomic import writing
from ferrule.workspace.paths import Paths, Place
from ferrule.workspace.snapshots.changes import Caps, Delete, Move, Origin, SetMode, Write
from ferrule.workspace.snapshots.history import ChangedMeanwhileError, History
from ferrule.workspace.snapshots.shell_changes import RecordedChanges
from ferrule.workspace.tracker import digest

MEMORY = Path("/dev/shm")
"""Where fsync costs nothing, for tests that make thousands of changes."""


class Room:
    def __init__(self, folder: Path, caps: Caps | None = None) -> None:
        self.tree, self.store = folder / "tree", folder / "store"
        self.tree.mkdir(exist_ok=True)
        self.paths = Paths([self.tree])
        self.caps = caps
        self.history = History(self.store, self.paths, caps)

    def __del__(self) -> None:
        if hasattr(self, "history"):
            self.history.close()

    def again(self) -> None:
        """Open the store anew, as the next start of the program does."""
        self.history.close()
        self.history = History(self.store, self.paths, self.caps)

    def place(self, name: str) -> Place:
        return self.paths.locate(name)

    def write(self, name: str, data: bytes, origin: Origin | None = None) -> int:
        group = self.history.apply([Write(self.place(name), data)], origin)
        return group.number if group else 0

    def edit(self, name: str, change: Callable[[bytes], bytes]) -> None:
        """Change a file by what it holds at that moment, again if another process was quicker."""
        place = self.place(name)
        with writing(place.path):
            while True:
                now = self.paths.read(place)
                with suppress(ChangedMeanwhileError):
                    self.history.apply([Write(place, change(now), expect=digest(now), holds=now)])
                    return

    def delete(self, name: str) -> None:
        self.history.apply([Delete(self.place(name))])

    def move(self, name: str, to: str) -> None:
        self.history.apply([Move(self.place(name), self.place(to))])

    def set_mode(self, name: str, mode: int) -> None:
        self.history.apply([SetMode(self.place(name), mode)])

    def batch(self, **files: bytes) -> None:
        self.history.apply([Write(self.place(name), data) for name, data in files.items()])

    def read(self, name: str) -> bytes:
        return (self.tree / name).read_bytes()

    def exists(self, name: str) -> bool:
        return (self.tree / name).exists()

    def look(self) -> dict[str, tuple[int, bytes] | None]:
        """Every file with its mode and bytes, and every folder."""
        found: dict[str, tuple[int, bytes] | None] = {}
        for folder, folders, files in os.walk(self.tree):
            for name in folders:
                found[os.path.relpath(f"{folder}/{name}", self.tree)] = None
            for name in files:
                path = Path(folder) / name
                found[str(path.relative_to(self.tree))] = (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        return found

    def disk(self) -> int:
        """The bytes that the store takes on the disk."""
        return sum(path.stat().st_blocks * 512 for path in self.store.rglob("*") if path.is_file())


BASH = shutil.which("bash") or "/bin/bash"


class Shop:
    """A workspace in which a real bash runs scripts."""

    def __init__(self, folder: Path, caps: Caps | None = None) -> None:
        self.room = Room(folder, caps)
        self.tree = self.room.tree
        self.changes = self.room.history.shell_changes

    def again(self) -> None:
        """As the next start of the program does."""
        self.room.again()
        self.changes = self.room.history.shell_changes

    def run(self, script: str, call: str = "1") -> RecordedChanges:
        origin = Origin(call=call, tool="Bash")
        self.changes.begin(origin)
        self.bash(script)
        return self.changes.end(origin)

    def bash(self, script: str) -> None:
        subprocess.run([BASH, "-c", script], cwd=self.tree, check=False, capture_output=True, stdin=subprocess.DEVNULL)

    def look(self) -> dict[str, Any]:
        """Every file, link and folder with its mode."""
        found: dict[str, Any] = {}
        for folder, folders, files in os.walk(self.tree):
            for name in (*folders, *files):
                path = Path(folder) / name
                state = path.lstat()
                key = os.path.relpath(path, self.tree)
                if stat.S_ISLNK(state.st_mode):
                    found[key] = ("link", str(path.readlink()))
                elif stat.S_ISDIR(state.st_mode):
                    found[key] = ("folder", stat.S_IMODE(state.st_mode))
                else:
                    found[key] = ("file", stat.S_IMODE(state.st_mode), path.read_bytes())
        return found
