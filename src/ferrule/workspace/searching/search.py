"""Searches the contents of files: results as they come, then the first of them in order of path, and exact counts."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from itertools import compress, islice
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ferrule.core.errors import ToolError
from ferrule.core.phrases import phrase
from ferrule.workspace.names import decoded, one_line
from ferrule.workspace.paths import Place
from ferrule.workspace.problems import PathError
from ferrule.workspace.restrictions import held_back_note
from ferrule.workspace.searching.globs import both, select
from ferrule.workspace.searching.ripgrep import FilesNotRead, UnsupportedByDefault, find_ripgrep, ripgrep, understand

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from ferrule.workspace.paths import Paths
    from ferrule.workspace.searching.globs import Fit
    from ferrule.workspace.searching.ripgrep import OlderFiles


# Counts what a search holds back, without a look inside: a note that only came with a match would tell of one.


_LISTS = ("--files", "--threads=1")  # beside a search that has every core already


def exclusions(paths: Paths, start: Place) -> list[str]:
    """What ripgrep is told, so that it does not even open the files with these names."""
    return [f"--glob=!{name}" for name in paths.kept.left_out(start.path)]


def not_held_back(paths: Paths, start: Place) -> Fit | None:
    """For each of some names whether no rule keeps it back; None when there are no rules."""
    if not paths.kept:
        return None
    root = f"{start.root.path}/".replace("//", "/")

    def fit(names: Sequence[bytes]) -> list[bool]:
        found = [root + os.fsdecode(name.removeprefix(b"./")) for name in names]  # text: there may be very many
        return [not held for held in paths.kept.all_held_back(found, start.path)]

    return fit


async def count_held_back(program: str, paths: Paths, start: Place) -> int:
    """How many files below `start` the search leaves out because of a rule."""
    count, rest = 0, b""
    if not paths.kept.may_hold_back(start.path):
        return count
    async with ripgrep(program, start, _LISTS, None) as running:
        async for piece in running.output():
            listed, end, rest = (rest + piece).rpartition(b"\0")
            count += paths.kept.count_held_in(start.root.path, os.fsdecode(listed + end), start.path)
        if await running.ended() not in (0, 1, 2):
            raise ToolError(phrase("The search was cut short while it looked for what it may not show."))
    return count


Mode = Literal["content", "files_with_matches", "count"]
SECONDS = 20.0
"""After so long a search gives what it has found."""
_SOON = 0.05
"""Seconds of a search after which another look at all files would be felt."""
_LONGEST_LINE = 20_000
_BLOCK = 1 << 20
_MATCH_LINE = re.compile(rb"(?:^|\n)[0-9]+:")
_COUNTED = re.compile(rb"([^\0]+)\0([0-9]+)\n")


@dataclass(slots=True, frozen=True)
class Query:
    """What to look for, and where."""

    pattern: str
    place: Place
    mode: Mode
    globs: tuple[str, ...] = ()
    file_type: str | None = None
    before: int = 0
    after: int = 0
    ignore_case: bool = False
    multiline: bool = False
    crlf: bool = False
    r"""Whether `\r\n` ends a line as `\n` does, so that `$` stands before it and `.` stops there."""


@dataclass(slots=True)
class Findings:
    """What a search found. A hit is one file: its name, a NUL byte, and what the mode says of it."""

    hits: list[bytes] = field(default_factory=list[bytes])
    files: int = 0
    matches: int = 0
    notes: list[str] = field(default_factory=list[str])
    complete: bool = True


class FirstInOrder:
    """Keeps the first so many results in order of name, out of any number that come in any order."""

    def __init__(self, most: int, query: Query) -> None:
        self._most = most
        self._counts_lines = query.mode == "content"
        self._context = query.mode == "content" and bool(query.before or query.after)
        self._width = 1 + query.before + query.after + 1 if self._context else 1
        self._kept: list[bytes] = []
        self._kept_weight = 0
        self._last: bytes | None = None
        self.matches = 0

    def add(self, hits: list[bytes]) -> None:
        """Count these hits, and keep those that may be among the first."""
        if self._counts_lines:
            self.matches += sum(map(self.weight, hits))
        last = self._last
        new = hits if last is None else [hit for hit in hits if hit <= last]
        if self._counts_lines:
            new = list(map(self._bounded, new))
            self._kept_weight += sum(map(self.weight, new))
        else:
            self._kept_weight += len(new)
        self._kept += new
        if self._kept_weight > 4 * self._most + 10_000:
            self._settle()

    def weight(self, hit: bytes) -> int:
        """How many results a hit stands for: its matching lines, or itself."""
        if not self._counts_lines:
            return 1
        start = hit.index(b"\0") + 1
        if not self._context:
            return hit.count(b"\n", start) + 1
        return sum(1 for _ in _MATCH_LINE.finditer(hit[start:]))

    def first(self) -> list[bytes]:
        self._settle()
        return self._kept

    def _bounded(self, hit: bytes) -> bytes:
        """No more of one file than could be shown."""
        most_lines = self._most * self._width
        if len(hit) < 2 * most_lines:
            return hit
        start = hit.index(b"\0") + 1
        lines = hit[start:].split(b"\n", most_lines)
        return hit[:start] + b"\n".join(lines[:most_lines])

    def _settle(self) -> None:
        # Stable, so that pieces of one file stay in their order. What is a name and little else sorts as it is.
        self._kept.sort(key=_name if self._counts_lines else None)
        weight = 0
        for position, hit in enumerate(self._kept):
            weight += self.weight(hit)
            if weight >= self._most:
                del self._kept[position + 1 :]
                self._last = _name(hit) + b"\0\xff"
                break
        self._kept_weight = weight


class Hits:
    """Takes rg's output apart into hits, however it is cut into pieces; those whose name does not fit are dropped."""

    def __init__(self, mode: Mode, fit: Callable[[Sequence[bytes]], Iterable[object]] | None = None) -> None:
        self._mode = mode
        self._fit = fit
        self._rest = b""
        self._goes_on: bytes | None = None
        self.files = 0
        self.matches = 0
        self.binary = 0

    def feed(self, piece: bytes) -> list[bytes]:
        data = self._rest + piece if self._rest else piece
        if self._mode == "files_with_matches":
            *hits, self._rest = data.split(b"\0")
            hits = hits if self._fit is None else list(compress(hits, self._fit(hits)))
            self.files += len(hits)
            return [hit + b"\0" for hit in hits]
        if self._mode == "count":
            found = list(_COUNTED.finditer(data))
            self._rest = data[found[-1].end() :] if found else data
            if self._fit is not None:
                found = list(compress(found, self._fit([one[1] for one in found])))
            self.matches += sum(int(one[2]) for one in found)
            hits = [one[0][:-1] for one in found]
            self.files += len(hits)
            return hits
        return self._blocks(data, last=False)

    def end(self) -> list[bytes]:
        data, self._rest = self._rest, b""
        if self._mode == "content" and data:
            return self._blocks(data.removesuffix(b"\n") + b"\n\n", last=True)
        return []

    def _blocks(self, data: bytes, *, last: bool) -> list[bytes]:
        """Blocks end with an empty line. Lines of text have numbers before them, so none of those is empty."""
        *blocks, self._rest = data.split(b"\n\n")
        hits: list[bytes] = []
        name_so_far = b""
        for block in blocks:
            whole = name_so_far + block
            if b"\0" in block:
                hits.append(whole)
                name_so_far = b""
            elif b": binary file matches (" in block or b": WARNING: stopped searching binary file" in block:
                self.binary += 1
            else:
                name_so_far = whole + b"\n\n"  # an empty line in the name itself
        self._rest = name_so_far + self._rest
        if self._fit is not None:
            hits = list(compress(hits, self._fit(list(map(_name, hits)))))
        self.files += len(hits)
        if hits and self._goes_on is not None:
            self.files -= hits[0].startswith(self._goes_on)
            self._goes_on = None
        if len(self._rest) > _BLOCK and not last:
            hits += self._cut_long_block()
        return hits

    def _cut_long_block(self) -> list[bytes]:
        """A file with very many matches: pass on what there is of it, and go on under the same name."""
        name_end = self._rest.find(b"\0") + 1
        line_end = self._rest.rfind(b"\n")
        if not name_end or line_end <= name_end:
            return []
        name, hit = self._rest[:name_end], self._rest[:line_end]
        self._rest = name + self._rest[line_end + 1 :]
        if self._fit is not None and not any(self._fit([name[:-1]])):
            return []
        if self._goes_on != name:
            self.files += 1
            self._goes_on = name
        return [hit]


