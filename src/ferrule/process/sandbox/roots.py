"""The folders a command may write in, as real paths, and which of a profile's places lie below them."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.process.profile import LayerMount
from ferrule.process.sandbox.places import is_within
from ferrule.process.sandbox.sandbox import SandboxRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ferrule.process.profile import Profile

_ESCAPED, _SPECIAL = re.compile(rb"\\([0-7]{3})"), re.compile(rb"[ \t\n\\]")
_OF_THE_SYSTEM = ("/usr", "/etc", "/proc", "/dev", "/sys", "/boot")


def writable_roots(folders: Sequence[Path], program: str) -> list[str]:
    """Outer ones first. `program` is what confines, and must not be one that a command could have put there."""
    roots = sorted({os.path.realpath(root) for root in folders}, key=lambda root: (root.count("/"), root))
    for root in roots:
        if any(is_within(place, root) for place in _OF_THE_SYSTEM):
            raise SandboxRefused(
                phrase("The workspace holds the system itself, and the sandbox cannot make that writable."),
                phrase("Ask the person to choose a folder of their own as the workspace."),
            )
        if is_within(_real(program), root):
            raise SandboxRefused(
                phrase(
                    "The sandbox's own program `{name}` lies inside the workspace, where any command may have put it.",
                    name=Path(program).name,
                ),
                phrase("Ask the person to install it outside, with the system's package manager."),
            )
        if not os.path.isdir(root):  # noqa: PTH112 - on every start
            raise SandboxRefused(
                phrase("There is no folder `{root}` to make writable.", root=root),
                phrase("Ask the person to make it, or to choose another."),
            )
    return roots


@lru_cache(maxsize=8)  # asked at every start
def _real(program: str) -> str:
    return os.path.realpath(program)


def below(root: str, paths: Iterable[Path]) -> frozenset[str]:
    """The paths below a root, by their names there; the folders they are in are real, they themselves may be links."""
    found: set[str] = set()
    for path in paths:
        whole = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118
        if whole.startswith(root + "/"):
            found.add(whole[len(root) + 1 :])
    return frozenset(found)


def layers_over(roots: Sequence[str], profile: Profile) -> tuple[LayerMount, ...]:
    """The layers of a look box by real paths, outer roots first; each looks like the root that it covers."""
    if not profile.look:
        return ()
    given = {os.path.realpath(layer.root): layer for layer in profile.layers}
    found: list[LayerMount] = []
    for root in roots:
        if (layer := given.get(root)) is not None:
            upper, work, *lower = (Path(os.path.realpath(path)) for path in (layer.upper, layer.work, *layer.below))
            state = os.stat(root)  # noqa: PTH116 - on every start
            if os.geteuid() == 0:
                os.chown(upper, state.st_uid, state.st_gid)
            os.chmod(upper, stat.S_IMODE(state.st_mode))  # noqa: PTH101
            os.utime(upper, ns=(state.st_atime_ns, state.st_mtime_ns))
            found.append(LayerMount(Path(root), upper, work, tuple(lower)))
    return tuple(found)


def mounts_below(layers: Sequence[LayerMount]) -> tuple[str, ...]:
    """Where other file systems are mounted below the roots of layers, outer ones first."""
    roots = tuple(f"{layer.root}/" for layer in layers)
    if not roots:
        return ()
    with open("/proc/self/mountinfo", "rb", 0) as file:  # noqa: PTH123 - on every start
        listed = file.read()
    starts = tuple(_SPECIAL.sub(lambda found: b"\\%03o" % found[0][0], os.fsencode(root)) for root in roots)
    if not any(b" " + start in listed for start in starts):
        return ()  # as nearly always
    places = {os.fsdecode(_ESCAPED.sub(_unescaped, line.split(b" ", 5)[4])) for line in listed.splitlines()}
    found = sorted(place for place in places if place.startswith(roots))
    return tuple(place for at, place in enumerate(found) if not any(is_within(place, one) for one in found[:at]))


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes((int(found[1], 8),))


def names_of_hidden(hidden: Sequence[Path], roots: Sequence[str]) -> list[str]:
    """The real paths of what must be hidden, and every other name in the workspace under which a file of it is known:
    a hard link is as good as the file.
    """
    names = dict.fromkeys(os.path.realpath(path) for path in hidden)
    linked: set[tuple[int, int]] = set()
    for path in list(names):
        for file in _files(path):
            if file.st_nlink > 1:
                linked.add((file.st_dev, file.st_ino))
    if linked:
        for root in roots:
            names |= dict.fromkeys(_with_number(root, linked))
    return [path for path in names if not any(path != other and is_within(path, other) for other in names)]


def _files(path: str) -> Iterator[os.stat_result]:
    """The state of a file, or of every file in a folder."""
    with suppress(OSError):
        state = os.lstat(path)
        if stat.S_ISREG(state.st_mode):
            yield state
        elif stat.S_ISDIR(state.st_mode):
            with os.scandir(path) as entries:
                below = [entry.path for entry in entries if not entry.is_symlink()]
            for one in below:
                yield from _files(one)


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
