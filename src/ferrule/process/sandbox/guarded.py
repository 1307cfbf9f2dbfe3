"""Finds the places of a workspace that make programs outside the sandbox do things: git's hooks and configuration in
every repository, the folder that `core.hooksPath` names, and the settings of Ferrule, editors, agents and shells in
every folder but those of dependencies.

Before a command and after it they are looked at, and what the command did to them is taken back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from ferrule.core.guarded_names import CONFIGS, OF_GIT, SETTINGS_FOLDERS, is_setting_name, settings_among
from ferrule.process.folder_index import index_of, opened
from ferrule.process.owned_folders import remove_tree
from ferrule.process.sandbox.denials import Denial
from ferrule.process.sandbox.git_config import harmless, runs_nothing_new
from ferrule.process.sandbox.obeyed import git_folder_of, led_to_from_home, places_named_by_git

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from ferrule.process.folder_index import FolderIndex, FolderListing
    from ferrule.process.profile import Forbidden


GIT_FOLDER_HAS = frozenset({"HEAD", "objects", "refs"})
"""Git takes a folder with these for a repository, whatever it is called."""
_WALKED_OF_GIT = frozenset({"modules", "worktrees", "info"})
_MOST_INSIDE = 2_000


@dataclass(slots=True, frozen=True)
class Mark:
    """What is at a guarded place: its kind and number, and the last change of it and of everything inside."""

    kind: int
    number: int
    changes: tuple[tuple[str, int, int, int], ...]


@dataclass(slots=True, frozen=True)
class Found:
    """The guarded places of one look, by path below the folder."""

    marks: dict[str, Mark]
    folders: frozenset[str]
    """All that were looked at."""
    closed: frozenset[str]
    """Those that could not be."""
    git_folders: tuple[str, ...]
    """Folders that git keeps its own files in."""
    complete: bool
    """Whether every folder was looked at."""

    def had(self, folder: str) -> bool:
        """Whether it was there; what lies in one that could not be looked into may have been."""
        if folder in self.folders:
            return True
        parts = folder.split("/") if self.closed else ()
        return any("/".join(parts[:end]) in self.closed for end in range(1, len(parts) + 1))


class _Names(NamedTuple):
    """What is notable in a folder."""

    guarded: tuple[str, ...]
    is_git: bool = False
    has_attributes: bool = False
    """Which git obeys if the folder is that of a repository."""


class GuardedTree:
    """One folder and the guarded places below it. `named` are further ones, by path below the folder, and so is what
    is `forbidden`.
    """

    def __init__(self, root: str, named: frozenset[str] = frozenset(), forbidden: Forbidden | None = None) -> None:
        self.root = root
        self.named = named
        self._forbidden = forbidden
        self.locked: frozenset[str] = frozenset()
        """Places that cannot be changed from inside: what is in them need not be looked at."""
        self.descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._index: FolderIndex[_Names] = index_of(root, ("guarded", forbidden))

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self.descriptor)

    def look(self, *, deep: bool = True) -> Found:
        """Every guarded place that is there now; not `deep`, without what is inside of them."""
        tree = self._index.look(self.descriptor, self._read)
        marks: dict[str, Mark] = {}
        git_folders = sorted(path for path, names in tree.found.items() if names.is_git)
        for path, names in tree.found.items():
            for name in names.guarded:
                self._mark(f"{path}/{name}" if path else name, marks, deep=deep)
            if names.has_attributes:  # which git obeys if it is the folder of a repository
                with contextlib.suppress(OSError):
                    head = f"{path.rpartition('/')[0]}/HEAD".removeprefix("/")
                    os.stat(head, dir_fd=self.descriptor, follow_symlinks=False)
                    self._mark(f"{path}/attributes", marks, deep=deep)
        for path in (*self.named, *self._obeyed(tree.found)):
            self._mark(path, marks, deep=deep)
        return Found(marks, tree.folders, tree.closed, tuple(git_folders), tree.complete)

    def deepen(self, found: Found) -> None:
        """Take in what is inside of those that are not locked, after a look that did not."""
        for path in found.marks.keys() - self.locked:
            self._mark(path, found.marks, deep=True)

    def forbids(self, folder: str, names: Iterable[str]) -> set[str]:
        """Of the names in a folder those that a rule says may not be written."""
        if self._forbidden is None:
            return set()
        listed = list(names)
        start = f"{self.root}/{folder}/" if folder else f"{self.root}/"
        concerned = self._forbidden.concerns([start + name for name in listed])
        return {name for name, may_not in zip(listed, concerned, strict=True) if may_not}

    def obeyed(self) -> frozenset[str]:
        """Places below the folder that have any name, and are run or obeyed because something names them: a setting of
        git's, or a link. They may not be there.
        """
        return frozenset(self._obeyed(self._index.look(self.descriptor, self._read).found))

    def _obeyed(self, found: dict[str, _Names]) -> Iterator[str]:
        start, inside = f"{self.root.rstrip('/')}/", (Path(self.root),)
        # The folder may become a repository at any time.
        repositories = {self.root: f"{self.root}/.git"} | dict(self._repositories(found))
        named = places_named_by_git(repositories, inside)
        links = [
            f"{start}{path}/{name}" if path else start + name for path, one in found.items() for name in one.guarded
        ]
        named |= {link for link in links if os.path.islink(link) and not link.endswith("/.git")}  # noqa: PTH114 - text
        for place in (*named, *led_to_from_home()):
            for path in {os.path.normpath(place), os.path.realpath(place)}:
                if path.startswith(start):
                    yield path[len(start) :]

    def _repositories(self, found: dict[str, _Names]) -> Iterator[tuple[str, str]]:
        """The top folder of each repository, and the git directory that it has."""
        for path, names in found.items():
            whole = f"{self.root}/{path}" if path else self.root
            if names.is_git:
                yield (whole.removesuffix("/.git"), whole)
            elif ".git" in names.guarded and (git := git_folder_of(whole)) is not None:
                yield whole, git
        above = (str(folder) for folder in Path(self.root).parents)
        enclosing = next((folder for folder in above if os.path.lexists(f"{folder}/.git")), None)
        if enclosing is not None and (git := git_folder_of(enclosing)) is not None:
            yield enclosing, git

    def _read(self, path: str, listing: FolderListing) -> tuple[list[str], _Names | None]:
        names, folders = listing.names(), listing.folders
        parts = path.split("/")
        if parts[-1] == ".git" or (len(parts) > 2 and parts[-2] == "worktrees" and ".git" in parts[:-2]):
            # Git made the folder for itself, and only a few folders below it can matter.
            links = {name for name in _WALKED_OF_GIT & names.keys() if not names[name]}
            return [name for name in folders if name in _WALKED_OF_GIT], _Names(
                tuple(OF_GIT & names.keys() | links), True
            )
        guarded = settings_among(path, names) | self.forbids(path, names)
        guarded |= {name for name, is_folder in names.items() if not is_folder and name.casefold() in SETTINGS_FOLDERS}
        if names.get(".git") is False:
            guarded.add(".git")  # a file or a link that says where the repository is
        bare = names.keys() >= GIT_FOLDER_HAS
        if bare:
            guarded |= OF_GIT & names.keys()
        attributes = "attributes" in names and path.rpartition("/")[2] == "info"
        notable = _Names(tuple(guarded), bare, attributes) if guarded or bare or attributes else None
        return [name for name in folders if name not in guarded], notable

    def _mark(self, path: str, marks: dict[str, Mark], *, deep: bool) -> None:
        try:
            state = os.stat(path, dir_fd=self.descriptor, follow_symlinks=False)
            changes = [("", state.st_ino, state.st_ctime_ns, state.st_size)]
            if deep and path not in self.locked and stat.S_ISDIR(state.st_mode):
                with opened(self.descriptor, path) as folder:
                    changes += _changes(folder, "", _MOST_INSIDE)
            marks[path] = Mark(stat.S_IFMT(state.st_mode), state.st_ino, tuple(sorted(changes)))
        except OSError:
            return  # not there, which is the best it can be


def obeyed_below(root: str) -> frozenset[str]:
    """The real paths of places below a folder that other programs obey whatever they are called; see `obeyed`."""
    try:
        tree = GuardedTree(root)
    except OSError:
        return frozenset()
    try:
        return frozenset(f"{root}/{path}" for path in tree.obeyed())
    finally:
        tree.close()


def _changes(folder: int, start: str, room: int) -> Iterator[tuple[str, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            state = entry.stat(follow_symlinks=False)
            yield start + entry.name, state.st_ino, state.st_ctime_ns, state.st_size
            room -= 1
            if room <= 0:
                return
            if stat.S_ISDIR(state.st_mode):
                with opened(folder, entry.name) as below:
                    for change in _changes(below, f"{start}{entry.name}/", room):
                        yield change
                        room -= 1


_MOST_READ = 1 << 20


def read_plain(root: int, path: str) -> tuple[bytes, int] | None:
    """The content and mode of a plain file of moderate size; None for anything else."""
    try:
        with opened(root, path, os.O_RDONLY | os.O_NONBLOCK) as file:
            state = os.fstat(file)
            if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST_READ:
                return None
            return os.read(file, state.st_size), stat.S_IMODE(state.st_mode)
    except OSError:
        return None


# Moves what must not stay where it is to a private folder outside the workspace, and follows no link on the way.


_PIECE, _MOST = 1 << 20, 64 << 20
_QUARANTINE = "ferrule-quarantine-"
KEPT_DAYS = 30
"""How long what was moved away is kept."""


def quarantines(*, older_than: float = 0) -> list[Path]:
    """The user's folders of what commands were kept from leaving in a workspace, of at least so many seconds."""
    found: list[Path] = []
    for one in sorted(Path(tempfile.gettempdir()).glob(f"{_QUARANTINE}*")):
        with contextlib.suppress(OSError):
            state = one.lstat()
            own = stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid()
            found += [one] if own and state.st_mtime <= time.time() - older_than else []
    return found


