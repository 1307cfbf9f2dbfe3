from __future__ import annotations

from ferrule.workspace.snapshots.undo_report import Report


def test_nothing_to_do() -> None:
    assert str(Report(undo=True)) == "Nothing to undo."
    assert str(Report(undo=False, notes=("A note.",))) == "Nothing to redo.\nA note."
