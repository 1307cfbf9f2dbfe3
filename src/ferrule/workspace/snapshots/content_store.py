"""Old contents of files, each kept once under the name of what it holds."""

from __future__ import annotations

import os
import secrets
import zlib
from typing import TYPE_CHECKING

from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SHARDS = 256
_BLOCK = 4096
_RAW, _ZLIB = b"\0", b"\1"
# Compressing a megabyte takes longer than all the rest of an edit; what is larger than this is kept as it is.
_COMPRESSED_AT_ONCE = 256 * 1024
_AT_HAND = 64 * 1024 * 1024


class ContentLost(Exception):  # noqa: N818 - reads as what it says
    """A content is not in the store any more, or is not what its name says."""


class ContentStore:
    """A folder of contents named by their digest. A file in it is whole from the moment it has its name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, name: str, size: int, *, durable: bool) -> bool:
        """Whether a content is there in its packed size; a power cut may have cut short what was not put durably."""
        path = self._path(name)
        try:
            known = path.stat().st_size == size
        except FileNotFoundError:
            return False
        if known and durable:  # it may have been put in passing before
            _sync(path)
            self._sync_folders(path)
        return known

    def put(self, name: str, packed: bytes, *, durable: bool) -> None:
        """Keep what `pack` gave under its digest, through any kill; if `durable`, once it returns, also a power cut."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as file:
                file.write(packed)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            self._sync_folders(path)

    def get(self, name: str, at_hand: Mapping[str, bytes] | None = None) -> bytes:
        """The content of this name, proven to be it; what is `at_hand` need not be in the store any more."""
        if at_hand is not None and name in at_hand:
            return at_hand[name]
        try:
            data = unpack(self._path(name).read_bytes())
        except (OSError, zlib.error) as error:
            raise ContentLost(name) from error
        if digest(data) != name:
            raise ContentLost(name)
        return data

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

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

    def _sync_folders(self, path: Path) -> None:
        _sync(path.parent)
        _sync(self.folder)

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / name[2:]


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


def pack(data: bytes) -> bytes:
    """How a content lies in the store: compressed where that saves room on the disk."""
    if _BLOCK <= len(data) <= _COMPRESSED_AT_ONCE:
        squeezed = zlib.compress(data, 1)
        if room(len(squeezed) + 1) < room(len(data) + 1):
            return _ZLIB + squeezed
    return _RAW + data


def unpack(packed: bytes) -> bytes:
    """What `pack` was given."""
    return zlib.decompress(memoryview(packed)[1:]) if packed[:1] == _ZLIB else packed[1:]


def room(size: int) -> int:
    """How much of a disk so many bytes take."""
    return -(-size // _BLOCK) * _BLOCK


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
