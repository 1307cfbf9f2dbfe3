"""One resolver for every file tool: what a path means, and whether it stays inside."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.nearest import nearest
from ferrule.workspace.confined import LeadsOut, open_beneath
from ferrule.workspace.problems import PathProblem, outside
from ferrule.workspace.restrictions import KeptBack

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.workspace.restrictions import Restrictions

_LONGEST_NAME, _LONGEST_PATH = 255, 4096
# Characters that look like a slash, a backslash or a dot, and are none.
_LOOK_ALIKES = {
    "\u2044",
    "\u2215",
    "\u29f8",
    "\uff0f",
    "\u29f5",
    "\ufe68",
    "\uff3c",
    "\u2024",
    "\u2025",
    "\uff0e",
    "\u3002",
}
_GONE = " (deleted)"  # what the kernel adds to the path of an open file that was removed
_INVISIBLE = ("Cc", "Cf", "Zl", "Zp")


@dataclass(slots=True, frozen=True)
class Place:
    """A path that was looked at: inside a root, with every link on the way followed.

    `path` is where it really is; `name` is how it is shown, relative to the first root where that is shorter.
    """

    root: Root
    path: Path
    name: str

    @property
    def inner(self) -> str:
        """The path below its root."""
        return str(self.path.relative_to(self.root.path))

    def __str__(self) -> str:
        return self.name


class Root:
    """A folder that paths may lie in, held open so that renaming it changes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Root) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)


