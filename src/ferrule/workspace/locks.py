"""One writer at a time for each file, whichever thread or event loop it runs in."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ferrule.pipeline.threads import seen_through

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_guard = threading.Lock()
_locks: WeakValueDictionary[Path, _FileLock] = WeakValueDictionary()


class _FileLock:
    """A lock that can be kept in a table that forgets what nobody uses."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()


@contextmanager
def writing(*paths: Path) -> Generator[None]:
    """Be the only writer of these files in this process. Always taken in one order, so that nobody waits in a ring."""
    with seen_through(), ExitStack() as taken:
        with _guard:
            held = [_locks.setdefault(path, _FileLock()) for path in sorted(set(paths))]
        for one in held:
            taken.enter_context(one.lock)
        yield
