"""Keeps what tool files and plugins print while they are imported off standard output: it goes to standard error.

Whoever reads standard output expects a JSON document or protocol messages. Standard input is not theirs to read either.
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
    """A standard stream that is another one for threads which are importing."""

    def __init__(self, stream: Any, aside: Callable[[], Any]) -> None:
        self.stream = stream
        self._aside = aside

    def __getattr__(self, name: str) -> Any:
        stream = self._aside() if threading.get_ident() in _threads else self.stream
        return getattr(stream, name)


@contextmanager
def printing_aside() -> Generator[None]:
    """Send what this thread prints to standard error, and give it an empty standard input.

    Other threads are not affected, so a program can go on writing while files are reloaded. Child processes are not
    covered: `descriptor_aside` is for those.
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
    """Make standard output be standard error for the whole process and its children, besides `printing_aside`.

    For start-up only, before the program writes anything itself.
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
