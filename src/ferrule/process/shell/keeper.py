"""The process between Ferrule and a shell: whatever the shell starts stays its descendant, and ends when Ferrule does.

It runs by itself (`python -I -S keeper.py`), so it imports nothing of Ferrule, and as little as it can. A daemon that
forks twice or makes a session of its own is still given to the nearest sub-reaper above it, which is this process. The
socket on its standard input tells it what to start; the socket's end tells it that Ferrule is gone, however that came.
"""

from __future__ import annotations

import _socket
import array
import ctypes
import marshal
import os
import select
import signal
import time
from typing import Any

SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36
TAKE_TERMINAL = 0x540E
LARGEST_REQUEST = 1 << 20
"""What one packet to the keeper may hold; the socket's buffers are made this large."""
_PARENT_CHECK_MILLISECONDS = 2000
_SECONDS_TO_END_ALL = 20.0


def descendants(root: int, *, past: frozenset[int] = frozenset(), without: frozenset[int] = frozenset()) -> list[int]:
    """Every living process below `root`, parents before children.

    Those in `past` are looked below but not named; those in `without` are left out with all that is below them. The
    list is read over some time, in which a process may end and its number be given to another: nobody's child is older
    than its parent, so one that is was the child of whoever had the number before.
    """
    children: dict[int, list[int]] = {}
    started: dict[int, int] = {}
    dead: set[int] = set()
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:  # noqa: PTH123 - pathlib is slow to import
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            children.setdefault(int(fields[1]), []).append(int(entry))
            started[int(entry)] = int(fields[19])
            if fields[0] in (b"Z", b"X"):
                dead.add(int(entry))
    found: list[int] = []
    row = [root]
    while row:
        row = [
            child
            for parent in row
            for child in children.get(parent, ())
            if child not in without and started[child] >= started.get(parent, 0)
        ]
        found += row
    return [pid for pid in found if pid not in dead and pid not in past]


def signal_all(pids: list[int], number: int) -> None:
    """Signal each; one that is gone or is not ours is left alone."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def stop_and_kill(root: int, *, past: frozenset[int] = frozenset(), without: frozenset[int] = frozenset()) -> list[int]:
    """One blow against what `descendants` names: stopped first, so that nothing starts anew, then killed."""
    stopped: list[int] = []
    while fresh := [pid for pid in descendants(root, past=past, without=without) if pid not in stopped]:
        signal_all(fresh, signal.SIGSTOP)
        stopped += fresh
    signal_all(stopped, signal.SIGKILL)
    return stopped


def main() -> None:
    """Start what the first packet says, then keep it until Ferrule lets go."""
    port = _socket.socket(fileno=0)
    parent = os.getppid()
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # only Ferrule, or its end, may end what is kept
    first = port.recv(LARGEST_REQUEST)
    if not first:
        return
    order: dict[str, Any] = marshal.loads(first)  # noqa: S302 - written by Ferrule itself, over a private socket
    pid, problem = _start(order)
    port.sendall(marshal.dumps(("failed", problem) if problem else ("started", pid)))
    for descriptor in order["given"]:
        if descriptor not in order["kept"]:
            os.close(descriptor)
    while not problem:
        ready = dict(_poll(port.fileno(), woken))
        _reap(pid, port)
        if woken in ready:
            os.read(woken, 4096)
        if port.fileno() in ready:
            asked = port.recv(LARGEST_REQUEST)
            if not asked:
                break
            wanted = array.array("i", marshal.loads(asked))  # noqa: S302
            port.sendmsg([marshal.dumps(("taken",))], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, wanted)])
        elif os.getppid() != parent:
            break  # a copy of the socket outlived Ferrule in some fork of it
    _end_all()


def _wake(number: int, frame: object) -> None:
    """The pipe of wake-ups has the signal; nothing else is to be done."""


def _poll(port: int, woken: int) -> list[tuple[int, int]]:
    poll = select.poll()
    poll.register(port, select.POLLIN)
    poll.register(woken, select.POLLIN)
    return poll.poll(_PARENT_CHECK_MILLISECONDS)


def _reap(program: int, port: _socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid == program:
            try:
                port.sendall(marshal.dumps(("ended", os.waitstatus_to_exitcode(status))))
            except OSError:
                return  # Ferrule is gone; the loop sees that too


def _end_all() -> None:
    end = time.monotonic() + _SECONDS_TO_END_ALL
    while stop_and_kill(os.getpid()) and time.monotonic() < end:
        time.sleep(0.002)


def _start(order: dict[str, Any]) -> tuple[int, str]:
    told, tell = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            _become(order)
        except OSError as error:
            os.write(tell, f"{error.filename}: {error.strerror}".encode())
        except BaseException as error:  # noqa: BLE001 - told to the parent; the child must never return
            os.write(tell, repr(error).encode())
        os._exit(127)
    os.close(tell)
    with open(told, "rb") as file:  # noqa: PTH123
        return pid, file.read().decode(errors="replace")


def _become(order: dict[str, Any]) -> None:
    ctypes.CDLL(None).prctl(SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    os.setsid()
    if order["terminal"] >= 0:
        import fcntl

        fcntl.ioctl(order["terminal"], TAKE_TERMINAL, 0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard, descriptor in enumerate(order.get("standard") or (nothing, nothing, nothing)):
        os.dup2(descriptor, standard, inheritable=True)
    inherited = frozenset(order["inherited"])
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(entry) > 2:
            try:
                os.set_inheritable(int(entry), int(entry) in inherited)
            except OSError:
                continue  # the listing's own
    os.chdir(order["folder"])
    os.execve(order["arguments"][0], order["arguments"], order["environment"])  # noqa: S606


if __name__ == "__main__":
    main()
