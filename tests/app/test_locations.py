"""Where things lie, and how to put them elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.app.settings import (
    AuditSettings,
    FileSettings,
    Settings,
    added_folders,
    audit_path,
    data_folder,
    user_settings_file,
)


def test_the_environment_names_other_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FERRULE_CONFIG", str(tmp_path / "a.toml"))
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    assert user_settings_file() == tmp_path / "a.toml"
    assert data_folder() == tmp_path / "data"
    assert audit_path(Settings()) == tmp_path / "data" / "audit.db"


def test_a_path_in_the_settings_comes_first() -> None:
    assert audit_path(Settings(audit=AuditSettings(path=Path("/var/log/f.db")))) == Path("/var/log/f.db")


def test_without_a_word_they_are_the_systems_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FERRULE_CONFIG", raising=False)
    monkeypatch.delenv("FERRULE_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert user_settings_file().is_relative_to(tmp_path)
    assert data_folder().is_relative_to(tmp_path)


def test_added_folders_start_at_the_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    settings = Settings(files=FileSettings(folders=[Path("../lib"), Path("/data"), Path("~/notes")]))
    assert added_folders(settings, Path("/ws")) == (Path("/ws/../lib"), Path("/data"), Path("/home/me/notes"))
