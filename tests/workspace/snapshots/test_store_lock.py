from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ferrule.workspace.problems import PathProblem
from ferrule.workspace.snapshots.store_lock import StoreLock


def test_one_at_a_time_over_threads_and_over_openings(tmp_path: Path) -> None:
    locks = [StoreLock(tmp_path / "lock", 10), StoreLock(tmp_path / "lock", 10)]
    inside: list[int] = []
    seen: list[int] = []

    def work(lock: StoreLock) -> None:
        for _ in range(20):
            with lock.held():
                inside.append(1)
                seen.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work, args=(locks[n % 2],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {1}
    for lock in locks:
        lock.close()


def test_who_waits_too_long_is_told(tmp_path: Path) -> None:
    first, second = StoreLock(tmp_path / "lock", 1), StoreLock(tmp_path / "lock", 0.05)
    with first.held(), pytest.raises(PathProblem, match=r"in use by another program for 0\.05 seconds"), second.held():
        pass
    with second.held():
        pass
    first.close()
    second.close()
