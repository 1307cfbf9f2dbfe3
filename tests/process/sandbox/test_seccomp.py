"""The filter of system calls: read by a small model of the kernel's machine, and proven by real calls."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.needs import needs
from tests.process.sandbox.box import Box, python_for_all

from ferrule.process.sandbox.seccomp import MACHINES, Machine, build_filter, this_machine

ALLOW, KILL = "allow", "kill"
NEW_USER, NEW_NET, NEW_TIME, VM, THREAD = 0x10000000, 0x40000000, 0x80, 0x100, 0x10000


def verdict(program: bytes, machine: Machine, number: int, *arguments: int, audit: int | None = None) -> str | int:
    """What the kernel would do: allow, kill, or the error it answers with."""
    data = struct.pack("<iIQ6Q", number, machine.audit if audit is None else audit, 0, *(*arguments, *[0] * 6)[:6])
    lines = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at, value = 0, 0
    while True:
        code, yes, no, operand = lines[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, operand)
        elif code == 0x54:
            value &= operand
        elif code == 0x06:
            if operand == 0x7FFF0000:
                return ALLOW
            return KILL if operand == 0x80000000 else operand & 0xFFFF
        else:
            met = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += yes if met else no


@pytest.fixture(params=list(MACHINES.values()), ids=list(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    return request.param


@pytest.mark.parametrize(
    "name",
    [
        "ptrace", "process_vm_writev", "keyctl", "bpf", "perf_event_open", "mount", "fsopen", "move_mount", "setns",
        "kexec_load", "finit_module", "userfaultfd", "open_by_handle_at", "swapon", "reboot", "acct", "settimeofday",
        "quotactl", "pivot_root", "chroot", "umount2", "pidfd_getfd", "mount_setattr",
    ],
)  # fmt: skip
def test_what_no_build_needs_is_refused(machine: Machine, name: str) -> None:
    assert verdict(build_filter(machine), machine, machine.numbers[name]) == errno.EPERM


@pytest.mark.parametrize("name", ["clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"])
def test_what_would_slip_past_seems_not_to_exist(machine: Machine, name: str) -> None:
    assert verdict(build_filter(machine), machine, machine.numbers[name]) == errno.ENOSYS


def test_threads_and_processes_start_but_no_namespace(machine: Machine) -> None:
    program, clone, unshare = build_filter(machine), machine.numbers["clone"], machine.numbers["unshare"]
    assert verdict(program, machine, clone, VM | THREAD) == ALLOW
    for flag in (NEW_USER, NEW_NET, NEW_TIME, NEW_USER | VM):
        assert verdict(program, machine, clone, flag) == errno.EPERM
        assert verdict(program, machine, unshare, flag) == errno.EPERM


def test_nobody_types_into_the_terminal(machine: Machine) -> None:
    program, ioctl = build_filter(machine), machine.numbers["ioctl"]
    assert verdict(program, machine, ioctl, 0, 0x5412) == errno.EPERM
    assert verdict(program, machine, ioctl, 0, (7 << 32) | 0x5412) == errno.EPERM  # the kernel reads 32 bits
    assert verdict(program, machine, ioctl, 0, 0x541C) == errno.EPERM
    assert verdict(program, machine, ioctl, 0, 0x5413) == ALLOW


def test_only_everyday_sockets_can_be_made(machine: Machine) -> None:
    program, socket = build_filter(machine), machine.numbers["socket"]
    families = {family for family in range(64) if verdict(program, machine, socket, family, 1, 0) == ALLOW}
    assert families == {1, 2, 10, 16}
    assert verdict(program, machine, socket, 16, 3, 9) == errno.EAFNOSUPPORT  # netlink for audit
    assert verdict(program, machine, socket, 38, 5, 0) == errno.EAFNOSUPPORT  # the kernel's crypto


def test_without_namespaces_there_is_nothing_that_others_reach(machine: Machine) -> None:
    program, numbers = build_filter(machine, namespaces=False), machine.numbers
    assert {verdict(program, machine, numbers["socket"], family) for family in range(64)} == {errno.EPERM}
    using = ("shmat", "shmctl", "semop", "semtimedop", "semctl", "msgsnd", "msgrcv", "msgctl", "mq_unlink")
    for name in ("shmget", "semget", "msgget", "mq_open", *using):
        assert verdict(program, machine, numbers[name]) == errno.EPERM
    for name in ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"):
        assert verdict(program, machine, numbers[name], 0) == ALLOW
        assert verdict(program, machine, numbers[name], 1) == errno.EPERM
    for name, process, group, user in (("setpriority", 0, 1, 2), ("ioprio_set", 1, 2, 3)):
        assert verdict(program, machine, numbers[name], process, 0) == ALLOW
        assert verdict(program, machine, numbers[name], process, 1) == errno.EPERM
        assert verdict(program, machine, numbers[name], group, 0) == errno.EPERM
        assert verdict(program, machine, numbers[name], user, 0) == errno.EPERM


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0x80086601, ALLOW), (0x801C581F, ALLOW), (0x5413, ALLOW), (0x541B, ALLOW), (0x5412, errno.EPERM),
        (0x40086602, errno.ENOTTY), (0x401C5820, errno.ENOTTY), (0x40087602, errno.ENOTTY), (0x40806685, errno.ENOTTY),
        (0x50009401, errno.ENOTTY), (0x800C6613, errno.ENOTTY),
    ],
)  # fmt: skip
def test_without_changes_controls_of_files_only_tell(machine: Machine, code: int, expected: str | int) -> None:
    program = build_filter(machine, changes=False)
    assert verdict(program, machine, machine.numbers["ioctl"], 0, code) == expected


def test_another_machines_calls_are_not_made() -> None:
    machine = MACHINES["x86_64"]
    program = build_filter(machine)
    assert verdict(program, machine, 11, audit=0x40000003) == KILL  # 32 bits
    assert verdict(program, machine, 0x40000000 | 101) == errno.ENOSYS  # x32


@given(number=st.integers(0, 600), arguments=st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6))
def test_every_call_has_a_verdict_and_most_are_allowed(number: int, arguments: list[int]) -> None:
    for machine in MACHINES.values():
        found = verdict(build_filter(machine), machine, number, *arguments)
        if number not in machine.numbers.values():
            assert found == ALLOW
        else:
            assert found in (ALLOW, errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT)


def test_real_calls_are_refused_in_the_sandbox(box: Box) -> None:
    needs(python := python_for_all(), "a Python that every user can run")
    machine = this_machine()
    assert machine is not None
    names = [
        "ptrace",
        "unshare",
        "io_uring_setup",
        "bpf",
        "keyctl",
        "userfaultfd",
        "perf_event_open",
        "mount",
        "clone3",
    ]
    calls = {name: machine.numbers[name] for name in names}
    code = (
        "import ctypes, errno\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"for name, number in {calls!r}.items():\n"
        "    outcome = libc.syscall(number, 0x10000000, 0, 0, 0, 0, 0)\n"
        "    print(name, outcome, errno.errorcode[ctypes.get_errno()])\n"
        "import os, pty, fcntl\n"
        "master, slave = pty.openpty()\n"
        "try: fcntl.ioctl(slave, 0x5412, b'x'); print('typed')\n"
        "except PermissionError: print('not typed')\n"
    )
    done = box.run_program([str(python), "-c", code])
    expected = {name: "ENOSYS" if name in ("io_uring_setup", "clone3") else "EPERM" for name in names}
    assert done.out == "".join(f"{name} -1 {error}\n" for name, error in expected.items()) + "not typed\n"
