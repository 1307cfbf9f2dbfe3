"""A filter of system calls: what no build, test or script needs, and every escape from a sandbox does.

The filter is a program for the kernel's classic BPF machine. It looks at the number of each call and at arguments
that are plain numbers; it cannot follow pointers, so `clone3`, which hides its flags behind one, is answered as if
the kernel did not have it, and libraries fall back to `clone`.
"""

from __future__ import annotations

import errno
import struct
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferrule.process.sandbox.syscalls import Machine

# What reaches into other processes, into the kernel, past the mounts, or around this very filter.
_FORBIDDEN = (
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd", "move_pages",
    "migrate_pages", "add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd", "syslog",
    "mount", "umount2", "pivot_root", "chroot", "setns", "open_tree", "open_tree_attr", "move_mount", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr", "open_by_handle_at", "fanotify_init", "lookup_dcookie",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module",
    "get_kernel_syms", "query_module", "quotactl", "quotactl_fd", "swapon", "swapoff", "reboot", "acct",
    "settimeofday", "clock_settime", "sethostname", "setdomainname", "vhangup", "nfsservctl", "iopl", "ioperm",
    "modify_ldt", "uselib", "ustat", "_sysctl",
)  # fmt: skip
# Answered as unknown, so that programs take their older way: these run other calls where no filter sees them.
_UNKNOWN = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")
# What changes a file without opening it for writing, which Landlock does not see.
_CHANGES = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
    "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr",
    "fremovexattr", "removexattrat", "file_setattr",
)  # fmt: skip
_SETFLAGS, _FSSETXATTR = 0x40086602, 0x401C5820
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00000080
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # typing into the terminal for the person
_UNIX, _INET, _INET6, _NETLINK, _ROUTE = 1, 2, 10, 16, 0

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _MACHINE = 0, 4
_ARGUMENTS = 16  # each of 64 bits; only the low half is loaded, which is all the kernel reads of the ones tested here

_Lines = list[tuple[int, int, int, int]]


@lru_cache(maxsize=8)
def build_filter(machine: Machine, *, sockets: bool = True, changes: bool = True) -> bytes:
    """The filter as the kernel wants it. Without `sockets`, none can be made but pairs between one's own. Without
    `changes`, the modes, owners, times and attributes of files are answered as on a read-only file system.
    """
    program: _Lines = []

    def add(code: int, value: int, yes: int = 0, no: int = 0) -> None:
        program.append((code, yes, no, value))

    def refuse(number: int) -> None:
        add(_RETURN, _ERRNO | number)

    def with_number(name: str, body: _Lines) -> None:
        add(_EQUAL, machine.numbers[name], 0, len(body))
        program.extend(body)

    add(_LOAD, _MACHINE)
    add(_EQUAL, machine.audit, 1, 0)
    add(_RETURN, _KILL)
    add(_LOAD, _NUMBER)
    if machine.foreign_from is not None:
        add(_AT_LEAST, machine.foreign_from, 0, 1)
        refuse(errno.ENOSYS)
    for name in _FORBIDDEN:
        if name in machine.numbers:
            add(_EQUAL, machine.numbers[name], 0, 1)
            refuse(errno.EPERM)
    for name in _UNKNOWN:
        add(_EQUAL, machine.numbers[name], 0, 1)
        refuse(errno.ENOSYS)
    for name in _CHANGES if not changes else ():
        if name in machine.numbers:
            add(_EQUAL, machine.numbers[name], 0, 1)
            refuse(errno.EROFS)
    for name in ("clone", "unshare"):
        with_number(name, _any_bit(0, _NAMESPACES))
    with_number("ioctl", _one_of(1, (_TIOCSTI, _TIOCLINUX, *(() if changes else (_SETFLAGS, _FSSETXATTR)))))
    with_number("socket", _families() if sockets else [(_RETURN, 0, 0, _ERRNO | errno.EPERM)])
    add(_RETURN, _ALLOW)
    return b"".join(struct.pack("=HBBI", *line) for line in program)


def _any_bit(index: int, bits: int) -> _Lines:
    return [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * index),
        (_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _one_of(index: int, values: tuple[int, ...]) -> _Lines:
    tests = [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    return [
        (_LOAD, 0, 0, _ARGUMENTS + 8 * index),
        *tests,
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]


def _families() -> _Lines:
    """Sockets of this host, of the internet, and the one that lists the interfaces; the rest is attack surface."""
    return [
        (_LOAD, 0, 0, _ARGUMENTS),
        (_EQUAL, 6, 0, _UNIX),
        (_EQUAL, 5, 0, _INET),
        (_EQUAL, 4, 0, _INET6),
        (_EQUAL, 0, 2, _NETLINK),
        (_LOAD, 0, 0, _ARGUMENTS + 16),
        (_EQUAL, 1, 0, _ROUTE),
        (_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
