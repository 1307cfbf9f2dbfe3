"""Text as users and models see it: nothing in it hides, steers a terminal or runs on without end.

One set of characters is hidden from every surface: a terminal, a web page, a log line, a question, an error message.
`visible`, `one_line` and `flattened` show them as escapes, `quoted` and `visible_json` as JSON's own, `without_hidden`
drops them, and `shown` is for what a user approves: there, what only looks like something else is made visible too.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

# Nobody sees these, or they change what is seen around them. Line ends and tabs are not among them.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, and with them every escape sequence
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u206f\u3164\ufeff\uffa0"  # no width, or blank
    "\u061c\u200e\u200f\u202a-\u202e"  # turn the text around; U+2066 to U+2069 do too
    "\u2028\u2029"  # line ends that only some programs know
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"  # signs that enclose what follows them
    "\ufff0-\ufffb\ufffe\uffff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # for layout
    "\ud800-\udfff"  # halves of a pair
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tags, which spell whole sentences that only a model reads
)
_PLAIN = bytes(one if 0x20 <= one < 0x7F or one in b"\n\t" else 0x3F for one in range(256))
"""Leaves ASCII text as it is where nothing in it hides."""
JOINERS = "\u200c\u200d"
"""Emoji and several scripts are written with them; between other characters they do nothing but hide."""
_VARIANTS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
# One that joins nothing, and one variant of a character after another.
_JOINED = rf"[^\0-\x7f{JOINERS}{_VARIANTS}]"
_ALONE = rf"[{JOINERS}](?<!{_JOINED}.)(?!{_JOINED})|[{_VARIANTS}](?<=[{_VARIANTS}]{{2}})"

_WORD = lazy_pattern(r"[^\W_]+")
MOST = 20_000
"""Characters of a text to approve that are shown at most."""
_LONG_RUN = 16
_BLANK_LINES = 3
_SPACES = rf"[ \t]{{{_LONG_RUN},}}"
_NEWLINES = rf"(?:[ \t]*\n){{{_BLANK_LINES + 1},}}"
# Letters of other scripts that look like a Latin one in most fonts, by the letter they look like.
_TWINS = {
    "a": "аɑα", "b": "Ьᖯ", "c": "сϲⅽ", "d": "ԁⅾ", "e": "еҽ", "f": "ſϝ", "g": "ɡց", "h": "һհ", "i": "іɩιⅰ", "j": "јϳ",
    "k": "κк", "l": "ӏⅼ", "m": "ⅿм", "n": "ոп", "o": "оοօ", "p": "рρ", "q": "ԛզ", "r": "гᴦ", "s": "ѕꜱ", "t": "тτ",
    "u": "υսս", "v": "ѵνⅴ", "w": "ѡԝɯ", "x": "хχⅹ", "y": "уγү", "z": "ᴢ", "A": "АΑ", "B": "ВΒ", "C": "СϹⅭ",
    "D": "Ⅾ", "E": "ЕΕ", "G": "Ԍ", "H": "НΗ", "I": "ІΙӀⅠ", "J": "Ј", "K": "КΚ", "L": "Ⅼ", "M": "МΜⅯ", "N": "Ν",
    "O": "ОΟՕ", "P": "РΡ", "S": "ЅՏ", "T": "ТΤ", "V": "ѴⅤ", "W": "Ԝ", "X": "ХΧⅩ", "Y": "ΥҮ", "Z": "Ζ",
}  # fmt: skip
_NEAR_LATIN = ("CYRILLIC ", "GREEK ", "ARMENIAN ", "CHEROKEE ", "COPTIC ", "LISU ", "DESERET ", "GEORGIAN ", "HEBREW ")
_LETTERS = frozenset("".join(_TWINS.values()))
_LATIN = {ord(twin): latin for latin, twins in _TWINS.items() for twin in twins}
# Marks that pass for a quote, a bar or a slash of the shell, and are none: what seems quoted is not.
_MARKS = frozenset("‘’‚‛“”„‟′″ǀ∣∕⁄⧸ʹʺˈ")
# Wide punctuation is how Chinese and Japanese are written; beside their characters it disguises nothing.
_EAST_ASIAN = ((0x3040, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7AF))


# What is hidden, and how it is shown


@cache
def _members(ranges: str) -> frozenset[str]:
    """The characters of a class of a pattern. A set, for a pattern with so many ranges takes long to compile."""
    spans = re.findall(r"(?s).-.|.", ranges)
    return frozenset(chr(code) for span in spans for code in range(ord(span[0]), ord(span[-1]) + 1))


def _rewritten(text: str, write: Callable[[str], str]) -> str:
    """The text with each character that nobody would see as `write` has it; the very same where there is none."""
    if text.isascii() and (data := text.encode()).translate(_PLAIN) == data:  # a third of what `isprintable` takes
        return text
    found = _members(_HIDDEN + JOINERS + _VARIANTS).intersection(text)
    hidden = found - _members(JOINERS + _VARIANTS)
    if hidden:
        text = text.translate({ord(one): write(one) for one in hidden})
    return re.sub(_ALONE, lambda alone: write(alone[0]), text) if len(hidden) < len(found) else text


def hidden_in(text: str) -> list[str]:
    """The characters in the text that nobody would see, in order; line ends and tabs are not among them."""
    found: list[str] = []
    _rewritten(text, lambda one: found.append(one) or "\0")
    return sorted(found, key=text.find)


def controls_in(text: str) -> list[str]:
    """Those among them that end or break a line: no header, log line or field of a form may hold one."""
    return [one for one in hidden_in(text) if one < "\xa0" or "\u2028" <= one <= "\u2029"]


def without_hidden(text: str) -> str:
    """The text without what nobody would see."""
    return _rewritten(_plain_ends(text) if "\r" in text else text, lambda one: "")


def visible(text: str) -> str:
    r"""The text with what nobody would see as escapes, such as `\x1b` and `\u{202e}`; line ends and tabs stay."""
    return _rewritten(_plain_ends(text) if "\r" in text else text, _escape)


def _plain_ends(text: str) -> str:
    return re.sub(r"\r+\n", "\n", text)


def one_line(text: str, most: int | None = None) -> str:
    """The same on one line, where every character counts: a line end is `⏎`. At most `most` characters."""
    row = visible(text.strip()).replace("\n", "⏎").replace("\t", " ")
    return row if most is None else cut(row, most)


def flattened(text: str, most: int | None = None) -> str:
    """Prose on one line: white space of any kind becomes a space. At most `most` characters."""
    if text.isidentifier() and text.isascii():  # nearly every name
        return text if most is None else cut(text, most)
    return one_line(" ".join(text.split()), most)


def visible_json(text: str) -> str:
    """JSON that means the same, with what nobody would see as JSON's own escapes."""
    return _rewritten(text, lambda one: "\\u007f" if one == "\x7f" else json.dumps(one)[1:-1])


