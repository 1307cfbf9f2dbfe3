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
    session = Session(workspace=tmp_path)
    inside = writes("path", tmp_path / "a" / "b.txt")
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for path in (str(tmp_path / "a"), "a", "./a/", "link", None):
        assert collide(reads_below(path, session), (inside,)), path
    assert not collide(reads_below(str(tmp_path / "c"), session), (inside,))
    assert reads_below("a", None) == reads_below("/a\0b", session) == READS_ANYTHING
