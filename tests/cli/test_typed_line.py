"""A line that the person types."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
from ferrule.cli import ask as typed_line
{before}
try:
    print("got", repr(typed_line.typed_line()))
except KeyboardInterrupt:
    print("interrupted")
except EOFError:
    print("ended")
"""
# As in the moment that a plain `input` misses: the signal is heard, and does not interrupt the wait. It goes to another
# thread, whenever that may be; `input` would only notice it with the next line.
WITHOUT_INTERRUPTING = """
import threading, time
def send():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    time.sleep(0.2)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
threading.Thread(target=send).start()
"""
HARMLESS = "signal.signal(signal.SIGUSR1, lambda *_: None); os.kill(os.getpid(), signal.SIGUSR1)"


def run(typed: bytes, before: str = "") -> str:
    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(before=before)], stdin=theirs, stdout=subprocess.PIPE, text=True
    )
    try:
        os.write(ours, typed)
        return program.communicate(timeout=60)[0]
    finally:
        program.kill()
        program.wait()
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("typed", "said"),
    [(b"yes\n", "got 'yes'\n"), (b"\n", "got ''\n"), ("是\n".encode(), "got '是'\n"), (b"\x04", "ended\n")],
)
def test_a_line_is_what_was_typed(typed: bytes, said: str) -> None:
    assert run(typed) == said


def test_a_signal_that_does_not_interrupt_the_wait_is_heard_all_the_same() -> None:
    assert run(b"", WITHOUT_INTERRUPTING) == "interrupted\n"


def test_a_signal_that_means_nothing_does_not_end_the_wait() -> None:
    assert run(b"later\n", HARMLESS) == "got 'later'\n"


def test_whoever_listened_for_signals_before_does_so_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from ferrule.cli.ask import typed_line

    ours, theirs = pty.openpty()
    heard, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told)
    try:
        os.write(ours, b"x\n")
        with os.fdopen(theirs) as terminal:
            monkeypatch.setattr(sys, "stdin", terminal)
            assert typed_line() == "x"
    finally:
        assert signal.set_wakeup_fd(before) == told
        for one in (ours, heard, told):
            os.close(one)
