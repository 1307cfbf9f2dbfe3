"""The layers of one session: a fresh one for each command, and one that stays for build output and caches.

What git ignores never reaches the workspace on its own: a planted `node_modules/.bin` would be run outside later. It
stays in the session's layer, which lies between the workspace and the layer of every later command, so that a second
build finds what the first one left. Where the workspace itself has changed since, the workspace counts.
"""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ferrule.process.owned_folders import OwnedFolder, memory_folder, remove_tree
from ferrule.workspace.data_folder import data_folder
from ferrule.workspace.layers.reading import Layer, LayerChanges, folders_of, is_whiteout, look_at, mark_of, read_layers
from ferrule.workspace.snapshots.changes import Node

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from ferrule.workspace.paths import Paths
    from ferrule.workspace.snapshots.tree_store import Seen

IgnoredFiles = Literal["session", "drop", "keep", "ask"]
"""What becomes of files that git ignores: they stay with the session, or are dropped, or are applied without a
question, or are asked about like all others."""
MOST_KEPT = 2 << 30


class SessionLayer:
    """Safe in any thread. `close` removes it all; what a killed process left is removed by the next one."""

    def __init__(self, paths: Paths, folder: Path, *, ignored: IgnoredFiles = "session", most: int = MOST_KEPT) -> None:
        """`folder` holds the layers of all sessions; see `layers_folder`."""
        self.ignored = ignored
        self._paths, self._most = paths, most
        self._lock = threading.Lock()
        self._owned = OwnedFolder(folder)
        self._folder = self._owned.path
        # In memory where that can be: a folder for each of thousands takes long to make and to remove on a disk.
        self._masks = OwnedFolder(memory_folder() or self._folder, prefix="ferrule-masks-")
        self.masks = self._masks.path
        """For layers that cover hidden files."""
        self._kept = [_Kept(root.path, self._folder / "session" / str(at)) for at, root in enumerate(paths.roots)]
        self._running: set[Path] = set()
        self._waiting: list[LayerChanges] = []
        self._size = 0
        self._commands = 0

    def begin(self) -> tuple[Layer, ...]:
        """Fresh layers for one command, one for each root of the workspace."""
        with self._lock:
            self._commands += 1
            base = self._folder / str(self._commands)
            if not self._running:
                for kept in self._kept:
                    kept.follow_workspace()
            self._running.add(base)
            return tuple(self._begun(kept, base / str(at)) for at, kept in enumerate(self._kept))

    def read(self, layers: Sequence[Layer]) -> LayerChanges:
        """What a command did in its layers, once it is over."""
        return read_layers(self._paths, layers, ignore=self.ignored != "ask")

    def end(self, layers: Sequence[Layer], keep: LayerChanges | None = None) -> str:
        """Remove the layers of a command. Of `keep` the ignored files stay for the later commands of the session; gives
        a sentence where they could not.

        They belong to the command as a whole: a command whose changes are not wanted leaves nothing.
        """
        with self._lock:
            bases = {layer.upper.parents[1] for layer in layers}
            self._running -= bases
            if keep is not None and self.ignored == "session":
                self._waiting.append(keep)
                bases -= {layer.upper.parents[1] for layer in keep.layers}
            for base in bases:
                remove_tree(base)
            # What other commands look at must not change below them.
            return "" if self._running else self._take_up()

    def close(self) -> None:
        """Remove everything, and let go of the folder."""
        with self._lock:
            self._masks.close()
            self._owned.close()
            leave_no_fallback()

    def _begun(self, kept: _Kept, folder: Path) -> Layer:
        layer = Layer(kept.root, folder / "upper", (kept.folder,) if kept else ())
        layer.upper.mkdir(parents=True)
        layer.work.mkdir()
        _look_like(layer.upper, kept.root)
        return Layer(layer.root, layer.upper, layer.below, layer.upper.stat().st_ctime_ns)

    def _take_up(self) -> str:
        note = ""
        for changes in self._waiting:
            self._size += sum(one.after.size for one in changes.ignored if one.after and one.after.node is Node.FILE)
            for layer in changes.layers:
                kept = next(one for one in self._kept if one.root == layer.root)
                kept.take_up(layer, changes)
                remove_tree(layer.upper.parents[1])
            if self._size > self._most:
                self._size = sum(kept.size() for kept in self._kept)
            if self._size > self._most:
                note = f"Files that git ignores took more than {self._most:,} bytes, and were dropped."
                for kept in self._kept:
                    kept.clear()
                self._size = 0
        self._waiting.clear()
        return note


