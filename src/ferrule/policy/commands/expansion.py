"""What a word becomes when bash expands it, as far as that can be known without running anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .syntax import Kind, Piece, Simple, Unreadable, Word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .syntax import Script

MOST_FIELDS = 256
_MOST_NUMBERS = 100_000

_SPLITS = re.compile(r"[ \t\n*?\[]")
_GLOB = re.compile(r"[*?\[]")
_FILE_LIKE = re.compile(r"\*\.\w+")
_NUMERAL = re.compile(r"-?[0-9]+")
_RANGE = re.compile(r"(-?[0-9]+|[A-Za-z])\.\.(-?[0-9]+|[A-Za-z])(?:\.\.-?[0-9]+)?")
_NUMBERS = frozenset({"#", "?", "$", "!", "RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "BASHPID", "SRANDOM"})
_COMMIT = re.compile(
    r"[A-Za-z0-9@][A-Za-z0-9_./~^@{}-]*|--(short|abbrev-ref|show-toplevel|show-current|tags|verify|git-dir)"
)
_SETTLED = frozenset({"USER", "LOGNAME", "HOSTNAME", "PWD", "OLDPWD", "UID"})
"""Variables that the system sets, and that no command may set without asking: no options, no blanks."""
_COUNTERS = frozenset({"wc", "nproc", "expr"})


class Loose(str):
    """A word known only at run time; as a string it is what was written.

    `start` is the literal text that it surely begins with, `option` says whether it may turn out to be an option,
    `number` that it is a whole number, `many` that it may be no word or several, and `choices` and `globs` what it may
    turn out to be where that is known.
    """

    __slots__ = ("choices", "globs", "many", "number", "option", "shape", "start")

    shape: str
    """The word with `1` for each number in it, where numbers are all that is not known; else empty."""

    start: str
    option: bool
    number: bool
    many: bool
    choices: tuple[str, ...]
    globs: tuple[str, ...]

    def __new__(
        cls,
        source: str,
        *,
        start: str = "",
        shape: str = "",
        option: bool = True,
        number: bool = False,
        many: bool = False,
        choices: tuple[str, ...] = (),
        globs: tuple[str, ...] = (),
    ) -> Loose:
        word = super().__new__(cls, source)
        word.option, word.number, word.many, word.choices, word.globs = option, number, many, choices, globs
        word.start, word.shape = start, shape
        return word

    @property
    def known(self) -> bool:
        """Whether all that it may become is listed."""
        return bool(self.choices or self.globs)


def holds_number(name: str, variables: Mapping[str, str]) -> bool:
    """Whether a variable surely holds a whole number."""
    value = variables.get(name)
    return name in _NUMBERS or (value is not None and is_number(value))


def is_number(value: str) -> bool:
    """Whether a word is surely a whole number."""
    return value.number if isinstance(value, Loose) else _NUMERAL.fullmatch(value) is not None


def expand(word: Word, variables: Mapping[str, str], source: str) -> list[str]:
    """The words that `word` becomes; those known only at run time are `Loose`."""
    pieces = word.pieces
    if pieces is None:
        return [word.text]
    written = source[word.start : word.end]
    if len(pieces) == 1 and pieces[0].kind is Kind.TEXT and not _EXPANDS.search(pieces[0].text):
        return [pieces[0].text]
    found: list[str] = []
    for alternative in _braces(pieces):
        found += _fields(alternative, variables, written)
        if len(found) > MOST_FIELDS:
            raise Unreadable(f"a word expands to more than {MOST_FIELDS} words")
    return found


_EXPANDS = re.compile(r"[{~*?\[]")


def _fields(pieces: list[Piece], variables: Mapping[str, str], written: str) -> list[str]:
    if len(pieces) == 1 and pieces[0].kind is Kind.VARIABLE and not pieces[0].quoted:
        return _unquoted(pieces[0], variables, written)
    text: list[str] = []
    fixed, glob, many, start = True, False, False, ""
    for piece in pieces:
        if piece.kind is Kind.TEXT:
            value: str | None = piece.text
            if not piece.quoted:
                if not text and value.startswith("~"):
                    value = _tilde(value, variables)
                if value is not None and _GLOB.search(value) and not (value == "[" and len(pieces) == 1):
                    glob = True
                    start = "".join(text) + value if fixed and not start else start
        elif piece.kind is Kind.VARIABLE:
            value = variables.get(piece.text)
            if value is None or isinstance(value, Loose) or (not piece.quoted and _SPLITS.search(value)):
                many = many or not piece.quoted or piece.text == "@"
                if len(pieces) == 1 and isinstance(value, Loose):
                    return [value]
                value = None
        else:
            value = None
            many = many or not piece.quoted
        if value is None:
            start = start or "".join(text)
            fixed = False
        else:
            text.append(value)
    joined = "".join(text)
    if fixed and not glob:
        # Nothing, unquoted, is no word at all: `{,rm}` is `rm`.
        return [joined] if joined or any(piece.quoted for piece in pieces) else []
    if fixed:
        option = start[:1] in ("-", "*", "?", "[") and not _FILE_LIKE.fullmatch(joined)
        return [Loose(written, option=option, many=True, globs=(joined,))]
    number = len(pieces) == 1 and _is_count(pieces[0])
    plain = not start and _is_plain(pieces[0])
    many = many and not (plain and len(pieces) == 1)
    # Unquoted, what is not known may be split into several words, and any of them may be an option.
    option = (many or not start or start.startswith("-")) and not plain
    shape = "".join(one.text if one.kind is Kind.TEXT else "1" if _counted(one, variables) else "\0" for one in pieces)
    return [
        Loose(
            written,
            start=start,
            shape="" if glob or "\0" in shape else shape,
            option=option and not number,
            number=number,
            many=many and not number,
        )
    ]


def _unquoted(piece: Piece, variables: Mapping[str, str], written: str) -> list[str]:
    """`$x` alone and unquoted: its value is split at blanks."""
    value = variables.get(piece.text)
    if value is None:
        number = piece.text in _NUMBERS
        settled = number or piece.text in _SETTLED
        return [Loose(written, option=not settled, number=number, many=not settled)]
    if isinstance(value, Loose):
        if value.known or value.number:
            return [value]
        return [Loose(written, many=True)]
    if _GLOB.search(value):
        return [Loose(written, many=True)]
    return value.split()


def _tilde(text: str, variables: Mapping[str, str]) -> str | None:
    """`~` and `~/…` are the home folder; `~+`, `~-` and other people's homes are not known."""
    if text == "~" or text.startswith("~/"):
        home = variables.get("HOME")
        return None if home is None or isinstance(home, Loose) else home + text[1:]
    return None


