"""The program that confines itself: nothing runs half confined."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.needs import needs

from ferrule.process.landlock import kernel_version, open_rules
from ferrule.process.sandbox import confined_start
from ferrule.process.sandbox.seccomp import build_filter
from ferrule.process.sandbox.syscalls import this_machine

SOURCE = Path(confined_start.__file__).read_text()


def start(rules: int, program: bytes, *command: str, parent: int | None = None) -> subprocess.CompletedProcess[str]:
    filters = os.memfd_create("filter")
    os.write(filters, program)
    os.lseek(filters, 0, os.SEEK_SET)
    arguments = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        SOURCE,
        str(parent or os.getpid()),
        str(rules),
        str(filters),
        *command,
    ]
    try:
        return subprocess.run(arguments, pass_fds=(rules, filters), capture_output=True, text=True, timeout=30)
    finally:
        os.close(filters)


@pytest.fixture
def rules() -> object:
    needs(kernel_version(), "a kernel with Landlock")
    opened = open_rules(["/usr", "/lib", "/bin", "/lib64", "/etc"], ["/dev/null"])
    yield opened
    os.close(opened)


def the_filter() -> bytes:
    machine = this_machine()
    assert machine is not None
    return build_filter(machine)


def test_the_command_runs_and_its_code_is_passed_on(rules: int) -> None:
    done = start(rules, the_filter(), "/bin/sh", "-c", "echo hi; exit 9")
    assert (done.stdout, done.returncode) == ("hi\n", 9)
    assert start(rules, the_filter(), "/bin/sh", "-c", "kill -9 $$").returncode == 137


def test_a_filter_that_the_kernel_does_not_take_stops_it(rules: int) -> None:
    done = start(rules, b"\xff" * 64, "/bin/echo", "ran")
    assert done.stdout == ""
    assert done.stderr == "The sandbox could not be set up: seccomp: Invalid argument.\n"


def test_rules_that_are_none_stop_it(tmp_path: Path) -> None:
    file = os.open(tmp_path, os.O_RDONLY)
    done = start(file, the_filter(), "/bin/echo", "ran")
    os.close(file)
    assert done.stdout == ""
    assert "Landlock" in done.stderr


def test_it_does_not_start_for_one_who_is_gone(rules: int) -> None:
    done = start(rules, the_filter(), "/bin/echo", "ran", parent=1 << 22)
    assert done.stdout == ""


def test_a_program_that_is_not_there(rules: int) -> None:
    assert start(rules, the_filter(), "/usr/no-such").stderr == "/usr/no-such: No such file or directory\n"


def test_it_needs_only_the_standard_library() -> None:
    assert "ferrule." not in SOURCE
