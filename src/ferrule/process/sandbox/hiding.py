"""Hides files in a box, however many there are.

Each mount makes every later one slower, for bubblewrap reads the list of all mounts after each. So a few places are
covered one by one. Many are covered by one layer: in it, each has an empty file in its place that cannot be opened.
Where the workspace has no layers, as when a box writes to it, the folders that hold most of them are hidden whole.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import advice, phrase
from ferrule.process.arguments import ProgramWords
from ferrule.process.sandbox.denials import SandboxRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MOST_COVERED = 64
"""Places that are covered one by one."""
_MOST_WITHOUT_LAYER = 256


def names_of_hidden(hidden: Sequence[Path], roots: Sequence[str]) -> list[str]:
    """The real paths of what must be hidden, and every other name in the workspace under which a file of it is known:
    a hard link is as good as the file.
    """
    folders = {folder: os.path.realpath(folder) for folder in {path.parent for path in hidden}}
    names = dict.fromkeys(_real(str(path), folders[path.parent], path.name) for path in hidden)
    names |= dict.fromkeys(other_names(names, roots))
    return outermost(names)


def _real(path: str, folder: str, name: str) -> str:
    return os.path.realpath(path) if os.path.islink(path) else os.path.join(folder, name)  # noqa: PTH114, PTH118


def outermost(paths: Iterable[str]) -> list[str]:
    """Those that lie in none of the others."""
    known = dict.fromkeys(paths)
    return [path for path in known if not any(above in known for above in _above(path))]


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def other_names(places: Iterable[str], roots: Iterable[str], but: tuple[str, ...] = ()) -> list[str]:
    """Under which names files in these places, given by their real paths, are known below the roots; none where no
    file has a second name.
    """
    linked = {(file.st_dev, file.st_ino) for path in places for file in _files(path, but) if file.st_nlink > 1}
    return [name for root in roots for name in _with_number(root, linked)] if linked else []


def _files(path: str, but: tuple[str, ...] = ()) -> Iterator[os.stat_result]:
    """The state of a file, or of every file in a folder, but for names that end so."""
    with suppress(OSError):
        state = os.lstat(path)
        if stat.S_ISREG(state.st_mode):
            yield state
        elif stat.S_ISDIR(state.st_mode):
            with os.scandir(path) as entries:
                below = [entry.path for entry in entries if not (entry.is_symlink() or entry.name.endswith(but))]
            for one in below:
                yield from _files(one, but)


def _with_number(root: str, wanted: set[tuple[int, int]]) -> Iterator[str]:
    numbers = {number for _, number in wanted}
    waiting = [root]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.inode() in numbers:
                    state = entry.stat(follow_symlinks=False)
                    if (state.st_dev, state.st_ino) in wanted:
                        yield entry.path


def hide(path: str) -> ProgramWords:
    """Cover what is there: a file with one that cannot be opened, a folder with one that cannot be entered."""
    made = ProgramWords()
    try:
        state = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return made  # what is not there, or not ours to enter, no command of ours reads either
    if stat.S_ISDIR(state.st_mode):
        return (
            made.option("--perms", "0000").option("--size", "4096").option("--tmpfs", path).option("--remount-ro", path)
        )
    return made.option("--ro-bind", "/dev/null", path)


def gathered(places: Sequence[str], roots: Sequence[str]) -> list[str]:
    """The places themselves, or folders that hold them all where there are too many to be covered one by one."""
    found = set(places)
    while len(found) > _MOST_WITHOUT_LAYER:
        folders = Counter(folder for path in found if (folder := os.path.dirname(path)) not in roots)  # noqa: PTH120
        if not folders:
            raise SandboxRefused(
                phrase(
                    "{count} files of the workspace must be hidden from this command, and at most {most} can be.",
                    count=len(found),
                    most=_MOST_WITHOUT_LAYER,
                ),
                advice(
                    "Run it in the foreground, or ask the user to move these files into a folder of their own.",
                    "Run it in the foreground, or move these files into a folder of their own.",
                ),
            )
        largest = folders.most_common(1)[0][1]
        chosen = {folder for folder, count in folders.items() if 2 * count >= largest}
        found = {path for path in found if os.path.dirname(path) not in chosen} | chosen  # noqa: PTH120
        found = set(outermost(found))
    return sorted(found)


def mask(root: str, places: Sequence[str], masks: Path) -> Path:
    """A layer in `masks` that covers places below a root. It is never changed: boxes that run may have it."""
    named = hashlib.sha256("\0".join((root, *places)).encode(errors="surrogateescape")).hexdigest()
    made = masks / named
    if not made.is_dir():
        masks.mkdir(mode=0o700, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=masks))
        _fill(str(new), root, places)
        try:
            new.rename(made)
        except OSError:
            if not made.is_dir():  # another command was faster; what is left here goes with the session
                raise
    return made


def _fill(folder: str, root: str, places: Sequence[str]) -> None:
    """Folders look like those that they are seen in place of; the files are one, for as long as it can have names."""
    _look_like(folder, root)
    known, first = {""}, ""
    for path in places:
        inner = path[len(root) :]
        for above in reversed([one for one in _above(inner) if one not in known]):
            known.add(above)
            os.mkdir(folder + above)  # noqa: PTH102 - of very many
            _look_like(folder + above, root + above)
        try:
            os.link(first, folder + inner)
        except OSError:
            first = folder + inner
            os.close(os.open(first, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0))


def _look_like(folder: str, other: str) -> None:
    state = os.stat(other)  # noqa: PTH116 - of very many
    if os.geteuid() == 0:
        os.chown(folder, state.st_uid, state.st_gid)
    os.chmod(folder, stat.S_IMODE(state.st_mode) | 0o700)  # noqa: PTH101
