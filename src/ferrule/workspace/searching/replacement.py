r"""What the text of a replacement means: `$1`, `${name}`, `\1` and `\g<name>` are groups of the pattern.

`$$` is a dollar sign, and `\\1` the text `\1`; any other backslash stands for itself. ripgrep puts nothing where a
group does not exist, which would delete text without a word; so groups are looked up in the pattern first, and the
engine itself is asked how many there are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.workspace.searching.ripgrep import ripgrep

if TYPE_CHECKING:
    from ferrule.workspace.paths import Place


_REFERENCE = re.compile(
    r"\$\$|\$(?:(?P<number>[0-9]+)|(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>\w+)\})"
    r"|\\(?:(?P<slashed>[1-9][0-9]?)|g<(?P<named>[^<>]*)>)"
    r"|(?P<doubled>\\\\)(?=\\*(?:[1-9]|g<[^<>]*>))",
    re.ASCII,
)
_NAMED = re.compile(r"\\.|\(\?(?:P?<|')(?P<name>[A-Za-z_]\w*)[>']", re.ASCII | re.DOTALL)
_ESCAPE = re.compile(r"\\(?:r[?*{]?|.)", re.DOTALL)
_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$])")
_MOST_NAMED, _MOST_DIGITS = 5, 6
_OTHER_ESCAPE = re.compile(r"(?<!\\)\\[nrtULEul]")


@dataclass(slots=True, frozen=True)
class Replacement:
    """A replacement as ripgrep takes it, and the groups it refers to: each as it was written, with its name or number.

    `$0` is no group: it is always there.
    """

    text: str
    groups: dict[str, str]


def literal_pattern(text: str) -> str:
    """The pattern that means just this text, however the lines of a file end."""
    escaped = _SPECIAL.sub(r"\\\1", text)
    return escaped if "\r" in text else escaped.replace("\n", r"\r?\n")


def literal_replacement(text: str) -> Replacement:
    """The replacement that means just this text."""
    return Replacement(text.replace("$", "$$"), {})


def read_replacement(text: str) -> Replacement:
    """The replacement that a text means."""
    written: list[str] = []
    groups: dict[str, str] = {}
    at = 0
    for found in _REFERENCE.finditer(text):
        written.append(text[at : found.start()].replace("$", "$$"))
        at = found.end()
        if found[0] == "$$":
            written.append("$$")
        elif found["doubled"]:
            written.append("\\")
        else:
            group = next(name for name in found.groups() if name is not None)
            group = group.lstrip("0") or "0" if group.isdecimal() else group
            written.append(f"${{{group}}}")
            if group != "0":
                groups[found[0]] = group
    return Replacement("".join([*written, text[at:].replace("$", "$$")]), groups)


def names_carriage_return(pattern: str) -> bool:
    r"""Whether a pattern is about `\r` itself, as one that changes line endings is; `\r?` only allows for it."""
    return "\r" in pattern or r"\r" in _ESCAPE.findall(pattern)


def about_groups(given: str, replacement: Replacement) -> list[str]:
    """How to write literally what was read as a group, and what was not read as anything."""
    notes: list[str] = []
    if replacement.groups:
        written = list(replacement.groups)[:_MOST_NAMED]
        listed, plain = (", ".join(f"`{one}`" for one in ones) for ones in (written, map(_literally, written)))
        verb = "is a group" if len(written) == 1 else "are groups"
        notes.append(f"{listed} in `replace_with` {verb} of the pattern; write {plain} for the text itself.")
    other = _OTHER_ESCAPE.search(given)
    if other is not None:
        notes.append(f"`{other[0]}` in `replace_with` stands for itself: a backslash and `{other[0][1]}`.")
    return notes


async def count_groups(program: str, place: Place, pattern: str, *, pcre2: bool) -> int | None:
    """How many groups the engine sees in a pattern; None where the pattern cannot stand inside another.

    The pattern is put before a group of our own, in a way that it need not match: the number of our group tells.
    """
    wanted = "".join(f"${{{number}}}," for number in range(1, pattern.count("(") + 2))
    flags = ["--multiline", "--only-matching", f"--replace={wanted}", *(("--pcre2",) if pcre2 else ())]
    # The line break ends a comment, where the pattern has `(?x)`.
    async with ripgrep(program, place, flags, f"(?:{pattern}\n){{0}}(X)", b"X") as running:
        said = b"".join([piece async for piece in running.output()])
        code = await running.ended()
    return said.split(b",").index(b"X") if code == 0 and b"X" in said else None


def require_groups(replacement: Replacement, pattern: str, count: int | None) -> None:
    """Refuse a replacement that refers to a group which the pattern does not have."""
    names = [found["name"] for found in _NAMED.finditer(pattern) if found["name"]]
    most = pattern.count("(") if count is None else count
    for written, group in replacement.groups.items():
        if group in names or (group.isdecimal() and len(group) < _MOST_DIGITS and int(group) <= most):
            continue
        raise ToolError(
            phrase(
                "`{written}` in `replace_with` refers to the group `{group}`, and {groups}. Nothing was changed.",
                written=written,
                group=group,
                groups=_in_words(most, names),
            ),
            kind=ErrorKind.VALIDATION,
            suggestion=_advice(written, group, most),
            details={"code": "group", "group": group},
        )


def _in_words(count: int, names: list[str]) -> str:
    if not count:
        return phrase("the pattern has no groups")
    numbered = (
        phrase("the pattern has 1 group, `$1`")
        if count == 1
        else phrase("the pattern has {count} groups, `$1` to `${count}`", count=count)
    )
    if not names:
        return numbered
    listed = ", ".join(f"`${{{name}}}`" for name in names)
    return phrase("{groups}; by name: {listed}", groups=numbered, listed=listed)


def _advice(written: str, group: str, count: int) -> str:
    if group.isdecimal() and len(group) > 1 and int(group[0]) <= count:
        return phrase(
            "For group {number} followed by `{rest}` write `${{{number}}}{rest}`.", number=group[0], rest=group[1:]
        )
    return phrase(
        "Put parentheses around the part of the pattern to keep, or use `$0` for the whole match. "
        "For the text `{written}` itself write `{literally}`.",
        written=written,
        literally=_literally(written),
    )


def _literally(written: str) -> str:
    """How to write a reference that shall stand for itself."""
    return written[0] + written


# A line break in a pattern means the end of a line, however the lines of a file end.


_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
# A set within a set, quoted text, blanks that mean nothing, and look-behind, whose length must be fixed.
_UNSURE = re.compile(r"\\Q|\(\?[a-zA-Z-]*x|\(\?#|\(\?<[=!]")
_SET_IN_SET = re.compile(r"\[.*(?:\[|--|&&|~~|\|\|)", re.DOTALL)


def any_line_ending(pattern: str) -> str:
    """The pattern, matching also where lines end in a carriage return and a line feed."""
    if names_carriage_return(pattern) or _UNSURE.search(pattern):
        return pattern
    pieces = _PIECE.findall(pattern)
    if any(len(piece) > 2 and _SET_IN_SET.match(piece) for piece in pieces):
        return pattern
    try:
        re.compile(pattern)
    except re.error:  # the engine is to complain of what was written, and of its places
        return pattern
    return "".join(r"(?:\r?\n)" if piece in ("\n", r"\n", "\\\n") else piece for piece in pieces)