def quoted(text: str) -> str:
    """The text in quotes, as JSON writes it."""
    return visible_json(json.dumps(text, ensure_ascii=False))


def well_formed(text: str) -> str:
    """Text that every encoder takes: half of a surrogate pair becomes U+FFFD. All else stays, as data must."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def browser_pattern() -> str:
    """The same set as a page's own script takes it."""
    return "".join(one if " " <= one <= "~" else f"\\u{{{ord(one):x}}}" for one in f"[{_HIDDEN}]")


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


# Text cut to a length. What a reader takes for one character is never cut in two.


def cut(text: str, most: int) -> str:
    """At most `most` characters, the last one `…` where something was cut."""
    return text if len(text) <= most else f"{text[: _boundary(text, most - 1)]}…"


def cut_counted(text: str, most: int) -> str:
    """At most `most` characters of the text, and how many more there were."""
    if len(text) <= most:
        return text
    end = _boundary(text, most)
    return f"{text[:end]}… ({len(text) - end:,} more characters)"


def head_and_tail(text: str, most: int) -> tuple[str, int]:
    """Both ends of a long text with the exact number of characters left out between them, and that number."""
    half = most // 2
    slack = min(200, half // 4)  # an end may give up so much for a cut between lines
    head, tail = text[: _boundary(text, half)], text[_boundary(text, len(text) - (most - half), 1) :]
    if (line_end := head.rfind("\n")) > half - slack:
        head = head[: line_end + 1]
    if 0 <= (line_end := tail.find("\n")) < slack:
        tail = tail[line_end + 1 :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head}\n[… {left_out:,} of {len(text):,} characters left out …]\n{tail}", left_out


def columns(text: str) -> int:
    """How many columns a terminal gives a text."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def cut_columns(text: str, most: int, measure: Callable[[str], int] = columns) -> str:
    """At most so many columns of a terminal, the last one `…` where something was cut."""
    if measure(text) <= most:
        return text
    start, used = 0, 1
    for end in range(1, len(text) + 1):
        if end == len(text) or not _goes_on(text, end):
            used += measure(text[start:end])
            if used > most:
                break
            start = end
    return f"{text[:start]}…"


_LONGEST_CHARACTER = 32
"""Code points of one character that are kept together; a longer one is made to be unreadable."""
_FIRST_ACCENT = "\u0300"
"""Nothing before it belongs to the character in front of it."""


def _boundary(text: str, at: int, step: int = -1) -> int:
    """Where to cut: at this place, or a little before it, or behind it with the step 1."""
    at = max(0, at)
    if not 0 < at < len(text) or text[at] < _FIRST_ACCENT:
        return at  # as nearly always
    for end in range(at, at + step * _LONGEST_CHARACTER, step):
        if not 0 < end < len(text) or not _goes_on(text, end):
            return end
    return at


def _goes_on(text: str, at: int) -> bool:
    """Whether what is here belongs to the character before it: accents, joined emoji, the second half of a flag."""
    one, before = text[at], text[at - 1]
    if one < _FIRST_ACCENT:
        return False
    if "\U0001f1e6" <= one <= "\U0001f1ff":
        start = at
        while start and at - start < _LONGEST_CHARACTER and "\U0001f1e6" <= text[start - 1] <= "\U0001f1ff":
            start -= 1
        return (at - start) % 2 == 1
    from unicodedata import category

    tone = "\U0001f3fb" <= one <= "\U0001f3ff"
    return before == JOINERS[1] or one in JOINERS or tone or category(one)[0] == "M" or "\u1160" <= one <= "\u11ff"


# What a user approves


def shown(text: str) -> str:
    """The text with everything visible that a terminal or an eye would pass over. What is plain stays as it is."""
    short = text if len(text) <= MOST else head_and_tail(text, MOST)[0]
    marked = _WORD.sub(lambda word: _marked(word[0]), short)
    seen = _rewritten(marked, _escape)
    wide = _is_east_asian(short)
    strange = (one for one in {*seen} if not _is_plain(one) and not (wide and _is_wide_mark(one)))
    seen = seen.translate({ord(one): _escape(one) for one in strange})
    folded = re.sub(_SPACES, lambda run: f" ⟨{len(run[0]):,} spaces⟩ ", seen)
    return re.sub(_NEWLINES, lambda run: f"\n⟨{run[0].count(chr(10)) - 1:,} blank lines⟩\n", folded)


def shown_row(text: str, most: int | None = None) -> str:
    """The same on one row: what stands in it cannot pass for a row of its own. At most `most` characters."""
    row = shown(text).replace("\n", "⏎")
    return row if most is None else cut(row, most)


def shown_argument(word: str) -> str:
    """A word that others chose, as the last one of a command to copy: it stays one word, and is no option."""
    from shlex import quote

    return shown_row(f"{'-- ' if word.startswith('-') else ''}{quote(word)}")


def disguises(text: str) -> list[str]:
    """What in the text is not what it looks like, in words; empty when all of it is plain."""
    found: list[str] = []
    characters = set(text)
    hidden = {*hidden_in(text), *characters.intersection(JOINERS)}
    if any(one >= "\xa0" for one in hidden):
        found.append("invisible characters or ones that reverse the text")
    if any(one < "\xa0" for one in hidden):
        found.append("control characters")
    if not text.isascii() and any(_marked(word) != word for word in _WORD.findall(text)):
        found.append("letters that look like others")
    wide = _is_east_asian(text)
    if characters & _MARKS or any(_is_wide_twin(one) and not (wide and _is_wide_mark(one)) for one in characters):
        found.append("marks that look like others")
    if re.search(_SPACES, text) or re.search(_NEWLINES, text):
        found.append("long blank stretches")
    return found


def without_twins(text: str) -> str:
    """The text in the Latin letters that it looks like: of other widths, styles and scripts."""
    from unicodedata import normalize

    return normalize("NFKC", text).translate(_LATIN)


def plain_letters(text: str) -> tuple[str, list[int]]:
    """The small Latin letters that a text is read as, without accents, what hides and long blanks; and where in it each
    stands. For finding words however they are written.
    """
    from unicodedata import category, combining, normalize

    letters: list[str] = []
    places: list[int] = []
    for at, one in enumerate(text):
        if one.isspace() and letters and letters[-1].isspace():
            continue
        if not one.isascii() and (hidden_in(one) or category(one) in ("Cf", "Mn")):
            continue
        for letter in one if one.isascii() else normalize("NFKD", without_twins(one)):
            if not combining(letter):
                letters += (folded := letter.casefold())
                places += [at] * len(folded)
    return "".join(letters), places


def _is_east_asian(text: str) -> bool:
    """Without a pattern: one with these ranges takes longer to compile than anything else here takes to run."""
    return not text.isascii() and any(first <= ord(one) <= last for one in {*text} for first, last in _EAST_ASIAN)


def _marked(word: str) -> str:
    """A word with what passes for Latin marked: foreign twins where they are all of it, and beside Latin letters all
    letters of the scripts that twins come from.
    """
    if word.isascii():
        return word
    letters = [one for one in word if one.isalpha()]
    mixed = any(one.isascii() for one in letters)
    if not mixed and not _LETTERS.issuperset(letters):
        return word
    return "".join(_escape(one) if one in _LETTERS or (mixed and _is_near_latin(one)) else one for one in word)


def _is_near_latin(character: str) -> bool:
    """Whether a letter is of a script that has letters like Latin ones, and is not written together with those."""
    from unicodedata import name

    return character > "\u036f" and name(character, "").startswith(_NEAR_LATIN)


def _is_plain(character: str) -> bool:
    if character in "\n\t⟨⟩…" or " " <= character <= "~":
        return True
    # Neither a private character nor a joiner nor one of the blanks that are no space is printable.
    return character.isprintable() and character not in _MARKS and not _is_wide_twin(character)


def _is_wide_twin(character: str) -> bool:
    """Whether it is another width or style of an ASCII character: `ｒ`, `𝐫`."""
    if character <= "\x7f":
        return False
    from unicodedata import normalize

    return (flat := normalize("NFKC", character)).isascii() and flat.isprintable()


def _is_wide_mark(character: str) -> bool:
    return "\uff01" <= character <= "\uff5e" and not character.isalnum()
