"""The workspace as it was last seen is kept across starts, and made anew when broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.workspace.snapshots.changes import Node
from ferrule.workspace.snapshots.tree_store import Known, Seen, TreeDamaged, TreeStore
from ferrule.workspace.tracker import digest

D1, D2, D3 = digest(b"abc"), digest(bytes(3_000_000)), digest(b"\x01" * 5_000_000)
FILE = Known(Seen(Node.FILE, 0o644, 3, 1, 2, 3), D1)
LINK = Known(Seen(Node.LINK, 0, 0, 1, 2, 4, "some\udcffwhere"), "")


@pytest.fixture
def store(tmp_path: Path) -> TreeStore:
    return TreeStore(tmp_path / "tree.db")


def test_what_was_set_is_there_at_the_next_start(tmp_path: Path):
    store = TreeStore(tmp_path / "tree.db")
    with store.changing():
        store.set({"/ws/a": FILE, "/ws/odd\udcff": LINK})
        store.set_looked({"/ws/.git"}, 7)
        store.put(D1, b"abc")
    store.close()
    again = TreeStore(tmp_path / "tree.db")
    assert again.load() == ({"/ws/a": FILE, "/ws/odd\udcff": LINK}, {"/ws/.git"})
    assert again.position() == 7
    assert again.content(D1) == b"abc"
    assert again.content(D2) is None


def test_a_failure_in_the_middle_leaves_what_was_there(store: TreeStore):
    with store.changing():
        store.set({"/ws/a": FILE})
    with pytest.raises(ZeroDivisionError), store.changing():
        store.drop(["/ws/a"])
        raise ZeroDivisionError
    assert list(store.load()[0]) == ["/ws/a"]


def test_contents_nobody_needs_are_forgotten_and_their_room_given_back(tmp_path: Path, store: TreeStore):
    with store.changing():
        store.set({"/ws/a": FILE})
        store.put(D1, b"abc")
        store.put(D2, bytes(3_000_000))
        store.put(D3, b"\x01" * 5_000_000)
    store.forget_unneeded()
    assert store.content(D1) == b"abc"
    assert store.content(D2) is None
    assert store.room() == 4
    store.close()
    assert (tmp_path / "tree.db").stat().st_size < 200_000


def test_a_content_is_counted_once(store: TreeStore):
    with store.changing():
        assert store.put(D1, b"abc") > 0
        assert store.put(D1, b"abc") == 0


def test_another_process_is_noticed_by_its_changes(tmp_path: Path, store: TreeStore):
    before = store.version()
    other = TreeStore(tmp_path / "tree.db")
    with other.changing():
        other.set({"/ws/a": FILE})
    assert store.version() != before


@pytest.mark.parametrize("broken", [b"not a database" * 500, b"SQLite format 3\0" + bytes(500)])
def test_a_broken_file_is_said_to_be_and_can_be_made_anew(tmp_path: Path, broken: bytes):
    (tmp_path / "tree.db").write_bytes(broken)
    store = TreeStore(tmp_path / "tree.db")
    with pytest.raises(TreeDamaged):
        store.load()
    store.rebuild()
    assert store.load() == ({}, set())
    assert store.position() is None


def test_a_file_that_another_process_threw_away_is_not_used_on(tmp_path: Path, store: TreeStore):
    with store.changing():
        store.set({"/ws/a": FILE})
    before = store.version()
    TreeStore(tmp_path / "tree.db").rebuild()
    assert store.version() != before
    assert store.load() == ({}, set())


def test_a_content_that_is_not_what_it_was_is_not_given(store: TreeStore):
    with store.changing():
        store.put("another name", b"abc")
    assert store.content("another name") is None
