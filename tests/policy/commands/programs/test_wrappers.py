"""Programs that start another."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "env",
        "env A=1 ls",
        "nice -n 5 ls",
        "timeout 5 ls",
        "xargs -n1 basename",
        "xargs -I{} cat {}",
        "command -v x",
        "time ls",
        "watch -n 1 ls",
        "busybox ls",
        "taskset -c 0 ls",
        "exec ls",
    ],
)
def test_these_only_read(command: str):
    assert analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "env -S ls",
        "env PATH=x ls",
        'env "$x"',
        "nice rm a",
        "timeout 5 rm a",
        "xargs rm",
        "xargs sh -c ls",
        "command rm a",
        "/usr/bin/time -o a ls",
        "watch rm a",
        "busybox rm a",
        "taskset -p 1",
        "exec rm a",
        "sudo ls",
        "su -c ls",
        "strace ls",
        "flock a ls",
        "parallel ls",
        "chroot a ls",
    ],
)
def test_these_ask(command: str):
    assert not analyse(command).read_only
