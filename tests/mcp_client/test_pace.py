"""Whoever says too much has to wait, and nobody else."""

from __future__ import annotations

from ferrule.mcp_client.bounds import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


def pace(most: int) -> tuple[Pace, Clock]:
    clock = Clock()
    return Pace(most, clock=lambda: clock.now, sleep=clock.sleep), clock


async def test_little_never_waits() -> None:
    paced, clock = pace(10)
    for _ in range(50):
        await paced.spend()
        clock.now += 0.2
    assert clock.slept == 0.0


async def test_much_is_held_to_the_rate() -> None:
    paced, clock = pace(10)
    for _ in range(100):
        await paced.spend()
    assert clock.now == 10.0


async def test_one_large_piece_waits_as_long_as_it_should_have_taken() -> None:
    paced, clock = pace(10)
    await paced.spend(35)
    assert clock.now == 3.5
