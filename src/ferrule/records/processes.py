"""Processes that read parts of a long audit log at the same time."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ferrule.records.database import AuditError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess


@contextmanager
def readers_of(target: Callable[..., None], shares: Sequence[tuple[Any, ...]]) -> Generator[list[Connection]]:
    """A process for each share, and where it sends what it read: `target` gets the share and the other end. They end
    with the block. Where one could not be started, its pipe is closed, as it is for one that has ended.
    """
    import signal
    import threading
    from multiprocessing import get_context

    spawn = get_context("spawn")
    started: list[SpawnProcess] = []
    readers: list[Connection] = []
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None  # Ctrl-C is for this process alone
    try:
        try:
            for share in shares:
                reader, writer = spawn.Pipe(duplex=False)
                readers.append(reader)
                with writer:  # an open copy here would hide that the process has ended
                    one = spawn.Process(target=_send, args=(target, *share, writer), daemon=True)
                    one.start()
                    started.append(one)
        except OSError:
            pass
        finally:
            if in_main:
                signal.signal(signal.SIGINT, before)
        yield readers
    finally:
        for one in started:
            one.terminate()
            one.join()
        for reader in readers:
            reader.close()


def _send(target: Callable[..., None], *given: Any) -> None:
    """In a process of its own. What it cannot read, or send since nobody is there any more, the one that reads the pipe
    finds missing, and reads and reports by itself.
    """
    with suppress(AuditError, BrokenPipeError, ConnectionResetError):
        target(*given)
