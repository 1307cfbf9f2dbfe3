"""Reads what git tracks from its index file. git itself is not run, so nothing that a repository names can be."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import tempfile
import zlib
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ferrule.workspace.confined import without_waiting
from ferrule.workspace.searching.globs import enclosing_repository

if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST = 256 << 20
_STAT = 40  # bytes of an entry that say what the file looked like
_EXTENDED, _NAME = 0x4000, 0x0FFF
_WHOLE = frozenset({b"link", b"sdir"})
"""Extensions without which an index says nothing: a shared part elsewhere, folders in place of files."""
_KNOWN = 2
_SHA1, _SHA256 = 20, 32
_SUMS = {_SHA1: "sha1", _SHA256: "sha256"}
_PIECE = 1 << 18
_PACK_NAMES = 8 + 4 * 256
_MOST_LINES, _MOST_STORES = 1 << 16, 16
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

    def names_content(self, name: bytes, content: Iterator[bytes], size: int, *, link: bool) -> bytes:
        """The digest under which git tracks just this content of a file, or target of a link; empty where it does not.
        That says nothing yet of whether git has it.
        """
        kept = self.entries.get(name) if self.whole else None
        if not kept:
            return b""
        wanted = {one.digest for one in kept if stat.S_ISLNK(one.mode) == link}
        sum_of = hashlib.new(_SUMS[len(kept[0].digest)], usedforsecurity=False)
        sum_of.update(b"blob %d\0" % size)
        for piece in content:
            sum_of.update(piece)
        return sum_of.digest() if sum_of.digest() in wanted else b""


def index_of(repository: str) -> GitIndex:
    """The index of the repository at a folder; parsed once for as long as the file stays the same."""
    file = f"{_git_folder(repository)}/index"
    try:
        stream = open(file, "rb", opener=without_waiting)  # noqa: SIM115 - before every look box
    except FileNotFoundError:
        return GitIndex()
    except OSError:
        return GitIndex(whole=False)
    with stream:
        found = os.fstat(stream.fileno())
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


def has_object(repository: str, digest: bytes) -> bool:
    """Whether the repository at a folder really has an object: an index may name one that nobody ever stored.

    A loose one is read and compared; of one in a pack the pack's own list is believed.
    """
    git = _git_folder(repository)
    common = _first_line(f"{git}/commondir")
    folders = [f"{os.path.join(git, common)}/objects" if common else f"{git}/objects"]  # noqa: PTH118
    with contextlib.suppress(OSError):
        folders += _alternates(folders[0])
    return any(_is_loose(folder, digest) or _is_packed(folder, digest) for folder in folders)


def needed_outside(root: Path) -> list[str]:
    """What lies outside a folder and git needs in it: the repository that the folder is a part of, or that it is a
    worktree of. A home that is a repository itself is not shown for that.
    """
    top = enclosing_repository(root)
    if top is not None:
        homes = (Path(os.path.realpath(Path.home())), Path(os.path.realpath(tempfile.gettempdir())))
        return [] if any(home.is_relative_to(top) for home in homes) else [str(top), *_common_folder(top)]
    return _common_folder(root)


def _common_folder(repository: Path) -> list[str]:
    """Where a worktree has its repository. That one must know the worktree too: else any file that is called `.git`
    could have any folder shown.
    """
    git = os.path.realpath(_git_folder(str(repository)))
    if git == str(repository / ".git"):
        return []
    common = os.path.realpath(os.path.join(git, _first_line(f"{git}/commondir") or "-"))  # noqa: PTH118
    is_its_own = os.path.realpath(_first_line(f"{git}/gitdir") or "-") == str(repository / ".git")
    has_all = all(os.path.exists(f"{common}/{name}") for name in ("HEAD", "objects", "refs"))  # noqa: PTH110
    return [common] if is_its_own and has_all and git.startswith(f"{common}/worktrees/") else []


def _alternates(objects: str) -> Iterator[str]:
    """The stores of other repositories that this one borrows from."""
    with open(f"{objects}/info/alternates", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        for line in file.read(_MOST_LINES).splitlines()[:_MOST_STORES]:
            if line and not line.startswith("#"):
                yield os.path.join(objects, line)  # noqa: PTH118


def _is_loose(objects: str, digest: bytes) -> bool:
    name = digest.hex()
    sum_of, unpacked = hashlib.new(_SUMS[len(digest)], usedforsecurity=False), zlib.decompressobj()
    try:
        with open(f"{objects}/{name[:2]}/{name[2:]}", "rb", opener=without_waiting) as file:
            while piece := file.read(_PIECE):
                while piece:
                    sum_of.update(unpacked.decompress(piece, _PIECE))
                    piece = unpacked.unconsumed_tail
    except (OSError, zlib.error):
        return False
    return unpacked.eof and sum_of.digest() == digest


def _is_packed(objects: str, digest: bytes) -> bool:
    try:
        with os.scandir(f"{objects}/pack") as entries:
            lists = [entry.path for entry in entries if entry.name.endswith(".idx") and entry.is_file()]
        return any(
            _is_listed(one, digest)
            for one in lists
            if os.path.isfile(one.removesuffix("idx") + "pack")  # noqa: PTH113
        )
    except OSError:
        return False


def _is_listed(pack_index: str, digest: bytes) -> bool:
    """Whether the list of a pack has an object: 256 counts by first byte, then all digests in order."""
    with open(pack_index, "rb") as file:  # noqa: PTH123
        head = file.read(_PACK_NAMES)
        if len(head) < _PACK_NAMES or head[:8] != b"\xfftOc\0\0\0\x02":
            return False
        first = digest[0]
        low = int.from_bytes(head[4 + 4 * first : 8 + 4 * first]) if first else 0
        high = int.from_bytes(head[8 + 4 * first : 12 + 4 * first])
        while low < high:
            middle = (low + high) // 2
            file.seek(_PACK_NAMES + middle * len(digest))
            found = file.read(len(digest))
            if found == digest:
                return True
            low, high = (middle + 1, high) if found < digest else (low, middle)
    return False


def _first_line(file: str) -> str:
    """The first line of a small file; empty where there is none."""
    try:
        with open(file, "rb", opener=without_waiting) as opened:
            return os.fsdecode(opened.read(4096).partition(b"\n")[0])
    except OSError:
        return ""


def _git_folder(repository: str) -> str:
    """Where the repository at a folder keeps its files; a worktree and a submodule say so in a file."""
    git = f"{repository}/.git"
    said = _first_line(git)  # of a folder it is empty
    return os.path.join(repository, said.removeprefix("gitdir:").strip()) if said else git  # noqa: PTH118


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
