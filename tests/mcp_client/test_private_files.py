"""Small files that only the person may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.mcp_client.server_config import read_json, write_json


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
