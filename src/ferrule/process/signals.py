"""Signals, heard by the running event loop."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CANNOT = (NotImplementedError, RuntimeError)  # Windows has no such handlers, nor has any thread but the main one


def on_signal(name: str, then: Callable[..., object], *given: object) -> None:
    """Have `then` called when the signal comes. Where it cannot be heard, what the system does with it stays.

    So does a signal that whoever started the program has it ignore, as `nohup` does and a shell for its background.
    """
    loop = asyncio.get_running_loop()
    for number in _known(name):
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        with suppress(*_CANNOT):
            loop.add_signal_handler(number, then, *given)


def no_more_on_signal(name: str) -> None:
    """Leave a signal to the system again."""
    loop = asyncio.get_running_loop()
    for number in _known(name):
        with suppress(*_CANNOT):
            loop.remove_signal_handler(number)


def _known(name: str) -> Iterator[signal.Signals]:
    found = getattr(signal, name, None)  # no system has all of them
    if isinstance(found, signal.Signals):
        yield found
