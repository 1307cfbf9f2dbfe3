"""The paths that the words of a command may mean: links followed, and stars filled in as the shell would."""

from __future__ import annotations

import glob
import os
import re
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.policy.commands.parts import Analysis

MOST_MATCHES = 2_000
_CHOICE = re.compile(r"\[[!^]?\]?(?:\[[:.=].*?[:.=]\]|[^\]/])*\]")


def places(named: str, directory: str) -> Iterator[tuple[str, bool]]:
    """Where a path leads: as it really is, and where links led there, as it is written (then False)."""
    path = os.path.normpath(os.path.join(directory, os.path.expanduser(named)))  # noqa: PTH111, PTH118 - text, in bulk
    real = os.path.realpath(path)
    yield real, True
    if real != path:
        yield path, False


def matches(pattern: str, directory: str, *, hidden: bool = False) -> list[str]:
    """What a pattern stands for, up to one more than `MOST_MATCHES`; `hidden` if stars match a dot in front too.

    Bash and Python do not agree on `[^a]` and `[[:alpha:]]`, so a choice stands for any character: rather too much.
    """
    path = os.path.normpath(os.path.join(directory, os.path.expanduser(pattern)))  # noqa: PTH111, PTH118
    found = glob.iglob(_CHOICE.sub("?", path), include_hidden=hidden)  # noqa: PTH207 - the shell's own way
    return list(islice(found, MOST_MATCHES + 1))


def folders(analysis: Analysis, directory: str) -> list[str]:
    """Every folder that a command may be in while it runs: where it starts, and where its `cd`s lead."""
    found = [directory]
    for part in analysis.parts:
        if part.program in ("cd", "pushd") and part.fixed and len(part.words) > 1:
            found += [os.path.join(folder, os.path.expanduser(part.words[-1])) for folder in found]  # noqa: PTH111, PTH118
            found = list(dict.fromkeys(os.path.normpath(folder) for folder in found))[:16]
    return found
