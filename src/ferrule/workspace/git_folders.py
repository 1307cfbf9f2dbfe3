"""Git directories: which paths lie in one, and which objects it has. Git itself is not asked."""

from __future__ import annotations

import hashlib
import os
import zlib
from typing import TYPE_CHECKING

from ferrule.core.files import start_of, without_waiting

if TYPE_CHECKING:
    from collections.abc import Callable

SHA1, SHA256 = 20, 32
SUMS = {SHA1: "sha1", SHA256: "sha256"}
_PIECE = 1 << 18
_PACK_NAMES = 8 + 4 * 256
_MOST_LINES, _MOST_STORES = 1 << 16, 16


class GitFolders:
    """Which paths lie in a git directory: a `.git`, or a folder with what git looks for in a bare repository.

    `exists` says whether something is, or was, at a path.
    """

    def __init__(self, exists: Callable[[str], bool]) -> None:
        self._exists = exists
        self._known: dict[str, str | None] = {"": None}

    def of(self, path: str) -> str | None:
        """The git directory that a path is, or lies in; of nested ones, as of submodules, the innermost. A file `.git`
        is one too.
        """
        if path not in self._known:
            above, _, name = path.rpartition("/")
            is_one = name == ".git" or is_git_folder(path, self._exists)
            self._known[path] = path if is_one else self.of(above)
        return self._known[path]

    def add(self, folder: str) -> None:
        """Take a folder for a git directory from now on."""
        self._known[folder] = folder


def is_git_folder(path: str, exists: Callable[[str], bool]) -> bool:
    """Whether git would take a folder for a repository by what is in it."""
    return all(exists(f"{path}/{name}") for name in ("HEAD", "objects", "refs"))


def first_line(file: str) -> str:
    """The first line of a small file; empty where there is none."""
    return os.fsdecode(start_of(file, 4096).partition(b"\n")[0].strip())


def git_folder(repository: str) -> str:
    """The git directory of a working folder; a worktree and a submodule name it in a file."""
    git = f"{repository}/.git"
    said = first_line(git)  # of a folder it is empty
    return os.path.join(repository, said.removeprefix("gitdir:").strip()) if said else git  # noqa: PTH118


def common_folder(git: str) -> str:
    """Where a git directory keeps objects and branches: a worktree's is that of its repository."""
    common = first_line(f"{git}/commondir")
    return os.path.realpath(os.path.join(git, common)) if common else git  # noqa: PTH118


# Objects


def has_object(git: str, digest: bytes) -> bool:
    """Whether a git directory really has an object: an index may name one that was never stored.

    A loose one is read and compared; of one in a pack the pack's own list is believed.
    """
    if len(digest) not in SUMS:
        return False
    own = f"{common_folder(git)}/objects"
    # The stores of other repositories that this one borrows from.
    lines = os.fsdecode(start_of(f"{own}/info/alternates", _MOST_LINES)).splitlines()[:_MOST_STORES]
    others = (os.path.join(own, line) for line in lines if line and not line.startswith("#"))  # noqa: PTH118
    folders, name = [own, *others], digest.hex()
    return any(
        bool(loose_kind(f"{folder}/{name[:2]}/{name[2:]}", digest)) or _is_packed(folder, digest) for folder in folders
    )


def loose_kind(file: str, digest: bytes, most: int = 1 << 40) -> bytes:
    """`blob`, `tree`, `commit` or `tag`, of a loose object whose content has the digest that names it; else empty."""
    sum_of, unpacked = hashlib.new(SUMS[len(digest)], usedforsecurity=False), zlib.decompressobj()
    head, size = b"", 0
    try:
        with open(file, "rb", opener=without_waiting) as opened:
            while piece := opened.read(_PIECE):
                while piece:
                    part = unpacked.decompress(piece, _PIECE)
                    head, size, piece = head or part[:32], size + len(part), unpacked.unconsumed_tail
                    if size > most:
                        return b""
                    sum_of.update(part)
    except (OSError, zlib.error):
        return b""
    return head.partition(b" ")[0] if unpacked.eof and sum_of.digest() == digest else b""


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


def packed_objects(pack_index: str, most: int) -> set[bytes] | None:
    """The objects that the list of a pack names; None where there are more than `most`, or it cannot be read."""
    try:
        with open(pack_index, "rb", opener=without_waiting) as file:
            head = file.read(_PACK_NAMES)
            count = int.from_bytes(head[-4:])
            if len(head) < _PACK_NAMES or head[:8] != b"\xfftOc\0\0\0\x02" or count > most:
                return None
            # A checksum and an offset follow for each, then two sums of all: so the size tells how long a name is.
            size = os.fstat(file.fileno()).st_size
            long = SHA1 if size < _PACK_NAMES + count * (SHA256 + 8) + 2 * SHA256 else SHA256
            names = file.read(count * long)
    except OSError:
        return None
    return {names[at : at + long] for at in range(0, len(names), long)} if len(names) == count * long else None