class Paths:
    """The roots of a workspace, and what is inside them. Relative paths start at `directory`."""

    def __init__(
        self, roots: Iterable[Path], directory: Path | None = None, restrictions: Restrictions | None = None
    ) -> None:
        self.roots = tuple(Root(path) for path in roots)
        self.kept = KeptBack(restrictions, tuple(str(root.path) for root in self.roots))
        self.directory = Path(os.path.realpath(directory)) if directory else self.roots[0].path

    # Finding

    def find(self, given: str) -> Place:
        """An existing file or folder."""
        place = self.locate(given)
        if not self.exists(place):
            raise self._missing(given, place)
        return place

    def locate(self, given: str) -> Place:
        """What a path means, whether or not anything is there; links on the way are followed, none may lead out."""
        _check_text(given)
        path = self.directory / with_home(given)
        wanted = _without_dots(path) if ".." in given else Path(os.path.normpath(path))
        return self._settle(given, wanted, links=0)

    def _settle(self, given: str, wanted: Path, links: int) -> Place:
        root = self._root_of(wanted)
        if root is None:
            # The workspace itself may be reached by a link, as /tmp is on some systems.
            real = Path(os.path.realpath(wanted.parent)) / wanted.name
            root = self._root_of(real)
            if root is None or links:
                raise self.outside(given)
            wanted = real
        inner = str(wanted.relative_to(root.path))
        try:
            opened = open_beneath(root.descriptor, inner, os.O_PATH if hasattr(os, "O_PATH") else os.O_RDONLY)
        except LeadsOut:
            return self._through_link(given, wanted, links)
        except FileNotFoundError:
            return self._unmade(given, wanted, root, links)
        except NotADirectoryError:
            raise self._missing(given, Place(root, wanted, self.show(wanted))) from None
        except OSError as error:
            raise _failed(given, error) from None
        try:
            path = _path_of(opened, wanted)
        finally:
            os.close(opened)
        if path is None and wanted == root.path:
            raise _failed(given, FileNotFoundError(errno.ENOENT, "the workspace is gone"))
        if path is None:
            return self._settle(given, wanted, links)  # replaced by another file at this very moment: look again
        if root.path != path and root.path not in path.parents:
            path = self._after_renaming(given, root, path)
        return Place(root, path, self.show(path))

    def _after_renaming(self, given: str, root: Root, path: Path) -> Path:
        """A path under the name that the root has now, as one under the name it is known by."""
        now = _path_of(root.descriptor, root.path)
        if now is None or (path != now and now not in path.parents):
            raise self.outside(given)  # moved out at this very moment
        return root.path / path.relative_to(now)

    def _through_link(self, given: str, wanted: Path, links: int) -> Place:
        """A link the kernel would not follow: one that leads out, or an absolute one that may lead back in."""
        real = Path(os.path.realpath(wanted))
        if links >= 2 or real == wanted or self._root_of(real) is None:
            raise self.outside(given)
        return self._settle(given, real, links + 1)

    def _unmade(self, given: str, wanted: Path, root: Root, links: int) -> Place:
        """A path where nothing is yet: its folder must be inside, as far as there is one."""
        if wanted.is_symlink():
            target = Path(os.path.realpath(wanted))
            if links >= 2 or self._root_of(target) is None:
                raise self.outside(given)
            return self._settle(given, target, links + 1)
        if wanted == root.path:
            raise _failed(given, FileNotFoundError(errno.ENOENT, "the workspace is gone"))
        parent = self._settle(given, wanted.parent, links)
        path = parent.path / wanted.name
        return Place(parent.root, path, self.show(path))

    def _root_of(self, path: Path) -> Root | None:
        inside = [root for root in self.roots if path == root.path or root.path in path.parents]
        return max(inside, key=lambda root: len(root.path.parts), default=None)

    def show(self, path: Path) -> str:
        """A path as it is shown: relative to the working directory's root where it lies in it."""
        for root in self.roots[:1]:
            if path == root.path:
                return "."
            if root.path in path.parents:
                return str(path.relative_to(root.path))
        return str(path)

    def _from_here(self, path: Path) -> str:
        """A path as it can be given again: relative paths start in the working directory."""
        inside = self._root_of(path) is self.roots[0]
        return os.path.relpath(path, os.path.realpath(self.directory)) if inside else str(path)

    # Using

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
            raise self.outside(place.name) from None

    def open_file(self, place: Place) -> int:
        """Open a regular file for reading. Devices, pipes and sockets are refused without being opened."""
        self.kept.require_read(place.path, place.name)
        try:
            found = self.open(place, getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK))
        except FileNotFoundError:
            raise self._missing(place.name, place) from None
        except OSError as error:
            raise _failed(place.name, error) from None
        try:
            _refuse_special(place, os.fstat(found))
            if hasattr(os, "O_PATH"):
                return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC)  # the very file that was looked at
            return os.dup(found)
        except PermissionError as error:
            raise _failed(place.name, error) from None
        finally:
            os.close(found)

    def read(self, place: Place, most: int | None = None) -> bytes:
        """The bytes of a regular file, or the first so many of them."""
        opened = self.open_file(place)
        with os.fdopen(opened, "rb") as file:
            return file.read() if most is None else file.read(most)

    # Words

    def outside(self, given: str) -> PathProblem:
        return outside(given, " or ".join(f"`{root.path}`" for root in self.roots))

    def _missing(self, given: str, place: Place) -> PathProblem:
        """Nothing is there; say what is near."""
        folder, wanted = place.path.parent, place.path.name
        try:
            names = sorted(one.name for one in folder.iterdir())[:5000]
        except OSError:
            existing = next((one for one in folder.parents if one.is_dir()), self.roots[0].path)
            return PathProblem(
                "missing",
                f"There is no file at `{given}`, and no folder `{self.show(folder)}`.",
                kind=ErrorKind.NOT_FOUND,
                suggestion=f"The nearest folder that exists is `{self._from_here(existing)}`.",
            )
        normal = unicodedata.normalize("NFC", wanted).rstrip(". ")
        twins = [name for name in names if name != wanted and unicodedata.normalize("NFC", name).rstrip(". ") == normal]
        close = twins or nearest(wanted, names)
        listed = [self._from_here(folder / name) for name in close]
        suggestion = "Did you mean " + " or ".join(f"`{one}`" for one in listed) + "?" if listed else None
        if strange := sorted(_LOOK_ALIKES & set(given)):
            shown = ", ".join(f"U+{ord(one):04X} {unicodedata.name(one)}" for one in strange)
            suggestion = f"The path holds {shown}, which only looks like a slash or a dot. {suggestion or ''}".rstrip()
        return PathProblem(
            "missing",
            f"There is no file at `{given}`.",
            kind=ErrorKind.NOT_FOUND,
            suggestion=suggestion,
            details={"nearest": listed},
        )