async def search(paths: Paths, query: Query, most: int, show: Callable[[list[bytes]], None]) -> Findings:
    """Search; `show` gets hits as they come, and the findings hold the first `most` in order of name."""
    import asyncio

    program = find_ripgrep(paths)

    counting = asyncio.create_task(count_held_back(program, paths, query.place)) if paths.kept else None
    try:
        try:
            findings = await _in_all_encodings(program, paths, query, most, show, pcre2=False)
        except UnsupportedByDefault:
            findings = await _in_all_encodings(program, paths, query, most, show, pcre2=True)
            findings.notes.append("Searched with PCRE2, because of look-around or backreferences; that is slower.")
        if counting is not None:
            findings.notes += held_back_note(await counting)
    finally:
        if counting is not None:
            await stop_task(counting)
    return findings


async def _in_all_encodings(
    program: str, paths: Paths, query: Query, most: int, show: Callable[[list[bytes]], None], *, pcre2: bool
) -> Findings:
    """A pattern beyond ASCII is looked for in older encodings, too. Where no file is in one, that changes nothing.

    Which files are in one takes longer to find out than the search itself. In a large tree, where that would be felt,
    it is done only if nothing was found.
    """
    from ferrule.workspace.searching.ripgrep import NOT_LOOKED_AT, beyond_ascii, find_older_files

    began = monotonic()
    findings = await _search(program, paths, query, most, show, pcre2=pcre2)
    if not beyond_ascii(query.pattern):
        return findings
    if findings.files and monotonic() - began > _SOON:
        findings.notes.append(NOT_LOOKED_AT)
        return findings
    chosen, fit = _chosen(paths, query)
    older = await find_older_files(program, paths, query.place, chosen, fit)
    if older.by_encoding and findings.complete:
        # All over again, now that it is known which files to read otherwise: what was shown so far was a glimpse.
        again = await _search(
            program, paths, query, most, lambda _: None, pcre2=pcre2, end=began + SECONDS, older=older
        )
        if again.complete:
            findings = again
        else:
            findings.notes += older.not_in_time()
    findings.notes += older.notes()
    return findings


