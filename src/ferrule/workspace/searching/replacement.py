r"""What the text of a replacement means: `$1`, `${name}`, `\1` and `\g<name>` are groups of the pattern.

`$$` is a dollar sign, and `\\1` the text `\1`; any other backslash stands for itself. ripgrep puts nothing where a
group does not exist, which would delete text without a word; so groups are looked up in the pattern first, and the
engine itself is asked how many there are.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.json_lines import LineSplitter
from ferrule.core.phrases import phrase
from ferrule.workspace.searching.globs import both, select
from ferrule.workspace.searching.ripgrep import (
    UnsupportedByDefault,
    beyond_ascii,
    find_older_files,
    find_ripgrep,
    ripgrep,
    understand,
)
from ferrule.workspace.searching.search import exclusions, not_held_back, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.workspace.paths import Paths, Place
    from ferrule.workspace.searching.globs import Fit
    from ferrule.workspace.searching.search import Query


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


# Every match with its bytes and what would stand in their place, so that a file changes there and nowhere else.


MOST_MATCHES = 100_000
"""Matches that one replacement may have; more is hardly ever meant."""
SECONDS = 60.0
_NEWS = 200


class Occurrence(NamedTuple):
    """One match: the bytes from `start` up to `end` become `new`."""

    start: int
    end: int
    new: bytes


class SearchedLines(NamedTuple):
    """Lines that ripgrep saw a match in, to tell whether they are still the same."""

    start: int
    length: int
    content: bytes

    def are_in(self, data: bytes) -> bool:
        piece = data[self.start : self.start + self.length]
        return len(piece) == self.length and _short_digest(piece) == self.content


@dataclass(slots=True)
class FileOccurrences:
    """The matches of one file, in order. Offsets are those of its bytes, without a byte order mark at its start."""

    name: bytes
    matches: list[Occurrence] = field(default_factory=list[Occurrence])
    lines: list[SearchedLines] = field(default_factory=list[SearchedLines])
    binary: bool = False


@dataclass(slots=True)
class Occurrences:
    """All that was found, in order of name."""

    files: list[FileOccurrences]
    notes: list[str]

    @property
    def matches(self) -> int:
        return sum(len(file.matches) for file in self.files)


async def find_occurrences(
    paths: Paths, query: Query, replacement: Replacement, tell: Callable[[int], None]
) -> Occurrences:
    """Every match of a pattern and what the replacement makes of it; `tell` hears how many files have one so far.

    Nothing less than everything is given: a search that was cut short raises.
    """
    program = find_ripgrep(paths)
    try:
        return await _find(program, paths, query, replacement, tell, pcre2=False)
    except UnsupportedByDefault:
        found = await _find(program, paths, query, replacement, tell, pcre2=True)
        found.notes.append("Searched with PCRE2, because of look-around or backreferences; that is slower.")
        return found


async def _find(
    program: str, paths: Paths, query: Query, replacement: Replacement, tell: Callable[[int], None], *, pcre2: bool
) -> Occurrences:
    count = await count_groups(program, query.place, query.pattern, pcre2=pcre2) if replacement.groups else None
    if count is not None:
        require_groups(replacement, query.pattern, count)
    chosen = select(query.globs)
    flags = [*_flags(query), f"--replace={replacement.text}", *chosen.flags, *exclusions(paths, query.place)]
    flags += ["--pcre2"] if pcre2 else []
    fit = both(not_held_back(paths, query.place), chosen.fit)
    events = _Events(fit, replacement.text.encode())
    notes: list[str] = []
    told = 0
    async with ripgrep(program, query.place, flags, query.pattern) as running:
        try:
            async for piece in until(running.output(), SECONDS):
                events.feed(piece)
                if len(events.files) >= told + _NEWS:
                    told = len(events.files)
                    tell(told)
        except TimeoutError:
            raise _too_much(phrase("The search took longer than {seconds} s", seconds=f"{SECONDS:g}")) from None
        code = await running.ended()
        if code not in (0, 1):
            not_read = understand(running.complaints, query.pattern, with_pcre2=pcre2)
            notes = not_read.notes()
            if not_read.too_hard:
                raise ToolError(
                    phrase("The pattern was abandoned in 1 file: too many ways to match. Nothing was changed.")
                    if not_read.too_hard == 1
                    else phrase(
                        "The pattern was abandoned in {count} files: too many ways to match. Nothing was changed.",
                        count=f"{not_read.too_hard:,}",
                    ),
                    kind=ErrorKind.VALIDATION,
                    suggestion=phrase("Make it simpler: no repetition inside a repetition, as in `(a+)+`."),
                    details={"code": "pattern"},
                )
            if code != 2:
                raise ToolError(
                    phrase("The search was cut short: ripgrep ended with code {code}. Nothing was changed.", code=code)
                )
    if count is None:  # a pattern that cannot be read has been told of by now, in the engine's own words
        require_groups(replacement, query.pattern, count)
    if beyond_ascii(query.pattern):
        which = [*chosen.flags, *exclusions(paths, query.place)]
        notes += (await find_older_files(program, paths, query.place, which, fit)).not_replaced()
    return Occurrences(sorted(events.files, key=lambda file: file.name), notes)


def _flags(query: Query) -> list[str]:
    flags = ["--json"]
    if not names_carriage_return(query.pattern):
        flags.append("--crlf")  # else `.*` would swallow the half of a line ending
    if query.ignore_case:
        flags.append("--ignore-case")
    if query.multiline:
        flags += ["--multiline", "--multiline-dotall"]
    return flags


class _Events:
    """Takes the events of `rg --json` apart, however they are cut into pieces."""

    def __init__(self, fit: Fit | None, replacement: bytes = b"") -> None:
        self._fit = fit
        self._replacement = replacement
        self._lines = LineSplitter()
        self._open: dict[bytes, FileOccurrences] = {}
        self._matches = 0
        self.files: list[FileOccurrences] = []

    def feed(self, piece: bytes) -> None:
        for line in self._lines.feed(piece):
            event: dict[str, Any] = json.loads(cast("bytes", line))  # of any length: it is our own search
            data = event["data"]
            if event["type"] == "match":
                self._match(data)
            elif event["type"] == "end":
                file = self._open.pop(_bytes(data["path"]), None)
                if file is not None:
                    file.binary = data["binary_offset"] is not None
                    self.files.append(file)

    def _match(self, data: dict[str, Any]) -> None:
        name = _bytes(data["path"])
        if self._fit is not None and not any(self._fit([name])):
            return
        file = self._open.get(name)
        if file is None:
            file = self._open[name] = FileOccurrences(name)
        base, lines = int(data["absolute_offset"]), _bytes(data["lines"])
        file.lines.append(SearchedLines(base, len(lines), _short_digest(lines)))
        for one in data["submatches"]:
            if "replacement" not in one:
                raise ToolError(
                    phrase(
                        "Replacing needs ripgrep 15 or newer, and the one that was found is older. Nothing was changed."
                    ),
                    suggestion=phrase("Install it: `pip install 'ferrule[files]'`."),
                )
            file.matches.append(Occurrence(base + one["start"], base + one["end"], _bytes(one["replacement"])))
        # A match that ripgrep has no place for: an empty one at the very end of a file, or a torn line ending.
        if not data["submatches"] and lines.endswith(b"\n"):
            raise ToolError(
                phrase(
                    "The pattern matches in line {n} of `{name}`, but only together with a part of the line ending. "
                    "Nothing was changed.",
                    n=f"{int(data['line_number']):,}",
                    name=name.removeprefix(b"./").decode(errors="replace"),
                ),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase(
                    "Match the whole line ending (`\\r?\\n`, with `multiline`), or stop before it (`$`)."
                ),
            )
        if not data["submatches"]:
            file.matches.append(Occurrence(base + len(lines), base + len(lines), self._replacement))
        self._matches += len(data["submatches"])
        if self._matches > MOST_MATCHES:
            raise _too_much(phrase("There are more than {most_matches} matches", most_matches=f"{MOST_MATCHES:,}"))


def _bytes(value: dict[str, str]) -> bytes:
    return value["text"].encode() if "text" in value else b64decode(value["bytes"])


def _short_digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _too_much(why: str) -> ToolError:
    return ToolError(
        phrase("{why}, and a replacement is made completely or not at all. Nothing was changed.", why=why),
        suggestion=phrase("Narrow it with `path`, `file_glob` or `exclude`, and work in parts."),
    )
