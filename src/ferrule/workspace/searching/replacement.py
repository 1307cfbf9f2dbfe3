r"""What the text of a replacement means: `$1` and `${name}` are groups of the pattern, `$$` is a dollar sign.

ripgrep puts nothing where a group does not exist, which would delete text without a word; so groups are looked up in
the pattern first, and the engine itself is asked how many there are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.workspace.searching.ripgrep import ripgrep

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.workspace.paths import Place

# As ripgrep reads it: the longest name without braces, and with braces nothing but a name.
_REFERENCE = re.compile(r"\$\$|\$(?:(?P<bare>\w+)|\{(?P<braced>\w+)\})", re.ASCII)
_NAMED = re.compile(r"\\.|\(\?(?:P?<|')(?P<name>[A-Za-z_]\w*)[>']", re.ASCII | re.DOTALL)
_ESCAPE = re.compile(r"\\(?:r[?*{]?|.)", re.DOTALL)
_SPECIAL = re.compile(r"([\\.+*?()|\[\]{}^$])")
_BACKSLASH_GROUP = re.compile(r"\\[1-9]")


def literal_pattern(text: str) -> str:
    """The pattern that means just this text, however the lines of a file end."""
    escaped = _SPECIAL.sub(r"\\\1", text)
    return escaped if "\r" in text else escaped.replace("\n", r"\r?\n")


def literal_replacement(text: str) -> str:
    """The replacement that means just this text."""
    return text.replace("$", "$$")


def names_carriage_return(pattern: str) -> bool:
    r"""Whether a pattern is about `\r` itself, as one that changes line endings is; `\r?` only allows for it."""
    return "\r" in pattern or r"\r" in _ESCAPE.findall(pattern)


def groups_of(replacement: str) -> list[str]:
    """The groups that a replacement refers to, by number or name, in their order; `$0` is always there."""
    named = [found["bare"] or found["braced"] for found in _REFERENCE.finditer(replacement) if found[0] != "$$"]
    return [group for group in dict.fromkeys(named) if group != "0"]


def about_backslashes(pattern: str, replacement: str) -> list[str]:
    """What must be said to someone who writes groups as other programs do."""
    found = _BACKSLASH_GROUP.search(replacement)
    if found is None or "(" not in pattern:
        return []
    return [f"`{found[0]}` in `replace_with` stands for itself here. Groups are written `${found[0][1]}`."]


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


def require_groups(wanted: Iterable[str], pattern: str, count: int | None) -> None:
    """Refuse a replacement that refers to a group which the pattern does not have."""
    names = [found["name"] for found in _NAMED.finditer(pattern) if found["name"]]
    most = pattern.count("(") if count is None else count
    for group in wanted:
        if group in names or (group.isdecimal() and 1 <= int(group) <= most):
            continue
        raise ToolError(
            phrase(
                "`replace_with` refers to the group `{group}`, and {groups}.",
                group=group,
                groups=_in_words(most, names),
            ),
            kind=ErrorKind.VALIDATION,
            suggestion=_advice(group, most),
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


def _advice(group: str, count: int) -> str:
    digits = re.match(r"[0-9]+", group)
    if digits and not group.isdecimal() and 0 <= int(digits[0]) <= count:
        number, rest = digits[0], group[digits.end() :]
        return phrase("For group {number} followed by `{rest}` write `${{{number}}}{rest}`.", number=number, rest=rest)
    return phrase(
        "Put parentheses around the part of the pattern to keep, or use `$0` for the whole "
        "match. For the text `${group}` itself write `$${group}`.",
        group=group,
    )
