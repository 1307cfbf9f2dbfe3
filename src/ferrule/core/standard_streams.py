"""Keeps standard input and output for one owner: what anything else prints must not pass for an answer."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any


def take_stdout() -> int:
    """Take standard output away from everybody else; gives a descriptor of it that no child inherits.

    What libraries, plugins and children print goes to standard error from now on, or nowhere if that is closed. Call it
    before anything is imported that might print. Raises `OSError` if standard output is closed.
    """
    taken = _above_standard(1)
    if sys.__stderr__ is None:  # its number may be that of another file by now
        discard_output(1)
    else:
        try:
            os.dup2(2, 1)
        except OSError:
            discard_output(1)
    return taken


def give_back_stdout(taken: int) -> None:
    """Let everybody print to standard output again."""
    os.dup2(taken, 1)
    os.close(taken)


def take_stdin() -> int:
    """Take standard input, in which everybody else finds nothing. Raises `OSError` if it is closed."""
    taken = _above_standard(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return taken


def discard_output(stream: Any) -> None:
    """Send what is written to a descriptor or stream nowhere, as when its reader is gone."""
    with suppress(OSError, ValueError):  # it is closed altogether
        descriptor = stream if isinstance(stream, int) else stream.fileno()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, descriptor)
        os.close(nothing)


def _above_standard(descriptor: int) -> int:
    """A copy that no child inherits, and that does not take the place of a standard stream that is closed."""
    if sys.platform == "win32":
        return os.dup(descriptor)
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
