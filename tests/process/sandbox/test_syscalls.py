"""The numbers are those of the kernel's own headers, where they are installed."""

from __future__ import annotations

import shutil
import subprocess

from tests.needs import needs

from ferrule.process.sandbox.seccomp import MACHINES, this_machine

NEWER_THAN_SOME_HEADERS = {
    "open_tree_attr", "quotactl_fd", "fchmodat2", "setxattrat", "removexattrat", "file_setattr",
}  # fmt: skip


def test_this_machine_is_known() -> None:
    assert this_machine() in MACHINES.values()


def test_the_numbers_are_the_kernels() -> None:
    needs(compiler := shutil.which("cc"), "a C compiler with the kernel's headers")
    machine = this_machine()
    assert machine is not None
    assert compiler
    lines = "".join(f"#ifdef __NR_{name}\n{name} = __NR_{name}\n#endif\n" for name in machine.numbers)
    done = subprocess.run(
        [compiler, "-E", "-P", "-x", "c", "-"],
        input=f"#include <asm/unistd.h>\n{lines}",
        text=True,
        capture_output=True,
    )
    found: dict[str, int] = {}
    for line in done.stdout.splitlines():
        name, equals, number = line.partition(" = ")
        if equals:
            terms = number.strip("() ").split("+")
            found[name] = sum(int(term, 0) for term in terms)
    assert {name: machine.numbers[name] for name in found} == found
    assert set(machine.numbers) - set(found) <= NEWER_THAN_SOME_HEADERS


def test_new_calls_have_one_number_everywhere() -> None:
    x86, arm = (MACHINES[name].numbers for name in ("x86_64", "aarch64"))
    assert {name for name in x86 if x86[name] > 423} == {name for name in arm if arm[name] > 423}
    assert all(x86[name] == arm[name] for name in x86 if x86[name] > 423)
