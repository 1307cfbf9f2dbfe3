"""The tables that tell old encodings apart hold only what those encodings can hold."""

from __future__ import annotations

import pytest

from ferrule.workspace.texts import encodings as familiar


@pytest.mark.parametrize(
    ("table", "encoding"),
    [
        (familiar._SIMPLIFIED, "gb2312"),
        (familiar._TRADITIONAL, "big5"),
        (familiar._KANJI, "shift_jis"),
        (familiar._HIRAGANA + familiar._KATAKANA, "euc_jp"),
        (familiar._HANGUL, "euc_kr"),
        (familiar._RUSSIAN, "cp1251"),
        (familiar._RUSSIAN, "koi8_r"),
        (familiar._GREEK, "cp1253"),
        (familiar._HEBREW, "cp1255"),
        (familiar._TURKISH, "cp1254"),
        (familiar._WESTERN, "cp1252"),
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
    for alphabet in (familiar._RUSSIAN, familiar._GREEK, familiar._HEBREW, familiar._TURKISH, familiar._WESTERN):
        assert len(set(alphabet)) == len(alphabet)
