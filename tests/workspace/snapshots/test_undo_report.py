from __future__ import annotations

from ferrule.workspace.snapshots.undo_report import Report


def test_nothing_to_do() -> None:
    assert str(Report(undo=True)) == "There is nothing to be undone."
    assert str(Report(undo=False, notes=("A note.",))) == "There is nothing to be redone.\nA note."