class Quarantine:
    """The folder, made when it is first needed. It stays for `KEPT_DAYS`: a user may want what is in it."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def take(self, root: int, path: str) -> Path:
        """Move `path` below the open `root` out of it; raises OSError where that cannot be."""
        if self._folder is None:
            for old in quarantines(older_than=KEPT_DAYS * 86_400):
                with contextlib.suppress(OSError):
                    remove_tree(old)
            self._folder = Path(tempfile.mkdtemp(prefix=_QUARANTINE))
        to = self._folder / f"{len(os.listdir(self._folder))}-{path.replace('/', '_')}"[:200]  # noqa: PTH208
        parent, _, name = path.rpartition("/")
        with opened(root, parent) as folder:
            try:
                os.rename(name, to, src_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _copy(folder, name, to)
                remove(folder, name)
        with contextlib.suppress(OSError):
            if stat.S_ISREG(to.lstat().st_mode):
                to.chmod(0o600)  # whatever it was, it is not to be run
        return to


def remove(folder: int, name: str) -> None:
    """Remove an entry of an open folder, with all that is below it."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        remove_tree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


def _copy(folder: int, name: str, to: Path) -> None:
    """Files, folders and links; what is neither (a pipe, a socket) leaves nothing behind."""
    state = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(state.st_mode):
        to.symlink_to(os.readlink(name, dir_fd=folder))
    elif stat.S_ISDIR(state.st_mode):
        to.mkdir(mode=0o700)
        with opened(folder, name) as below, os.scandir(below) as entries:
            for entry in entries:
                _copy(below, entry.name, to / entry.name)
    elif stat.S_ISREG(state.st_mode):
        with opened(folder, name, os.O_RDONLY | os.O_NONBLOCK) as source, to.open("wb") as target:
            left = _MOST
            while left > 0 and (piece := os.read(source, min(_PIECE, left))):
                target.write(piece)
                left -= len(piece)


