"""Ctrl-C twice within two seconds leaves."""

from __future__ import annotations

from ferrule.cli.chatting.input import Interrupts


def test_only_one_that_follows_soon_means_to_leave() -> None:
    times = iter([0.0, 1.9, 10.0, 12.1, 12.2])
    interrupts = Interrupts(lambda: next(times))
    assert [interrupts.again() for _ in range(5)] == [False, True, False, False, True]