def _is_count(piece: Piece) -> bool:
    """Whether an expansion gives a number whatever happens: a sum, a length, or what a counting program prints."""
    if piece.text.startswith(("$((", "${#")):
        return True
    return piece.script is not None and _counts(piece.script)


def _counted(piece: Piece, variables: Mapping[str, str]) -> bool:
    return holds_number(piece.text, variables) if piece.kind is Kind.VARIABLE else _is_count(piece)


def _is_plain(piece: Piece) -> bool:
    """Whether a substitution gives one word that is no option: the name of a commit, a folder or a person."""
    if piece.script is None:
        return False
    words = _last_words(piece.script)
    if words[:1] == ["git"]:
        return words[1:2] in (["rev-parse"], ["merge-base"], ["describe"], ["branch"]) and all(
            map(_COMMIT.fullmatch, words[2:])
        )
    return words[:1] in (["pwd"], ["whoami"], ["which"], ["hostname"]) or words[:2] == ["command", "-v"]


def _last_words(script: Script) -> list[str]:
    """The words of the command whose output a substitution gives; none where it is not that simple."""
    if len(script.chains) != 1 or len(script.chains[0].links) != 1:
        return []
    last = script.chains[0].links[0][1].commands[-1]
    return [word.text for word in last.words] if isinstance(last, Simple) else []


