"""Finding files by name."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from ferrule.workspace.paths import Paths
from ferrule.workspace.searching import find_files as module
from ferrule.workspace.searching.find_files import find_files


def test_a_file_without_a_readable_name_is_found(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9")).write_text("")
    (tmp_path / "-x\n").write_text("")
    paths = Paths([tmp_path])
    seen: list[bytes] = []
    found = asyncio.run(find_files(paths, paths.find("."), ("*",), 10, seen.extend))
    assert sorted(found.names) == sorted(seen) == [b"./-x\n", b"./caf\xe9"]


def test_after_its_time_it_gives_what_it_has(tmp_path: Path) -> None:
    paths = Paths([tmp_path])
    before, module.SECONDS = module.SECONDS, 0.0
    try:
        found = asyncio.run(find_files(paths, paths.find("."), (), 10, lambda names: None))
    finally:
        module.SECONDS = before
    assert found.notes == ["The search was stopped after 0 s; there may be more. Narrow it."]


def test_the_newest_of_very_many_are_found_with_all_counted(tmp_path: Path) -> None:
    for number in range(3_000):
        file = tmp_path / f"folder_{number % 7}" / f"file_{number:04}"
        file.parent.mkdir(exist_ok=True)
        file.touch()
        os.utime(file, ns=(0, number // 10 * 10**9))  # ten of each moment
    paths = Paths([tmp_path])
    seen: list[bytes] = []
    found = asyncio.run(find_files(paths, paths.find("."), (), 995, seen.extend))
    expected = sorted(range(3_000), key=lambda number: (-(number // 10), f"folder_{number % 7}/file_{number:04}"))[:995]
    assert found.names == [f"./folder_{number % 7}/file_{number:04}".encode() for number in expected]
    assert found.total == 3_000
    assert 0 < len(seen) <= 3_000


def test_very_many_files_of_one_moment_come_in_order_of_name(tmp_path: Path) -> None:
    for number in range(2_500):
        (tmp_path / f"file_{number:04}").touch()
        os.utime(tmp_path / f"file_{number:04}", ns=(0, 0))
    paths = Paths([tmp_path])
    found = asyncio.run(find_files(paths, paths.find("."), (), 20, lambda names: None))
    assert found.names == [f"./file_{number:04}".encode() for number in range(20)]
