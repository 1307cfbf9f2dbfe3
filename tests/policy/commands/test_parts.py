"""What a command's analysis says of itself."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.parts import Analysis, Danger, Effect, Part

READS = Part("ls", ("ls",), Effect.READS, "`ls` lists files")
WRITES = Part("touch a", ("touch", "a"), Effect.WRITES, "`touch` makes files", writes=("a",))


def test_a_command_is_read_only_when_all_its_parts_are():
    assert Analysis("ls; ls", (READS, READS)).read_only


@pytest.mark.parametrize(
    "analysis",
    [
        Analysis("ls; touch a", (READS, WRITES)),
        Analysis("ls", (READS,), dangers=(Danger("ls", "it is told so"),)),
        Analysis("ls (", (READS,), unclear=("it cannot be parsed",)),
    ],
)
def test_one_doubt_is_enough_to_be_not_read_only(analysis: Analysis):
    assert not analysis.read_only


def test_a_program_is_named_without_its_folder():
    assert Part("/bin/ls -l", ("/bin/ls", "-l"), Effect.READS, "").program == "ls"
    assert Part("x=1", (), Effect.READS, "").program == ""