async def stop_task(task: asyncio.Task[Any]) -> None:
    """Stop a task, and wait until what it started is gone."""
    import asyncio

    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not warn: the search itself has failed by then


def _chosen(paths: Paths, query: Query) -> tuple[list[str], Fit | None]:
    """Which files are searched: what ripgrep is told of it, and what of the rest fits."""
    chosen = select(query.globs, query.file_type)
    fit = both(not_held_back(paths, query.place), chosen.fit)
    return [*chosen.flags, *exclusions(paths, query.place)], fit


async def _search(
    program: str,
    paths: Paths,
    query: Query,
    most: int,
    show: Callable[[list[bytes]], None],
    *,
    pcre2: bool,
    end: float | None = None,
    older: OlderFiles | None = None,
) -> Findings:
    chosen, fit = _chosen(paths, query)
    how = [*_flags(query), *(("--pcre2",) if pcre2 else ())]
    runs: list[tuple[list[str], Sequence[bytes]]] = [([*how, *chosen], ())]
    if older is not None:
        apart = older.names
        fit = both(fit, lambda names: [name not in apart for name in names])
        runs += [([*how, f"--encoding={label}"], names) for label, names in older.by_encoding.items()]
    kept = FirstInOrder(most, query)
    findings = Findings()
    binary = matches = 0
    skipped = FilesNotRead()
    end = monotonic() + SECONDS if end is None else end
    for flags, names in runs:
        hits = Hits(query.mode, None if names else fit)
        async with ripgrep(program, query.place, flags, query.pattern, names=names) as running:
            try:
                async for piece in until(running.output(), end - monotonic()):
                    if new := hits.feed(piece):
                        kept.add(new)
                        show(new)
            except TimeoutError:
                findings.complete = False
            else:
                code = await running.ended()
                if code not in (0, 1):
                    skipped.add(understand(running.complaints, query.pattern, with_pcre2=pcre2))
                    if code != 2:
                        raise ToolError(phrase("The search was cut short: ripgrep ended with code {code}.", code=code))
        if new := hits.end():
            kept.add(new)
            show(new)
        findings.files += hits.files
        matches += hits.matches
        binary += hits.binary
    findings.matches = matches if query.mode == "count" else kept.matches
    findings.hits = kept.first()
    findings.notes += skipped.notes()
    if binary:
        files = "1 binary file" if binary == 1 else f"{binary:,} binary files"
        findings.notes.append(f"{files} with a match {'was' if binary == 1 else 'were'} skipped.")
    if not findings.complete:
        findings.notes.append(f"The search was stopped after {SECONDS:g} s; there may be more. Narrow it.")
    return findings


