"""The command as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._version import __version__
from ferrule.cli.main import _COMMANDS

if TYPE_CHECKING:
    from .conftest import Command


def test_the_version_is_told_both_ways(ferrule: Command) -> None:
    assert ferrule("--version").out == f"ferrule {__version__}\n"
    assert ferrule("--lang", "en", "--version").out == f"ferrule {__version__}\n"


def test_without_a_command_the_help_names_them_all(ferrule: Command) -> None:
    done = ferrule()
    assert done.code == 0
    for name, summary in _COMMANDS.items():
        assert f"{name}  " in done.out
        assert summary in done.out


def test_each_command_has_help_and_the_summary_does_not_lie(ferrule: Command) -> None:
    for name in _COMMANDS:
        done = ferrule(name, "--help")
        assert done.code == 0, done.err
        assert f"ferrule {name}" in done.out
