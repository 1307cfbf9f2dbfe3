"""Starts programs from one thread that lives as long as the process.

A program can ask the kernel to be killed when its parent dies, and bubblewrap does (`--die-with-parent`). For the
kernel the parent is the *thread* that started it: started from a thread of a pool, the program would be killed when
the pool lets that thread go. So all starts go through here, whatever thread asks for them.
"""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.process.launch import Launch

_Order = tuple["Future[subprocess.Popen[bytes]]", "Launch", dict[str, Any]]


class Spawner:
    """The thread, and what it was asked to start."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        # A daemon: it must outlive everything else, and never keep the process from ending.
        self._thread = threading.Thread(target=self._work, name="ferrule-spawner", daemon=True)
        self._thread.start()

    def spawn(self, launch: Launch, options: dict[str, Any]) -> subprocess.Popen[bytes]:
        """Start it and come back once it runs; raises what starting it raised."""
        started: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((started, launch, options))
        return started.result()

    def _work(self) -> None:
        while True:
            started, launch, options = self._orders.get()
            try:
                started.set_result(_open(launch, options))
            except BaseException as error:  # noqa: BLE001 - carried to the thread that asked
                started.set_exception(error)
            del started, launch, options


def _open(launch: Launch, options: dict[str, Any]) -> subprocess.Popen[bytes]:
    passed = {*launch.descriptors, *options.pop("pass_fds", ())}
    return subprocess.Popen[bytes](
        launch.arguments, cwd=launch.folder, env=dict(launch.environment), pass_fds=tuple(passed), **options
    )


_lock = threading.Lock()
_spawner: Spawner | None = None


def spawn(launch: Launch, **options: Any) -> subprocess.Popen[bytes]:
    """Start a program from the long-lived thread; `options` are those of `subprocess.Popen`."""
    global _spawner
    with _lock:
        if _spawner is None:
            _spawner = Spawner()
        spawner = _spawner
    return spawner.spawn(launch, options)


def _forget() -> None:
    """After a fork the child has no such thread, and perhaps a lock that nobody will open."""
    global _lock, _spawner
    _lock, _spawner = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
