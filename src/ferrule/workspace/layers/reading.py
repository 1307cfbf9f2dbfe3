"""Reads a layer: what a command that ran above a workspace made, changed and removed in it.

A layer is the upper folder of an overlay mount. A device 0:0 in it stands for something removed, a folder marked opaque
hides all that lies below it. It is what an unknown program left behind: nothing in it is followed, run or trusted.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import stat
import time
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import phrase
from ferrule.workspace.confined import LeadsOut, open_beneath
from ferrule.workspace.git import UnreadableIndex, parse_index
from ferrule.workspace.ignore_files import IgnoredPaths, is_guarded
from ferrule.workspace.names import one_line
from ferrule.workspace.problems import PathError, failed
from ferrule.workspace.snapshots.changes import Node
from ferrule.workspace.snapshots.tree_store import Seen

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from ferrule.workspace.paths import Paths

MOST_ENTRIES, MOST_CHANGES = 500_000, 100_000
_LONGEST = 4000  # the kernel takes paths of 4,095 bytes; the files that are written beside others need some room
_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_CHUNK = 1 << 20
_NO_ATTRIBUTE = (errno.ENODATA, errno.ENOTSUP)
_INDEX = lazy_pattern(r"(?:.*/)?\.git/(?:(?:worktrees|modules)/.+/)?index", re.DOTALL)
_SPECIAL = {stat.S_IFIFO: phrase("a pipe"), stat.S_IFSOCK: phrase("a socket")}
_MARKS = "trusted.overlay." if os.geteuid() == 0 else "user.overlay."


@dataclass(slots=True, frozen=True)
class Layer:
    """The upper folder of one root of a workspace; `below` are layers that lay between, topmost first."""

    root: Path
    upper: Path
    below: tuple[Path, ...] = ()
    began: int = 0
    """When the layer was begun, in nanoseconds of the file system's clock: what changed in the workspace after that,
    the command may have seen or not. 0 where that is not known.
    """
    marks: str = _MARKS
    """How the names of the extended attributes begin by which the kernel marks what is in it."""

    @property
    def work(self) -> Path:
        """Where the kernel prepares what it puts into the upper folder."""
        return self.upper.parent / "work"


@dataclass(slots=True, frozen=True)
class LayerChange:
    """What became of one path. A side of None is a path with nothing there."""

    layer: Layer = field(repr=False)
    inner: str
    """The path below the root."""
    before: Seen | None
    """In the workspace, when the layer was read."""
    after: Seen | None
    special: str = ""
    """A pipe, a socket or a device at either side, in words; it cannot be applied."""
    hard_links: int = 1
    """How many names the file has in the workspace."""
    stale: bool = False
    """Whether the workspace changed here while the command ran."""
    twin: str = ""
    """Another path that is the same file in the layer (a hard link)."""
    path: Path = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.layer.root / self.inner)

    @property
    def of_folders(self) -> bool:
        """Whether there is nothing but a folder, or nothing, at either side."""
        return not self.special and all(one is None or one.node is Node.FOLDER for one in (self.before, self.after))

    @property
    def mode_alone(self) -> bool:
        """Whether nothing but the permission bits changed."""
        before, after = self.before, self.after
        if before is None or after is None or before.node is not after.node or before.mode == after.mode:
            return False
        return before.node is Node.FOLDER or (before.node is Node.FILE and same_content(self))


@dataclass(slots=True)
class LayerChanges:
    """What a command did in all its layers, each list in the order of layers and paths."""

    layers: tuple[Layer, ...]
    changes: list[LayerChange] = field(default_factory=list[LayerChange])
    """What has to be judged."""
    ignored: list[LayerChange] = field(default_factory=list[LayerChange])
    """Build output and caches, which git ignores."""
    noise: int = 0
    """How many files were written without any difference."""
    touched: list[LayerChange] = field(default_factory=list[LayerChange])
    """Those of them that hold the same and have another time of their last change, and all folders and links that have:
    files that hold something else get their time with that.
    """
    beyond: str = ""
    """A file that got another owner, other extended attributes or a second name, none of which can be applied."""

    def __bool__(self) -> bool:
        return bool(self.changes)


def read_layers(paths: Paths, layers: Sequence[Layer], *, ignore: bool = True) -> LayerChanges:
    """What layers hold that the workspace does not; without `ignore` nothing counts as ignored.

    What rules keep back, and what other programs obey, is never ignored.
    """
    found = LayerChanges(tuple(layers))
    for layer in layers:
        try:
            one = _Reader(layer, found, ignore=ignore).read()
        except OSError as error:
            named = error.filename if isinstance(error.filename, str | bytes) else layer.root  # it may be a descriptor
            raise failed(one_line(paths.show(Path(os.fsdecode(named)))), error) from None
        held = paths.kept.all_held_back([f"{layer.root}/{change.inner}" for change in one.ignored], layer.root)
        one.changes += [change for change, secret in zip(one.ignored, held, strict=True) if secret]
        one.ignored = [change for change, secret in zip(one.ignored, held, strict=True) if not secret]
        _settle_folders(one, ignore=ignore)
        found.changes += sorted(one.changes, key=_order)
        found.ignored += sorted(one.ignored, key=_order)
        found.noise += one.noise
        found.touched += one.touched
        found.beyond = found.beyond or one.beyond
        if len(found.changes) > MOST_CHANGES:
            raise _too_many(MOST_CHANGES)
    return found


def _order(change: LayerChange) -> list[str]:
    """Folders before what is in them."""
    return change.inner.split("/")


class _Reader:
    """Goes through one layer and the workspace below it side by side."""

    def __init__(self, layer: Layer, known: LayerChanges, *, ignore: bool) -> None:
        self._layer = layer
        self._found = LayerChanges((layer,))
        self._git = IgnoredPaths(layer.root) if ignore else None
        self._left = MOST_ENTRIES - len(known.changes) - len(known.ignored)
        self._length = len(os.fsencode(layer.root))
        self._linked: set[int] = set()
        self._waiting: list[tuple[str, bool, bool, bool]] = []
        """Folders of the layer: the path, whether git ignores it, whether the workspace has the folder as well, and
        whether one above it is opaque: then so is this one, and the kernel marks the topmost alone.
        """

    def read(self) -> LayerChanges:
        with _folder(self._layer.upper) as self._upper, _folder(self._layer.root) as self._root:
            here, there = os.fstat(self._upper), os.fstat(self._root)
            if stat.S_IMODE(here.st_mode) != stat.S_IMODE(there.st_mode):
                self._add("", _seen(there), _seen(here), ignored=False)
            self._note_beyond("", there, here)
            self._waiting.append(("", False, True, False))
            while self._waiting:
                self._folder(*self._waiting.pop())
        if self._linked:
            # The same, with the second and further names of one file knowing the first.
            first: dict[int, str] = {}
            told: list[LayerChange] = []
            for one in sorted(self._found.changes, key=lambda change: change.inner):
                if one.after is not None and one.after.node is Node.FILE and one.after.inode in self._linked:
                    named = first.setdefault(one.after.inode, one.inner)
                    told.append(replace(one, twin=named if named != one.inner else ""))
                else:
                    told.append(one)
            self._found.changes = told
        return self._found

    def _folder(self, inner: str, ignored: bool, there: bool, hidden: bool) -> None:
        upper = _open_readable(self._upper, inner or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        with _opened(upper), self._below(inner, there=there) as below:
            hidden = hidden or (below is not None and mark_of(self._layer, inner, "opaque") == b"y")
            changed = os.fstat(below).st_ctime_ns if below is not None else 0
            names: set[str] = set()
            with os.scandir(upper) as entries:
                for entry in entries:
                    names.add(entry.name)
                    self._entry(
                        f"{inner}/{entry.name}" if inner else entry.name,
                        entry.stat(follow_symlinks=False),
                        _look(entry.name, below),
                        ignored=ignored,
                        changed=changed,
                        hidden=hidden,
                    )
            if hidden and below is not None:
                self._gone_below(inner, ignored, without=names)

    def _entry(
        self, inner: str, up: os.stat_result, low: os.stat_result | None, *, ignored: bool, changed: int, hidden: bool
    ) -> None:
        self._count(inner)
        if is_whiteout(self._layer, inner, up):
            if low is not None:
                self._gone(inner, low, ignored=ignored)
            return
        is_folder = stat.S_ISDIR(up.st_mode)
        ignored = ignored or self._ignores(inner, low, folder=is_folder)
        was_folder = low is not None and stat.S_ISDIR(low.st_mode)
        if is_folder:
            if mark_of(self._layer, inner, "redirect") is not None:
                raise _unreadable(self._layer.root / inner)
            if not was_folder or low is None or stat.S_IMODE(low.st_mode) != stat.S_IMODE(up.st_mode):
                self._changed(inner, low, up, ignored=ignored)
            else:
                self._note_beyond(inner, low, up)
            self._note_time(inner, low, up)
            self._waiting.append((inner, ignored, was_folder, hidden))
            return
        if was_folder:
            self._gone_below(inner, ignored)
        if low is None:
            moved = changed > self._layer.began > 0 and mark_of(self._layer, inner, "origin") is not None
            self._changed(inner, low, up, ignored=ignored, stale=moved)
        elif ignored and not self._stands_out(inner):
            self._changed(inner, low, up, ignored=True)
        elif self._differs(inner, low, up):
            self._changed(inner, low, up, ignored=False)
        else:
            self._found.noise += 1
            self._note_beyond(inner, low, up)
            if stat.S_ISREG(up.st_mode) and up.st_size == low.st_size:
                self._note_time(inner, low, up)
        if stat.S_ISLNK(up.st_mode):
            self._note_time(inner, low, up)

    def _note_time(self, inner: str, low: os.stat_result | None, up: os.stat_result) -> None:
        if low is None or up.st_mtime_ns != low.st_mtime_ns:
            self._found.touched.append(LayerChange(self._layer, inner, _seen(low) if low else None, _seen(up)))

    def _note_beyond(self, inner: str, low: os.stat_result | None, up: os.stat_result) -> None:
        if self._found.beyond or stat.S_ISLNK(up.st_mode):
            return
        differs = (
            up.st_uid != os.geteuid()
            if low is None
            else (up.st_uid, up.st_gid) != (low.st_uid, low.st_gid) or (stat.S_ISREG(up.st_mode) and up.st_nlink > 1)
        )
        if differs or _extended(self._layer, inner, self._upper) != (
            _extended(self._layer, inner, self._root) if low is not None else {}
        ):
            self._found.beyond = inner

    def _changed(
        self, inner: str, low: os.stat_result | None, up: os.stat_result, *, ignored: bool, stale: bool = False
    ) -> None:
        if stat.S_ISREG(up.st_mode) and up.st_nlink > 1:
            self._linked.add(up.st_ino)
        self._note_beyond(inner, low, up)
        after = _seen(up, _target(inner, self._upper) if stat.S_ISLNK(up.st_mode) else "")
        self._add(inner, self._before(inner, low), after, ignored=ignored, low=low, up=up, stale=stale)

    def _gone(self, inner: str, low: os.stat_result, *, ignored: bool) -> None:
        is_folder = stat.S_ISDIR(low.st_mode)
        ignored = ignored or self._ignores(inner, low, folder=is_folder)
        self._add(inner, self._before(inner, low), None, ignored=ignored, low=low)
        if is_folder:
            self._gone_below(inner, ignored)

    def _gone_below(self, inner: str, ignored: bool, without: frozenset[str] | set[str] = frozenset()) -> None:
        """All that a folder of the workspace holds was removed with it, but for some names."""
        waiting = [(inner, ignored)]
        while waiting:
            folder, inside = waiting.pop()
            try:
                with self._below(folder, there=True, flags=os.O_RDONLY) as below:
                    if below is None:
                        continue
                    with os.scandir(below) as entries:
                        listed = [(one.name, one.stat(follow_symlinks=False)) for one in entries]
            except PermissionError:
                continue  # only one with nothing in it can be removed by someone who may not look into it
            for name, low in listed:
                if folder == inner and name in without:
                    continue
                path = f"{folder}/{name}" if folder else name
                self._count(path)
                is_folder = stat.S_ISDIR(low.st_mode)
                left_out = inside or self._ignores(path, low, folder=is_folder)
                self._add(path, self._before(path, low), None, ignored=left_out, low=low)
                if is_folder:
                    waiting.append((path, left_out))

    def _add(
        self,
        inner: str,
        before: Seen | None,
        after: Seen | None,
        *,
        ignored: bool,
        low: os.stat_result | None = None,
        up: os.stat_result | None = None,
        stale: bool = False,
    ) -> None:
        special = next((word for one in (up, low) if one is not None and (word := _special(one.st_mode))), "")
        # A folder that stays is changed by all who work in it; only one that goes has to be as it was.
        fixed = before is not None and (
            before.node is not Node.FOLDER or after is None or after.node is not Node.FOLDER
        )
        late = fixed and before is not None and before.changed > self._layer.began > 0
        links = low.st_nlink if low is not None and stat.S_ISREG(low.st_mode) else 1
        change = LayerChange(self._layer, inner, before, after, special, links, stale or late)
        ignored = ignored and not self._stands_out(inner)
        (self._found.ignored if ignored else self._found.changes).append(change)

    # Telling

    def _ignores(self, inner: str, low: os.stat_result | None, *, folder: bool) -> bool:
        if self._git is None or is_guarded(inner):
            return False
        if self._git.ignores(inner, folder=folder):
            return True
        if not folder:
            return False
        above = (one / inner for one in (self._layer.upper, *self._layer.below))
        return self._git.is_cache(inner, low is not None, above)

    def _stands_out(self, inner: str) -> bool:
        """Whether a path is not ignored though its folder is."""
        return self._git is None or is_guarded(inner) or self._git.tracks(inner)

    def _differs(self, inner: str, low: os.stat_result, up: os.stat_result) -> bool:
        if stat.S_IFMT(low.st_mode) != stat.S_IFMT(up.st_mode):
            return True
        if stat.S_ISLNK(up.st_mode):
            return _target(inner, self._upper) != _target(inner, self._root)
        if not stat.S_ISREG(up.st_mode) or stat.S_IMODE(low.st_mode) != stat.S_IMODE(up.st_mode):
            return True
        change = LayerChange(self._layer, inner, _seen(low), _seen(up))
        return not same_content(change) and not (_INDEX.fullmatch(inner) and _same_index(change))

    def _before(self, inner: str, low: os.stat_result | None) -> Seen | None:
        if low is None:
            return None
        return _seen(low, _target(inner, self._root) if stat.S_ISLNK(low.st_mode) else "")

    @contextmanager
    def _below(self, inner: str, *, there: bool, flags: int = _PATH) -> Generator[int | None]:
        """The same folder in the workspace, open; None where there is none, or none any more."""
        try:
            opened = open_beneath(self._root, inner, flags | os.O_DIRECTORY | os.O_NOFOLLOW) if there else None
        except (FileNotFoundError, NotADirectoryError, LeadsOut):
            opened = None
        if opened is None:
            yield None
        else:
            with _opened(opened):
                yield opened

    def _count(self, inner: str) -> None:
        self._left -= 1
        if self._left < 0:
            raise _too_many(MOST_ENTRIES)
        if len(inner) + self._length > _LONGEST // 4 and len(os.fsencode(inner)) + self._length > _LONGEST:
            raise PathError(
                "deep",
                phrase("The command made folders too deep to be kept: a path has more than 4,000 bytes."),
                suggestion=phrase("Use shorter paths."),
            )


# The contents of files


@contextmanager
def opened_before(change: LayerChange) -> Generator[int]:
    """The file of a change as the workspace has it, open for reading."""
    with _folder(change.layer.root) as root, _opened(open_beneath(root, change.inner, _READ)) as opened:
        yield opened


@contextmanager
def opened_after(change: LayerChange) -> Generator[int]:
    """The file of a change as the layer has it, open for reading, also where its mode would not let us."""
    with _folder(change.layer.upper) as upper, _opened(_open_readable(upper, change.inner, _READ)) as opened:
        yield opened


def same_content(change: LayerChange) -> bool:
    """Whether a file holds the same bytes at both sides."""
    before, after = change.before, change.after
    if before is None or after is None or before.size != after.size:
        return False
    try:
        with opened_before(change) as one, opened_after(change) as other:
            return all(left == right for left, right in zip(pieces(one), pieces(other), strict=False))
    except PermissionError:
        return before.modified == after.modified  # a copy has the time of what it was copied from


def is_open_elsewhere(change: LayerChange) -> bool:
    """Whether a file of the workspace that a command wrote in place is open in another program: what is applied takes
    the place of the file, and the other program would go on with the old one.
    """
    before, after = change.before, change.after
    if before is None or after is None or {before.node, after.node} != {Node.FILE} or change.mode_alone:
        return False
    if mark_of(change.layer, change.inner, "origin") is None:  # a new file took its place
        return False
    try:
        with opened_before(change) as opened:
            # The kernel gives this to nobody but the only one that has a file open, and tells when another opens it.
            fcntl.fcntl(opened, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False


def pieces(opened: int) -> Iterator[bytes]:
    """The content of an open file, a piece at a time; at its end one that is empty."""
    piece = b"."
    while piece:
        piece = os.read(opened, _CHUNK)
        yield piece


def _same_index(change: LayerChange) -> bool:
    """Whether git looked at its files again, and tracks what it tracked."""
    try:
        with opened_before(change) as one, opened_after(change) as other:
            before, after = (parse_index(b"".join(pieces(opened))) for opened in (one, other))
    except (OSError, UnreadableIndex):
        return False
    return before.entries == after.entries


# Folders


def _settle_folders(found: LayerChanges, *, ignore: bool) -> None:
    """A folder belongs to what is in it: one that is made or removed for ignored files alone is ignored as well, one
    that is needed for a change is a change, and all that goes with a removed folder is removed.

    A hidden folder with nothing in it is one that a program made in case it has something to keep later.
    """
    needed: set[str] = set()
    filled: set[str] = set()
    for change in found.ignored:
        _add_folders(change.inner, filled)
    folders: list[LayerChange] = []
    settled: list[LayerChange] = []
    for change in found.changes:
        if change.of_folders and (change.before is None or change.after is None):
            folders.append(change)
        else:
            settled.append(change)
            _add_folders(change.inner, needed)
    for change in sorted(folders, key=lambda one: one.inner.count("/"), reverse=True):
        hidden = ignore and change.before is None and change.path.name.startswith(".") and not is_guarded(change.inner)
        if change.inner in needed or not (change.inner in filled or hidden):
            settled.append(change)
            _add_folders(change.inner, needed)
        else:
            found.ignored.append(change)
    gone = {
        one.inner
        for one in settled
        if one.before is not None
        and one.before.node is Node.FOLDER
        and not (one.after is not None and one.after.node is Node.FOLDER)
    }
    kept: list[LayerChange] = []
    for change in found.ignored:
        made_for = change.after is not None and change.of_folders and change.inner in needed
        goes_with = change.after is None and gone and not gone.isdisjoint(folders_of(change.inner))
        (settled if made_for or goes_with else kept).append(change)
    found.changes, found.ignored = settled, kept


def folders_of(inner: str) -> Iterator[str]:
    """The folders that a path lies in, the nearest first."""
    while "/" in inner:
        inner = inner.rpartition("/")[0]
        yield inner


def _add_folders(inner: str, known: set[str]) -> None:
    for folder in folders_of(inner):
        if folder in known:
            return
        known.add(folder)


# Entries


def _seen(found: os.stat_result, target: str = "") -> Seen:
    kind = found.st_mode
    node = Node.FOLDER if stat.S_ISDIR(kind) else Node.LINK if stat.S_ISLNK(kind) else Node.FILE
    return Seen(node, stat.S_IMODE(kind), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, target)


def _special(mode: int) -> str:
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
        return ""
    return _SPECIAL.get(stat.S_IFMT(mode), phrase("a device"))


def _look(name: str, folder: int | None) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False) if folder is not None else None
    except FileNotFoundError:
        return None


def look_again(change: LayerChange) -> Seen | None:
    """What stands at the path of a change in the workspace now."""
    return look_at(change.layer.root, change.inner)


def set_time(change: LayerChange) -> None:
    """Give what stands at the path of a change the time of its last change in the layer."""
    above, _, name = change.inner.rpartition("/")
    if change.after is not None:
        with _above(change.layer.root, above) as folder:
            times = time.time_ns(), change.after.modified
            os.utime(name or ".", ns=times, dir_fd=folder, follow_symlinks=False)


def look_at(root: Path, inner: str) -> Seen | None:
    """What stands at a path below a folder; nothing where the folder is missing, or a link leads elsewhere."""
    above, _, name = inner.rpartition("/")
    try:
        with _above(root, above) as folder:
            found = _look(name or ".", folder)
            if found is None:
                return None
            return _seen(found, _target(name, folder) if stat.S_ISLNK(found.st_mode) else "")
    except (FileNotFoundError, NotADirectoryError, LeadsOut):
        return None


def is_whiteout(layer: Layer, inner: str, found: os.stat_result) -> bool:
    """Whether an entry of a layer stands for something removed."""
    if stat.S_ISCHR(found.st_mode):
        return found.st_rdev == 0
    if not stat.S_ISREG(found.st_mode):
        return False
    if found.st_size and not found.st_blocks and mark_of(layer, inner, "metacopy") is not None:
        raise _unreadable(layer.root / inner)
    return found.st_size == 0 and mark_of(layer, inner, "whiteout") is not None


def mark_of(layer: Layer, inner: str, name: str) -> bytes | None:
    """What the kernel marked a file or a folder of a layer with."""
    name = layer.marks + name
    try:
        return _attribute(f"{layer.upper}/{inner}", name)
    except PermissionError:  # what nobody may read has no attributes either, not even for one who has it open
        with _folder(layer.upper) as upper:
            way = f"/proc/self/fd/{upper}/{inner}"
            mode = stat.S_IMODE(os.lstat(way).st_mode)
            os.chmod(way, mode | 0o500)  # noqa: PTH101
            try:
                return _attribute(way, name)
            finally:
                os.chmod(way, mode)  # noqa: PTH101


def _target(inner: str, folder: int) -> str:
    return os.readlink(inner, dir_fd=folder)


@contextmanager
def _above(root: Path, inner: str) -> Generator[int]:
    with _folder(root) as top, _opened(open_beneath(top, inner, _PATH | os.O_DIRECTORY | os.O_NOFOLLOW)) as folder:
        yield folder


def _folder(path: Path) -> AbstractContextManager[int]:
    return _opened(os.open(path, _PATH | os.O_DIRECTORY | os.O_CLOEXEC))


@contextmanager
def _opened(opened: int) -> Generator[int]:
    try:
        yield opened
    finally:
        os.close(opened)


def _attribute(entry: str, name: str) -> bytes | None:
    try:
        return os.getxattr(entry, name, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return None
        raise


def _extended(layer: Layer, inner: str, folder: int) -> dict[str, bytes]:
    """The extended attributes that a program gave a file or folder: not the kernel's, which are the same for all."""
    path = f"/proc/self/fd/{folder}/{inner}"
    try:
        names = os.listxattr(path, follow_symlinks=False)
        kept = (name for name in names if not name.startswith((layer.marks, "security.", "trusted.overlay.")))
        return {name: os.getxattr(path, name, follow_symlinks=False) for name in kept}
    except OSError as error:
        if error.errno in (*_NO_ATTRIBUTE, errno.EACCES, errno.EPERM, errno.ENOENT):
            return {}
        raise


