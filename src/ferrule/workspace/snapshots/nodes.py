"""Links and folders at a path, looked at and put back; the last part of the path is never followed."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.atomic import sync, unfinished_name
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.changes import Node, State

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from ferrule.workspace.paths import Paths, Place
    from ferrule.workspace.snapshots.changes import Change

_LOOK = 0o500
_NAMES = {Node.FILE: "a file", Node.LINK: "a link", Node.FOLDER: "a folder"}


class Nodes:
    """What stands at the paths of a workspace."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def look(self, path: Path) -> State | None:
        """What stands there; a file without its digest, and a pipe or a device as one."""
        try:
            with self._above(path) as (above, name):
                found = os.stat(name, dir_fd=above, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    return State.link(os.readlink(name, dir_fd=above))
        except (FileNotFoundError, NotADirectoryError):
            return None
        mode = stat.S_IMODE(found.st_mode)
        return State.folder(mode) if stat.S_ISDIR(found.st_mode) else State("", mode)

    def is_at(self, path: Path, wanted: State) -> bool:
        """Whether a link or a folder stands there as it should; folders are not compared by what is in them."""
        try:
            now = self.look(path)
        except (PathProblem, OSError):
            return False
        if now is None or now.node is not wanted.node:
            return False
        return now.node is Node.FOLDER or now.target == wanted.target

    def allows_folder(self, path: Path) -> bool:
        """Whether a folder can be made or removed there: nothing, or a folder, stands there."""
        if not self.stands(path):
            return True
        now = self.look(path)
        return now is None or now.node is Node.FOLDER

    def stands(self, path: Path) -> bool:
        """Whether anything is at this very path; what lies behind a link on the way is elsewhere."""
        root = next((one.path for one in self._paths.roots if one.path in path.parents), None)
        on_the_way = [one for one in path.parents if root is not None and root in one.parents]
        return not any(one.is_symlink() for one in on_the_way) and os.path.lexists(path)

    def describe(self, path: Path) -> str:
        """What stands there, in words."""
        try:
            now = self.look(path)
        except (PathProblem, OSError):
            return "out of reach"
        if now is None:
            return "gone"
        return f"a link to `{now.target}`" if now.node is Node.LINK else _NAMES[now.node]

    def put(self, change: Change, wanted: State | None) -> bool:
        """Bring a path to one end of a change; True when all that is left is to write a file there."""
        with self._above(change.path, make=wanted is not None) as (above, name):
            if change.of_folders:
                _put_folder(name, above, wanted)
                return False
            if wanted is None:
                os.unlink(name, dir_fd=above)
            elif wanted.node is Node.LINK:
                _put_link(self._paths.show(change.path), name, above, wanted.target)
            else:
                return True
            sync(above)
        return False

    @contextmanager
    def entered(self, paths: Iterable[Path]) -> Generator[None]:
        """Let folders on the way to paths be looked into for the length of a block though their owner, who is not root,
        may not: a command can close a folder behind it. They have the mode that they had again afterwards.
        """
        with ExitStack() as closing:
            if hasattr(os, "O_PATH") and os.geteuid() != 0:
                for path in paths:
                    self._enter(path, closing)
            yield

    def _enter(self, path: Path, closing: ExitStack) -> None:
        root = next((one for one in self._paths.roots if one.path in path.parents), None)
        if root is None or os.access(path.parent, os.R_OK | os.X_OK):
            return
        at = root.descriptor
        _open_up(at, closing)
        for name in path.parent.relative_to(root.path).parts:
            try:
                at = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            except OSError:
                return  # not there, or a link now: whoever looks finds that too
            closing.callback(os.close, at)
            _open_up(at, closing)

    @contextmanager
    def _above(self, path: Path, *, make: bool = False) -> Generator[tuple[int, str]]:
        """The folder that a path lies in, open, and its name in there; `make` makes the folder where it is missing."""
        if (root := next((one for one in self._paths.roots if one.path == path), None)) is not None:
            yield root.descriptor, "."
            return
        place = self._paths.locate(str(path.parent))
        if place.path != path.parent:
            raise PathProblem(
                "changed", phrase("`{path}` is reached through a link now.", path=self._paths.show(path.parent))
            )
        opened = self._open(place, make=make)
        try:
            yield opened, path.name
        finally:
            os.close(opened)

    def _open(self, place: Place, *, make: bool) -> int:
        try:
            return self._paths.open(place, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if not make:
                raise
        with self._above(place.path, make=True) as (above, name):
            os.mkdir(name, dir_fd=above)
        return self._paths.open(place, os.O_RDONLY | os.O_DIRECTORY)


def _open_up(folder: int, closing: ExitStack) -> None:
    state = os.fstat(folder)
    mode = stat.S_IMODE(state.st_mode)
    if state.st_uid == os.geteuid() and mode & _LOOK != _LOOK:
        place = f"/proc/self/fd/{folder}"
        os.chmod(place, mode | _LOOK)  # noqa: PTH101
        closing.callback(os.chmod, place, mode)


def _put_folder(name: str, above: int, wanted: State | None) -> None:
    if wanted is None:
        try:
            os.rmdir(name, dir_fd=above)
        except OSError:
            return  # gone already, or something else is in it by now: it stays
    else:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)
        if wanted.mode is not None and name == "." and hasattr(os, "O_PATH"):
            os.chmod(f"/proc/self/fd/{above}", wanted.mode)  # noqa: PTH101 - a root that is closed leads nowhere
        elif wanted.mode is not None:
            way = getattr(os, "O_PATH", os.O_RDONLY)  # changing a mode needs no right to read
            opened = os.open(name, way | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            try:
                os.chmod(f"/proc/self/fd/{opened}" if hasattr(os, "O_PATH") else opened, wanted.mode)  # noqa: PTH101
            finally:
                os.close(opened)


def _put_link(shown: str, name: str, above: int, target: str) -> None:
    """Make a link in one step, whatever file or link it takes the place of."""
    temporary = unfinished_name()
    os.symlink(target, temporary, dir_fd=above)
    try:
        os.rename(temporary, name, src_dir_fd=above, dst_dir_fd=above)
    except BaseException as error:
        os.unlink(temporary, dir_fd=above)
        if isinstance(error, IsADirectoryError):
            raise PathProblem("folder", phrase("`{shown}` is a folder, and was left as it is.", shown=shown)) from None
        raise
