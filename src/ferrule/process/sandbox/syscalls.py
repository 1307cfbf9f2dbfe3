"""The numbers of the system calls that the filter speaks of, for each kind of machine it knows."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import lru_cache

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
    "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199,
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
    "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
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