async def count_searched(paths: Paths, query: Query) -> int | None:
    """How many files a search looks into; None where they cannot be counted in its time."""
    program = find_ripgrep(paths)
    chosen, fit = _chosen(paths, query)
    count, rest = 0, b""
    async with ripgrep(program, query.place, ("--files", *chosen), None) as running:
        try:
            async for piece in until(running.output(), SECONDS):
                *names, rest = (rest + piece).split(b"\0")
                count += len(names) if fit is None else sum(map(bool, fit(names)))
        except TimeoutError:
            return None
        return count if await running.ended() in (0, 1, 2) else None


def _flags(query: Query) -> list[str]:
    flags: list[str] = []
    if query.mode == "content":
        flags += ["--heading", "--with-filename", "--line-number", "--column"]
        flags += [f"--max-columns={_LONGEST_LINE}", "--max-columns-preview"]
        if query.before:
            flags.append(f"--before-context={query.before}")
        if query.after:
            flags.append(f"--after-context={query.after}")
    elif query.mode == "count":
        flags += ["--count", "--with-filename"]
    else:
        flags.append("--files-with-matches")
    if query.ignore_case:
        flags.append("--ignore-case")
    if query.multiline:
        flags += ["--multiline", "--multiline-dotall"]
    if query.crlf:
        flags.append("--crlf")
    return flags


