from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.workspace.paths import Paths
from ferrule.workspace.searching import ripgrep as older_encodings
from ferrule.workspace.searching.ripgrep import OlderFiles, beyond_ascii, find_older_files, find_ripgrep

CHINESE = "这个函数返回用户的名字，如果没有就返回空。\n"


def older(folder: Path) -> OlderFiles:
    paths = Paths([folder])
    program = find_ripgrep(paths)
    assert program is not None
    return asyncio.run(find_older_files(program, paths, paths.find("."), [], None))


def test_files_are_told_by_what_ripgrep_calls_their_encoding(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CHINESE.encode("gb18030"))
    (tmp_path / "b").write_bytes("Größe für später\n".encode("cp1252"))
    (tmp_path / "c").write_text(CHINESE)
    (tmp_path / "d").write_bytes(CHINESE.encode("utf-16"))
    (tmp_path / "e").write_bytes(b"\x89PNG\0\xff")
    found = older(tmp_path)
    assert found.by_encoding == {"gb18030": [b"./a"], "windows-1252": [b"./b"]}
    assert found.notes() == []


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
def test_utf_8_is_never_taken_for_anything_else(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("utf8")
    (folder / "a").write_bytes(text.encode())
    assert older(folder) == OlderFiles()


@pytest.mark.parametrize(("bound", "most"), [("_MOST_FILES", 2), ("_MOST_BYTES_OF_NAMES", 8)])
def test_more_files_than_are_looked_at_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(older_encodings, bound, most)
    for name in "abc":
        (tmp_path / name).write_bytes(CHINESE.encode("gb18030"))
    found = older(tmp_path)
    assert (found.names, found.passed_over) == ({b"./a", b"./b"}, 1)
    monkeypatch.setattr(older_encodings, "_LARGEST", 10)
    assert older(tmp_path).notes() == [
        "3 files are not in UTF-8, and too large or too many to look at: only ASCII is found there. Narrow with `path`."
    ]


def test_two_characters_that_look_like_utf_8_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("联通\n".encode("gb18030"))
    assert older(tmp_path).unclear + len(older(tmp_path).names) == 1


@pytest.mark.parametrize(("pattern", "beyond"), [("a.b", False), ("错", True), (r"\p{Han}", True), (r"\x{9519}", True)])
def test_patterns_that_may_mean_more_than_ascii(pattern: str, beyond: bool) -> None:
    assert beyond_ascii(pattern) is beyond
