"""One at a time, by name, in whatever loop runs."""

from __future__ import annotations

import asyncio

from ferrule.pipeline.turns import Turns


def test_one_name_has_one_lock_and_another_name_another() -> None:
    async def main() -> None:
        turns = Turns()
        assert turns.of("a") is turns.of("a")
        assert turns.of("a") is not turns.of("b")

    asyncio.run(main())


def test_every_loop_has_its_own_and_takes_it_along() -> None:
    turns = Turns()
    most = 0
    inside = 0

    async def one() -> None:
        nonlocal inside, most
        async with turns.of("a"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    async def main() -> None:
        await asyncio.gather(*(one() for _ in range(5)))

    for _ in range(3):
        asyncio.run(main())
    assert most == 1
    assert len(turns._locks) <= 1