class _Kept:
    """The ignored files of a session above one root, in the form of a layer."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self._over: dict[str, Seen | None] = {}
        """What the workspace had at the paths that are covered here; of what is new as a whole, its top alone."""
        self._made: set[str] = set()
        """Folders that are here for what is in them, and look like those of the workspace."""

    def __bool__(self) -> bool:
        return bool(self._over)

    def size(self) -> int:
        found = 0
        for folder, _, names in os.walk(self.folder):
            found += sum(os.lstat(f"{folder}/{name}").st_size for name in names)
        return found

    def clear(self) -> None:
        self._over.clear()
        self._made.clear()
        if self.folder.exists():
            remove_tree(self.folder)

    def follow_workspace(self) -> None:
        """Uncover what the workspace has changed since, and drop what was in a folder that it has no more."""
        for inner in sorted(self._made):
            below = look_at(self.root, inner)
            if below is not None and below.node is Node.FOLDER:
                _look_like(self.folder / inner, self.root / inner)
            elif inner not in self._over and not any(folder in self._over for folder in folders_of(inner)):
                self._remove(inner)  # it was only here for what is in it
        for inner, was in list(self._over.items()):
            if look_at(self.root, inner) != was:
                self._remove(inner)

    def take_up(self, layer: Layer, changes: LayerChanges) -> None:
        """Lay the ignored part of a command's layer over what is here. Files are moved, not copied."""
        ignored = {one.inner: one for one in changes.ignored if one.layer == layer}
        if not ignored and not self._over:
            return
        changed = {one.inner for one in changes.changes if one.layer == layer}
        mixed = {folder for inner in changed for folder in folders_of(inner)}
        waiting = [""]
        while waiting:
            inner = waiting.pop()
            with os.scandir(layer.upper / inner) as listed:
                entries = list(listed)
            for entry in entries:
                path = f"{inner}/{entry.name}" if inner else entry.name
                found = entry.stat(follow_symlinks=False)
                if path in changed and not stat.S_ISDIR(found.st_mode):
                    continue
                if is_whiteout(layer, path, found):
                    self._hide(layer, path)
                elif not stat.S_ISDIR(found.st_mode):
                    if path in ignored:
                        self._move(layer, path, ignored[path].before, special=bool(ignored[path].special))
                elif path not in mixed and self._is_whole(layer, path, new=path in ignored):
                    self._drop_special(layer, path)
                    self._move(layer, path, ignored[path].before if path in ignored else look_at(self.root, path))
                else:
                    waiting.append(path)
                    if mark_of(layer, path, "opaque") == b"y":
                        # A command replaced a folder of which only a part is ignored: only what it put there stays.
                        names = set(os.listdir(layer.upper / path))  # noqa: PTH208
                        with suppress(OSError):
                            for name in set(os.listdir(self.folder / path)) - names:  # noqa: PTH208
                                self._remove(f"{path}/{name}")
                    # Whether a folder that the workspace has is not to be seen through what is here.
                    covered = any(folder in self._over for folder in folders_of(path))
                    hides = covered and look_at(self.folder, path) is None
                    if (path in ignored or hides) and self._make_folders(layer, f"{path}/."):
                        _look_like(self.folder / path, layer.upper / path)
                        self._made.discard(path)
                        if path in ignored:
                            self._over.setdefault(path, ignored[path].before)
        for one in ignored.values():
            if one.after is None and not any(one.inner.startswith(f"{over}/") for over in self._over):
                self._hide(layer, one.inner)

    def _is_whole(self, layer: Layer, inner: str, *, new: bool) -> bool:
        """Whether a folder of a command's layer takes the place of all that is below it."""
        if mark_of(layer, inner, "opaque") == b"y":
            return True
        here = look_at(self.folder, inner)
        return new if here is None else here.node is not Node.FOLDER

    def _move(self, layer: Layer, inner: str, before: Seen | None, *, special: bool = False) -> None:
        if special or not self._make_folders(layer, inner):
            return
        source, target = layer.upper / inner, self.folder / inner
        hidden = look_at(self.folder, inner) is not None
        self._remove(inner)
        mode = source.lstat().st_mode
        with _writable(source.parent, target.parent):
            if not stat.S_ISDIR(mode):
                source.rename(target)
            else:
                source.chmod(0o700)  # the kernel wants to write to a folder that moves
                source.rename(target)
                if hidden:  # what stood here hid the same folder of the workspace, and so must this
                    os.setxattr(target, f"{layer.marks}opaque", b"y")
                target.chmod(stat.S_IMODE(mode))
        self._over[inner] = before

    def _hide(self, layer: Layer, inner: str) -> None:
        """Something was removed: take it away here, and cover it where the workspace has it."""
        self._remove(inner)
        below = look_at(self.root, inner)
        if below is not None and self._make_folders(layer, inner):
            with _writable((self.folder / inner).parent):
                os.mknod(self.folder / inner, stat.S_IFCHR, 0)
            self._over[inner] = below

    def _drop_special(self, layer: Layer, inner: str) -> None:
        """Pipes and sockets are of no use to a later command."""
        for folder, _, names in os.walk(layer.upper / inner):
            for name in names:
                path = f"{folder}/{name}"
                mode = os.lstat(path).st_mode
                if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
                    with _writable(Path(folder)):
                        os.unlink(path)  # noqa: PTH108

    def _make_folders(self, layer: Layer, inner: str) -> bool:
        """The folders above a path, as they look where they come from; False where one of them is hidden here."""
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        _look_like(folder, self.root)
        for part in reversed(list(folders_of(inner))):
            folder = self.folder / part
            try:
                with _writable(folder.parent):
                    folder.mkdir()
            except FileExistsError:
                if not stat.S_ISDIR(folder.lstat().st_mode):
                    return False
                continue
            there = self.root / part
            known = there.is_dir() and not there.is_symlink()
            _look_like(folder, there if known else layer.upper / part)
            if known:
                self._made.add(part)
        return True

    def _remove(self, inner: str) -> None:
        _remove(self.folder / inner)
        for one in [one for one in self._over if one == inner or one.startswith(f"{inner}/")]:
            del self._over[one]
        self._made -= {one for one in self._made if one == inner or one.startswith(f"{inner}/")}


