"""Old contents of files, each kept once under the name of what it holds."""

from __future__ import annotations

import os
import shutil
import zlib
from io import BytesIO
from typing import TYPE_CHECKING

from ferrule.core.files import sync_path, write_atomically
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from ferrule.workspace.snapshots.changes import State

SHARDS = 256
_BLOCK = 4096
_RAW, _ZLIB = b"\0", b"\1"
# Compressing a megabyte takes longer than all the rest of an edit; what is larger than this is kept as it is.
_COMPRESSED_AT_ONCE = 256 * 1024
_AT_HAND = 64 * 1024 * 1024
_LINKED = ".git"
"""How the names end of contents that are second names (hard links) of files which never change."""


class ContentLost(Exception):  # noqa: N818 - reads as what it says
    """A content is not in the store any more, or is not what its name says."""


class ContentStore:
    """A folder of contents named by their digest. A file in it is whole from the moment it has its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, name: str, size: int, *, durable: bool) -> bool:
        """Whether a content is there in its packed size; a power cut may have cut short what was not put durably."""
        path = self.path(name)
        try:
            known = path.stat().st_size == size
        except FileNotFoundError:
            return False
        if known and durable:  # it may have been put in passing before
            for one in (path, path.parent, self.folder):
                sync_path(one)
        return known

    def put(self, name: str, packed: tuple[bytes, bytes], *, durable: bool) -> None:
        """Keep what `pack` gave under its digest, through any kill; if `durable`, once it returns, also a power cut."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, packed, mode=0o666, durable=durable)
        if durable:
            sync_path(self.folder)

    def get(self, name: str, at_hand: Mapping[str, bytes] | None = None) -> bytes:
        """The content of this name, proven to be it; what is `at_hand` need not be in the store any more."""
        if at_hand is not None and name in at_hand:
            return at_hand[name]
        try:
            data = self.path(name).read_bytes()
            if is_link(name):
                return data
            data = unpack(data)
        except (OSError, zlib.error) as error:
            raise ContentLost(name) from error
        if digest(data) != name:
            raise ContentLost(name)
        return data

    def link(self, name: str, source: str | Path, folder: int | None = None) -> bool:
        """Keep a file that never changes as a second name of it; False where that cannot be, as from another disk."""
        path = self.path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(source, path, src_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            return True
        except OSError:
            return False
        return True

    def open(self, name: str) -> BinaryIO:
        """A content as an open file."""
        return self.path(name).open("rb") if is_link(name) else BytesIO(self.get(name))

    def clear(self) -> None:
        """Remove every content."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)

    def all(self) -> Iterator[str]:
        """Every name in the store, also of what a kill left half written."""
        for number in range(SHARDS):
            yield from self.shard(number)

    def shard(self, number: int) -> Iterator[str]:
        """The names in one of the `SHARDS` parts of the store, also of what a kill left half written."""
        part = f"{number:02x}"
        try:
            yield from [part + one.name for one in (self.folder / part).iterdir()]
        except FileNotFoundError:
            return

    def path(self, name: str) -> Path:
        """Where a content lies."""
        return self.folder / name[:2] / name[2:]


def linked_name(path: str, inode: int, size: int, modified: int) -> str:
    """The name under which a file that never changes is linked."""
    return digest(f"{inode} {size} {modified} {path}".encode("utf-8", "surrogateescape")) + _LINKED


def is_link(name: str) -> bool:
    """Whether a content is kept as a second name of the file."""
    return name.endswith(_LINKED)


def is_linked(state: State | None) -> bool:
    """The same of what was at a path."""
    return state is not None and is_link(state.content)


class ContentsAtHand(dict[str, bytes]):
    """Contents in memory while files change, so that all of them do or none, whatever becomes of the store meanwhile.

    Of more than fits only the first are kept.
    """

    left = _AT_HAND

    def add(self, name: str, data: bytes) -> None:
        if name not in self and len(data) <= self.left:
            self.left -= len(data)
            self[name] = data


class NewContents(dict[str, int]):
    """Contents that were put in the store and are not in the journal yet, by name, with their packed sizes."""

    room = 0
    """What they take on the disk."""

    def add(self, name: str, size: int) -> None:
        self.room += room(size) - room(self.get(name, 0))
        self[name] = size


def pack(data: bytes) -> tuple[bytes, bytes]:
    """How a content lies in the store: a byte that says how, and the content, compressed where that saves room."""
    if _BLOCK <= len(data) <= _COMPRESSED_AT_ONCE:
        squeezed = zlib.compress(data, 1)
        if room(len(squeezed) + 1) < room(len(data) + 1):
            return _ZLIB, squeezed
    return _RAW, data


def unpack(packed: bytes) -> bytes:
    """What `pack` was given."""
    return zlib.decompress(memoryview(packed)[1:]) if packed[:1] == _ZLIB else packed[1:]


def room(size: int) -> int:
    """How much of a disk so many bytes take."""
    return -(-size // _BLOCK) * _BLOCK