def _counts(script: Script) -> bool:
    words = _last_words(script)
    return words[:1] != [] and (words[0] in _COUNTERS or words[:2] == ["grep", "-c"] or words == ["date", "+%s"])


# -- braces


def _braces(pieces: list[Piece]) -> list[list[Piece]]:
    """`a{b,c}` is `ab ac`, before anything else happens."""
    if not any(piece.kind is Kind.TEXT and not piece.quoted and "{" in piece.text for piece in pieces):
        return [pieces]
    atoms: list[Piece | str] = []
    for piece in pieces:
        if piece.kind is Kind.TEXT and not piece.quoted:
            parts = re.split(r"([{},])", piece.text)
            atoms += [part if part in "{}," else Piece(Kind.TEXT, part, quoted=False) for part in parts if part]
        else:
            atoms.append(piece)
    if len(atoms) > MOST_FIELDS:
        raise Unreadable("a word has more braces than can be told apart")
    return [_joined(alternative) for alternative in _alternatives(atoms)]


def _alternatives(atoms: list[Piece | str]) -> list[list[Piece | str]]:
    for at, atom in enumerate(atoms):
        if atom != "{" or (end := _closing(atoms, at)) is None:
            continue
        middles = _choices(atoms[at + 1 : end])
        if middles is None:
            continue
        inner = [one for middle in middles for one in _alternatives(middle)]
        rests = _alternatives(atoms[end + 1 :])
        if len(inner) * len(rests) > MOST_FIELDS:
            raise Unreadable(f"a word expands to more than {MOST_FIELDS} words")
        return [atoms[:at] + one + rest for one in inner for rest in rests]
    return [atoms]


def _closing(atoms: list[Piece | str], at: int) -> int | None:
    depth = 0
    for index in range(at, len(atoms)):
        depth += (atoms[index] == "{") - (atoms[index] == "}")
        if not depth:
            return index
    return None


def _choices(atoms: list[Piece | str]) -> list[list[Piece | str]] | None:
    """What stands between the commas, or a range counted out; None for braces that are just braces."""
    parts: list[list[Piece | str]] = [[]]
    depth = 0
    for atom in atoms:
        depth += (atom == "{") - (atom == "}")
        if atom == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(atom)
    if len(parts) > 1:
        return parts
    if len(atoms) == 1 and isinstance(atoms[0], Piece) and not atoms[0].quoted and ".." in atoms[0].text:
        counted = _range(atoms[0].text)
        return None if counted is None else [[one] for one in counted]
    return None


def _range(text: str) -> list[Piece] | None:
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    first, last = found.groups()
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit():
        low, high = sorted((int(first), int(last)))
        if high - low >= _MOST_NUMBERS:
            raise Unreadable(f"a range counts more than {_MOST_NUMBERS:,} numbers")
        if high - low >= MOST_FIELDS:
            return [Piece(Kind.UNKNOWN, "$((", quoted=True)]  # any of many numbers
        return [Piece(Kind.TEXT, str(number), quoted=False) for number in range(low, high + 1)]
    if first.isalpha() and last.isalpha():
        low, high = sorted((ord(first), ord(last)))
        return [Piece(Kind.TEXT, chr(code), quoted=True) for code in range(low, high + 1)]
    return None


def _joined(atoms: Iterable[Piece | str]) -> list[Piece]:
    """Pieces again, runs of unquoted text made one."""
    pieces: list[Piece] = []
    for atom in atoms:
        piece = Piece(Kind.TEXT, atom, quoted=False) if isinstance(atom, str) else atom
        if (
            pieces
            and piece.kind is Kind.TEXT
            and pieces[-1].kind is Kind.TEXT
            and not (piece.quoted or pieces[-1].quoted)
        ):
            pieces[-1] = Piece(Kind.TEXT, pieces[-1].text + piece.text, quoted=False)
        else:
            pieces.append(piece)
    return pieces
