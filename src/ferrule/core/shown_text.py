"""Text as a person must see it before they say yes: nothing in it hides, is disguised or is pushed off the screen."""

from __future__ import annotations

import re
import shlex
import unicodedata
from functools import cache

MOST = 20_000
"""Characters shown at most; of more, the middle is left out and the text says so."""
_LONG_RUN = 16
_BLANK_LINES = 3
_WORD = re.compile(r"\w+")
_SPACES = re.compile(rf"[ \t]{{{_LONG_RUN},}}")
_NEWLINES = re.compile(rf"(?:[ \t]*\n){{{_BLANK_LINES + 1},}}")
# Letters of other scripts that look like a Latin one in most fonts, by the letter they look like.
_TWINS = {
    "a": "аɑα", "b": "Ьᖯ", "c": "сϲⅽ", "d": "ԁⅾ", "e": "еҽ", "f": "ſϝ", "g": "ɡց", "h": "һհ", "i": "іɩιⅰ", "j": "јϳ",
    "k": "κк", "l": "ӏⅼ", "m": "ⅿм", "n": "ոп", "o": "оοօ", "p": "рρ", "q": "ԛզ", "r": "гᴦ", "s": "ѕꜱ", "t": "тτ",
    "u": "υսս", "v": "ѵνⅴ", "w": "ѡԝɯ", "x": "хχⅹ", "y": "уγү", "z": "ᴢ", "A": "АΑ", "B": "ВΒ", "C": "СϹⅭ",
    "D": "Ⅾ", "E": "ЕΕ", "G": "Ԍ", "H": "НΗ", "I": "ІΙӀⅠ", "J": "Ј", "K": "КΚ", "L": "Ⅼ", "M": "МΜⅯ", "N": "Ν",
    "O": "ОΟՕ", "P": "РΡ", "S": "ЅՏ", "T": "ТΤ", "V": "ѴⅤ", "W": "Ԝ", "X": "ХΧⅩ", "Y": "ΥҮ", "Z": "Ζ",
}  # fmt: skip
_LETTERS = frozenset("".join(_TWINS.values()))
_LATIN = {ord(twin): latin for latin, twins in _TWINS.items() for twin in twins}
# Marks that pass for a quote, a bar or a slash of the shell, and are none: what seems quoted is not.
_MARKS = frozenset("‘’‚‛“”„‟′″ǀ∣∕⁄⧸ʹʺˈ")
# Wide punctuation is how Chinese and Japanese are written; beside their characters it disguises nothing.
_EAST_ASIAN = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF))
_HIDDEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def shown(text: str) -> str:
    """The text with everything visible that a terminal or an eye would pass over. What is plain stays as it is."""
    cut = _without_middle(text)
    marked = _WORD.sub(lambda word: _marked(word[0]), cut)
    wide = _is_east_asian(cut)
    visible = "".join(one if _is_plain(one) or (wide and _is_wide_mark(one)) else _escape(one) for one in marked)
    folded = _SPACES.sub(lambda run: f" ⟨{len(run[0]):,} spaces⟩ ", visible)
    return _NEWLINES.sub(lambda run: f"\n⟨{run[0].count(chr(10)) - 1:,} blank lines⟩\n", folded)


def shown_row(text: str) -> str:
    """The same on one row: what stands in it cannot pass for a row of its own."""
    return shown(text).replace("\n", "⏎")


def shown_argument(word: str) -> str:
    """A word that others chose, as the last one of a command to copy: it stays one word, and is no option."""
    return shown_row(f"{'-- ' if word.startswith('-') else ''}{shlex.quote(word)}")


def disguises(text: str) -> list[str]:
    """What in the text is not what it looks like, in words; empty when all of it is plain."""
    found: list[str] = []
    characters = set(text)
    if any(_category(one) == "Cf" for one in characters):
        found.append("invisible characters or ones that reverse the text")
    if any(_category(one) == "Cc" and one not in "\n\t" for one in characters):
        found.append("control characters")
    if any(_LETTERS.intersection(word) and _marked(word) != word for word in _WORD.findall(text)):
        found.append("letters that look like others")
    wide = _is_east_asian(text)
    if characters & _MARKS or any(_is_wide_twin(one) and not (wide and _is_wide_mark(one)) for one in characters):
        found.append("marks that look like others")
    if _SPACES.search(text) or _NEWLINES.search(text):
        found.append("long blank stretches")
    return found


def _is_east_asian(text: str) -> bool:
    """Without a pattern: one with these ranges takes longer to compile than anything else here takes to run."""
    return not text.isascii() and any(first <= ord(one) <= last for one in {*text} for first, last in _EAST_ASIAN)


def without_twins(text: str) -> str:
    """The text in the Latin letters that it looks like: of other widths, styles and scripts."""
    return unicodedata.normalize("NFKC", text).translate(_LATIN)


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


def _is_wide_mark(character: str) -> bool:
    return "\uff01" <= character <= "\uff5e" and not character.isalnum()


def _escape(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


@cache
def _category(character: str) -> str:
    return unicodedata.category(character)
