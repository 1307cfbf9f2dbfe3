"""The paths of a session."""

from __future__ import annotations

from pathlib import Path

from ferrule import Session
from ferrule.core.access import READS_ANYTHING, collide, writes
from ferrule.workspace.session_paths import paths_of, reads_below


def test_a_session_has_one_set_of_paths(tmp_path: Path) -> None:
    more = tmp_path / "more"
    inner = tmp_path / "ws" / "inner"
    more.mkdir()
    inner.mkdir(parents=True)
    session = Session(workspace=tmp_path / "ws", working_directory=inner, config={"roots": [str(more)]})
    paths = paths_of(session)
    assert paths_of(session) is paths
    assert [root.path for root in paths.roots] == [tmp_path / "ws", more]
    assert paths.directory == inner


def test_what_a_search_touches_is_never_less_than_it_reads(tmp_path: Path) -> None:
    inside = writes("path", tmp_path / "a" / "b.txt")
    assert collide(reads_below(str(tmp_path / "a")), (inside,))
    assert not collide(reads_below(str(tmp_path / "c")), (inside,))
    assert reads_below(None) == reads_below("a") == reads_below("/a\0b") == READS_ANYTHING
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert collide(reads_below(str(tmp_path / "link")), (inside,))
