"""Which end of a change a file is at, and bringing it to the other."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from ferrule.core.errors import ErrorKind
from ferrule.core.files import UNFINISHED, take_place, unfinished_name
from ferrule.core.phrases import phrase
from ferrule.workspace.atomic import (
    drop_lock,
    drop_staged,
    put_staged,
    remove_file,
    set_attributes,
    stage_whole,
    sync,
    write_whole,
)
from ferrule.workspace.paths import Paths, Place
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Change, Node, Operation, Side, State
from ferrule.workspace.tracker import digest, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Iterable
    from pathlib import Path


# Links and folders at a path, looked at and put back; the last part of the path is never followed.


_LOOK = 0o500
_AT_A_TIME = 1 << 20
_NAMES = {Node.FILE: "a file", Node.LINK: "a link", Node.FOLDER: "a folder"}


class Nodes:
    """What stands at the paths of a workspace."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def look(self, path: Path) -> State | None:
        """What is there; files have no digest, and pipes and devices count as files."""
        try:
            with self.above(path) as (above, name):
                found = os.stat(name, dir_fd=above, follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    return State.link(os.readlink(name, dir_fd=above))
        except (FileNotFoundError, NotADirectoryError):
            return None
        mode = stat.S_IMODE(found.st_mode)
        return State.folder(mode) if stat.S_ISDIR(found.st_mode) else State("", mode)

    def is_at(self, path: Path, wanted: State) -> bool:
        """Whether the wanted link or folder is there; the contents of folders are not compared."""
        try:
            now = self.look(path)
        except (PathError, OSError):
            return False
        if now is None or now.node is not wanted.node:
            return False
        return now.node is Node.FOLDER or now.target == wanted.target

    def stands(self, path: Path) -> bool:
        """Whether anything is at this very path; what lies behind a link on the way is elsewhere."""
        root = next((one.path for one in self._paths.roots if one.path in path.parents), None)
        on_the_way = [one for one in path.parents if root is not None and root in one.parents]
        return not any(one.is_symlink() for one in on_the_way) and os.path.lexists(path)

    def describe(self, path: Path) -> str:
        """What is there, in words."""
        try:
            now = self.look(path)
        except (PathError, OSError):
            return "out of reach"
        if now is None:
            return "gone"
        return f"a link to `{now.target}`" if now.node is Node.LINK else _NAMES[now.node]

    def put(self, change: Change, wanted: State | None) -> bool:
        """Bring a path to one end of a change; True when all that is left is to write a file there."""
        if change.of_folders:
            try:
                with self.above(change.path, make=wanted is not None) as (above, name):
                    _put_folder(name, above, wanted)
            except (FileNotFoundError, NotADirectoryError):
                if wanted is not None:
                    raise
            return False  # gone, if only with the folder that it was in
        with self.above(change.path, make=wanted is not None) as (above, name):
            if wanted is None:
                os.unlink(name, dir_fd=above)
            elif wanted.node is Node.LINK:
                temporary = unfinished_name()
                os.symlink(wanted.target, temporary, dir_fd=above)
                try:
                    take_place(temporary, name, folder=above, durable=False)  # whatever file or link stands there
                except IsADirectoryError:
                    shown = self._paths.show(change.path)
                    raise PathError(
                        "folder", phrase("`{shown}` is a folder, and was left as it is.", shown=shown)
                    ) from None
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
                return  # missing, or a link now: the caller will find the same
            closing.callback(os.close, at)
            _open_up(at, closing)

    @contextmanager
    def above(self, path: Path, *, make: bool = False) -> Generator[tuple[int, str]]:
        """The folder that a path lies in, open, and its name in there; `make` makes the folder where it is missing."""
        if (root := next((one for one in self._paths.roots if one.path == path), None)) is not None:
            yield root.descriptor, "."
            return
        place = self._paths.locate(str(path.parent))
        if place.path != path.parent:
            raise PathError(
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
        with self.above(place.path, make=True) as (above, name):
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
            _chmod(above, wanted.mode)  # a root that is closed leads nowhere
        elif wanted.mode is not None:
            way = getattr(os, "O_PATH", os.O_RDONLY)  # changing a mode needs no right to read
            opened = os.open(name, way | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            try:
                _chmod(opened, wanted.mode)
            finally:
                os.close(opened)


def _chmod(opened: int, mode: int) -> None:
    """Through its descriptor, so that it is the very file that was found; chmod needs no right to read it."""
    os.chmod(f"/proc/self/fd/{opened}" if hasattr(os, "O_PATH") else opened, mode)  # noqa: PTH101


Staged: TypeAlias = dict["Path", tuple[Place, str]]
"""What lies beside a file to take its place, by the file's path."""


def _holds(file: BinaryIO, wanted: bytes) -> bool:
    """Whether an open file has this content, which is not read into memory a second time."""
    at = 0
    while piece := file.read(_AT_A_TIME):
        if not wanted.startswith(piece, at):
            return False
        at += len(piece)
    return at == len(wanted)


class FileStates:
    """The files of a workspace, looked at and put back. Contents above `largest` are not read."""

    def __init__(self, paths: Paths, largest: int) -> None:
        self._paths, self._largest = paths, largest
        self.nodes = Nodes(paths)

    def show(self, path: Path) -> str:
        """A path as it is shown to people and models."""
        return self._paths.show(path)

    # Looking

    def place(self, path: Path) -> Place:
        """A path from the journal; refused where it is not inside, or a link leads elsewhere now."""
        place = self._paths.locate(str(path))
        if place.path != path:
            raise PathError("changed", phrase("`{path}` is reached through a link now.", path=self._paths.show(path)))
        return place

    def _in_place(self, path: Path) -> Place:
        """The same where a link itself may stand at the path."""
        folder = self.place(path.parent)
        return Place(folder.root, path, self._paths.show(path))

    def read(
        self, place: Place, *, holds: bytes | None = None, named: str | None = None
    ) -> tuple[State | None, bytes | None]:
        """What is there, with its content; a file above the limit has no digest and no content.

        Where it holds what it is thought to hold, it has the digest `named` for that.
        """
        if self._paths.stat(place) is None:
            return None, None
        opened = self._paths.open_file(place)
        with os.fdopen(opened, "rb") as file:
            found = os.fstat(opened)
            mode = stat.S_IMODE(found.st_mode)
            if holds is not None and found.st_size <= self._largest and _holds(file, holds):
                return State(named or digest(holds), mode), holds
            file.seek(0)
            data = file.read(self._largest + 1) if found.st_size <= self._largest else None
        if data is None or len(data) > self._largest:
            return State("", mode), None
        return State(digest(data), mode), data

    def look(self, place: Place) -> State | None:
        """What is there, without its content."""
        found = self._paths.stat(place)
        if found is None:
            return None
        if not stat.S_ISREG(found.st_mode):
            os.close(self._paths.open_file(place))  # refuses, and says what it is
        return State("", stat.S_IMODE(found.st_mode))

    def got_there(self, change: Change) -> bool:
        """Whether a change that is too large to be kept was made after all."""
        try:
            place = self.place(change.path)
            if change.after is None or self.look(place) is None:
                return change.after is None and self.look(place) is None
            with os.fdopen(self._paths.open_file(place), "rb") as file:
                return digest_of(file) == change.after.digest
        except PathError:
            return False

    def missing_folders(self, place: Place) -> int:
        """How many folders have to be made for a file."""
        missing = 0
        for folder in place.path.parents:
            if folder == place.root.path or self._paths.exists(self._paths.beside(place, folder)):
                break
            missing += 1
        return missing

    def is_at(self, change: Change, side: Side) -> bool:
        """Whether every path of a change is as it was at one end of it."""
        states = change.at(side)
        with self.nodes.entered(states):
            return all(self._is(change, path, wanted) for path, wanted in states.items())

    def _is(self, change: Change, path: Path, wanted: State | None) -> bool:
        if change.of_folders:  # one can be made or removed where there is nothing, or a folder
            now = self.nodes.look(path) if self.nodes.stands(path) else None
            return now is None or now.node is Node.FOLDER
        if wanted is None:
            return not self.nodes.stands(path)
        if wanted.node is not Node.FILE:
            return self.nodes.is_at(path, wanted)
        try:
            place = self.place(path)
            if change.operation is Operation.MOVE:
                return self.look(place) is not None  # moving back loses nothing, whatever it holds by now
            if change.operation is Operation.MODE:
                now = self.look(place)
                return now is not None and now.mode == wanted.mode
            now, _ = self.read(place)
        except PathError:
            return False
        if now is None or not now.digest or now.digest != wanted.digest:
            return False
        return not change.mode_matters or now.mode == wanted.mode

    # Putting

    @contextmanager
    def staged(
        self, changes: Iterable[Change], content: Callable[[str], bytes], through_hard_links: Container[Path]
    ) -> Generator[Staged]:
        """Write what files shall hold beside each of them, for `put`; what is left there at the end goes."""
        beside: Staged = {}
        try:
            for one in changes:
                before, after = one.before, one.after
                if one.other is None and one.of_files and after and (before is None or before.digest != after.digest):
                    mode = after.mode if before is None or one.mode_matters else None
                    place, linked = self.place(one.path), before is None or one.path in through_hard_links
                    name = stage_whole(self._paths, place, content(after.digest), mode=mode, through_hard_links=linked)
                    beside[one.path] = place, name
            yield beside
        finally:
            for place, name in beside.values():
                drop_staged(self._paths, place, name)

    def put(
        self,
        change: Change,
        side: Side,
        content: Callable[[str], bytes | BinaryIO],
        *,
        through_hard_links: bool = True,
        staged: Staged | None = None,
    ) -> None:
        """Bring the files of a change from one end of it to the other; an open file is copied, and closed."""
        try:
            if staged and change.path in staged:
                put_staged(self._paths, *staged.pop(change.path))
            else:
                self._put(change, side, content, through_hard_links=through_hard_links)
        except OSError as error:
            why = (error.strerror or type(error).__name__).lower()
            raise PathError(
                "failed",
                phrase(
                    "`{place}` could not be changed: {why}. It is as it was before.",
                    place=self._paths.show(change.path),
                    why=why,
                ),
                kind=ErrorKind.PERMISSION if isinstance(error, PermissionError) else ErrorKind.EXECUTION,
            ) from None

    def _put(
        self, change: Change, side: Side, content: Callable[[str], bytes | BinaryIO], *, through_hard_links: bool
    ) -> None:
        if change.other is not None:
            there, here = (change.other, change.path) if side is Side.BEFORE else (change.path, change.other)
            self._rename(self.place(there), self.place(here))
            if side is Side.BEFORE:
                self._remove_folders(change, change.other)
            return
        wanted = change.at(side)[change.path]
        if not change.of_files and not self.nodes.put(change, wanted):
            return  # done; what is left is to write a file where something else stood
        place = self.place(change.path) if change.of_files else self._in_place(change.path)
        if wanted is None:
            remove_file(self._paths, place)
            self._remove_folders(change, change.path)
        elif change.operation is Operation.MODE or (
            change.of_files
            and change.mode_matters
            and (now := self.read(place)[0]) is not None
            and now.digest == wanted.digest != ""
        ):
            opened = self._paths.open(place, getattr(os, "O_PATH", os.O_RDONLY))
            try:
                if wanted.mode is not None and stat.S_ISREG(os.fstat(opened).st_mode):
                    _chmod(opened, wanted.mode)
            finally:
                os.close(opened)
        else:
            new = not change.of_files or not self._paths.exists(place)
            mode = wanted.mode if new or change.mode_matters else None
            data = content(wanted.digest)
            with nullcontext() if isinstance(data, bytes) else data:
                write_whole(
                    self._paths,
                    place,
                    data,
                    mode=mode,
                    through_hard_links=through_hard_links or new,
                    over_link=not change.of_files,
                    check=lambda: self.is_at(change, side.opposite),
                )
        if wanted is not None and wanted.attributes and change.other_attributes:
            with suppress(PermissionError), os.fdopen(self._paths.open_file(place), "rb") as file:
                set_attributes(file.fileno(), wanted.attributes)

    def finish(self, change: Change, side: Side, content: Callable[[str], bytes]) -> bool:
        """Put a file that a crash left at either end of a change at this one; False when it is at neither."""
        if self.is_at(change, side.opposite):
            self.put(change, side, content)
            return True
        if not self.is_at(change, side):
            return False
        if side is Side.BEFORE:
            self._remove_folders(change, change.other or change.path)
        return True

    def clear_unfinished(self, paths: Iterable[Path]) -> None:
        """Remove what killed writes left beside their files."""
        for path in {one.parent: one for one in paths}.values():
            with suppress(OSError, PathError), self._inside(self._in_place(path), path.parent) as folder:
                for name in filter(UNFINISHED.fullmatch, os.listdir(folder)):  # noqa: PTH208
                    drop_lock(name, folder)
                    os.unlink(name, dir_fd=folder)

    def _rename(self, place: Place, to: Place) -> None:
        with self._inside(place, place.path.parent) as source:
            for folder in reversed(to.path.parents[: self.missing_folders(to)]):
                with self._inside(to, folder.parent) as above:
                    os.mkdir(folder.name, dir_fd=above)
            with self._inside(to, to.path.parent) as target:
                try:
                    os.stat(to.path.name, dir_fd=target, follow_symlinks=False)
                except FileNotFoundError:
                    os.rename(place.path.name, to.path.name, src_dir_fd=source, dst_dir_fd=target)
                    sync(target)
                    sync(source)
                else:
                    raise PathError(
                        "exists", phrase("`{place}` was not moved: there is something at `{to}`.", place=place, to=to)
                    )

    @contextmanager
    def _inside(self, place: Place, folder: Path) -> Generator[int]:
        """A folder in the root of a place, open for the length of a block."""
        opened = self._paths.open(self._paths.beside(place, folder), os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield opened
        finally:
            os.close(opened)

    def _remove_folders(self, change: Change, path: Path) -> None:
        """Remove the folders that were made for a file, unless something else is in them by now."""
        if not change.made:
            return
        place = self._in_place(path)
        for folder in path.parents[: change.made]:
            try:
                with self._inside(place, folder.parent) as above:
                    os.rmdir(folder.name, dir_fd=above)
            except FileNotFoundError:
                continue
            except OSError:
                return
