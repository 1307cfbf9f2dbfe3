"""Reads the hits of a content search: the lines of one file, each cut to a length that can be shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypedDict

from ferrule.workspace.names import decoded, one_line
from ferrule.workspace.paths import Place
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ferrule.workspace.paths import Paths
    from ferrule.workspace.searching.search import Mode

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
        except (OSError, PathProblem):
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
