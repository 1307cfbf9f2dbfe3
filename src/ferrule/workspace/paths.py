"""One resolver for every file tool: what a path means, and whether it stays inside."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from ferrule.core.errors import ErrorKind
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.nearest import nearest
from ferrule.core.phrases import advice, joined, phrase
from ferrule.workspace.confined import LeadsOut, open_beneath
from ferrule.workspace.names import (
    check_new_names,
    check_text,
    escaped,
    look_alikes,
    one_line,
    same_letters,
    slips,
    unicode_form,
)
from ferrule.workspace.problems import PathError, failed, only_read, outside, workspace_gone
from ferrule.workspace.restrictions import KeptBack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.core.access import Restrictions


# What is at a place: some tools need a folder, and none may open a pipe or a device.


_SPECIAL = {
    stat.S_IFIFO: phrase("a pipe"),
    stat.S_IFSOCK: phrase("a socket"),
    stat.S_IFCHR: phrase("a device"),
    stat.S_IFBLK: phrase("a device"),
}


def require_regular(place: Place, found: os.stat_result) -> None:
    """Refuse what is not a regular file."""
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISDIR(found.st_mode):
        raise PathError(
            "directory",
            phrase("`{place}` is a directory, not a file.", place=place),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("List it instead."),
        )
    raise _special(place, found.st_mode, phrase("Give a regular file."))


def require_folder(paths: Paths, place: Place, suggestion: str) -> None:
    """Refuse what is not a folder."""
    found = paths.stat(place)
    if found is not None and stat.S_ISDIR(found.st_mode):
        return
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise _special(place, found.st_mode, phrase("Give a folder."))
    raise PathError(
        "file",
        phrase("`{place}` is a file, not a folder.", place=place),
        kind=ErrorKind.VALIDATION,
        suggestion=suggestion,
    )


def require_file_or_folder(paths: Paths, place: Place) -> None:
    """Refuse pipes, sockets and devices, which would never end."""
    found = paths.stat(place)
    if found is not None and not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise _special(place, found.st_mode, phrase("Give a regular file or a folder."))


def _special(place: Place, mode: int, suggestion: str) -> PathError:
    kind = _SPECIAL.get(stat.S_IFMT(mode), phrase("not a regular file"))
    return PathError(
        "special",
        phrase("`{place}` is {kind}, and is not opened.", place=place, kind=kind),
        kind=ErrorKind.VALIDATION,
        suggestion=suggestion,
    )


# Where other file systems are mounted inside a folder: a path that leads into one is not followed.


_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = lazy_pattern(rb"\\([0-7]{3})")


def mount_between(root: Path, path: Path) -> Path | None:
    """The first mount point on the way from a folder down to a path, or None."""
    way = [folder for folder in (path, *path.parents) if root in folder.parents][::-1]
    try:
        lines = _MOUNTS.read_bytes().splitlines()
    except OSError:
        lines = []
    # As Linux lists them, including bind mounts, which have no device of their own.
    escaped = (line.split(b" ")[4] for line in lines)
    points = {Path(os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), one))) for one in escaped}
    return next((folder for folder in way if folder in points or (not points and folder.is_mount())), None)


# Nothing is at a path: what is near, so that the next try succeeds.


def nothing_at(paths: Paths, given: str, place: Place) -> PathError:
    """The problem of a path where nothing is, with the names that may be meant."""
    if "\\" in given:
        with suppress(PathError):  # a path as another system writes it, if there is something
            other = paths.from_here(paths.find(given.replace("\\", "/")).path)
            return _missing(
                phrase("There is no file at `{given}`.", given=one_line(given)),
                phrase("Did you mean `{other}`?", other=other),
                [other],
            )
    folder = paths.beside(place, place.path.parent)
    if not _is_folder(paths, folder):
        return _no_folder(paths, given, folder)
    names = paths.names_in(folder)
    alike = same_letters(place.path.name, names)
    if len(alike) > 1:
        return _missing(
            phrase(
                "There is no file at `{given}`, but several names are made of the same letters: {names}.",
                given=escaped(given),
                names=joined(" and ", [f"`{escaped(name)}`" for name in alike]),
            ),
            phrase("Give the one you mean, exactly as it is written."),
            [paths.from_here(folder.path / name) for name in alike],
        )
    wanted = place.path.name
    plainer = normalize("NFKC", wanted)  # `a．b`, whose full stop is the full-width one
    close = slips(wanted, names) or [name for name in names if name == plainer] or nearest(wanted, names)
    listed = [paths.from_here(folder.path / name) for name in close]
    if listed:
        suggestion = phrase("Did you mean {names}?", names=joined(" or ", [f"`{one_line(one)}`" for one in listed]))
    else:
        suggestion = phrase("No name in `{folder}` is similar; list the folder to see what is there.", folder=folder)
    return _missing(
        phrase("There is no file at `{given}`.", given=one_line(given)),
        joined(" ", [_strange(given), suggestion]),
        listed,
    )


def _no_folder(paths: Paths, given: str, folder: Place) -> PathError:
    root = folder.root.path
    above = (one for one in folder.path.parents if one == root or root in one.parents)
    existing = next((one for one in above if _is_folder(paths, paths.beside(folder, one))), root)
    message = phrase("There is no file at `{given}`, and no folder `{folder}`.", given=one_line(given), folder=folder)
    if paths.exists(folder):
        message = phrase(
            "There is no file at `{given}`, because `{folder}` is a file, not a folder.",
            given=one_line(given),
            folder=folder,
        )
    nearest_one = phrase(
        "The nearest folder that exists is `{existing}`.", existing=one_line(paths.from_here(existing))
    )
    return _missing(message, joined(" ", [_strange(given), nearest_one]))


def _strange(given: str) -> str:
    found = look_alikes(given)
    return phrase("The path contains {found}, which only looks like a slash or a dot.", found=found) if found else ""


def _is_folder(paths: Paths, place: Place) -> bool:
    found = paths.stat(place)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _missing(message: str, suggestion: str, close: list[str] | None = None) -> PathError:
    return PathError(
        "missing", message, kind=ErrorKind.NOT_FOUND, suggestion=suggestion, details={"nearest": close or []}
    )


_GONE = " (deleted)"  # what the kernel adds to the path of an open file that was removed
_MOST_NAMES = 5000


@dataclass(slots=True, frozen=True)
class Place:
    """A path that was looked at: inside a root, with every link on the way followed.

    `path` is where it really is; `name` says where that is from the first root on, where it lies in it.
    """

    root: Root
    path: Path
    name: str
    remarks: tuple[str, ...] = field(default=(), compare=False)
    """What a model must be told of it: that the name on the disk is not quite the one it gave."""
    given: str = field(default="", compare=False)
    """The path as the caller gave it; empty for one that was found."""

    @property
    def shown(self) -> str:
        """The path as its caller knows it."""
        return self.given or self.name

    @property
    def inner(self) -> str:
        """The path below its root."""
        return self.root.inner(self.path)

    def with_remarks(self, text: str) -> str:
        """What a tool says, and below it the remarks."""
        return "\n".join([text, *(f"[{one}]" for one in self.remarks)])

    def __str__(self) -> str:
        return one_line(self.shown)


class Root:
    """A folder that paths may lie in, held open so that renaming it changes nothing."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = Path(os.path.realpath(path))
        self._text = str(self.path)
        self._above = self._text.rstrip("/") + "/"
        self.read_only = read_only
        try:
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise workspace_gone((error.strerror or type(error).__name__).lower()) from None

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)

    # By the texts of paths: pathlib makes ten objects to tell the same.

    def holds(self, path: Path) -> bool:
        """Whether a path without `..` is this folder or lies below it."""
        text = str(path)
        return text == self._text or text.startswith(self._above)

    def inner(self, path: Path) -> str:
        """A path that this folder holds, as it is named from here."""
        if not self.holds(path):
            raise ValueError(f"{path} is not below {self.path}")
        return str(path)[len(self._above) :] or "."

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Root) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)


