"""The tables that tell old encodings apart hold only what those encodings can hold."""

from __future__ import annotations

import pytest

from ferrule.workspace.texts import familiar_characters as familiar


@pytest.mark.parametrize(
    ("table", "encoding"),
    [
        (familiar.SIMPLIFIED, "gb2312"),
        (familiar.TRADITIONAL, "big5"),
        (familiar.KANJI, "shift_jis"),
        (familiar.HIRAGANA + familiar.KATAKANA, "euc_jp"),
        (familiar.HANGUL, "euc_kr"),
        (familiar.RUSSIAN, "cp1251"),
        (familiar.RUSSIAN, "koi8_r"),
        (familiar.GREEK, "cp1253"),
        (familiar.HEBREW, "cp1255"),
        (familiar.TURKISH, "cp1254"),
        (familiar.WESTERN, "cp1252"),
    ],
)
def test_a_languages_characters_fit_its_encoding(table: str, encoding: str) -> None:
    strangers = [character for character in table if not _fits(character, encoding)]
    assert len(strangers) <= len(table) // 50, strangers


def _fits(character: str, encoding: str) -> bool:
    try:
        return bool(character.encode(encoding))
    except UnicodeEncodeError:
        return False


def test_no_alphabet_names_a_letter_twice() -> None:
    for alphabet in (familiar.RUSSIAN, familiar.GREEK, familiar.HEBREW, familiar.TURKISH, familiar.WESTERN):
        assert len(set(alphabet)) == len(alphabet)