def check_new_name(place: Place) -> None:
    """Refuse to make a file whose name would mislead: look-alikes of a slash, what cannot be seen, trailing dots."""
    for part in Path(place.inner).parts:
        for character in part:
            if character in _LOOK_ALIKES or unicodedata.category(character) in _INVISIBLE:
                raise PathProblem(
                    "name",
                    f"`{part}` holds U+{ord(character):04X} {unicodedata.name(character, 'CONTROL')}, which misleads.",
                    kind=ErrorKind.VALIDATION,
                    suggestion="Write the name with ordinary characters.",
                )
        if part.endswith((" ", ".")) and part not in (".", ".."):
            raise PathProblem(
                "name",
                f"`{part}` ends with a {'dot' if part.endswith('.') else 'space'}, which some systems drop.",
                kind=ErrorKind.VALIDATION,
                suggestion=f"Use `{part.rstrip(' .')}`.",
            )


def with_home(given: str) -> Path:
    """`~` alone and `~/` mean the home; any other name may begin with it, as `~$letter.docx` does."""
    return Path(given).expanduser() if given == "~" or given.startswith("~/") else Path(given)


def _without_dots(path: Path) -> Path:
    """`a/../b`, where `..` after a link means the parent of what the link leads to, as everywhere."""
    return Path(os.path.realpath(path.parent)) / path.name if path.name != ".." else Path(os.path.realpath(path))


def _check_text(given: str) -> None:
    if not given:
        raise PathProblem("name", "The path is empty.", kind=ErrorKind.VALIDATION)
    if "\0" in given:
        raise PathProblem("name", "The path holds a NUL byte.", kind=ErrorKind.VALIDATION, suggestion="Remove it.")
    encoded = os.fsencode(given)
    longest = max((len(part) for part in encoded.split(b"/")), default=0)
    if len(encoded) >= _LONGEST_PATH or longest > _LONGEST_NAME:
        raise PathProblem(
            "name",
            f"The path is too long: {len(encoded):,} bytes, its longest name {longest:,}.",
            kind=ErrorKind.VALIDATION,
            suggestion=f"A path has at most {_LONGEST_PATH:,} bytes and a name at most {_LONGEST_NAME}.",
        )


def _refuse_special(place: Place, found: os.stat_result) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFREG:
        return
    if kind == stat.S_IFDIR:
        raise PathProblem("directory", f"`{place}` is a directory, not a file.", suggestion="List it instead.")
    names = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    raise PathProblem("special", f"`{place}` is {names.get(kind, 'not a regular file')}, and is not opened.")


def _failed(given: str, error: OSError) -> PathProblem:
    why = (error.strerror or type(error).__name__).lower()
    if isinstance(error, PermissionError):
        return PathProblem("permission", f"`{given}` cannot be opened: {why}.", kind=ErrorKind.PERMISSION)
    return PathProblem("failed", f"`{given}` cannot be used: {why}.")


def _path_of(opened: int, fallback: Path) -> Path | None:
    """Where an open file really is; None when it is nowhere any more."""
    try:
        path = Path(f"/proc/self/fd/{opened}").readlink()
    except OSError:
        return Path(os.path.realpath(fallback))
    if path.name.endswith(_GONE) and not _is_at(opened, path):
        return None
    return path


def _is_at(opened: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened), path.lstat())
    except OSError:
        return False