async def until(pieces: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """The same pieces, but `TimeoutError` once the time is up."""
    import asyncio

    end = monotonic() + seconds
    while True:
        if (left := end - monotonic()) <= 0:
            raise TimeoutError
        async with asyncio.timeout(left):
            try:
                piece = await anext(pieces)
            except StopAsyncIteration:
                return
        yield piece


def _name(hit: bytes) -> bytes:
    return hit[: hit.index(b"\0")]


# Reads the hits of a content search: the lines of one file, each cut to a length that can be shown.


LONGEST = 500
"""Characters of one line that are shown."""
_BEFORE_MATCH = 150
_MOST_CHARACTERS = 90_000
_LARGEST_TOLD, _MOST_TOLD = 256_000, 50
_LINE = re.compile(rb"(?P<number>[0-9]+)(?::(?P<column>[0-9]+):|-)(?P<text>.*)", re.DOTALL)
_OMITTED = re.compile(rb" \[\.\.\. (?:omitted end of long line|[0-9]+ more match(?:es)?)\]$")


class Line(TypedDict):
    """A line of a file; `match` is false for one that is only shown around a match."""

    line: int
    text: str
    match: bool


class FileMatches(TypedDict):
    """What a search says of a file: its matching lines, or how many there are; a null line is a gap between groups."""

    path: str
    count: int | None
    lines: list[Line | None]


class Names:
    """How files that a search names are shown: relative to the workspace where they lie in it."""

    def __init__(self, paths: Paths, place: Place) -> None:
        first = place.root == paths.roots[0]
        self._before = "" if first else f"{place.root.path}/"
        self._paths, self._root = paths, place.root
        self._told: dict[bytes, str] = {}

    def show(self, name: bytes) -> str:
        return self._before + decoded(name.removeprefix(b"./"))

    def of(self, hit: bytes) -> str:
        return self.show(hit[: hit.index(b"\0")])

    def encoding_of(self, hit: bytes) -> str:
        """What the lines of a hit are written in. ripgrep gives the bytes of files in old encodings as they are."""
        name, _, lines = hit.partition(b"\0")
        try:
            lines.decode()
        except UnicodeDecodeError:
            if name not in self._told:
                self._told[name] = self._look(name) if len(self._told) < _MOST_TOLD else "utf-8"
            return self._told[name]
        return "utf-8"

    def _look(self, name: bytes) -> str:
        from ferrule.workspace.texts.text import decode  # few searches need it

        shown = decoded(name.removeprefix(b"./"))
        try:
            data = self._paths.read(Place(self._root, self._root.path / shown, shown), _LARGEST_TOLD + 1)
        except (OSError, PathError):
            return "utf-8"
        text = decode(data) if len(data) <= _LARGEST_TOLD else None
        return "utf-8" if text is None else text.encoding


def lines_of(hit: bytes, encoding: str = "utf-8") -> list[Line | None]:
    """The lines of one hit; None where lines between two groups are left out."""
    lines: list[Line | None] = []
    for raw in hit[hit.index(b"\0") + 1 :].split(b"\n"):
        found = _LINE.match(raw)
        if found is None:
            if raw == b"--":
                lines.append(None)
            continue
        column = found["column"]
        lines.append(
            {
                "line": int(found["number"]),
                "text": _cut(found["text"].removesuffix(b"\r"), int(column) - 1 if column else 0, encoding),
                "match": column is not None,
            }
        )
    return lines


def file_matches(hits: list[bytes], mode: Mode, names: Names, most: int) -> tuple[list[FileMatches], int, bool]:
    """The hits as data, how many results that is, and whether the text grew too long for more."""
    files: list[FileMatches] = []
    shown = characters = 0
    for hit in hits:
        path, lines, count, results = names.of(hit), list[Line | None](), None, 1
        if mode == "content":
            lines, results = first_matches(lines_of(hit, names.encoding_of(hit)), most - shown), 0
            for line in filter(None, lines):
                characters += len(line["text"]) + len(path) + 10
                results += line["match"]
        elif mode == "count":
            count = int(hit.rpartition(b"\0")[2])
        characters += len(path)
        if characters > _MOST_CHARACTERS:
            return files, shown, True
        if files and files[-1]["path"] == path:
            files[-1]["lines"] += lines
        else:
            files.append({"path": path, "count": count, "lines": lines})
        shown += results
        if shown >= most:
            break
    return files, shown, False


def first_matches(lines: list[Line | None], most: int) -> list[Line | None]:
    """The lines up to so many matching ones, with what stands around them."""
    seen = 0
    for position, line in enumerate(lines):
        if line is not None and line["match"]:
            seen += 1
            if seen > most:
                kept = lines[:position]
                while kept and (kept[-1] is None or not kept[-1]["match"]):
                    kept.pop()
                return kept
    return lines


def left_out(shown: int, total: int, noun: str, filters: str, *, can_raise: bool) -> list[str]:
    """How many results are not shown, and how to see them; `filters` are parameters that narrow a search."""
    if shown >= total:
        return []
    more = ", or raise `head_limit`" if can_raise else ""
    return [f"{total - shown:,} of {total:,} {noun} left out. Narrow with `path`, {filters}{more}."]


def wider(query: Query, pattern: str, path: str, ignore_case: str, filters: Iterable[str]) -> list[str]:
    """What to try where nothing was found: the words for ignoring case, a wider path, or less of the filters given."""
    ways: list[str] = []
    if not query.ignore_case and pattern.lower() != pattern.upper():
        ways.append(ignore_case)
    if path != ".":
        ways.append("search a wider `path`")
    ways += [f"leave out `{one}`" for one in islice(filters, 1)]
    return [f"Possible next steps: {'; '.join(ways)}."] if ways else []


def in_words(path: str, lines: Iterable[Line | None], *, numbered: bool) -> Iterator[str]:
    """`path:12:text` for a match, `path-13-text` around it, as grep writes them."""
    name = one_line(path)
    for line in lines:
        if line is None:
            yield "--"
            continue
        mark = ":" if line["match"] else "-"
        number = f"{line['line']}{mark}" if numbered else ""
        yield f"{name}{mark}{number}{line['text']}"


def _cut(text: bytes, at: int, encoding: str) -> str:
    """The part of a long line around its match, and how much there was."""
    if len(text) <= LONGEST:
        return text.decode(encoding, "replace")
    whole = text.decode(encoding, "replace")
    if len(whole) <= LONGEST:
        return whole
    said = f"{len(whole):,}"
    if omitted := _OMITTED.search(text):
        text = text[: omitted.start()]
        whole = text.decode(encoding, "replace")
        said = f"more than {len(whole):,}"
    at = min(len(text[:at].decode(encoding, "replace")), max(0, len(whole) - LONGEST + _BEFORE_MATCH))
    start = max(0, at - _BEFORE_MATCH)
    piece = whole[start : start + LONGEST]
    before, after = "…" if start else "", "…" if start + LONGEST < len(whole) or omitted else ""
    return f"{before}{piece}{after} [line cut: {LONGEST} of {said} characters]"
