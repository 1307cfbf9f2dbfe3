"""Whoever saw a preview gets what it showed."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.workspace.searching.replacing_room import replace

from ferrule import Session
from ferrule.workspace.problems import PathError
from ferrule.workspace.searching.replacing import previews_of


def test_what_changed_since_is_refused_by_name(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("foo\n")
    previews = previews_of(Session(workspace=tmp_path))
    previews.remember("x", replace(tmp_path, "foo", "x"))
    previews.require_unchanged("x", replace(tmp_path, "foo", "x"))
    (tmp_path / "a").write_text("foo foo\n")
    (tmp_path / "b").write_text("gone\n")
    (tmp_path / "d").write_text("foo\n")
    with pytest.raises(PathError) as raised:
        previews.require_unchanged("x", replace(tmp_path, "foo", "x"))
    assert raised.value.message == snapshot("3 files changed since the preview: `a`, `b`, `d`. Nothing was replaced.")
    previews.require_unchanged("y", replace(tmp_path, "foo", "x"))
    previews.forget("x")
    previews.require_unchanged("x", replace(tmp_path, "foo", "x"))


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("foo\n")
    session = Session(workspace=tmp_path)
    for number in range(20):
        previews_of(session).remember(str(number), replace(tmp_path, "foo", "x"))
    (tmp_path / "a").write_text("foo foo\n")
    now = replace(tmp_path, "foo", "x")
    previews_of(session).require_unchanged("0", now)
    with pytest.raises(PathError):
        previews_of(session).require_unchanged("19", now)
