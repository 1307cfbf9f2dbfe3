"""Links and folders are looked at and put back without following the last part of a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.workspace.paths import Paths
from ferrule.workspace.problems import PathError
from ferrule.workspace.snapshots.changes import Change, Operation, Side, State
from ferrule.workspace.snapshots.file_states import FileStates, Nodes


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def nodes(top: Path) -> Nodes:
    return Nodes(Paths([top]))


def change(path: Path, before: State | None, after: State | None) -> Change:
    return Change(0, path, Operation.CHANGE, None, before, after, 0, covered=True)


def test_a_link_is_seen_as_a_link_wherever_it_leads(nodes: Nodes, top: Path):
    (top / "out").symlink_to("/etc/passwd")
    assert nodes.look(top / "out") == State.link("/etc/passwd")
    assert nodes.is_at(top / "out", State.link("/etc/passwd"))
    assert not nodes.is_at(top / "out", State.link("/etc/shadow"))


def test_a_link_is_put_where_a_file_stood(nodes: Nodes, top: Path):
    (top / "a").write_text("x")
    assert not nodes.put(change(top / "a", State("d", 0o644), State.link("b")), State.link("b"))
    assert (top / "a").readlink() == Path("b")


def test_a_file_goes_where_a_link_stood_and_the_target_is_not_touched(nodes: Nodes, top: Path):
    (top / "target").write_text("kept")
    (top / "a").symlink_to("target")
    turned = change(top / "a", State("d", 0o644), State.link("target"))
    assert nodes.put(turned, turned.before)
    FileStates(Paths([top]), 100).put(turned, Side.BEFORE, lambda _: b"new")
    assert not (top / "a").is_symlink()
    assert (top / "a").read_text() == "new"
    assert (top / "target").read_text() == "kept"


def test_a_folder_with_something_in_it_is_never_taken_away(nodes: Nodes, top: Path):
    (top / "d").mkdir()
    (top / "d" / "mine").write_text("x")
    made = change(top / "d", None, State.folder(0o755))
    assert not nodes.put(made, None)
    assert (top / "d" / "mine").exists()
    with pytest.raises(PathError, match="`d` is a folder"):
        nodes.put(change(top / "d", State.link("x"), State.folder(0o755)), State.link("x"))


def test_nothing_is_put_through_a_link_that_leads_elsewhere(
    nodes: Nodes, top: Path, tmp_path_factory: pytest.TempPathFactory
):
    outside = tmp_path_factory.mktemp("outside")
    (top / "d").symlink_to(outside)
    with pytest.raises(PathError):
        nodes.put(change(top / "d" / "new", None, State.folder(0o755)), State.folder(0o755))
    assert list(outside.iterdir()) == []


def test_what_lies_behind_a_link_does_not_stand_here(nodes: Nodes, top: Path):
    (top / "real").mkdir()
    (top / "real" / "a").write_text("x")
    (top / "way").symlink_to("real")
    assert nodes.stands(top / "real" / "a")
    assert nodes.stands(top / "way")
    assert not nodes.stands(top / "way" / "a")


def test_what_stands_there_is_said_in_words(nodes: Nodes, top: Path):
    (top / "a").write_text("")
    (top / "d").mkdir()
    (top / "l").symlink_to("x")
    said = [nodes.describe(top / name) for name in ("a", "d", "l", "none")]
    assert said == ["a file", "a folder", "a link to `x`", "gone"]