class Paths:
    """The roots of a workspace, and what is inside them. Relative paths start at `directory`.

    The first root must be there. A folder added to it may be missing; nothing is in it then, and `outside` says so.
    """

    def __init__(
        self, roots: Iterable[Path], directory: Path | None = None, restrictions: Restrictions | None = None
    ) -> None:
        first, *added = roots
        there = [path for path in added if path.is_dir()]
        self._missing_roots = tuple(path for path in added if path not in there)
        self.roots = tuple(Root(path) for path in (first, *there))
        self._readable: tuple[Root, ...] = ()
        self.kept = KeptBack(restrictions, tuple(str(root.path) for root in self.roots))
        self.directory = Path(os.path.realpath(directory)) if directory else self.roots[0].path

    def open_for_reading(self, folder: Path) -> None:
        """Let what lies in a folder be read, and nothing of it be changed; it is no part of the workspace."""
        self._readable = (*self._readable, Root(folder, read_only=True))

    # Finding

    def find(self, given: str) -> Place:
        """An existing file or folder."""
        place = self.locate(given)
        if not self.exists(place):
            raise nothing_at(self, given, place)
        return place

    def locate(self, given: str) -> Place:
        """What a path means, whether or not anything is there; links on the way are followed, none may lead out."""
        check_text(given)
        path = self.directory / with_home(given)
        wanted = _without_dots(path) if ".." in given else Path(os.path.normpath(path))
        try:
            return replace(self._settle(given, wanted, links=0), given=given)
        except OSError as error:
            raise failed(one_line(given), error) from None

    def _settle(self, given: str, wanted: Path, links: int) -> Place:
        root = self._root_of(wanted)
        if root is None:
            # The workspace itself may be reached by a link, as /tmp is on some systems.
            real = Path(os.path.realpath(wanted.parent)) / wanted.name
            root = self._root_of(real)
            if root is None or links:
                raise self.outside(given)
            wanted = real
        try:
            opened = open_beneath(
                root.descriptor, root.inner(wanted), os.O_PATH if hasattr(os, "O_PATH") else os.O_RDONLY
            )
        except LeadsOut:
            return self._through_link(given, wanted, root, links)
        except FileNotFoundError:
            return self._unmade(given, wanted, root, links)
        except NotADirectoryError:
            raise nothing_at(self, given, Place(root, wanted, self.show(wanted))) from None
        try:
            path = _path_of(opened, wanted)
        finally:
            os.close(opened)
        if path is None and wanted == root.path:
            raise workspace_gone(phrase("it was removed"))
        if path is None:
            return self._settle(given, wanted, links)  # replaced by another file at this very moment: look again
        if not root.holds(path):
            # The root was renamed: the same path under the name that it is known by.
            now = _path_of(root.descriptor, root.path)
            if now is None or (path != now and now not in path.parents):
                raise self.outside(given)  # moved out at this very moment
            path = root.path / path.relative_to(now)
        return Place(root, path, self.show(path))

    def _through_link(self, given: str, wanted: Path, root: Root, links: int) -> Place:
        """A link the kernel would not follow: one that leads out, or an absolute one that may lead back in."""
        real = Path(os.path.realpath(wanted))
        if self._root_of(real) is None:
            raise self.outside(given)
        if real != wanted and links < 2:
            return self._settle(given, real, links + 1)
        try:
            os.path.realpath(wanted, strict=True)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise PathError(
                    "circle",
                    phrase("`{path}` cannot be followed: its links lead in a circle.", path=one_line(given)),
                    suggestion=phrase("Use the path of the file itself; nothing can be reached through these links."),
                ) from None
        if mount := mount_between(root.path, real):
            raise PathError(
                "mount",
                phrase(
                    "`{path}` is on another file system, mounted at `{mount}`, which does not belong to the workspace.",
                    path=one_line(given),
                    mount=self.show(mount),
                ),
                kind=ErrorKind.PERMISSION,
                suggestion=advice(
                    "Ask the user to add the folder `{mount}` (setting `files.folders`), or go on without it.",
                    "Add the folder `{mount}` to `files.folders` in your settings.",
                    mount=self.show(mount),
                ),
            )
        raise self.outside(given)

    def _unmade(self, given: str, wanted: Path, root: Root, links: int) -> Place:
        """A path where nothing is yet: its folder must be inside, as far as there is one."""
        if wanted.is_symlink():
            target = Path(os.path.realpath(wanted))
            if links >= 2 or self._root_of(target) is None:
                raise self.outside(given)
            return self._settle(given, target, links + 1)
        if wanted == root.path:
            raise workspace_gone(phrase("it was removed"))
        parent = self._settle(given, wanted.parent, links)
        if parent.path != wanted.parent:
            found = self._settle(given, parent.path / wanted.name, links)
            return replace(found, remarks=found.remarks or parent.remarks)
        twins = same_letters(wanted.name, self.names_in(parent)) if not wanted.name.isascii() else []
        if len(twins) == 1:
            found = self._settle(given, parent.path / twins[0], links)
            mine, theirs = unicode_form(wanted.name), unicode_form(twins[0])
            remark = (
                f"The name on the disk is written in another Unicode form ({theirs}) than the one given ({mine}); "
                "it is the only one with these letters."
            )
            return replace(found, remarks=(remark,))
        path = parent.path / wanted.name
        return Place(parent.root, path, self.show(path))

    def _root_of(self, path: Path) -> Root | None:
        inside = [root for root in (*self.roots, *self._readable) if root.holds(path)]
        return max(inside, key=lambda root: len(root.path.parts), default=None)

    def show(self, path: Path) -> str:
        """A path as it is shown: relative to the working directory's root where it lies in it."""
        first = self.roots[0]
        return first.inner(path) if first.holds(path) else str(path)

    def from_here(self, path: Path) -> str:
        """A path as it can be given again: relative paths start in the working directory."""
        inside = self._root_of(path) is self.roots[0]
        return os.path.relpath(path, os.path.realpath(self.directory)) if inside else str(path)

    # Using

    def require_writable(self, place: Place, given: str) -> None:
        """Refuse to change what may only be read."""
        if place.root.read_only:
            raise only_read(one_line(given))
        self.kept.require_write(place.path, given)

    def names_in(self, folder: Place) -> list[str]:
        """The names in a folder, in order and not without end; none where it cannot be read."""
        try:
            opened = self.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, PathError):
            return []
        try:
            return sorted(os.listdir(opened))[:_MOST_NAMES]  # noqa: PTH208 - of an open folder
        except OSError:
            return []
        finally:
            os.close(opened)

    def check_new(self, place: Place) -> None:
        """Refuse to make what is missing on the way to a place, if a name in it would mislead."""
        new: list[str] = []
        for path in (place.path, *place.path.parents):
            if path == place.root.path or self.exists(self.beside(place, path)):
                break
            new.append(path.name)
        check_new_names(new[::-1])

    def beside(self, place: Place, path: Path) -> Place:
        """Another path in the root of a place, not looked at yet."""
        return Place(place.root, path, self.show(path))

    def exists(self, place: Place) -> bool:
        return self.stat(place) is not None

    def stat(self, place: Place) -> os.stat_result | None:
        """What is there, or None."""
        try:
            opened = self.open(place, getattr(os, "O_PATH", os.O_RDONLY))
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return os.fstat(opened)
        finally:
            os.close(opened)

    def open(self, place: Place, flags: int, mode: int = 0) -> int:
        """Open what is at a place, inside its root and nowhere else, whatever has changed since."""
        try:
            return open_beneath(place.root.descriptor, place.inner, flags, mode)
        except LeadsOut:
            raise self.outside(place.shown) from None

    def open_file(self, place: Place) -> int:
        """Open a regular file for reading. Devices, pipes and sockets are refused without being opened."""
        self.kept.require_read(place.path, place.shown)
        try:
            found = self.open(place, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK))
        except FileNotFoundError:
            raise nothing_at(self, place.shown, place) from None
        except OSError as error:
            raise failed(str(place), error) from None
        try:
            require_regular(place, os.fstat(found))
            if hasattr(os, "O_PATH"):
                return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC)  # the very file that was looked at
            return os.dup(found)
        except OSError as error:
            raise failed(str(place), error) from None
        finally:
            os.close(found)

    def read(self, place: Place, most: int | None = None) -> bytes:
        """The bytes of a regular file, or the first so many of them."""
        opened = self.open_file(place)
        try:
            with os.fdopen(opened, "rb") as file:
                return file.read() if most is None else file.read(most)
        except OSError as error:
            raise failed(str(place), error) from None

    # Words

    def outside(self, given: str) -> PathError:
        folders = phrase("the workspace")
        for root in self.roots[1:]:
            folders = phrase("{folders}, or inside `{path}`", folders=folders, path=root.path)
        here = self.show(self.directory)
        where = phrase("at its top") if here == "." else phrase("in `{folder}`", folder=here)
        use = phrase("Use a path inside {folders}; relative paths start {where}.", folders=folders, where=where)
        lost = [phrase("The added folder `{path}` does not exist.", path=path) for path in self._missing_roots]
        return outside(one_line(given), joined(" ", [use, *lost]))


def with_home(given: str) -> Path:
    """`~` alone and `~/` mean the home; any other name may begin with it, as `~$letter.docx` does."""
    return Path(given).expanduser() if given == "~" or given.startswith("~/") else Path(given)


def _without_dots(path: Path) -> Path:
    """`a/../b`, where `..` after a link means the parent of what the link leads to, as everywhere."""
    return Path(os.path.realpath(path.parent)) / path.name if path.name != ".." else Path(os.path.realpath(path))


def _path_of(opened: int, fallback: Path) -> Path | None:
    """Where an open file really is; None when it is nowhere any more."""
    try:
        path = Path(f"/proc/self/fd/{opened}").readlink()
    except OSError:
        return Path(os.path.realpath(fallback))
    if path.name.endswith(_GONE):
        try:
            return path if os.path.samestat(os.fstat(opened), path.lstat()) else None
        except OSError:
            return None
    return path
