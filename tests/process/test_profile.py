"""A profile is strict unless it says otherwise."""

from __future__ import annotations

from pathlib import Path

from ferrule.process.profile import Profile


def test_there_is_no_network_unless_hosts_are_named():
    assert Profile((Path("/ws"),), Path("/ws")).hosts is None


def test_processes_are_bounded_from_the_start():
    assert Profile((Path("/ws"),), Path("/ws")).bounds.processes
