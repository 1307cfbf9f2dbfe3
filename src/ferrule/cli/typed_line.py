"""One line that the person types, and Ctrl-C at whatever moment it comes.

`input` looks for signals and then waits for a line. What comes between the two is noticed only when the line is there:
a Ctrl-C right after the prompt would do nothing, and the command would wait on. So a signal also writes to a pipe, and
the line is read only when there is one.
"""

from __future__ import annotations

import os
import select
import signal
import sys


def typed_line() -> str:
    """A line from the terminal, like `input`: `EOFError` at its end; Ctrl-C raises what its handler raises."""
    if sys.platform == "win32":
        return input()
    heard, told = os.pipe()
    os.set_blocking(told, False)
    os.set_blocking(heard, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    try:
        while sys.stdin not in select.select([sys.stdin, heard], [], [])[0]:
            os.read(heard, 4096)  # a signal whose handler raised nothing
        return input()
    finally:
        signal.set_wakeup_fd(before)
        os.close(heard)
        os.close(told)