def _open_readable(upper: int, inner: str, flags: int) -> int:
    """Open an entry of a layer, which is ours whatever mode the command gave it."""
    flags |= os.O_CLOEXEC
    found = os.stat(inner, dir_fd=upper, follow_symlinks=False)
    way = f"/proc/self/fd/{upper}/{inner}"
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISDIR(found.st_mode):
        if mode & 0o500 != 0o500:
            os.chmod(way, mode | 0o500)  # noqa: PTH101 - it stays so: what is in it must be reached later on
        return os.open(inner, flags, dir_fd=upper)
    try:
        return os.open(inner, flags, dir_fd=upper)
    except PermissionError:
        os.chmod(way, mode | 0o400)  # noqa: PTH101
    try:
        return os.open(inner, flags, dir_fd=upper)
    finally:
        os.chmod(way, mode)  # noqa: PTH101


def _too_many(most: int) -> PathError:
    return PathError(
        "many",
        phrase(
            "The command changed more than {most} files, which is more than can be shown and undone.", most=f"{most:,}"
        ),
        suggestion=phrase("Change fewer files with each command."),
    )


def _unreadable(path: Path) -> PathError:
    return PathError(
        "layer",
        phrase("What the command did to `{path}` cannot be read: the kernel keeps it in another form.", path=path.name),
        kind=ErrorKind.EXECUTION,
    )
