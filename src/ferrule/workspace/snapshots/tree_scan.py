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
        times = (state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
        if stat.S_ISREG(mode):
            found.seen[path] = Seen(Node.FILE, stat.S_IMODE(mode), state.st_size, *times)
        elif stat.S_ISLNK(mode):
            found.seen[path] = Seen(Node.LINK, 0, 0, *times, os.readlink(entry.name, dir_fd=opened))
        elif stat.S_ISDIR(mode) and entry.name in _LEFT_OUT:
            found.left_out.add(path)
        elif stat.S_ISDIR(mode):
            found.seen[path] = Seen(Node.FOLDER, stat.S_IMODE(mode), 0, 0, 0, state.st_ino)
            pending.append(path)
    except FileNotFoundError:
        return  # removed while we looked


def below(paths: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
    """Those paths that lie in one of the folders."""
    tops = tuple(f"{folder}/" for folder in folders)
    return (path for path in paths if path.startswith(tops)) if tops else iter(())
