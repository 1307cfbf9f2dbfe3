"""What bash itself does."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "export A=b",
        "read -r a b",
        "mapfile -t a",
        "printf '%s' a",
        "test -f a",
        "cd a",
        "set -euo pipefail",
        "eval ls",
        "trap 'ls' EXIT",
        "bash -c ls",
        "bash -n a",
        "hash",
        "shopt",
        "history 5",
        "let i=1",
        "declare -p PATH",
        "jobs",
    ],
)
def test_these_only_read(command: str):
    assert analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "export PATH=x",
        "read 'a[$(id)]'",
        "mapfile -C x a",
        "printf -v 'a[1]' b",
        "test -v 'a[0]'",
        'eval "$x"',
        "trap 'rm a' EXIT",
        "trap ls DEBUG",
        "bash a",
        'bash -c "$x"',
        "bash",
        "source a",
        "alias a=b",
        "hash -p a b",
        "shopt -s extglob",
        "history -c",
        "let a=b",
        "declare -n a=b",
        "jobs -x ls",
        "zsh -c ls",
        "enable -f a b",
    ],
)
def test_these_ask(command: str):
    assert not analyse(command).read_only
