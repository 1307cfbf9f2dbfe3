"""Where snapshots and records are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.workspace.data_folder import data_folder


def test_the_environment_names_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path))
    assert data_folder() == tmp_path


def test_a_tilde_is_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FERRULE_DATA", "~/kept")
    assert data_folder() == tmp_path / "kept"


@pytest.mark.parametrize("value", [None, ""])
def test_else_it_is_the_system_s_own_for_a_person(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("FERRULE_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("FERRULE_DATA", value)
    assert data_folder().name == "ferrule"
    assert tmp_path in data_folder().parents
