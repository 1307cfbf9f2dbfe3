"""The one process that starts every box, and ends every box: when it is over, when it is told to, and with Ferrule.

It runs by itself (`python -I -S launcher.py`) with a socket on its standard input, so it imports nothing of Ferrule and
as little as it can. It has one thread, which bubblewrap's `--die-with-parent` needs: a program dies with the thread
that started it. An order is a packet with descriptors: the order's text in a file in memory, the box's own socket, and
what the program inherits. A child that was forked beforehand takes it from the socket itself and becomes the box; the
launcher is told, and forks the next. The end of the first socket means that Ferrule is gone; the end of a box's socket
means that nobody wants that box any more.

    launcher -> bubblewrap -> first process of the box's namespace -> command       the kernel ends all with the first
    launcher -> warden -> command                                                   where there is no such namespace

Launcher and warden are sub-reapers: what a command leaves behind, also a daemon that forked twice, becomes their child.
"""

from __future__ import annotations

import _socket
import array
import contextlib
import ctypes
import fcntl
import gc
import marshal
import os
import resource
import select
import signal
import stat
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable

PACKET = 512
"""Every message on a box's socket has this length: a letter, a number and a text."""
MOST_DESCRIPTORS = 250  # the kernel's own limit for one packet is 253
STARTED, FAILED, ENDED, KILL = "S", "F", "E", "K"

_LINUX = sys.platform == "linux"
KIND = _socket.SOCK_SEQPACKET if _LINUX else _socket.SOCK_STREAM
_DEATH_SIGNAL, _SUB_REAPER, _DROP_CAPABILITY, _NO_NEW_PRIVILEGES, _SECCOMP, _BY_FILTER = 1, 36, 24, 38, 22, 2
_LANDLOCK_RESTRICT = 446
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_BIND, _RECURSIVE, _PRIVATE, _SLAVE = 1 << 12, 1 << 14, 1 << 18, 1 << 19
_READ_ONLY = 1 | 2 | 4  # and no programs of other users, and no devices
_TAKE_TERMINAL = 0x540E if _LINUX else 0x20007461
_PARENT_CHECK_MILLISECONDS, _QUIET_MILLISECONDS, _SOON_MILLISECONDS = 2000, 250, 20
_SECONDS_TO_END = 60.0
# What we hear or ignore ourselves, and Python does; whoever started Ferrule may ignore any of the others.
_OWN = {signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ}

_libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    """The kernel's `sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


# What runs where


def children(pid: int) -> list[int]:
    """The processes that were started by one, or given to it when their parent ended."""
    found: list[int] = []
    try:
        # Of ourselves it is asked at every end, and we have one thread.
        threads = [str(pid)] if pid == os.getpid() else os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
        for thread in threads:
            with open(f"/proc/{pid}/task/{thread}/children", "rb", 0) as file:  # noqa: PTH123
                found += map(int, file.read().split())
    except FileNotFoundError:
        if os.path.exists(f"/proc/{pid}/task"):  # noqa: PTH110 - a kernel without such lists
            return [one for one, (parent, _) in _everyone().items() if parent == pid]
    except OSError:
        pass  # it ended meanwhile
    return found


def descendants(root: int) -> list[int]:
    """Every living process below one, parents before children."""
    return [pid for pid in _below(root) if alive(pid)]


def _below(root: int) -> list[int]:
    found: dict[int, None] = {}
    row = [root]
    while row:
        row = [child for parent in row for child in children(parent) if child not in found]
        found |= dict.fromkeys(row)
    return list(found)


def alive(pid: int) -> bool:
    """Whether there is such a process, and not only its remains."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _everyone() -> dict[int, tuple[int, bytes]]:
    """The parent and the state of every process."""
    found: dict[int, tuple[int, bytes]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:  # noqa: PTH123
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            found[int(entry)] = (int(fields[1]), fields[0])
    return found


def signal_all(pids: Iterable[int], number: int) -> None:
    """Signal each; one that is gone or is not ours is left alone."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def stop_and_kill(tops: list[int]) -> None:
    """One blow against processes and all below them: stopped first, so that nothing starts anew, then killed."""
    stopped: set[int] = set()
    while fresh := [pid for top in tops for pid in (top, *_below(top)) if pid not in stopped]:
        signal_all(fresh, signal.SIGSTOP)
        stopped.update(fresh)
    signal_all(stopped, signal.SIGKILL)


# The launcher


class _Running:
    """A box of which the first process has not been waited for, or which others still have to leave."""

    def __init__(self, pid: int, port: _socket.socket, info: int = -1) -> None:
        self.pid = pid
        self.port = port
        self.info = info
        """Where bubblewrap named the first process inside, if the end need not wait for its mounts to go."""
        self.code: int | None = None
        self.ended_at = 0.0


class _Spare:
    """The child that waits for the next order; over `line` it passes on the socket of the box that it becomes."""

    def __init__(self, pid: int, line: _socket.socket) -> None:
        self.pid = pid
        self.line = line


class Launcher:
    """Everything that it started and has not reported the end of."""

    def __init__(self, port: _socket.socket) -> None:
        self._port = port
        self._parent = os.getppid()
        self._running: dict[int, _Running] = {}
        self._views: dict[int, int] = {}  # mount namespaces, by the hash of what is covered in them
        self._leaving: set[int] = set()  # killed first processes of boxes in which nothing else is
        self._by_port: dict[int, _Running] = {}
        self._poll = select.poll()
        self._woken, waker = os.pipe()
        for end in (self._woken, waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # only Ferrule, or its end, ends what runs here
        self._poll.register(self._woken, select.POLLIN)
        self._poll.register(self._port.fileno(), select.POLLIN)
        self._spare: _Spare | None = None

    def serve(self) -> None:
        """Until Ferrule is gone."""
        while True:
            patience = _PARENT_CHECK_MILLISECONDS if self._spare is not None else _QUIET_MILLISECONDS
            is_closing = any(box.code is not None for box in self._running.values())
            ready = self._poll.poll(_SOON_MILLISECONDS if is_closing else patience)
            for descriptor, event in ready:
                if descriptor == self._woken:
                    os.read(self._woken, 4096)
                elif descriptor == self._port.fileno():
                    if event & ~select.POLLIN:
                        return
                    self._fork_spare()  # an order came, and nobody waits for it
                elif (box := self._by_port.get(descriptor)) is not None:
                    self._hear(box)
                elif self._spare is not None and descriptor == self._spare.line.fileno():
                    self._adopt(self._spare)
            gone = self._reap()
            for box in [box for box in self._running.values() if box.code is not None]:
                self._close(box, gone)
            if not ready and os.getppid() != self._parent:
                return  # a copy of the socket outlived Ferrule in some fork of it
            if self._spare is None and (not ready or not self._running):
                self._fork_spare()  # while nothing waits for us

    def end_all(self) -> None:
        """Nothing of any box goes on."""
        if not _LINUX:
            signal_all(list(self._running), signal.SIGTERM)  # their wardens end them
        _end_below()

    def _fork_spare(self) -> None:
        """A child that waits for the next order, so that no command has to wait for the fork."""
        if self._spare is not None:
            return
        near, far = _socket.socketpair(_socket.AF_UNIX, KIND)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            near.close()
            _wait_for_order(self._port, far, parent, self._views)
        far.close()
        near.setblocking(False)
        self._spare = _Spare(pid, near)
        self._poll.register(near.fileno(), select.POLLIN)
        self._poll.modify(self._port.fileno(), 0)  # only the end of it is for us

    def _adopt(self, spare: _Spare) -> None:
        """The waiting child has an order, or was killed."""
        try:
            data, given = _receive(spare.line)
        except OSError:
            data, given = b"", []
        self._poll.unregister(spare.line.fileno())
        spare.line.close()
        self._spare = None
        self._poll.modify(self._port.fileno(), select.POLLIN)
        if data:
            port = _socket.socket(fileno=given[0])
            if covered := int(data):
                if covered in self._views:
                    os.close(self._views[covered])
                self._views[covered] = given.pop()
            self._running[spare.pid] = self._by_port[port.fileno()] = _Running(spare.pid, port, *given[1:])
            self._poll.register(port.fileno(), select.POLLIN)

    def _hear(self, box: _Running) -> None:
        """Whatever comes on a box's socket, or its end, ends the box. What is left of it is found when it is over."""
        try:
            still_wanted = bool(box.port.recv(PACKET))
        except OSError:
            still_wanted = False
        if not still_wanted:
            self._poll.unregister(box.port.fileno())
        if box.code is None:  # elsewhere only the warden knows what is below it
            signal_all([box.pid], signal.SIGKILL if _LINUX else signal.SIGTERM)

    def _reap(self) -> set[int]:
        gone: set[int] = set()
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return gone
            if pid == 0:
                return gone
            gone.add(pid)
            self._leaving.discard(pid)
            if self._spare is not None and pid == self._spare.pid:
                self._adopt(self._spare)  # what it had to tell us was sent before it ended
            if (box := self._running.get(pid)) is not None:
                box.code = os.waitstatus_to_exitcode(status)
                box.ended_at = time.monotonic()

    def _knows(self, pid: int) -> bool:
        known = pid in self._running or pid in self._leaving
        return known or (self._spare is not None and pid == self._spare.pid)

    def _is_empty(self, box: _Running, gone: set[int]) -> bool:
        """Whether nothing but its first process is left in a namespace, which takes some time to leave it."""
        first = named_in(box.info) if box.info >= 0 else 0
        if not first or first in gone:
            return bool(first)
        signal_all([first], signal.SIGKILL)  # from here on it cannot fork
        if children(first):
            return False
        self._leaving.add(first)
        return True

    def _close(self, box: _Running, gone: set[int]) -> None:
        """Report the end once nothing is left: what its first process left behind is our child now, and no other is."""
        if not self._is_empty(box, gone):
            left = [pid for pid in children(os.getpid()) if not self._knows(pid)] if _LINUX else []
            if left:
                stop_and_kill(left)
                if time.monotonic() - box.ended_at < _SECONDS_TO_END:
                    return
        _tell(box.port, ENDED, box.code or 0)
        del self._running[box.pid], self._by_port[box.port.fileno()]
        if box.info >= 0:
            os.close(box.info)
        with contextlib.suppress(KeyError):  # nobody listened any more
            self._poll.unregister(box.port.fileno())
        box.port.close()


def _tell(port: _socket.socket, kind: str, number: int, text: str = "") -> None:
    message = f"{kind}{number} {text}".encode(errors="surrogateescape")[:PACKET].ljust(PACKET, b"\0")
    try:
        port.send(message)
    except OSError:
        return  # nobody listens any more


def understand(message: bytes) -> tuple[str, int, str]:
    """What was told: the kind, the number and the text."""
    head, _, text = message.rstrip(b"\0").partition(b" ")
    return chr(head[0]), int(head[1:]), text.decode(errors="replace")


def named_in(info: int) -> int:
    """The process that bubblewrap named, which is our child once bubblewrap has ended; 0 when it had no time to."""
    number = os.pread(info, PACKET, 0).partition(b'"child-pid":')[2].partition(b",")[0].strip(b" \n}")
    return int(number) if number.isdigit() else 0


def _nothing(number: int, frame: object) -> None:
    """The pipe of wake-ups has the signal; nothing else is to be done."""


# In the child: from here to the command


def _wait_for_order(orders: _socket.socket, line: _socket.socket, launcher: int, views: dict[int, int]) -> NoReturn:
    """In a child that was forked beforehand."""
    try:
        signal.set_wakeup_fd(-1)
        for number in _OWN:
            signal.signal(number, signal.SIG_DFL)
        _die_with(launcher, signal.SIGKILL)
        os.setsid()
        _rehearse(launcher)
        data, given = _receive(orders)
        if data:
            text = os.pread(given[1], os.fstat(given[1]).st_size, 0)
            order: dict[str, Any] = marshal.loads(text)  # noqa: S302 - Ferrule's own
            port, passed = _socket.socket(fileno=given[0]), [given[0], *map(given.__getitem__, order["info"])]
            covered, failure = order["covered"], ""
            try:
                view = _go_to_view(covered, views)
            except OSError as error:
                view, failure = -1, _reason(error)
            # Not what is covered itself, which may be longer than a packet.
            told = b"%d" % (hash(covered) if view >= 0 else 0)
            rights = array.array("i", [*passed, view] if view >= 0 else passed)
            line.sendmsg([told], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
            if failure:
                _tell(port, FAILED, 0, f"covered places: {failure}")
                os._exit(126)
            _begin(order, port, given[2:], launcher)
    finally:
        os._exit(0)  # it must never go on as a second launcher


def _rehearse(launcher: int) -> None:
    """Do once what an order will have done: what a child writes to for the first time, the kernel copies for it."""
    near, far = _socket.socketpair(_socket.AF_UNIX, KIND)
    descriptors = array.array("i", (0, 1, 2))
    far.sendmsg([b"\0" * PACKET], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    _, given = _receive(near)
    order = marshal.loads(marshal.dumps({"arguments": ["x"] * 200, "environment": {"x": "y"}}))  # noqa: S302 - ours
    with open(os.devnull, "wb", 0) as file:  # noqa: PTH123
        file.write(b"0")
    _die_with(launcher, signal.SIGKILL)
    _tell(far, STARTED, int(_is_covered(order["arguments"][0])))
    _place(given, [0, 1, 2])
    for descriptor in (*given, near.detach(), far.detach()):
        os.close(descriptor)


def _receive(port: _socket.socket) -> tuple[bytes, list[int]]:
    """A packet and the descriptors that came with it."""
    descriptors = array.array("i")
    room = _socket.CMSG_SPACE(MOST_DESCRIPTORS * descriptors.itemsize)
    data, ancillary, _, _ = port.recvmsg(PACKET, room, getattr(_socket, "MSG_CMSG_CLOEXEC", 0))
    for _, _, content in ancillary:
        descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    given = descriptors.tolist()
    if not _LINUX:
        for descriptor in given:
            os.set_inheritable(descriptor, False)
    return data, given


def _begin(order: dict[str, Any], port: _socket.socket, given: list[int], parent: int) -> NoReturn:
    step = "start"
    try:
        step = "control group"
        for group in order["joins"]:
            with open(group, "wb", 0) as file:  # noqa: PTH123
                file.write(b"0")
        if order["overlays"] or order["user_namespace"]:
            step = "overlay" if order["overlays"] else "namespace"
            _unshare(mounts=bool(order["overlays"]))
            _mount_layers(order["overlays"], order["mounts"])
        step = "start"
        if not order["contained"]:
            _become_warden(order, port, given, parent)
        _die_with(parent, signal.SIGKILL)  # once more: what was done meanwhile may have cleared it
        _tell(port, STARTED, os.getpid())
        _become(order, given)
    except BaseException as error:  # noqa: BLE001 - told to Ferrule; the child must never return
        _tell(port, FAILED, 0, f"{step}: {_reason(error)}")
    os._exit(126)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return repr(error)


def _die_with(parent: int, number: int) -> None:
    if _LINUX:
        _check(_libc.prctl(_DEATH_SIGNAL, int(number), 0, 0, 0))
        if os.getppid() != parent:
            os._exit(1)  # it died a moment ago


def _become(order: dict[str, Any], given: list[int]) -> NoReturn:
    numbers: list[int] = order["numbers"]
    _place(given, numbers)
    if order["takes_terminal"]:
        fcntl.ioctl(0, _TAKE_TERMINAL, 0)
    os.chdir(order["folder"])
    for which, limit in order["limits"]:
        # A limit can only be lowered.
        hard = resource.getrlimit(which)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(which, (limit, limit))
    if order["rules"] >= 0 or order["filter"]:
        # For good: no capabilities, no new ones, the rules for files, the filter of calls.
        rules, program = order["rules"], order["filter"]
        if os.geteuid() == 0:
            for capability in range(64):
                if _libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0) != 0:
                    break  # past the last one
        _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _check(_libc.syscall(_LANDLOCK_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0)))
        os.close(rules)
        filters = _Filter(len(program) // 8, program)
        _check(_libc.prctl(_SECCOMP, _BY_FILTER, ctypes.byref(filters), 0, 0))
    os.execve(order["arguments"][0], order["arguments"], order["environment"])  # noqa: S606 - never a shell line


def _place(given: list[int], numbers: list[int]) -> None:
    """Give each descriptor the number under which the program knows it; all else is closed by exec."""
    above = max(numbers) + 1
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the numbers are Ferrule's, which may have many open
    spare = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above) for descriptor in given]
    for descriptor, number in zip(spare, numbers, strict=True):
        os.dup2(descriptor, number, inheritable=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _check(outcome: int) -> None:
    if outcome != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


# What is covered for every box


def _go_to_view(covered: tuple[str, ...], views: dict[int, int]) -> int:
    """Where all of it is covered. Who replaces a file outside uncovers it: then it is covered in a new view, which is
    given, and what is mounted outside reaches it too.

    Files are covered with a device, which cannot be opened in a box, folders with one that cannot be entered.
    """
    if not covered:
        return -1
    if (known := views.get(hash(covered), -1)) >= 0:
        own = _open_view()
        _check(_libc.setns(known, _NEW_MOUNTS))
        if all(map(_is_covered, covered)):
            return -1
        _check(_libc.setns(own, _NEW_MOUNTS))
    _check(_libc.unshare(_NEW_MOUNTS))
    _mount(None, "/", None, _RECURSIVE | _SLAVE)
    empty = None
    for path in filter(os.path.exists, covered):
        if not os.path.isdir(path):  # noqa: PTH112 - as all here
            _mount(os.devnull, path, None, _BIND)
        elif empty is None:
            _mount("tmpfs", path, "tmpfs", _READ_ONLY, "mode=0000,size=4096")
            empty = path
        else:
            _mount(empty, path, None, _BIND)
    return _open_view()


def _open_view() -> int:
    return os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def _is_covered(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except FileNotFoundError:
        return True
    return stat.S_ISCHR(mode) or (stat.S_ISDIR(mode) and not stat.S_IMODE(mode))


# The overlay


def _unshare(*, mounts: bool) -> None:
    """Root needs no user namespace, and without one its overlay can copy the files of every owner."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _check(_libc.unshare(_NEW_MOUNTS) if mounts else 0)
        return
    _check(_libc.unshare(_NEW_USER | (_NEW_MOUNTS if mounts else 0)))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(text)


def _mount_layers(overlays: list[tuple[str, str, str, list[str]]], mounts: list[str]) -> None:
    """Over each root a view of it whose changes land in its layer. All are opened before the first is covered, and so
    are other file systems below them, which an overlay does not show.
    """
    if not overlays:
        return
    below = [(path, os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)) for path in mounts]
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)
    opened = [(root, list(map(_open, (upper, work, *below, root)))) for root, upper, work, below in overlays]
    for root, (upper, work, *lower) in opened:
        options = f"lowerdir={':'.join(map(_named, lower))},upperdir={_named(upper)},workdir={_named(work)}"
        options += ",redirect_dir=off,metacopy=off,index=off" if os.geteuid() == 0 else ",userxattr"
        try:
            _mount("overlay", root, "overlay", 0, f"{options},volatile")
        except OSError:
            _mount("overlay", root, "overlay", 0, options)
    for path, descriptor in below:
        _mount(_named(descriptor), path, None, _BIND | _RECURSIVE)
    for descriptor in (*(one for _, one in below), *(one for _, found in opened for one in found)):
        os.close(descriptor)


def _open(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _named(descriptor: int) -> str:
    """A name that needs no escaping in mount options, whatever the path has in it."""
    return f"/proc/self/fd/{descriptor}"


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    _check(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]))


# The warden, where no process namespace holds a box together

_command = 0


def _become_warden(order: dict[str, Any], port: _socket.socket, given: list[int], launcher: int) -> NoReturn:
    """Start the command in a child, stay, and end all that it left behind."""
    signal.signal(signal.SIGTERM, _end_box)
    _die_with(launcher, signal.SIGTERM)
    if _LINUX:
        _check(_libc.prctl(_SUB_REAPER, 1, 0, 0, 0))
    global _command
    warden = os.getpid()
    told, tell = os.pipe()
    command = _command = os.fork()
    if command == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            os.setsid()
            _die_with(warden, signal.SIGKILL)
            _become(order, given)
        except BaseException as error:  # noqa: BLE001 - as above
            os.write(tell, _reason(error).encode())
        os._exit(126)
    os.close(tell)
    if failure := os.read(told, PACKET):  # nothing comes of it once exec has closed the other end
        _tell(port, FAILED, 0, f"start: {failure.decode(errors='replace')}")
        os._exit(126)
    _tell(port, STARTED, warden)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    os.closerange(3, 1 << 16)
    while True:
        ended, status = os.wait()
        if ended == command:
            break
    _end_below(command)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _end_below(group: int = 0) -> None:
    """End all that is below this process; where that cannot be known, a group of processes."""
    if not _LINUX:
        if group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        return
    end = time.monotonic() + _SECONDS_TO_END
    while time.monotonic() < end:
        stop_and_kill(children(os.getpid()))
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(0.001)


def _end_box(number: int, frame: object) -> None:
    """The launcher is gone, or something told us to end."""
    _end_below(_command)
    os._exit(128 + number)


def main() -> None:
    """Serve the socket that is our standard input."""
    port = _socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whatever the thread had that started us
    for number in signal.valid_signals() - _OWN - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    if _LINUX:
        _libc.prctl(_SUB_REAPER, 1, 0, 0, 0)
    gc.disable()
    gc.freeze()  # what a child touches is copied for it
    launcher = Launcher(port)
    launcher.serve()
    launcher.end_all()


if __name__ == "__main__":
    main()
