"""`ferrule redo`: makes again what was undone (P11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Command


def test_what_was_undone_is_made_again(ferrule: Command) -> None:
    ferrule("call", "Write", '{"file_path": "a.txt", "content": "one"}', "--yes")
    ferrule("undo")
    assert ferrule("redo").out == "Change 1 redone:\n  a.txt — restored\n"
    assert (ferrule.workspace / "a.txt").read_text() == "one"
    assert ferrule("redo").out == "Nothing to redo.\n"
