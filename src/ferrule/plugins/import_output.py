"""Keeps standard output free of what somebody's code prints while it is imported: it goes to standard error.

Whoever reads our standard output wants a JSON document, or the messages of a protocol, and nothing else. And what
is on standard input is not for that code.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_lock = threading.Lock()
_threads: set[int] = set()


class _Routed:
    """A standard stream, and another one for the threads that import somebody's code."""

    def __init__(self, stream: Any, aside: Callable[[], Any]) -> None:
        self.stream = stream
        self._aside = aside

    def __getattr__(self, name: str) -> Any:
        stream = self._aside() if threading.get_ident() in _threads else self.stream
        return getattr(stream, name)


@contextmanager
def printing_aside() -> Generator[None]:
    """What this thread prints goes to standard error, and it finds nothing to read. Other threads notice nothing, so
    that a program may go on to write while something is loaded beside it; the price is that a program which is started
    here still has our own standard output.
    """
    me = threading.get_ident()
    with _lock:
        _threads.add(me)
        if not isinstance(sys.stdout, _Routed):
            sys.stdout = _Routed(sys.stdout, lambda: sys.stderr or io.StringIO())
        if not isinstance(sys.stdin, _Routed):
            sys.stdin = _Routed(sys.stdin, io.StringIO)
    try:
        yield
    finally:
        with _lock:
            _threads.discard(me)
            if not _threads:
                sys.stdout, sys.stdin = _behind(sys.stdout), _behind(sys.stdin)


def _behind(stream: Any) -> Any:
    return stream.stream if isinstance(stream, _Routed) else stream


@contextmanager
def descriptor_aside() -> Generator[None]:
    """Standard output itself is standard error in here, for every thread and every program that is started.

    For a start, when nothing of ours is written yet.
    """
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # it is closed
        with printing_aside():
            yield
        return
    try:
        _point_elsewhere()
        with printing_aside():
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _point_elsewhere() -> None:
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)
