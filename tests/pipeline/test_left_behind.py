"""A call that is over is gone at once: what it held, such as files and connections, waits for no collection (P1)."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import contextmanager

import pytest

from ferrule import Runtime, tool


@tool(kind="readonly")
async def quick(n: int = 1) -> int:
    """Return a number."""
    return n


@tool(kind="readonly")
async def slow(n: int = 1) -> int:
    """Return a number a little later."""
    await asyncio.sleep(0.002)
    return n


@tool(kind="readonly")
def quick_sync(n: int = 1) -> int:
    """Return a number."""
    return n


@tool(kind="readonly")
def slow_sync(n: int = 1) -> int:
    """Return a number a little later."""
    time.sleep(0.002)
    return n


@tool(kind="readonly")
async def pieces(n: int = 3) -> AsyncIterator[str]:
    """Return text piece by piece."""
    for number in range(n):
        yield str(number)


@tool(kind="readonly")
def pieces_sync(n: int = 3) -> Iterator[str]:
    """Return text piece by piece."""
    for number in range(n):
        yield str(number)


@tool(kind="readonly")
async def fails(n: int = 1) -> int:
    """Fail."""
    raise ValueError(n)


@tool(kind="readonly")
def fails_sync(n: int = 1) -> int:
    """Fail."""
    raise ValueError(n)


@contextmanager
def _collecting_only_here() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("own_loop", [False, True])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("quick", {}), ("slow", {}), ("quick_sync", {}), ("slow_sync", {}), ("pieces", {}), ("pieces_sync", {}),
        ("fails", {}), ("fails_sync", {}), ("nobody", {}),
        ("quick", {"n": "many"}), ("quick", '{"n": 1'), ("quick_sync", {"n": "2"}),
    ],
)  # fmt: skip
async def test_nothing_is_left_for_the_collector(name: str, arguments: dict[str, object] | str, own_loop: bool) -> None:
    async with Runtime(
        [quick, slow, quick_sync, slow_sync, pieces, pieces_sync, fails, fails_sync], own_loop=own_loop
    ) as runtime:
        for _ in range(3):
            await runtime.run(name, arguments)
        await asyncio.sleep(0.05)  # what is told the loop in passing has been
        with _collecting_only_here():
            for _ in range(20):
                await runtime.run(name, arguments)
            await asyncio.sleep(0.05)
            assert gc.collect() < 20
