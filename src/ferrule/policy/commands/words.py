"""What the words of a command become: quotes taken off, braces and variables filled in as far as the text says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.policy.commands.parts import Guess, names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_FIELDS = 256

_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_ASSIGNMENT = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_DEFAULT = lazy_pattern(r"\$\{([A-Za-z_]\w*)(\[[@*0-9]+\])?(?::?[-=](.*))?\}", re.DOTALL)
_PRINTS = lazy_pattern(
    r"(?:\$\(|`)\s*(?:echo|printf)\s+(?:-[neE]+\s+)*(?:['\"]?%s['\"]?\s+)?([^|&;<>()`]*)[)`]", re.DOTALL
)
_GLOB = lazy_pattern(r"[*?\[]")
_ANSI = lazy_pattern(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|c(.))"
)
_ANSI_CHARACTERS = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))


@dataclass(slots=True)
class _Piece:
    text: str
    quoted: bool = False
    known: bool = True


def is_assignment(text: str) -> bool:
    """Whether a word sets a variable where it stands before a command."""
    return _ASSIGNMENT.match(text) is not None


def fields(text: str, values: Mapping[str, str]) -> list[str]:
    """The words that one word of the text becomes. `values` are what variables were set to in the same text."""
    pieces = _pieces(text, values)
    found: list[str] = []
    for alternative in _braces(pieces):
        found += _words_of(alternative)
        if len(found) > MOST_FIELDS:
            raise ValueError(f"a word expands to more than {MOST_FIELDS} words")
    return found


def _words_of(pieces: list[_Piece]) -> list[str]:
    joined = "".join(piece.text for piece in pieces)
    start, known = "", True
    for piece in pieces:
        glob = None if piece.quoted else _GLOB.search(piece.text)
        if not piece.known or (glob is not None and joined not in ("[", "[[")):
            start += piece.text[: glob.start()] if piece.known and glob is not None else ""
            known = False
            break
        start += piece.text
    if known:
        # Nothing, unquoted, is no word at all: `{,rm}` is `rm`.
        return [joined] if joined or any(piece.quoted for piece in pieces) else []
    splits = any(
        not piece.known and not piece.quoted and not piece.text.startswith(("$", "`", "<(", ">(")) for piece in pieces
    )
    if splits and len(several := joined.split()) > 1:
        return [Guess(word) for word in several]
    single = all(piece.quoted or (piece.known and not _GLOB.search(piece.text)) for piece in pieces)
    return [Guess(joined, start, single=single)]


def _pieces(text: str, values: Mapping[str, str]) -> list[_Piece]:
    pieces: list[_Piece] = []
    at = 0
    while at < len(text):
        here = text[at]
        if here == "\\":
            if text[at + 1 : at + 2] != "\n":
                pieces.append(_Piece(text[at + 1 : at + 2], quoted=True))
            at += 2
        elif here == "'":
            end = _find(text, "'", at + 1)
            pieces.append(_Piece(text[at + 1 : end], quoted=True))
            at = end + 1
        elif here == '"':
            at = _double(text, at + 1, pieces, values)
        elif text.startswith("$'", at):
            end = _ansi_end(text, at + 2)
            pieces.append(_Piece(_ANSI.sub(_ansi_character, text[at + 2 : end]), quoted=True))
            at = end + 1
        elif text.startswith('$"', at):
            at = _double(text, at + 2, pieces, values)
        elif here in "$`" or text.startswith(("<(", ">("), at):
            end = expansion_end(text, at)
            pieces.append(_expanded(text[at:end], values, quoted=False))
            at = end
        else:
            end = at + 1
            while end < len(text) and text[end] not in "\\'\"$`<>":
                end += 1
            pieces.append(_Piece(text[at:end]))
            at = end
    return pieces


def _double(text: str, at: int, pieces: list[_Piece], values: Mapping[str, str]) -> int:
    """The pieces within double quotes that opened before `at`; where they end."""
    literal = ""
    while at < len(text):
        here = text[at]
        if here == '"':
            pieces.append(_Piece(literal, quoted=True))
            return at + 1
        if here == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            literal += text[at + 1].replace("\n", "")
            at += 2
        elif here == "`" or (here == "$" and expansion_end(text, at) > at + 1):
            pieces.append(_Piece(literal, quoted=True))
            literal, end = "", expansion_end(text, at)
            pieces.append(_expanded(text[at:end], values, quoted=True))
            at = end
        else:
            literal += here
            at += 1
    raise ValueError("a double quote is never closed")


def _expanded(source: str, values: Mapping[str, str], *, quoted: bool) -> _Piece:
    if source == "$":
        return _Piece("$", quoted=True)
    if (printed := _PRINTS.fullmatch(source)) is not None and "%" not in printed.group(1):
        said = " ".join(word for raw in split(printed.group(1)) for word in fields(raw, values))
        if "\\" in said and re.search(r"printf|-\w*e", source):
            said = _ANSI.sub(_ansi_character, said)
        return _Piece(said or source, quoted, known=False)
    name, default, element = source[1:], None, None
    if (braced := _DEFAULT.fullmatch(source)) is not None:
        name, element, default = braced.groups()
        quoted = quoted and element in (None, "[*]")  # `"${all[@]}"` is as many words as there are
    value = values.get(name)
    if value is not None and quoted and element == "[*]":
        value = value.replace(" ", values.get("IFS", " ")[:1])
    if value is None and default is not None:
        value = "".join(fields(default, values))
    return _Piece(source if value is None else value, quoted, known=False)


def expansion_end(text: str, at: int) -> int:
    """Where an expansion that starts at `at` ends; one past a lone `$`."""
    if text[at] == "`":
        end = at + 1
        while end < len(text) and text[end] != "`":
            end += 2 if text[end] == "\\" else 1
        if end >= len(text):
            raise ValueError("a backtick is never closed")
        return end + 1
    opened = text[at + 1 : at + 2]
    if opened not in ("(", "{"):
        name = _NAME.match(text, at + 1)
        return name.end() if name is not None and text[at] == "$" else at + 1
    return _closing(text, at + 1)


def _closing(text: str, at: int) -> int:
    """Behind the bracket that closes the one at `at`; quotes and brackets within are passed over."""
    depth = 0
    while at < len(text):
        here = text[at]
        if here == "\\":
            at += 1
        elif here == "'":
            at = _find(text, "'", at + 1)
        elif here == '"':
            at += 1
            while at < len(text) and text[at] != '"':
                if text[at] == "\\":
                    at += 1
                elif text[at] == "$" and text[at + 1 : at + 2] in ("(", "{"):
                    at = _closing(text, at + 1) - 1
                at += 1
        elif here == "`":
            at = expansion_end(text, at) - 1
        elif here in "({":
            depth += 1
        elif here in ")}":
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    raise ValueError("a bracket is never closed")


def _find(text: str, mark: str, at: int) -> int:
    end = text.find(mark, at)
    if end < 0:
        raise ValueError(f"a `{mark}` is never closed")
    return end


def _ansi_end(text: str, at: int) -> int:
    while at < len(text) and text[at] != "'":
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        raise ValueError("a `$'` quote is never closed")
    return at


def _ansi_character(match: re.Match[str]) -> str:
    simple, octal, short, middle, long, control = match.groups()
    if simple:
        return _ANSI_CHARACTERS.get(simple, simple)
    if control:
        return chr(ord(control) & 0x1F)
    code = int(octal, 8) & 0xFF if octal else int(short or middle or long, 16)
    return chr(code) if 0 < code < 0x110000 else ""


def _braces(pieces: list[_Piece]) -> Iterator[list[_Piece]]:
    """`a{b,c}` is `ab ac`, before anything else happens."""
    if not any(not piece.quoted and piece.known and "{" in piece.text for piece in pieces):
        yield pieces
        return
    atoms: list[_Piece] = []
    for piece in pieces:
        if piece.quoted or not piece.known:
            atoms.append(piece)
        else:
            atoms += [_Piece(part) for part in re.split(r"([{},])", piece.text) if part]
    if len(atoms) > MOST_FIELDS:
        raise ValueError("a word has more braces than can be told apart")
    yield from _alternatives(atoms)


def _alternatives(atoms: list[_Piece], depth: int = 0) -> Iterator[list[_Piece]]:
    if depth > 8:
        raise ValueError("a word has more braces than can be told apart")
    for at, atom in enumerate(atoms):
        if not _is_mark(atom, "{") or (found := _choices(atoms, at)) is None:
            continue
        choices, end = found
        inner = [one for choice in choices for one in _alternatives(choice, depth + 1)]
        rests = list(_alternatives(atoms[end + 1 :], depth + 1))
        if len(inner) * len(rests) > MOST_FIELDS:
            raise ValueError(f"a word expands to more than {MOST_FIELDS} words")
        yield from ([*atoms[:at], *one, *rest] for one, rest in product(inner, rests))
        return
    yield atoms


def _choices(atoms: list[_Piece], at: int) -> tuple[list[list[_Piece]], int] | None:
    """What stands between the commas of the braces at `at`, and where they close; None for what is just a brace."""
    depth, parts = 0, list[list[_Piece]]([[]])
    for index in range(at, len(atoms)):
        atom = atoms[index]
        depth += _is_mark(atom, "{") - _is_mark(atom, "}")
        if not depth:
            if len(parts) == 1 and ".." not in "".join(one.text for one in parts[0]):
                return None
            return parts, index
        if index > at:
            if depth == 1 and _is_mark(atom, ","):
                parts.append([])
            else:
                parts[-1].append(atom)
    return None


def _is_mark(atom: _Piece, mark: str) -> bool:
    return not atom.quoted and atom.known and atom.text == mark


def split(text: str) -> list[str]:
    """The words of one simple command, each as it was written."""
    found: list[str] = []
    at, start = 0, -1
    while at < len(text):
        here = text[at]
        if text.startswith("\\\n", at):  # it joins what stands before and behind it
            at += 2
            continue
        if here in " \t\n":
            if start >= 0:
                found.append(text[start:at])
                start = -1
            at += 1
            continue
        start = at if start < 0 else start
        at = _word_step(text, at)
    if start >= 0:
        found.append(text[start:])
    return found


def _word_step(text: str, at: int) -> int:
    """Past one character, quote or expansion of a word."""
    here = text[at]
    if here == "\\":
        return min(at + 2, len(text))
    if here == "'":
        return _find(text, "'", at + 1) + 1
    if here == '"':
        return _double(text, at + 1, [], {})
    if text.startswith("$'", at):
        return _ansi_end(text, at + 2) + 1
    if here in "$`" or text.startswith(("<(", ">("), at):
        return expansion_end(text, at)
    return at + 1


_PLAIN_WORD = lazy_pattern(r"""(?:[\w%+,./:@^=~-]|(?<=\S)[*?\[\]]|'[^']*'|"[^"$`\\]*")++|\[|\]""")
_PLAIN_BETWEEN = lazy_pattern(r"[ \t]*(&&|\|\||\|&?|;|&(?![>&])|\n)[ \t\n]*")
_HARMLESS_REDIRECT = lazy_pattern(r"(?:[012]?>&[12]|(?:[012]|&)?>>?[ ]?/dev/null|<[ ]?/dev/null)(?=[ \t\n;&|]|\Z)")
_KEYWORDS = names("""
    if then elif else fi for while until do done case esac select function coproc time in [[ ! { }
""")


