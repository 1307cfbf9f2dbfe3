"""The lines that Ferrule runs in bash: valid for it, and short."""

from __future__ import annotations

import subprocess

import pytest

from ferrule.process.shell.bash_lines import Lines, Numbers, Place, guard_script

PLACE = Place(lines=20, text=19, saved=21, library=22, epilogue=23)


def numbers(terminal: int) -> Numbers:
    return Numbers(orders=10, reports=11, places=(PLACE,), outputs=((30, 31), (32, 33)), terminal=terminal)


@pytest.mark.parametrize("terminal", [-1, 40])
def test_bash_can_read_all_of_them(terminal: int) -> None:
    lines = Lines(4194304, numbers(terminal), PLACE)
    texts = [
        guard_script(numbers(terminal)).encode(),
        lines.library().encode(),
        lines.epilogue().encode(),
        lines.round("0" * 16, (30, 31), status=3, traps=lines.traps(on_exit=True), save=True),
        lines.background("0" * 16, "1" * 16, (30, 31)),
        lines.restore("0" * 16, "/a 'folder'\n$(x)"),
    ]
    for text in texts:
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_round_is_short_because_bash_reads_it_byte_by_byte() -> None:
    lines = Lines(4194304, numbers(-1), PLACE)
    assert len(lines.round("0" * 16, (30, 31), status=0, traps="", save=True)) < 300


def test_the_guard_closes_every_number_for_the_shell() -> None:
    script = guard_script(numbers(-1))
    assert all(f" {number}>&-" in script for number in numbers(-1).all())
    assert len(set(numbers(40).all())) == 2 + 5 + 4 + 1
