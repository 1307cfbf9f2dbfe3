"""Reads what git tracks from its index file. git itself is not run, so nothing that a repository names can be."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST = 256 << 20
_STAT = 40  # bytes of an entry that say what the file looked like
_EXTENDED, _NAME = 0x4000, 0x0FFF
_WHOLE = frozenset({b"link", b"sdir"})
"""Extensions without which an index says nothing: a shared part elsewhere, folders in place of files."""
_KNOWN = 2
_SHA1, _SHA256 = 20, 32
_parsed: dict[str, tuple[tuple[int, ...], GitIndex]] = {}


class UnreadableIndex(Exception):  # noqa: N818 - reads as what it says
    """An index in a form that is not understood, or a damaged one."""


class Tracked(NamedTuple):
    """A version of a file that git has. `flags` are its stage, and whether git should overlook changes of it."""

    mode: int
    digest: bytes
    flags: int


@dataclass(slots=True, frozen=True)
class GitIndex:
    """The names that git tracks, from the top of its repository on, each with its mode and the digests of its content.

    `whole` is False of an index that could not be read: then everything may be tracked.
    """

    entries: dict[bytes, tuple[Tracked, ...]] = field(default_factory=dict[bytes, "tuple[Tracked, ...]"])
    names: tuple[bytes, ...] = ()
    whole: bool = True

    def tracks(self, name: bytes) -> bool:
        return not self.whole or name in self.entries

    def tracks_below(self, folder: bytes) -> bool:
        """Whether anything in a folder is tracked."""
        start = folder + b"/"
        at = bisect_left(self.names, start)
        return not self.whole or (at < len(self.names) and self.names[at].startswith(start))

    def holds(self, name: bytes, content: Iterator[bytes], size: int, *, link: bool) -> bool:
        """Whether git has just this content of a file, or target of a link."""
        kept = self.entries.get(name) if self.whole else None
        if not kept:
            return False
        wanted = {one.digest for one in kept if stat.S_ISLNK(one.mode) == link}
        sum_of = hashlib.sha256() if len(kept[0].digest) == _SHA256 else hashlib.sha1(usedforsecurity=False)
        sum_of.update(b"blob %d\0" % size)
        for piece in content:
            sum_of.update(piece)
        return sum_of.digest() in wanted


def index_of(repository: str) -> GitIndex:
    """The index of the repository at a folder; parsed once for as long as the file stays the same."""
    file = f"{_git_folder(repository)}/index"
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return GitIndex()
    except OSError:
        return GitIndex(whole=False)
    with os.fdopen(opened, "rb") as stream:
        found = os.fstat(opened)
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        known = _parsed.get(file)
        if known is not None and known[0] == stamp:
            return known[1]
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            return GitIndex(whole=False)
        data = stream.read(_LARGEST)
    try:
        index = parse_index(data)
    except UnreadableIndex:
        index = GitIndex(whole=False)
    while len(_parsed) >= _KNOWN:
        _parsed.pop(next(iter(_parsed)))
    _parsed[file] = (stamp, index)
    return index


def _git_folder(repository: str) -> str:
    """Where the repository at a folder keeps its files; a worktree and a submodule say so in a file."""
    git = f"{repository}/.git"
    try:
        with os.fdopen(os.open(git, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            said = file.read(4096).partition(b"\n")[0]
    except OSError:  # a folder, or nothing
        return git
    return os.path.join(repository, os.fsdecode(said.removeprefix(b"gitdir:").strip()))  # noqa: PTH118


def parse_index(data: bytes) -> GitIndex:
    """What an index file of version 2, 3 or 4 says."""
    for digest in (_SHA1, _SHA256):  # which one, only the repository's settings say; the wrong one never comes out even
        try:
            return _parse(data, digest)
        except (UnreadableIndex, IndexError):
            continue
    raise UnreadableIndex


def _parse(data: bytes, digest: int) -> GitIndex:
    version = int.from_bytes(data[4:8])
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        raise UnreadableIndex
    entries: dict[bytes, tuple[Tracked, ...]] = {}
    at, name, end = 12, b"", len(data) - digest
    for _ in range(int.from_bytes(data[8:12])):
        start = at
        at += _STAT
        mode, content = int.from_bytes(data[start + 24 : start + 28]), data[at : at + digest]
        flags = int.from_bytes(data[at + digest : at + digest + 2])
        more = int.from_bytes(data[at + digest + 2 : at + digest + 4]) if flags & _EXTENDED else 0
        at += digest + (4 if flags & _EXTENDED else 2)
        if version == 4:
            cut, at = _varint(data, at)
            stop = data.find(b"\0", at, end)
            name = name[: len(name) - cut] + data[at:stop]
            at = stop + 1
        else:
            stop = data.find(b"\0", at, end)
            name = data[at:stop]
            at = start + ((stop - start) // 8 + 1) * 8
        if stop < 0 or not name or (flags & _NAME) != min(len(name), _NAME):
            raise UnreadableIndex
        entries[name] = (
            *entries.get(name, ()),
            Tracked(mode, content, flags & ~_NAME | more << 16),
        )  # an unmerged file has several
    while at + 8 <= end:
        if data[at : at + 4] in _WHOLE or not re.fullmatch(rb"[A-Za-z]{4}", data[at : at + 4]):
            raise UnreadableIndex
        at += 8 + int.from_bytes(data[at + 4 : at + 8])
    if at != end:
        raise UnreadableIndex
    return GitIndex(entries, tuple(sorted(entries)))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1
