"""Starts `ferrule` from a process that has done its imports, which take half a second of a core each time.

What starts is a process of its own, with its arguments, folder, environment, descriptors and exit code, forked by a
server that each worker has one of (`warm_server.py`). It differs in what Python does before a program's first line:
tests about that, about signals in that time, or about what is imported start Python themselves.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from tests.warm_server import LENGTH

_SERVER = Path(__file__).with_name("warm_server.py")
USUAL = {**os.environ, "LC_ALL": "C.UTF-8"}
"""The environment of the server, which a warm program shares where Python reads it when it starts."""
_AT_START = ("PYTHON", "LC_", "LANG")
"""Variables that Python reads once, when it starts."""


@dataclass
class Done:
    code: int
    out: str
    err: str


class WarmProgram:
    """What is used of `subprocess.Popen`, for a process that is the server's child."""

    def __init__(self, report: int) -> None:
        self._report = report
        self._told = b""
        self.returncode: int | None = None
        self._hear(300)  # on a machine that is very busy
        self.pid = int(self._told.partition(b"\n")[0])

    def poll(self) -> int | None:
        self._hear(0)
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        end = time.monotonic() + timeout
        while self.returncode is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a warm program", timeout)
            self._hear(end - time.monotonic())
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _hear(self, seconds: float) -> None:
        if self.returncode is not None or not select.select([self._report], [], [], max(seconds, 0))[0]:
            return
        piece = os.read(self._report, 64)
        assert piece, "the server of warm programs has ended"
        self._told += piece
        if self._told.count(b"\n") == 2:
            self.returncode = int(self._told.split(b"\n")[1])
            os.close(self._report)


@dataclass
class PipedProgram:
    program: WarmProgram
    stdin: BinaryIO
    stdout: BinaryIO
    stderr: BinaryIO


class _Server:
    """The process with everything imported; it ends when its orders do."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(_SERVER), str(theirs.fileno())],
                env=dict(environment), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._starting = threading.Lock()
        atexit.register(self._end)

    def start(self, order: dict[str, object], descriptors: Sequence[int]) -> WarmProgram:
        text = json.dumps(order).encode()
        heard, report = os.pipe()
        try:
            with self._starting:
                socket.send_fds(self._orders, [LENGTH.pack(len(text))], [*descriptors, report])
                self._orders.sendall(text)
        finally:
            os.close(report)
        return WarmProgram(heard)

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


def can_be_warm(environment: Mapping[str, str]) -> bool:
    """Whether Python, started with these variables, would be as the server is."""
    return _at_start(environment) == _at_start(USUAL)


def start_warm(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str],
    stdin: int, stdout: int, stderr: int, *, at_a_terminal: bool = False,
) -> WarmProgram:  # fmt: skip
    """`python ARGUMENTS`; with `at_a_terminal` in a session of its own, whose terminal is `stdin`."""
    assert can_be_warm(environment), "start Python itself: it reads these variables before anything else"
    order: dict[str, object] = {
        "arguments": list(arguments), "folder": str(folder), "environment": dict(environment),
        "at a terminal": at_a_terminal,
    }  # fmt: skip
    return _server().start(order, [stdin, stdout, stderr])


def popen_warm(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> PipedProgram:
    """`python ARGUMENTS` with pipes to it and from it."""
    (given, gives), (hears_out, out), (hears_err, err) = os.pipe(), os.pipe(), os.pipe()
    program = start_warm(arguments, folder, environment, given, out, err)
    for theirs in (given, out, err):
        os.close(theirs)
    return PipedProgram(program, os.fdopen(gives, "wb"), os.fdopen(hears_out, "rb"), os.fdopen(hears_err, "rb"))


def run_warm(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], *, stdin: str = "", timeout: float = 60
) -> Done:
    """`python ARGUMENTS` from start to end, with pipes as a script would give it."""
    started = popen_warm(arguments, folder, environment)
    heard: dict[str, bytes] = {}
    threads = [
        threading.Thread(target=_read_all, args=("out", started.stdout, heard), daemon=True),
        threading.Thread(target=_read_all, args=("err", started.stderr, heard), daemon=True),
        threading.Thread(target=_write_all, args=(started.stdin, stdin.encode()), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        code = started.program.wait(timeout)
    except subprocess.TimeoutExpired:
        started.program.kill()
        raise
    for thread in threads:
        thread.join(timeout)
        assert not thread.is_alive(), "something that it started keeps its output open"
    return Done(code, _text(heard["out"]), _text(heard["err"]))


def _text(output: bytes) -> str:
    return output.decode().replace("\r\n", "\n").replace("\r", "\n")  # as `subprocess` gives it


def _read_all(name: str, source: BinaryIO, into: dict[str, bytes]) -> None:
    with source:
        into[name] = source.read()


def _write_all(target: BinaryIO, data: bytes) -> None:
    with suppress(BrokenPipeError), target:  # it need not want all of it
        target.write(data)


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_AT_START) and name != "PYTHONDONTWRITEBYTECODE"  # a program that is warm heeds it
    }


@cache
def _server() -> _Server:
    return _Server(USUAL)