@dataclass(slots=True)
class Watched:
    """One writable folder, and what of it the sandbox has mounted read-only."""

    tree: GuardedTree
    mounted: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """By path: the numbers of the folders above it, as they were then."""
    hidden: frozenset[str] = frozenset()
    found: Found | None = None
    kept: dict[str, tuple[bytes, int]] = field(default_factory=dict[str, tuple[bytes, int]])
    """The contents and modes of guarded files, where they cannot be mounted and so must be put back."""
    who: str = "The command"

    def keep(self) -> None:
        """Keep the contents of guarded files that are not locked, and of those in guarded folders."""
        for path, mark in (self.found.marks if self.found else {}).items():
            for inside, *_ in mark.changes if path not in self.tree.locked else ():
                whole = f"{path}/{inside}" if inside else path
                if (read := read_plain(self.tree.descriptor, whole)) is not None:
                    self.kept[whole] = read

    def changed_harmlessly(self, path: str) -> bool:
        """Whether git runs what it ran before with what a file of its settings holds now, which then is right."""
        old, new = self.kept.get(path), read_plain(self.tree.descriptor, path)
        if path.rpartition("/")[2] not in CONFIGS or old is None or new is None or old[1] != new[1]:
            return False
        texts = (content.decode(errors="surrogateescape") for content, _ in (old, new))
        if not runs_nothing_new(*texts):
            return False
        self.kept[path] = new
        return True

    def put_back(self) -> Iterator[Denial]:
        """Give what was changed or removed its old content, and tell of what cannot be."""
        for path, (content, mode) in self.kept.items():
            now = read_plain(self.tree.descriptor, path)
            if now is not None and now[0] == content:
                continue
            try:
                parent, _, name = path.rpartition("/")
                with _made(self.tree.descriptor, parent) as folder:
                    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
                    with os.fdopen(file, "wb") as target:
                        target.write(content)
            except OSError as error:
                yield Denial(
                    "guarded",
                    path,
                    f"{self.who} removed or changed `{path}`, which is guarded, and it could not be put back "
                    f"({error.strerror}).",
                    "Tell the user to look at it before using the folder.",
                )


