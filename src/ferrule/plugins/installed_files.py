"""The installed files of a plugin: whether they still are what was locked.

Hashing them all takes too long for each start of a plugin. So a fingerprint of their names, sizes and times is kept
beside them once they were found to be right, where the plugin cannot write, and while it fits they are not read again.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.extension import phrase, read_json, write_json
from ferrule.plugins.manifest import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.plugins.lock import LockedPlugin

_FINGERPRINT = "fingerprint.json"
_SECONDS_TO_SETTLE = 2.0
"""A change within the same tick of the clock as the fingerprint would not be seen."""


def require_intact(plugin: LockedPlugin) -> None:
    """Raise `PluginError` where its files are not those that were installed. Cheap while nothing has touched them."""
    kept, file = plugin.program_folder, plugin.folder / _FINGERPRINT
    seen, newest = _fingerprint(kept)
    known = {"tree": plugin.tree, "seen": seen}
    if read_json(file) == known:
        return
    if not is_intact(plugin):
        raise PluginError(
            phrase(
                "The files of `{name}` were changed since it was installed, so it is not started.", name=plugin.name
            ),
            suggestion=phrase("`ferrule plugin verify {name}` says how to install it again.", name=plugin.name),
        )
    if newest + _SECONDS_TO_SETTLE < time.time() and _fingerprint(kept) == (seen, newest):
        write_json(file, known)


def is_intact(plugin: LockedPlugin) -> bool:
    """Whether its files are those that were installed, by reading all of them."""
    return plugin.program_folder.is_dir() and tree_digest(plugin.program_folder) == plugin.tree


def tree_digest(folder: Path) -> str:
    """Changes with every name, mode and content below a folder."""
    total = hashlib.sha256()
    for path in sorted(map(Path, _all_files(folder))):
        name = path.relative_to(folder)
        if path.is_symlink():
            told = f"link {path.readlink()}"
        else:
            told = f"{'x' if path.stat().st_mode & 0o100 else '-'} {file_digest(path)}"
        total.update(f"{name}\0{told}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def file_digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _fingerprint(folder: Path) -> tuple[str, float]:
    """Changes with what a change to a file cannot leave as it was, and when the last one was."""
    total, newest = hashlib.sha256(), 0.0
    for path in sorted(_all_files(folder)):
        try:
            found = os.lstat(path)
        except OSError:  # gone meanwhile, and not among those that were seen before
            continue
        told = found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        total.update(f"{path}\0{told}\n".encode("utf-8", "surrogateescape"))
        newest = max(newest, found.st_ctime)
    return total.hexdigest(), newest


def _all_files(folder: Path) -> Iterator[str]:
    for above, folders, files in os.walk(folder):
        yield from (os.path.join(above, name) for name in files)  # noqa: PTH118 - there may be thousands
        yield from (path for name in folders if os.path.islink(path := os.path.join(above, name)))  # noqa: PTH114, PTH118
