"""Runs inside the sandbox, as a program of its own: passes connections to a local port on to the proxy's socket.

    python -I -S -c SOURCE PORT SOCKET COMMAND…

It needs only the standard library. The command takes this process over; the passing on is done by a child of it, which
ends with the sandbox.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading


def forward(listening: socket.socket, path: str) -> None:
    """Take connections for ever."""
    while True:
        client, _ = listening.accept()
        proxy = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            proxy.connect(path)
        except OSError:
            client.close()
            proxy.close()
            continue
        for one, other in ((client, proxy), (proxy, client)):
            threading.Thread(target=pass_on, args=(one, other), daemon=True).start()


def pass_on(one: socket.socket, other: socket.socket) -> None:
    """Everything that comes from one side, until it ends."""
    try:
        while piece := one.recv(1 << 16):
            other.sendall(piece)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (one, other):
            with contextlib.suppress(OSError):  # it may have ended already
                end.shutdown(socket.SHUT_RDWR)


def main() -> None:
    """Listen first, so that the command finds the port open."""
    port, path, *command = sys.argv[1:]
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(port)))
    listening.listen(64)
    if os.fork() == 0:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nothing, descriptor)
        os.setsid()
        forward(listening, path)
    listening.close()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and the command would too
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - arguments, never a shell line
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
