"""Paths that never sit still: what is swapped for a link out and back again while a tool runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from ferrule import ErrorKind, ToolResult


@contextmanager
def swapping(*steps: Callable[[], object]) -> Generator[None]:
    """Something that never sits still, in a thread of its own."""
    over = threading.Event()
    broke: list[BaseException] = []
    patience = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def work() -> None:
        try:
            while not over.is_set():
                for step in steps:
                    step()
        except BaseException as error:
            broke.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(patience)
    assert not broke, broke


def for_a_while(run: Callable[[int], ToolResult], seconds: float = 0.4) -> list[ToolResult]:
    """Call it again and again; whatever each call comes to, it is nothing of the neighbour's and no breakdown."""
    until, results = time.monotonic() + seconds, list[ToolResult]()
    while time.monotonic() < until:
        results.append(run(len(results)))
    for result in results:
        assert "secret of" not in result.llm_content
        assert result.error is None or result.error.kind is not ErrorKind.UNKNOWN, result.llm_content
        assert "relative to" not in result.llm_content, result.llm_content
    return results


def relink(link: Path, target: str) -> Callable[[], object]:
    """Put a link in the place of whatever is there, in one step."""

    def step() -> None:
        beside = link.parent.parent / "beside"
        beside.symlink_to(target)
        beside.replace(link)

    return step


def folder_swaps(folder: Path, outside: Path) -> list[Callable[[], object]]:
    away = folder.with_name("away")
    return [
        lambda: folder.rename(away),
        lambda: folder.symlink_to(outside),
        folder.unlink,
        lambda: away.rename(folder),
    ]