def layers_folder(paths: Paths) -> Path | None:
    """Where layers can lie: never in the workspace that they are above. None where there is no such place."""
    for folder in (data_folder() / "layers", _fallback()):
        real = Path(os.path.realpath(folder))
        if any(root.path == real or root.path in real.parents or real in root.path.parents for root in paths.roots):
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            found = folder.lstat()
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
            return real
    return None


def _fallback() -> Path:
    return Path(tempfile.gettempdir()) / f"ferrule-layers-{os.geteuid()}"


def leave_no_fallback() -> None:
    """Remove what was made among the temporary files of the system, once no layer is left there."""
    with suppress(OSError):
        _fallback().rmdir()


def _remove(path: Path) -> None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    with _writable(path.parent):
        if stat.S_ISDIR(found.st_mode):
            remove_tree(path)
        else:
            path.unlink()


@contextmanager
def _writable(*folders: Path) -> Generator[None]:
    """Change what is in folders that are ours, whatever mode a command gave them."""
    closed: list[tuple[Path, int]] = []
    for folder in folders:
        mode = stat.S_IMODE(folder.lstat().st_mode)
        if mode & 0o700 != 0o700:
            closed.append((folder, mode))
            folder.chmod(mode | 0o700)
    try:
        yield
    finally:
        for folder, mode in closed:
            folder.chmod(mode)


def _look_like(folder: Path, other: Path) -> None:
    """Give a folder the mode and, as far as we may, the owner of another."""
    found = other.stat()
    if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.chown(folder, found.st_uid, found.st_gid)
    folder.chmod(stat.S_IMODE(found.st_mode))
