"""Which approved commands run apart from a large workspace, in a layer, though no other command is under way.

To know what a command did directly, all files are compared before it and after it. In a layer the kernel keeps that, so
it costs what was changed. A few things do not work there as they do in the workspace itself. What met one of them is
run again, directly, as if it had never been: without a network nothing of it has left its box.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.workspace.problems import PathError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.core.context import Session
    from ferrule.process.owned_folders import OwnedFolder
    from ferrule.process.profile import Profile
    from ferrule.process.sandbox.denials import Denial
    from ferrule.process.shell.session import Ended
    from ferrule.workspace.layers.reading import LayerChanges

COMPARED_FROM_HERE = 10_000
"""Names in a workspace. Fewer are compared in less time than a user notices, and their commands write directly."""
_FAILS_APART = {
    "there a folder can be renamed in one step.": r"cross-device|EXDEV|os error 18|Errno 18|\u8de8\u8bbe\u5907",
    "there it can change files of other users.": r"value too large|EOVERFLOW|os error 75|Errno 75|\u503c\u8fc7\u5927",
    "other programs changed what it worked with.": r"stale (?:NFS )?file handle|ESTALE|os error 116|Errno 116",
}
"""By what is different in the workspace itself, what programs say where a layer cannot do it."""
_DIRECTLY = frozenset({"write", "layer size"})
_CACHES = ".cache"
"""Where commands keep downloads in the folder for temporary files: a second run may find them there."""
_MOST_COPIED, _LARGEST_COPY = 1_000, 16 << 20


class NotApartError(Exception):
    """Why a command runs again in the workspace itself."""

    def __str__(self) -> str:
        why = super().__str__()
        return f"It was run a second time, in the workspace itself: {why}"


def can_be_apart(session: Session, profile: Profile) -> bool:
    """Whether a command that nothing else runs beside had better not write directly: the workspace is large, and if it
    has to be run again, that does nothing twice.
    """
    from ferrule.builtin.session_shells import roots_of, shell_of
    from ferrule.process.folder_index import listed_below

    if profile.hosts:
        return False  # what it sent is sent
    if any(one.status == "running" for one in shell_of(session).background.list()):
        return False  # it may find in `/tmp` what a second run would have to take away
    roots = roots_of(session)
    if any(map(_has_attributes, roots)):
        return False  # what is made in it may get them too, and a layer has none
    listed = [listed_below(str(root)) for root in roots]
    if any(one is None or one[1] for one in listed):
        return False  # programs may talk to each other through pipes and sockets
    if any(_is_special(one) or ((known := listed_below(str(one))) and known[1]) for one in profile.readable):
        return False  # also through those of programs outside
    return sum(one[0] for one in listed if one is not None) >= COMPARED_FROM_HERE


def covers_all(profile: Profile) -> bool:
    """Whether all that a command may write is under layers."""
    from ferrule.process.sandbox.bubblewrap import mounts_below

    covered = {os.path.realpath(one.root) for one in profile.layers}
    return {os.path.realpath(one) for one in profile.writable} <= covered and not mounts_below(profile.layers)


def require_apart(ended: Ended, denials: Sequence[Denial], found: LayerChanges) -> None:
    """Raise `PathError` where what a command left in its layer is not what it would have left in the workspace."""
    from ferrule.workspace.layers.reading import is_open_elsewhere

    if not ended.box.layered:
        raise _differs("its changes could not be held apart.")
    for why, said in _FAILS_APART.items():
        if re.search(said, f"{ended.stderr}\n{ended.stdout}", re.IGNORECASE):
            raise _differs(why)
    if any(one.kind in _DIRECTLY for one in denials):
        raise _differs("there it can write more.")
    if any(one.twin or (one.hard_links > 1 and one.after is not None) for one in found.changes):
        raise _differs("there hard links stay what they are.")
    if is_open := next(filter(is_open_elsewhere, found.changes), None):
        raise _differs(f"there another program that has `{is_open.path.name}` open sees what it writes.")
    if any(one.special for one in found.changes):
        raise _differs("it makes pipes or sockets.")
    if found.beyond:
        raise _differs("it sets owners, attributes or hard links.")


def _differs(why: str) -> PathError:
    return PathError("apart", why)


def _has_attributes(root: Path) -> bool:
    with suppress(OSError):  # a file system that knows none
        return any(not name.startswith("security.") for name in os.listxattr(root))
    return False


def _is_special(path: Path) -> bool:
    return path.exists() and not (path.is_file() or path.is_dir())


class KeptTemporary:
    """What the folder for temporary files held before a command that may run again."""

    def __init__(self, folder: Path | None, copy: OwnedFolder | None) -> None:
        self._folder, self._copy = folder, copy

    def put_back(self) -> None:
        """Make the folder as it was, but for caches."""
        for name in _names_in(self._folder):
            path = Path(self._folder or os.devnull) / name
            with suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    from ferrule.process.owned_folders import remove_tree

                    remove_tree(path)
                else:
                    path.unlink()
        if self._folder is not None and self._copy is not None:
            shutil.copytree(self._copy.path, self._folder, symlinks=True, dirs_exist_ok=True)

    def close(self) -> None:
        """Forget it."""
        if self._copy is not None:
            self._copy.close()


def keep_temporary(folder: Path | None) -> KeptTemporary | None:
    """Copy what is in the folder for temporary files; None where that is too much, or cannot be copied."""
    names = _names_in(folder)
    if folder is None or not names:
        return KeptTemporary(folder, None)
    if not _is_little(folder, names):
        return None
    from ferrule.process.owned_folders import OwnedFolder  # a list of tools needs none of it

    copy = OwnedFolder(folder.parent)
    try:
        others = set(os.listdir(folder)) - names  # noqa: PTH208
        shutil.copytree(
            folder,
            copy.path,
            symlinks=True,
            dirs_exist_ok=True,
            ignore=lambda at, _: others if at == str(folder) else (),
        )
    except (OSError, shutil.Error):
        copy.close()
        return None
    return KeptTemporary(folder, copy)


def _names_in(folder: Path | None) -> set[str]:
    return set(os.listdir(folder)) - {_CACHES} if folder is not None else set()  # noqa: PTH208


def _is_little(folder: Path, names: set[str]) -> bool:
    """Whether copying it takes no time to speak of, and makes the same of it."""
    count = size = 0
    for above, folders, files in os.walk(folder):
        if above == str(folder):
            folders[:] = names.intersection(folders)
        for name in files:
            found = os.lstat(f"{above}/{name}")
            size += found.st_size
            if found.st_nlink > 1 or not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                return False
        count += len(files) + len(folders)
        if count > _MOST_COPIED or size > _LARGEST_COPY:
            return False
    return True
