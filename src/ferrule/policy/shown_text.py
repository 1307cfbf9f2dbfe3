"""Text as a person must see it before they say yes: nothing in it can hide, disguise itself or push itself off screen."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

MOST = 20_000
"""Characters shown at most; of more, the middle is left out and the text says so."""
_LONG_RUN = 16
_BLANK_LINES = 3
_WORD = re.compile(r"\w+")
_SPACES = re.compile(r"[ \t]{%d,}" % _LONG_RUN)
_NEWLINES = re.compile(r"(?:[ \t]*\n){%d,}" % (_BLANK_LINES + 1))
# Letters of other scripts that look like a Latin one in most fonts, by the letter they look like.
_TWINS = {
    "a": "аɑα", "b": "Ьᖯ", "c": "сϲⅽ", "d": "ԁⅾ", "e": "еҽ", "f": "ſϝ", "g": "ɡց", "h": "һհ", "i": "іɩιⅰ", "j": "јϳ",
    "k": "κк", "l": "ӏⅼ", "m": "ⅿм", "n": "ոп", "o": "оοօ", "p": "рρ", "q": "ԛզ", "r": "гᴦ", "s": "ѕꜱ", "t": "тτ",
    "u": "υսս", "v": "ѵνⅴ", "w": "ѡԝɯ", "x": "хχⅹ", "y": "уγү", "z": "ᴢ", "A": "АΑ", "B": "ВΒ", "C": "СϹⅭ",
    "D": "Ⅾ", "E": "ЕΕ", "G": "Ԍ", "H": "НΗ", "I": "ІΙӀⅠ", "J": "Ј", "K": "КΚ", "L": "Ⅼ", "M": "МΜⅯ", "N": "Ν",
    "O": "ОΟՕ", "P": "РΡ", "S": "ЅՏ", "T": "ТΤ", "V": "ѴⅤ", "W": "Ԝ", "X": "ХΧⅩ", "Y": "ΥҮ", "Z": "Ζ",
}  # fmt: skip
_LETTERS = frozenset("".join(_TWINS.values()))
# Marks that pass for one of the shell's own: quotes, dashes, bars, dots, slashes, colons, semicolons, dollars.
_MARKS = frozenset("‘’‚‛“”„‟′″‐‑‒–—−⁃ǀ∣｜․‥…∕⁄⧸／＼；：，．＄＆＞＜＝＂＇｀ʹʺˈ‹›«»﹣﹩﹠﹤﹥⟨⟩〈〉")
_HIDDEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def shown(text: str) -> str:
    """The text with everything visible that a terminal or an eye would pass over. What is plain stays as it is."""
    cut = _without_middle(text)
    marked = _WORD.sub(lambda word: _marked(word[0]), cut)
    visible = "".join(character if _is_plain(character) else _escape(character) for character in marked)
    folded = _SPACES.sub(lambda run: f" ⟨{len(run[0]):,} spaces⟩ ", visible)
    return _NEWLINES.sub(lambda run: f"\n⟨{run[0].count(chr(10)) - 1:,} blank lines⟩\n", folded)


def disguises(text: str) -> list[str]:
    """What in the text is not what it looks like, in words; empty when all of it is plain."""
    found: list[str] = []
    characters = set(text)
    if any(_category(one) == "Cf" for one in characters):
        found.append("characters that cannot be seen or that turn the order of the text")
    if any(_category(one) == "Cc" and one not in "\n\t" for one in characters):
        found.append("control characters")
    if any(_LETTERS.intersection(word) and _marked(word) != word for word in _WORD.findall(text)):
        found.append("letters that look like others")
    if characters & _MARKS or any(_is_wide_twin(one) for one in characters):
        found.append("marks that look like others")
    if _SPACES.search(text) or _NEWLINES.search(text):
        found.append("long empty stretches")
    return found


def _without_middle(text: str) -> str:
    if len(text) <= MOST:
        return text
    half = MOST // 2
    return f"{text[:half]}\n⟨{len(text) - 2 * half:,} characters are not shown here⟩\n{text[-half:]}"


def _marked(word: str) -> str:
    """A word with its foreign twins marked, where they stand among Latin letters or pass for a whole Latin word."""
    if word.isascii() or not _LETTERS.intersection(word):
        return word
    letters = [one for one in word if one.isalpha()]
    mixed = any(one.isascii() for one in letters)
    if not mixed and not all(one in _LETTERS for one in letters):
        return word
    return "".join(_escape(one) if one in _LETTERS else one for one in word)


def _is_plain(character: str) -> bool:
    if character in "\n\t⟨⟩" or " " <= character <= "~":
        return True
    category = _category(character)
    if category in _HIDDEN or (category == "Zs" and character != " "):
        return False
    return character not in _MARKS and not _is_wide_twin(character)


def _is_wide_twin(character: str) -> bool:
    """Whether it is another width or style of an ASCII character: `ｒ`, `𝐫`."""
    return character > "\x7f" and (flat := unicodedata.normalize("NFKC", character)).isascii() and flat.isprintable()


def _escape(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


@cache
def _category(character: str) -> str:
    return unicodedata.category(character)
