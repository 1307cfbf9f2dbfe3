"""Replacing over a folder without the tool around it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ferrule.workspace.paths import Paths
from ferrule.workspace.searching.replacement import (
    Occurrences,
    Replacement,
    find_occurrences,
    names_carriage_return,
    read_replacement,
)
from ferrule.workspace.searching.replacing import Replacements, prepare
from ferrule.workspace.searching.search import Query


def find(root: Path, pattern: str, replacement: str | Replacement, path: str = ".", **options: Any) -> Occurrences:
    paths = Paths([root])
    query = Query(pattern, paths.find(path), "content", **options)
    read = read_replacement(replacement) if isinstance(replacement, str) else replacement
    return asyncio.run(find_occurrences(paths, query, read, lambda count: None))


def replace(root: Path, pattern: str, replacement: str | Replacement, **options: Any) -> Replacements:
    """What would become of the files; nothing is written."""
    paths = Paths([root])
    found = find(root, pattern, replacement, **options)
    return prepare(
        paths,
        paths.find("."),
        found.files,
        as_written=names_carriage_return(pattern),
        before_each=lambda position: None,
    )


def outcome(data: bytes, pattern: str, replacement: str | Replacement, root: Path, **options: Any) -> bytes:
    """What becomes of one file."""
    (root / "file.txt").write_bytes(data)
    found = replace(root, pattern, replacement, **options)
    assert found.skipped == []
    return found.files[0].after if found.files else data
