"""Finds the listening sockets of other programs: that a folder is read-only keeps nobody from using them."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from ferrule.process.sandbox.places import is_within

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST = 64


def sockets_of_others(covered: Sequence[str]) -> list[str]:
    """Real paths of sockets that are in use now and lie in none of the `covered` folders."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - on every start
            lines = file.read().splitlines()[1:]
    except OSError:
        return []
    found: dict[str, None] = {}
    for line in lines:
        at = line.find(" /")
        if at < 0:
            continue
        path = line[at + 1 :]
        if any(is_within(path, folder) for folder in covered):
            continue
        real = os.path.realpath(path)
        if not any(is_within(real, folder) for folder in covered) and _is_socket(real):
            found[real] = None
        if len(found) >= _MOST:
            break
    return list(found)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