def _unseen(who: str, why: str) -> Denial:
    return Denial(
        "guarded",
        "",
        f"Not everything that {who[0].lower()}{who[1:]} left could be searched for guarded files. {why}.",
        "Tell the user to look at it before using the folder.",
    )


class Sweep:
    """`begin` before a command, `end` after it."""

    def __init__(self, watched: list[Watched]) -> None:
        self._watched = watched
        self._quarantine = Quarantine()

    @property
    def watches(self) -> bool:
        return bool(self._watched)

    def begin(self) -> None:
        """Take everything as it is now for right."""
        for one in self._watched:
            one.found = one.tree.look()
            one.kept = {}
            one.keep()

    def end(self) -> tuple[Denial, ...]:
        """Take back what is new and not harmless; what is right now is known from here on."""
        denials: list[Denial] = []
        for one in self._watched:
            before = one.found or one.tree.look()
            after = one.tree.look()
            moved = {mark.number: mark for mark in before.marks.values()}
            for path in sorted(after.marks):
                mark = after.marks[path]
                if before.marks.get(path) == mark:
                    continue
                known = moved.get(mark.number)
                same = known is not None and known.kind == mark.kind and known.changes == mark.changes
                if same and not before.had(_top(path)):
                    continue  # the folder that it is in has another name now; one that was there before has not
                places = (path, *map(str, PurePath(path).parents))
                mounted = next((place for place in places if place in one.mounted), None)
                if mounted is not None and one.mounted[mounted] == numbers_above(one.tree, mounted):
                    continue  # mounted read-only and not moved since, so the sandbox cannot have changed it
                stays = one.changed_harmlessly(path) if path in one.kept else _may_stay(one, path, before)
                if not stays:
                    denials.append(self._take(one, path))
            denials += one.put_back()
            denials += [_unseen(one.who, f"It closed `{path}`") for path in sorted(after.closed - before.closed)[:1]]
            if not after.complete:
                denials.append(_unseen(one.who, "There are too many folders"))
            one.found = one.tree.look() if denials else after
        return tuple(denials)

    def _take(self, one: Watched, path: str) -> Denial:
        parent, _, name = path.rpartition("/")
        why = "which is guarded: it can make other programs run commands"
        if one.tree.forbids(parent, (name,)):
            why = "which a rule says may not be written"
        try:
            kept = self._quarantine.take(one.tree.descriptor, path)
        except OSError as error:
            said = f"{one.who} made or changed `{path}`, {why}. It could not be removed ({error.strerror})."
            return Denial("guarded", path, said, "Tell the user to look at it before using the folder.")
        was_there = any(place == path or place.startswith(f"{path}/") for place in one.kept)
        outcome = f"It was moved to `{kept}`{', and what was there before put back' if was_there else ''}."
        return Denial(
            "guarded",
            path,
            f"{one.who} made or changed `{path}`, {why}. {outcome}",
            "Do without it, or ask the user to make this change.",
        )


