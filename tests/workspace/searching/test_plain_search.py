"""Without ripgrep: the same results, and a word that they came slowly."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ferrule import Runtime, Session
from ferrule.builtin.glob import glob
from ferrule.builtin.grep import grep
from ferrule.workspace.paths import Paths
from ferrule.workspace.searching import find_files, plain_search, search


def plant(root: Path) -> None:
    for name, text in {
        "a.py": "import os\nfoo = 1\n\nbar(foo)\nlast foo",
        "src/b.ts": "Foo\nfoo {\n  x\n}\n",
        "src/é ü.md": "äö foo äö\r\n",
        "-x": "foo\n",
        "ignored.log": "foo\n",
        ".hidden": "foo\n",
        "long.txt": "x" * 5000 + "foo" + "y" * 5000,
        ".gitignore": "*.log\n",
    }.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    (root / "latin").write_bytes(b"caf\xe9 foo\n")
    (root / "binary").write_bytes(b"foo\0foo\n")
    (root / "out").symlink_to("/etc")


def ask(root: Path, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = asyncio.run(Runtime([grep, glob], session=Session(workspace=root)).run(tool, arguments))
    assert result.success, result.llm_content
    return result.data


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Grep", {"pattern": "foo"}),
        ("Grep", {"pattern": "foo", "output_mode": "content"}),
        ("Grep", {"pattern": "foo", "output_mode": "content", "-C": 1, "-i": True}),
        ("Grep", {"pattern": "foo", "output_mode": "content", "-A": 2, "head_limit": 3}),
        ("Grep", {"pattern": "foo", "output_mode": "count"}),
        ("Grep", {"pattern": "foo", "glob": "*.py,src/*.ts"}),
        ("Grep", {"pattern": "foo", "glob": "!*.py"}),
        ("Grep", {"pattern": "foo", "type": "py"}),
        ("Grep", {"pattern": "foo", "path": "src", "glob": "b.*"}),
        ("Grep", {"pattern": "foo", "path": "a.py", "output_mode": "content"}),
        ("Grep", {"pattern": "foo .*x", "multiline": True, "output_mode": "content"}),
        ("Grep", {"pattern": "absent"}),
        ("Glob", {"pattern": "*"}),
        ("Glob", {"pattern": "**/*.{ts,md}"}),
        ("Glob", {"pattern": "src/*"}),
        ("Glob", {"pattern": "*", "path": "src"}),
    ],
)
def test_it_finds_what_ripgrep_finds(
    tool: str, arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path)
    fast = ask(tmp_path, tool, arguments)
    for module in (search, find_files):
        monkeypatch.setattr(module, "find_ripgrep", lambda paths: None)
    slow = ask(tmp_path, tool, arguments)
    assert plain_search.SLOWLY in slow["notes"]
    assert {**slow, "notes": []} == {**fast, "notes": []}


@pytest.mark.parametrize("arguments", [{"pattern": "foo("}, {"pattern": "a\\nb"}, {"pattern": "x", "type": "nope"}])
def test_its_errors_say_what_to_do(arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "find_ripgrep", lambda paths: None)
    result = asyncio.run(Runtime([grep], session=Session(workspace=tmp_path)).run("Grep", arguments))
    assert result.error is not None
    assert result.error.kind == "validation_error"
    assert result.error.suggestion


def test_after_its_time_it_gives_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path)
    monkeypatch.setattr(search, "find_ripgrep", lambda paths: None)
    monkeypatch.setattr(plain_search, "SECONDS", -1)
    assert "stopped after" in " ".join(ask(tmp_path, "Grep", {"pattern": "foo"})["notes"])


def test_a_line_may_end_with_a_carriage_return(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"foo\r\nfoo bar\r\n")
    paths = Paths([tmp_path])
    for crlf, lines in ((True, 1), (False, 0)):
        query = search.Query("foo$", paths.find("."), "content", crlf=crlf)
        found = asyncio.run(plain_search.plain_search(paths, query, 10, lambda hits: None))
        assert found.matches == lines
        assert asyncio.run(search.search(paths, query, 10, lambda hits: None)).matches == lines


def test_older_encodings_are_searched_for_what_only_they_write_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "find_ripgrep", lambda paths: None)
    chinese = "# 这个函数返回用户的名字，如果没有就返回空。\n"
    (tmp_path / "gb.py").write_bytes(chinese.encode("gb18030"))
    (tmp_path / "utf8.py").write_text(chinese)
    found = ask(tmp_path, "Grep", {"pattern": "函数", "output_mode": "content"})
    assert [(file["path"], file["lines"][0]["text"]) for file in found["files"]] == [
        ("gb.py", chinese.strip()),
        ("utf8.py", chinese.strip()),
    ]
