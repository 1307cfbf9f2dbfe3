"""A filter of system calls: what no build, test or script needs, and every escape from a sandbox does.

The filter is a program for the kernel's classic BPF machine. It looks at the number of each call and at arguments
that are plain numbers; it cannot follow pointers, so `clone3`, which hides its flags behind one, is answered as if
the kernel did not have it, and libraries fall back to `clone`.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass
from functools import lru_cache

# The numbers of the system calls that the filter speaks of, for each kind of machine it knows.


# New calls have had one number everywhere since 2019.
_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "open_tree_attr": 467,
    "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469,
}  # fmt: skip
_X86_64 = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "add_key": 248, "request_key": 249,
    "keyctl": 250, "bpf": 321, "perf_event_open": 298, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
    "unshare": 272, "setns": 308, "clone": 56, "kexec_load": 246, "kexec_file_load": 320, "init_module": 175,
    "finit_module": 313, "delete_module": 176, "userfaultfd": 323, "open_by_handle_at": 304, "quotactl": 179,
    "swapon": 167, "swapoff": 168, "reboot": 169, "acct": 163, "settimeofday": 164, "clock_settime": 227,
    "syslog": 103, "sethostname": 170, "setdomainname": 171, "fanotify_init": 300, "lookup_dcookie": 212,
    "vhangup": 153, "nfsservctl": 180, "move_pages": 279, "migrate_pages": 256, "ioctl": 16, "socket": 41,
    "iopl": 172, "ioperm": 173, "modify_ldt": 154, "uselib": 134, "ustat": 136, "_sysctl": 156, "create_module": 174,
    "get_kernel_syms": 177, "query_module": 178, "chmod": 90, "fchmod": 91, "fchmodat": 268, "chown": 92, "fchown": 93,
    "lchown": 94, "fchownat": 260, "utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280, "setxattr": 188,
    "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "shmget": 29,
    "semget": 64, "msgget": 68, "mq_open": 240, "prlimit64": 302, "shmat": 30, "shmctl": 31, "semop": 65, "semctl": 66,
    "semtimedop": 220, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "mq_unlink": 241, "setpriority": 141,
    "ioprio_set": 251, "sched_setparam": 142, "sched_setscheduler": 144, "sched_setaffinity": 203, "sched_setattr": 314,
}  # fmt: skip
_AARCH64 = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "add_key": 217, "request_key": 218,
    "keyctl": 219, "bpf": 280, "perf_event_open": 241, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51,
    "unshare": 97, "setns": 268, "clone": 220, "kexec_load": 104, "kexec_file_load": 294, "init_module": 105,
    "finit_module": 273, "delete_module": 106, "userfaultfd": 282, "open_by_handle_at": 265, "quotactl": 60,
    "swapon": 224, "swapoff": 225, "reboot": 142, "acct": 89, "settimeofday": 170, "clock_settime": 112,
    "syslog": 116, "sethostname": 161, "setdomainname": 162, "fanotify_init": 262, "lookup_dcookie": 18,
    "vhangup": 58, "nfsservctl": 42, "move_pages": 239, "migrate_pages": 238, "ioctl": 29, "socket": 198,
    "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55, "utimensat": 88, "setxattr": 5, "lsetxattr": 6,
    "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16, "shmget": 194, "semget": 190,
    "msgget": 186, "mq_open": 180, "prlimit64": 261, "shmat": 196, "shmctl": 195, "semop": 193, "semctl": 191,
    "semtimedop": 192, "msgsnd": 189, "msgrcv": 188, "msgctl": 187, "mq_unlink": 181, "setpriority": 140,
    "ioprio_set": 30, "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122, "sched_setattr": 274,
}  # fmt: skip


@dataclass(slots=True, frozen=True, eq=False)
class Machine:
    """A kind of processor: how the kernel's audit names it, and its numbers."""

    audit: int
    numbers: dict[str, int]
    foreign_from: int | None = None
    """Numbers from here on belong to another calling convention (x32)."""


MACHINES = {
    "x86_64": Machine(0xC000003E, _X86_64 | _EVERYWHERE, 0x40000000),
    "aarch64": Machine(0xC00000B7, _AARCH64 | _EVERYWHERE),
}


@lru_cache(maxsize=1)
def this_machine() -> Machine | None:
    """The one we run on; None where the filter does not know it."""
    name = platform.machine().lower()
    return MACHINES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(name, name))


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
# The same by way of a descriptor: of the groups of controls for file systems, those alone that only tell.
_OF_FILE_SYSTEMS = (0x6600, 0x7600, 0x5800, 0x9400)
_ONLY_TELL = (0x80086601, 0x80087601, 0x801C581F, 0xC020660B)  # flags, version, attributes, extents
# What outlives its maker and is everybody's, where no namespace is around a command. Those of others are there by their
# number alone, so making one is refused, and using one too.
_SHARED = (
    "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
    "mq_open", "mq_unlink",
)  # fmt: skip
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00000080
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # typing into the terminal for the person
_UNIX, _INET, _INET6, _NETLINK, _ROUTE = 1, 2, 10, 16, 0

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _MASK, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _MACHINE = 0, 4
_ARGUMENTS = 16  # each of 64 bits; only the low half is loaded, which is all the kernel reads of the ones tested here

_Lines = list[tuple[int, int, int, int]]


@lru_cache(maxsize=8)
def build_filter(machine: Machine, *, namespaces: bool = True, changes: bool = True) -> bytes:
    """The filter as the kernel wants it. Where there are no `namespaces` around the command, nothing can be made that
    others reach, sockets among it, and no other process be limited or made to wait. Without `changes`, the modes,
    owners, times and attributes of files are answered as on a read-only file system.
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
    for name in (*_FORBIDDEN, *(() if namespaces else _SHARED)):
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
        with_number(name, _any_bit(_NAMESPACES))
    with_number("ioctl", _controls(changes))
    with_number("socket", _families() if namespaces else [(_RETURN, 0, 0, _ERRNO | errno.EPERM)])
    if not namespaces:
        for name in ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"):
            with_number(name, _any_bit(0xFFFFFFFF))
        for name, process in (("setpriority", 0), ("ioprio_set", 1)):
            with_number(name, _only(process, 0))
    add(_RETURN, _ALLOW)
    return b"".join(struct.pack("=HBBI", *line) for line in program)


def _any_bit(bits: int) -> _Lines:
    return [
        (_LOAD, 0, 0, _ARGUMENTS),
        (_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _only(*wanted: int) -> _Lines:
    """Arguments that must be these."""
    tests = [((_LOAD, 0, 0, _ARGUMENTS + 8 * at), (_EQUAL, 1, 0, value)) for at, value in enumerate(wanted)]
    refused = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    return [*(line for load, test in tests for line in (load, test, refused)), (_RETURN, 0, 0, _ALLOW)]


def _controls(changes: bool) -> _Lines:
    """Of devices and files; with `changes` all but typing for the person."""

    def answer(codes: tuple[int, ...], verdict: int) -> _Lines:
        return [line for code in codes for line in ((_EQUAL, 0, 1, code), (_RETURN, 0, 0, verdict))]

    lines: _Lines = [(_LOAD, 0, 0, _ARGUMENTS + 8), *answer((_TIOCSTI, _TIOCLINUX), _ERRNO | errno.EPERM)]
    if not changes:
        lines += [*answer(_ONLY_TELL, _ALLOW), (_MASK, 0, 0, 0xFF00)]
        lines += answer(_OF_FILE_SYSTEMS, _ERRNO | errno.ENOTTY)
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


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
