"""Programs that list, make, change and remove."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "ls -la",
        "find . -name x -newer y",
        "find . -type f -exec wc -l {} +",
        "fd -e py",
        "file -b a",
        "tree -L 2",
        "stat a",
        "du -sh *",
        "umask",
    ],
)
def test_these_only_read(command: str):
    assert analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "rm a",
        "find . -delete",
        "find . -exec rm {} +",
        "find . -fprint a",
        'find . "$x"',
        "fd -x rm",
        "tree -o a",
        "file -C",
        "cp a b",
        "umask 0",
        "chmod +x a",
        "touch a",
        "rsync a b",
    ],
)
def test_these_ask(command: str):
    assert not analyse(command).read_only


@pytest.mark.parametrize(
    "command", ["rm -rf a", "rm -r -f a", "rm --recursive --force a", "rm a --rec -f", "rm -r /", "rm -r ~", "rm -R .."]
)
def test_s2_forced_removal_is_a_danger_in_any_spelling(command: str):
    assert analyse(command).dangers


@pytest.mark.parametrize(
    "command", ["rm a", "rm -f a", "rm -r build", "rm -i *.o", "chmod +x a", "chmod 644 a", "chmod -R u+w a", "mv a b"]
)
def test_ordinary_changes_are_no_danger(command: str):
    assert analyse(command).dangers == ()


@pytest.mark.parametrize("mode", ["777", "0777", "a+rwx", "o+w", "ugo+rwx", "666", "4755", "u+s", "+s", "a=rwx", "000"])
def test_s2_rights_for_everybody_are_a_danger(mode: str):
    assert analyse(f"chmod {mode} a").dangers
