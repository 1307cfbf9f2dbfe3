"""Every match with its bytes and what would stand in their place, so that a file changes there and nowhere else."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.workspace.searching.globs import both, select
from ferrule.workspace.searching.older_encodings import beyond_ascii, find_older_files
from ferrule.workspace.searching.replacement import count_groups, names_carriage_return, require_groups
from ferrule.workspace.searching.ripgrep import UnsupportedByDefault, find_ripgrep, ripgrep, understand
from ferrule.workspace.searching.search import NestedIgnores, exclusions, not_held_back, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.workspace.paths import Paths
    from ferrule.workspace.searching.globs import Fit
    from ferrule.workspace.searching.replacement import Replacement
    from ferrule.workspace.searching.search import Query

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
    fit = both(not_held_back(paths, query.place), both(chosen.fit, NestedIgnores(query.place).fit))
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
                raise _too_hard(not_read.too_hard)
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
        self._rest: list[bytes] = []
        self._open: dict[bytes, FileOccurrences] = {}
        self._matches = 0
        self.files: list[FileOccurrences] = []

    def feed(self, piece: bytes) -> None:
        self._rest.append(piece)
        if b"\n" not in piece:
            return
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest = [rest]
        for line in lines:
            event: dict[str, Any] = json.loads(line)
            data = event["data"]
            if event["type"] == "match":
                self._match(data)
            elif event["type"] == "end":
                self._end(data)

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
        if not data["submatches"]:
            self._unplaced(file, int(data["line_number"]), base + len(lines), ended=lines.endswith(b"\n"))
        self._matches += len(data["submatches"])
        if self._matches > MOST_MATCHES:
            raise _too_much(phrase("There are more than {most_matches} matches", most_matches=f"{MOST_MATCHES:,}"))

    def _unplaced(self, file: FileOccurrences, line: int, end: int, *, ended: bool) -> None:
        """A match that ripgrep has no place for: an empty one at the very end of a file, or a torn line ending."""
        if ended:
            raise _unplaced(file.name, line)
        file.matches.append(Occurrence(end, end, self._replacement))

    def _end(self, data: dict[str, Any]) -> None:
        file = self._open.pop(_bytes(data["path"]), None)
        if file is not None:
            file.binary = data["binary_offset"] is not None
            self.files.append(file)


def _bytes(value: dict[str, str]) -> bytes:
    return value["text"].encode() if "text" in value else b64decode(value["bytes"])


def _short_digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _too_much(why: str) -> ToolError:
    return ToolError(
        phrase("{why}, and a replacement is made whole or not at all. Nothing was changed.", why=why),
        suggestion=phrase("Narrow it with `path`, `file_glob` or `exclude`, and go on part by part."),
    )


def _too_hard(files: int) -> ToolError:
    return ToolError(
        phrase("The pattern was given up on in 1 file: too many ways to match. Nothing was changed.")
        if files == 1
        else phrase(
            "The pattern was given up on in {count} files: too many ways to match. Nothing was changed.",
            count=f"{files:,}",
        ),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Make it simpler: no repetition inside a repetition, as in `(a+)+`."),
        details={"code": "pattern"},
    )


def _unplaced(name: bytes, line: int) -> ToolError:
    return ToolError(
        phrase(
            "The pattern matches in line {n} of `{name}`, but only together with a part of the line ending. "
            "Nothing was changed.",
            n=f"{line:,}",
            name=name.removeprefix(b"./").decode(errors="replace"),
        ),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Match the whole line ending (`\\r?\\n`, with `multiline`), or stop before it (`$`)."),
    )
