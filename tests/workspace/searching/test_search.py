"""Searching contents: rg's output taken apart, and the first results in order out of any order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.workspace.paths import Paths
from ferrule.workspace.searching import search as module
from ferrule.workspace.searching.search import Findings, FirstInOrder, Hits, Mode, Query, search

NAMES = st.text("ab\n/ .", min_size=1, max_size=6).map(lambda name: b"./" + name.encode())
HITS = st.dictionaries(NAMES, st.integers(1, 4), max_size=8)


def query(tmp: Path, mode: Mode = "content", **more: int) -> Query:
    return Query("x", Paths([tmp]).find("."), mode, **more)  # pyright: ignore[reportArgumentType]


def block(name: bytes, lines: int) -> bytes:
    return name + b"\0" + b"\n".join(b"%d:1:text" % number for number in range(1, lines + 1))


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@given(HITS, st.integers(1, 30))
def test_however_the_output_is_cut_the_hits_are_the_same(files: dict[bytes, int], size: int) -> None:
    blocks = [block(name, lines) for name, lines in files.items()]
    hits = Hits("content")
    found = [hit for piece in pieces(b"\n\n".join(blocks) + b"\n", size) for hit in hits.feed(piece)]
    found += hits.end()
    assert found == blocks
    assert hits.files == len(files)


@given(HITS, st.integers(1, 30))
def test_names_and_counts_too(files: dict[bytes, int], size: int) -> None:
    names = Hits("files_with_matches")
    data = b"".join(name + b"\0" for name in files)
    assert [hit for piece in pieces(data, size) for hit in names.feed(piece)] == [name + b"\0" for name in files]
    counts = Hits("count")
    data = b"".join(b"%s\0%d\n" % one for one in files.items())
    found = [hit for piece in pieces(data, size) for hit in counts.feed(piece)]
    assert found == [b"%s\0%d" % one for one in files.items()]
    assert (counts.files, counts.matches) == (len(files), sum(files.values()))


def test_a_file_with_very_many_matches_is_taken_in_pieces() -> None:
    hits = Hits("content")
    found: list[bytes] = []
    for piece in pieces(block(b"./big", 300_000) + b"\n\n" + block(b"./small", 1) + b"\n", 1 << 16):
        found += hits.feed(piece)
    found += hits.end()
    assert len(found) > 2
    assert hits.files == 2
    lines = b"\n".join(hit.partition(b"\0")[2] for hit in found if hit.startswith(b"./big"))
    assert lines.count(b"\n") == 299_999


def test_binary_files_are_counted() -> None:
    hits = Hits("content")
    said = b'./bin: binary file matches (found "\\0" byte around offset 7)\n\n./a\x001:1:x\n\n'
    assert hits.feed(said) == [b"./a\x001:1:x"]
    assert (hits.binary, hits.files) == (1, 1)


def test_the_first_in_order_out_of_any_order(tmp_path: Path) -> None:
    kept = FirstInOrder(5, query(tmp_path))
    order = [(7 * number) % 20_011 for number in range(20_011)]
    for start in range(0, len(order), 500):
        kept.add([block(b"./%06d" % number, 2) for number in order[start : start + 500]])
    assert [hit.partition(b"\0")[0] for hit in kept.first()] == [b"./000000", b"./000001", b"./000002"]
    assert kept.matches == 2 * 20_011


def test_lines_around_matches_do_not_count(tmp_path: Path) -> None:
    kept = FirstInOrder(5, query(tmp_path, before=1, after=1))
    kept.add([b"./a\x001-x\n2:1:12:3:y\n3-7:7:z\n--\n9:1:w"])
    assert kept.matches == 2


def test_memory_stays_bounded(tmp_path: Path) -> None:
    kept = FirstInOrder(10, query(tmp_path))
    for number in range(2000):
        kept.add([block(b"./%05d" % (2000 - number), 200)])
    assert kept.matches == 400_000
    assert sum(len(hit) for hit in kept._kept) < 500_000


def test_after_its_time_a_search_gives_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    before, module.SECONDS = module.SECONDS, 0.0
    try:
        findings = asyncio.run(search(Paths([tmp_path]), query(tmp_path), 10, lambda hits: None))
    finally:
        module.SECONDS = before
    assert not findings.complete
    assert findings.notes == ["The search was stopped after 0 s; there may be more. Narrow it."]


def test_what_was_found_stays_where_no_time_is_left_for_older_encodings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gb.txt").write_bytes("这个函数返回用户的名字，如果没有就返回空。\n".encode("gb18030"))
    (tmp_path / "utf8.txt").write_text("这个函数\n")
    late = 0.0
    at_first, clock = module._search, module.monotonic  # pyright: ignore[reportPrivateUsage]

    async def then_time_is_up(*arguments: Any, **more: Any) -> Findings:
        nonlocal late
        found = await at_first(*arguments, **more)
        late = 1000.0
        return found

    monkeypatch.setattr(module, "_SOON", float("inf"))
    monkeypatch.setattr(module, "_search", then_time_is_up)
    monkeypatch.setattr(module, "monotonic", lambda: clock() + late)
    paths = Paths([tmp_path])
    asked = Query("函数", paths.find("."), "files_with_matches")
    findings = asyncio.run(search(paths, asked, 10, lambda hits: None))
    assert findings.hits == [b"./utf8.txt\0"]
    assert findings.notes == [
        "1 file is not in UTF-8, and only ASCII was found there: there was no time for more. Narrow with `path`."
    ]
