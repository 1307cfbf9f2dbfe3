"""Words for people, in English and Chinese; never tool names, error types or JSON keys."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ferrule.cli.words import choose_language

if TYPE_CHECKING:
    from .conftest import Command

SCRIPT = Path(__file__).parents[2] / "scripts" / "catalogues"


@pytest.fixture(scope="module")
def catalogues() -> Any:
    loader = importlib.machinery.SourceFileLoader("catalogues", str(SCRIPT))
    spec = importlib.util.spec_from_loader("catalogues", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_every_message_has_chinese_words_and_the_shipped_file_is_current(catalogues: Any) -> None:
    for file in catalogues.LOCALE.glob("*/LC_MESSAGES/ferrule.po"):
        current = catalogues.updated(file)
        assert [message.id for message in current if message.id and not message.string] == []
        assert catalogues.as_po(current).decode() == file.read_text(encoding="utf-8"), "run scripts/catalogues"
        assert catalogues.as_mo(current) == file.with_suffix(".mo").read_bytes(), "run scripts/catalogues"


def test_placeholders_survive_translation(catalogues: Any) -> None:
    import string

    for file in catalogues.LOCALE.glob("*/LC_MESSAGES/ferrule.po"):
        for message in catalogues.updated(file):
            if message.id:
                fields = [
                    sorted(name for _, name, _, _ in string.Formatter().parse(text) if name)
                    for text in (message.id, message.string)
                ]
                assert fields[0] == fields[1], message.id


def test_a_flag_beats_the_environment_and_that_the_locale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FERRULE_CONFIG", str(tmp_path / "settings.toml"))
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    monkeypatch.delenv("FERRULE_LANG", raising=False)
    assert choose_language([]) == "zh"
    (tmp_path / "settings.toml").write_text('lang = "en"\n')
    assert choose_language([]) == "en"
    monkeypatch.setenv("FERRULE_LANG", "zh")
    assert choose_language([]) == "zh"
    assert choose_language(["--lang=en", "tools"]) == "en"
    assert choose_language(["--lang", "en"]) == "en"
    assert choose_language(["call", "--", "--lang", "en"]) == "zh"
    assert choose_language(["--lang", "xx"]) == "en"
    monkeypatch.setenv("FERRULE_LANG", "en")
    assert choose_language([]) == "en"


def test_the_command_speaks_chinese_but_names_stay(ferrule: Command) -> None:
    done = ferrule("--lang", "zh", "tools")
    assert done.out.splitlines()[0].split() == ["名称", "类别", "说明"]
    assert "save_note" in done.out
    refused = ferrule("--lang", "zh", "call", "save_note", '{"text": "x"}', "--json")
    assert refused.json["error"]["type"] == "permission_error"
