"""A quick look at everything in a workspace: what stands at each path, without reading a single file."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ferrule.workspace.confined import LeadsOut, open_beneath
from ferrule.workspace.snapshots.changes import Node

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ferrule.workspace.paths import Root

# What is in these can be made again, or belongs to a program with an undo of its own; it is large and changes a lot.
_LEFT_OUT = frozenset({".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__"})
_MARKS = frozenset({"CACHEDIR.TAG", "pyvenv.cfg"})
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Seen(NamedTuple):
    """What stands at a path and when it last changed. Two that are equal hold the same bytes."""

    node: Node
    mode: int
    size: int
    modified: int
    changed: int
    inode: int
    target: str = ""


@dataclass(slots=True)
class Scan:
    """`seen` by absolute path; `left_out` are folders that are not looked into; `unreadable` those that cannot be."""

    seen: dict[str, Seen] = field(default_factory=dict[str, Seen])
    left_out: set[str] = field(default_factory=set[str])
    unreadable: set[str] = field(default_factory=set[str])
    pipes: bool = False
    """Whether there is a pipe, a socket or a device, none of which is seen."""
    whole: bool = True
    """Whether everything was looked at, and it did not stop at the limit."""


def scan(roots: Iterable[Root], most: int, without: Collection[str] = ()) -> Scan:
    """Look at everything below the roots, up to `most` entries. Links are never followed, nor other disks entered.

    `without` are real paths of folders to leave out.
    """
    found = Scan()
    for root in roots:
        _scan(found, root, most, without)
    return found


def _scan(found: Scan, root: Root, most: int, without: Collection[str]) -> None:
    top = str(root.path)
    if top in found.seen:
        return  # a root inside another
    pending = [top]
    while pending:
        folder = pending.pop()
        if folder in without:
            found.left_out.add(folder)
            continue
        try:
            opened = open_beneath(root.descriptor, folder[len(top) + 1 :], _OPEN)
        except FileNotFoundError:
            continue  # removed while we looked
        except LeadsOut:
            found.left_out.add(folder)  # another disk, or a link by now
            continue
        except OSError:
            found.unreadable.add(folder)
            continue
        try:
            entries = list(os.scandir(opened))
            if folder != top and any(entry.name in _MARKS for entry in entries):
                found.left_out.add(folder)
                continue
            if len(found.seen) + len(entries) > most:
                found.whole = False
                return
            for entry in entries:
                _see(found, f"{folder}/{entry.name}", entry, opened, pending)
        finally:
            os.close(opened)


def _see(found: Scan, path: str, entry: os.DirEntry[str], opened: int, pending: list[str]) -> None:
    try:
        state = entry.stat(follow_symlinks=False)
        mode = state.st_mode
        if stat.S_ISREG(mode):  # nearly all are, and there are many
            found.seen[path] = _file(state)
            return
        if stat.S_ISDIR(mode) and entry.name in _LEFT_OUT:
            found.left_out.add(path)
            return
        seen = _no_file(state, entry.name, opened)
    except FileNotFoundError:
        return  # removed while we looked
    if seen is None:
        found.pipes = True
        return
    found.seen[path] = seen
    if seen.node is Node.FOLDER:
        pending.append(path)


def _file(state: os.stat_result) -> Seen:
    mode = stat.S_IMODE(state.st_mode)
    return Seen(Node.FILE, mode, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)


def _no_file(state: os.stat_result, name: str, folder: int) -> Seen | None:
    """A link or a folder that is called so in an open folder; None for a pipe, a socket or a device."""
    if stat.S_ISLNK(state.st_mode):
        target = os.readlink(name, dir_fd=folder)
        return Seen(Node.LINK, 0, 0, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, target)
    if stat.S_ISDIR(state.st_mode):
        return Seen(Node.FOLDER, stat.S_IMODE(state.st_mode), 0, 0, 0, state.st_ino)
    return None


def see(root: Root, path: str) -> Seen | None:
    """What stands at one path below a root; None where a scan would find nothing either.

    Raises `OSError` where a folder on the way cannot be looked into.
    """
    inner, _, name = path[len(str(root.path)) + 1 :].rpartition("/")
    try:
        opened = open_beneath(root.descriptor, inner, _OPEN)
    except (FileNotFoundError, NotADirectoryError, LeadsOut):
        return None
    try:
        if _leads_through_link(root, inner):
            return None
        state = os.stat(name, dir_fd=opened, follow_symlinks=False)
        return _file(state) if stat.S_ISREG(state.st_mode) else _no_file(state, name, opened)
    except FileNotFoundError:
        return None
    finally:
        os.close(opened)


def _leads_through_link(root: Root, inner: str) -> bool:
    """Whether a folder on the way is a link by now: what lies behind it stands elsewhere."""
    parts = inner.split("/")
    tops = ("/".join(parts[:end]) for end in range(1, len(parts) + 1)) if inner else ()
    return any(stat.S_ISLNK(os.stat(top, dir_fd=root.descriptor, follow_symlinks=False).st_mode) for top in tops)


def is_left_out(path: str, left_out: Collection[str]) -> bool:
    """Whether a path is a folder that is not looked into, or lies in one."""
    folder = path
    while folder:
        if folder in left_out:
            return True
        folder, _, name = folder.rpartition("/")
        if name in _LEFT_OUT and len(folder) + 1 + len(name) < len(path):
            return True
    return False


def below(paths: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
    """Those paths that lie in one of the folders."""
    tops = tuple(f"{folder}/" for folder in folders)
    return (path for path in paths if path.startswith(tops)) if tops else iter(())
