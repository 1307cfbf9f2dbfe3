"""A settings file changed in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.policy.patterns import RuleError
from ferrule.policy.rule_file import SettingsDocument


def test_all_else_stays_and_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    real.write_text('# mine\na = 1  # one\n\n[b]\nc = "d"\n')
    real.chmod(0o640)
    link.symlink_to(real)
    file = SettingsDocument(link)
    document = file.document()
    document["a"] = 2
    file.write(document)
    assert real.read_text() == '# mine\na = 2  # one\n\n[b]\nc = "d"\n'
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [link, real]


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    file = SettingsDocument(tmp_path / "sub" / "a.toml")
    document = file.document()
    document["a"] = 1
    file.write(document)
    assert (tmp_path / "sub" / "a.toml").read_text() == "a = 1\n"


def test_what_is_no_toml_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("a = ")
    with pytest.raises(RuleError, match="Nothing was changed"):
        SettingsDocument(tmp_path / "a.toml").document()
    (tmp_path / "folder").mkdir()
    with pytest.raises(RuleError, match="could not be read"):
        SettingsDocument(tmp_path / "folder").document()
