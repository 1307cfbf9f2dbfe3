"""Signals that the event loop hears."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from ferrule.core.loops import no_more_on_signal, on_signal


async def test_a_signal_is_heard_until_it_is_not_any_more() -> None:
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    on_signal("SIGUSR1", heard.set_result, "it came")
    os.kill(os.getpid(), signal.SIGUSR1)
    assert await asyncio.wait_for(heard, 20) == "it came"
    no_more_on_signal("SIGUSR1")
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    no_more_on_signal("SIGUSR1")


async def test_what_the_program_was_told_to_ignore_stays_ignored() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        on_signal("SIGUSR1", lambda: None)
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)


@pytest.mark.parametrize("name", ["SIGBREAK", "SIG_DFL", "Signals"])
async def test_what_this_system_does_not_have_is_passed_over(name: str) -> None:
    on_signal(name, lambda: None)
    no_more_on_signal(name)


def test_another_thread_than_the_main_one_hears_none_and_goes_on() -> None:
    async def hear() -> str:
        on_signal("SIGUSR1", lambda: None)
        return "went on"

    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(asyncio.run(hear())))
    thread.start()
    thread.join()
    assert said == ["went on"]
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_without_an_event_loop_it_is_a_mistake_and_is_said() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        on_signal("SIGUSR1", lambda: None)