def plain_commands(text: str) -> list[list[str]] | None:
    """The commands of a text that is nothing but literal words joined by `&&`, `||`, `|`, `;` and `&`; else None.

    This is a reading of its own, far narrower than bash: what an allow rule covers must be beyond doubt, so that no
    trick of the grammar can hide a command in one that is allowed.
    """
    text = text.strip(" \t\n")
    commands: list[list[str]] = [[]]
    at = 0
    while at < len(text):
        if (between := _PLAIN_BETWEEN.match(text, at)) is not None:
            if not commands[-1]:
                return None
            commands.append([])
            at = between.end()
        elif text[at] in " \t":
            at += 1
        elif (redirect := _HARMLESS_REDIRECT.match(text, at)) is not None:
            at = redirect.end()
        elif (word := _PLAIN_WORD.match(text, at)) is not None and text[word.end() : word.end() + 1] in _ENDS:
            if (value := _plain_value(word.group())) is None or (not commands[-1] and value in _KEYWORDS):
                return None
            commands[-1].append(value)
            at = word.end()
        else:
            return None
    if not commands[-1]:
        commands.pop()
    return commands


_ENDS = ("", " ", "\t", "\n", ";", "&", "|")


def _plain_value(written: str) -> str | None:
    """The word without its quotes; None for a pattern that could come to stand for an option."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", written)
    if written not in ("[", "]") and _GLOB.search(bare) and not re.match(r"[\w./~]", written):
        return None
    return re.sub(r"'([^']*)'|\"([^\"]*)\"", lambda one: one[1] or one[2] or "", written)
