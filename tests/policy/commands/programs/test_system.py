"""Programs about the machine."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "date +%F",
        "ps aux",
        "ip addr",
        "sysctl -a",
        "mount",
        "systemctl status x",
        "journalctl -u x",
        "crontab -l",
        "hostname",
        "kill -l",
        "kill -0 1",
        "top -bn1",
        "iptables -L",
        "arp -a",
    ],
)
def test_these_only_read(command: str):
    assert analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "date -s now",
        "ps auxe",
        "ip link set a down",
        "sysctl -w a=1",
        "mount a b",
        "systemctl stop x",
        "journalctl --rotate",
        "crontab x",
        "hostname x",
        "kill 1",
        "top",
        "iptables -F",
        "reboot",
        "fdisk /dev/sda",
        "swapoff -a",
    ],
)
def test_these_ask(command: str):
    assert not analyse(command).read_only
