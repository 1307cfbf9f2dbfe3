"""Where snapshots and records are kept, and small files that only the person may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.workspace.data_folder import data_folder, read_json, write_json


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


def test_only_the_person_may_read_them(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.json"
    write_json(file, {"a": 1})
    write_json(file, {"a": 2})
    assert read_json(file) == {"a": 2}
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("text", ["", "{", "[1]", "5", "[" * 100_000])
def test_what_cannot_be_read_is_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    assert read_json(file) == {}
    assert read_json(tmp_path / "missing.json") == {}


def test_a_failed_write_leaves_the_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"a": 1})
    with pytest.raises(TypeError):
        write_json(file, {"a": object()})
    assert read_json(file) == {"a": 1}
    assert list(tmp_path.iterdir()) == [file]
