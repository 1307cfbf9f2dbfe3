"""Finding files by name."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from ferrule.workspace.paths import Paths
from ferrule.workspace.searching import find_files as module
from ferrule.workspace.searching.find_files import find_files, newest


def test_newest_first_and_names_in_order_within_a_moment() -> None:
    dated = [(-1, b"old"), (-5, b"b"), (-5, b"a"), (-9, b"new")]
    assert newest(dated, 3, []).names == [b"new", b"a", b"b"]
    assert newest(dated * 10, 2, []).names == [b"new", b"new"]
    assert newest(dated, 3, ["x"]).total == 4


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
