"""A guard under its keeper: it starts or says why not, and leaves nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.process.shell.shell_room import Room

from ferrule.core.errors import ToolError
from ferrule.process.launch import Launch
from ferrule.process.sandbox.sandbox import Prepared
from ferrule.process.shell.keeper import descendants
from ferrule.process.shell.kept_guard import KeptGuard, ShellLost


def opened() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_it_starts_and_is_gone_after_its_end(room: Room) -> None:
    async def main() -> None:
        before = opened()
        guard = await KeptGuard.start(room.prepare)
        keeper = guard.family.keeper
        assert len(descendants(keeper)) >= 1
        waiting = guard.expect("nonce", "ended")
        await guard.close()
        await guard.close()
        assert not Path(f"/proc/{keeper}").exists()
        assert guard.lost == "it was closed"
        with pytest.raises(ShellLost):
            await waiting
        with pytest.raises(ShellLost):
            await guard.expect("nonce", "other")
        assert opened() == before

    asyncio.run(main())


def test_only_the_few_descriptors_it_needs_are_held(plain: Room) -> None:
    async def main() -> int:
        before = opened()
        guard = await KeptGuard.start(plain.prepare)
        held = opened() - before
        await guard.close()
        return held

    assert asyncio.run(main()) < 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("/no/such/sandbox",), "The shell could not be started: /no/such/sandbox: No such file or directory."),
        (("/bin/false",), "The shell did not start."),
    ],
)
def test_a_sandbox_that_does_not_start_is_told_and_closed(arguments: tuple[str, ...], message: str) -> None:
    closed: list[bool] = []

    async def main() -> None:
        closing = ExitStack()
        closing.callback(closed.append, True)
        await KeptGuard.start(lambda _: Prepared(Launch(arguments), closing=closing))

    before = opened()
    with pytest.raises(ToolError) as caught:
        asyncio.run(main())
    assert caught.value.message == message
    assert closed == [True]
    assert opened() == before


def test_a_sandbox_that_refuses_leaves_nothing_open() -> None:
    def refuse(_: object) -> Prepared:
        raise ToolError("refused")

    before = opened()
    with pytest.raises(ToolError, match="refused"):
        asyncio.run(KeptGuard.start(refuse))
    assert opened() == before


def test_reports_without_the_right_word_are_ignored(plain: Room) -> None:
    async def main() -> None:
        guard = await KeptGuard.start(plain.prepare)
        try:
            right = guard.expect("right", "ended")
            guard.order("wrong", guard.descriptors.numbers.places[0].lines, afresh=False)
            await asyncio.sleep(0.1)
            assert not right.done()
        finally:
            await guard.close()

    asyncio.run(main())


def test_one_that_nobody_waits_for_any_more_is_closed_as_soon_as_it_is_ready(plain: Room) -> None:
    begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def prepare(arguments: Sequence[str]) -> Prepared:
        begun.set()
        go_on.wait(20)
        prepared, closing = plain.prepare(arguments), ExitStack()
        closing.callback(closed.set)
        return Prepared(prepared.launch, closing=closing)

    async def main() -> None:
        starting = asyncio.create_task(KeptGuard.start(prepare))
        assert await asyncio.to_thread(begun.wait, 20)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        go_on.set()
        assert await asyncio.to_thread(closed.wait, 20)

    asyncio.run(main())
