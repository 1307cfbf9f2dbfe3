"""A process with Ferrule imported, which forks a program for each order: `warm_server.py DESCRIPTOR`.

Nearly everything is imported, but not the command line itself: that chooses its language before it imports what speaks.
No thread runs and nothing was called, so a child is as a program that has just done its imports.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import sys
import termios
import threading
from contextlib import suppress
from typing import Any

LENGTH = struct.Struct("!Q")
_NOT_YET = (
    "ferrule.cli", "ferrule.__main__",
    "ferrule.adapters", "ferrule.acp_server",  # four seconds of other people's modules, which hardly a command imports
)  # fmt: skip
_ELSEWHERE = ("click", "httpx2", "mcp", "mcp.client.stdio", "mcp.server.lowlevel", "prompt_toolkit", "tree_sitter_bash")


def _import_all() -> None:
    import ferrule

    for module in pkgutil.walk_packages(ferrule.__path__, "ferrule."):
        if not module.name.startswith(_NOT_YET):
            importlib.import_module(module.name)
    for name in _ELSEWHERE:
        importlib.import_module(name)


def _serve(orders: socket.socket) -> dict[str, Any]:
    """Answers orders; returns only in a child, with what it is to do."""
    reports: dict[int, int] = {}
    ended, wakes = os.pipe()
    os.set_blocking(ended, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        readable, _, _ = select.select([orders, ended], [], [])
        if ended in readable:
            os.read(ended, 4096)
            while reports and (gone := os.waitpid(-1, os.WNOHANG))[0]:
                report = reports.pop(gone[0])
                _tell(report, os.waitstatus_to_exitcode(gone[1]))
                os.close(report)
        if orders in readable:
            start, descriptors, _, _ = socket.recv_fds(orders, LENGTH.size, 4)
            if not start:
                sys.exit()  # whoever gave the orders has ended
            length = LENGTH.unpack(start)[0]
            order = json.loads(b"".join(_pieces(orders, length)))
            report = descriptors.pop()
            if child := os.fork():
                reports[child] = report
                _tell(report, child)
                for descriptor in descriptors:
                    os.close(descriptor)
                continue
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _take(descriptors, at_a_terminal=order["at a terminal"])
            orders.detach()
            return order


def _pieces(orders: socket.socket, length: int) -> list[bytes]:
    pieces: list[bytes] = []
    while length:
        pieces.append(orders.recv(length))
        length -= len(pieces[-1])
    return pieces


def _tell(report: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nothing waits for it any more
        os.write(report, f"{number}\n".encode())


def _take(descriptors: list[int], *, at_a_terminal: bool) -> None:
    """The three descriptors of a program, and none besides."""
    if at_a_terminal:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    if at_a_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _become(order: dict[str, Any]) -> None:
    """What Python would have found at its start."""
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.stdin = sys.__stdin__ = _stream(0, "rb", sys.stdin)
    sys.stdout = sys.__stdout__ = _stream(1, "wb", sys.stdout)
    sys.stderr = sys.__stderr__ = _stream(2, "wb", sys.stderr)


def _stream(descriptor: int, mode: str, like: Any) -> Any:
    through = like.write_through  # PYTHONUNBUFFERED
    lines = not through and (os.isatty(descriptor) or descriptor == 2)
    raw = open(descriptor, mode, 0 if through and descriptor else -1)  # noqa: SIM115
    return io.TextIOWrapper(
        raw, encoding=like.encoding, errors=like.errors, line_buffering=lines, write_through=through
    )


def _run(arguments: list[str]) -> None:
    """As `python ARGUMENTS` does: `-m MODULE …` or `FILE …`."""
    if arguments[0] == "-m":
        sys.path[0] = os.getcwd()  # noqa: PTH109 - as Python itself does
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(arguments[0])  # noqa: PTH120
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    _import_all()
    assert threading.active_count() == 1, "a fork would lose the other threads"
    gc.collect()
    gc.freeze()
    todo = _serve(socket.socket(fileno=int(sys.argv[1])))
    _become(todo)
    _run(todo["arguments"])