@contextlib.contextmanager
def _made(root: int, path: str) -> Generator[int]:
    """A folder below the root, opened; what is missing on the way is made."""
    parts = path.split("/") if path else []
    for end in range(1, len(parts) + 1):
        above = "/".join(parts[: end - 1])
        with opened(root, above) as folder, contextlib.suppress(FileExistsError):
            os.mkdir(parts[end - 1], dir_fd=folder)
    with opened(root, path) as folder:
        yield folder


def numbers_above(tree: GuardedTree, path: str) -> tuple[int, ...]:
    """The inode numbers of the folders on the way to a path."""
    parts = path.split("/")[:-1]
    numbers: list[int] = []
    try:
        for end in range(1, len(parts) + 1):
            state = os.stat("/".join(parts[:end]), dir_fd=tree.descriptor, follow_symlinks=False)
            numbers.append(state.st_ino)
    except OSError:
        numbers.append(-1)
    return tuple(numbers)


def _top(path: str) -> str:
    """The folder that settings are for: of `.github/workflows` where `.github` lies."""
    parent, _, name = path.rpartition("/")
    return parent if is_setting_name(name) else parent.rpartition("/")[0]


def _may_stay(one: Watched, path: str, before: Found) -> bool:
    parent, _, name = path.rpartition("/")
    if path in one.hidden or one.tree.forbids(parent, (name,)):
        return False
    if path not in one.tree.named and settings_among(parent, (name,)):
        return not before.had(_top(path))  # what a fresh clone brings is for its reader to judge
    if name in OF_GIT or name == ".git":
        return _runs_nothing(one.tree, path, name)
    return False


def _runs_nothing(tree: GuardedTree, path: str, name: str) -> bool:
    if name in ("hooks", "remotes", "branches"):
        try:
            with opened(tree.descriptor, path) as folder, os.scandir(folder) as entries:
                return all(entry.name.endswith(".sample") and entry.is_file(follow_symlinks=False) for entry in entries)
        except OSError:
            return False
    read = read_plain(tree.descriptor, path)
    if read is None:
        return False
    text = read[0].decode("utf-8", "surrogateescape")
    if name == "commondir":
        return text.strip() == "../.." and "/worktrees/" in f"/{path}"
    if name == ".git":
        target = _inside(tree, path.rpartition("/")[0], text.removeprefix("gitdir:").strip())
        return target is not None and ("/.git/worktrees/" in f"/{target}" or "/.git/modules/" in f"/{target}")
    settings = harmless(text)
    if settings is None:
        return False
    folder = path.rpartition("/")[0]
    return all(_inside(tree, folder, one.value) is not None for one in settings if one.name == "worktree")


def _inside(tree: GuardedTree, folder: str, target: str) -> str | None:
    """Where a path in a file of `folder` leads, below the root; None when it leads out."""
    whole = os.path.normpath(os.path.join(tree.root, folder, target))  # noqa: PTH118 - no links are to be followed
    return whole[len(tree.root) + 1 :] if whole.startswith(tree.root + "/") else None
