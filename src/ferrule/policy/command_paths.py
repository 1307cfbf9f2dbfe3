"""The paths that the words of a command may mean: stars filled in as the shell would, from wherever it has gone to."""

from __future__ import annotations

import glob
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ferrule.policy.commands.parts import Analysis

_MOST_FILES = 2_000
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_STARRED = re.compile(r"[^\s;|&<>()='\"`]*[*?\[][^\s;|&<>()'\"`]*")


def places(named: str, directory: str) -> Iterator[tuple[str, bool]]:
    """Where a word leads: each path as it really is, and where links led there, as it is written (then False)."""
    path = os.path.normpath(os.path.join(directory, os.path.expanduser(named)))  # noqa: PTH111, PTH118 - text, in bulk
    listed = [path]
    if glob.has_magic(named):
        found = glob.iglob(path, recursive=False)  # noqa: PTH207 - the shell's own way of filling in stars
        listed += [one for one, _ in zip(found, range(_MOST_FILES), strict=False)]
    for one in listed:
        real = os.path.realpath(one)
        yield real, True
        if real != one:
            yield one, False


def folders(analysis: Analysis, directory: str) -> list[str]:
    """Every folder that a command may be in while it runs: where it starts, and where its `cd`s lead."""
    found = [directory]
    for part in analysis.parts:
        if part.program in ("cd", "pushd") and part.fixed and len(part.words) > 1:
            found += [os.path.join(folder, os.path.expanduser(part.words[-1])) for folder in found]  # noqa: PTH111, PTH118
            found = list(dict.fromkeys(os.path.normpath(folder) for folder in found))[:16]
    return found


def starred_paths(analysis: Analysis, directory: str) -> Sequence[str]:
    """The real paths that stars anywhere in a command stand for; which part gets which is only known once it runs."""
    words = dict.fromkeys(_STARRED.findall(_QUOTED.sub("", analysis.command)))
    return list(
        dict.fromkeys(
            path
            for word in list(words)[:64]
            for folder in folders(analysis, directory)
            for path, _real in places(word, folder)
        )
    )
