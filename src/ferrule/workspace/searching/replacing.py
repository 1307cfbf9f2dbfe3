"""Replaces matches in many files: each byte outside a match stays, and all files change or none does."""

from __future__ import annotations

import codecs
import os
import re
import stat
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NotRequired, TypedDict

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import joined, phrase
from ferrule.core.result import Output, noted
from ferrule.workspace.files import MOST_EDITABLE
from ferrule.workspace.names import about_names, amount, decoded, one_line
from ferrule.workspace.paths import Place
from ferrule.workspace.problems import PathError
from ferrule.workspace.searching.search import FileMatches, left_out
from ferrule.workspace.snapshots.changes import Write
from ferrule.workspace.texts.diff import diff_file
from ferrule.workspace.texts.text import decode, newline_of
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ferrule.core.context import Session
    from ferrule.workspace.files import Files
    from ferrule.workspace.paths import Paths
    from ferrule.workspace.searching.replacement import FileOccurrences
    from ferrule.workspace.snapshots.changes import Group, Origin


MOST_BYTES = 100_000_000
"""What the changed files of one batch may hold together, before and after; so much can be kept for undo."""
_BARE_NEWLINE = re.compile(rb"(?<!\r)\n")
_OTHER_MARKS = ((codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16"))


@dataclass(slots=True, frozen=True)
class ReplacedFile:
    """A file as it is, and as it would be."""

    place: Place
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)
    count: int


@dataclass(slots=True)
class Replacements:
    """What a replacement would change; `skipped` are files with a match that stay, with the reason."""

    files: list[ReplacedFile] = field(default_factory=list[ReplacedFile])
    skipped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def count(self) -> int:
        return sum(file.count for file in self.files)


class Unfit(Exception):  # noqa: N818 - a reason, not an error
    """Why a file stays as it is."""


def prepare(
    paths: Paths,
    start: Place,
    found: Iterable[FileOccurrences],
    *,
    as_written: bool,
    before_each: Callable[[int], None],
) -> Replacements:
    r"""Read the files with matches and work out what they would become; nothing is written.

    A line break in what comes in is written as the lines of the file end, unless the pattern is about line endings
    itself (`as_written`).
    """
    result = Replacements()
    root = start.root
    size = 0
    for position, file in enumerate(found):
        before_each(position)
        path = root.path / os.fsdecode(file.name.removeprefix(b"./"))
        place = Place(root, path, decoded(os.fsencode(paths.show(path))))
        try:
            if why := paths.kept.why_left_alone(path, start.path):
                raise Unfit(why)
            before = _read(paths, place, file)
            after, count = replace_in(before, file, place.name, as_written=as_written)
        except Unfit as unfit:
            result.skipped.append((place.name, str(unfit)))
            continue
        if after == before:
            continue
        if len(after) > MOST_EDITABLE:
            result.skipped.append((place.name, f"would be over {MOST_EDITABLE:,} bytes"))
            continue
        size += max(len(before), len(after))
        if size > MOST_BYTES:
            raise ToolError(
                phrase(
                    "The files to change have more than {most_bytes} bytes together. Nothing was changed.",
                    most_bytes=f"{MOST_BYTES:,}",
                ),
                suggestion=phrase("Narrow it with `path`, `file_glob` or `exclude`, and work in parts."),
            )
        result.files.append(ReplacedFile(place, before, after, count))
    return result


def _read(paths: Paths, place: Place, file: FileOccurrences) -> bytes:
    try:
        status = paths.stat(place)
        if status is None or not stat.S_ISREG(status.st_mode):
            raise Unfit("gone meanwhile")
        if status.st_size > MOST_EDITABLE:
            raise Unfit(f"over {MOST_EDITABLE:,} bytes")
        if status.st_nlink > 1:
            raise Unfit("other hard links to it")
        data = paths.read(place)
    except PathError as problem:
        raise Unfit("outside the workspace" if problem.code == "outside" else "cannot be read") from None
    except OSError as error:
        raise Unfit((error.strerror or "cannot be read").lower()) from None
    for mark, encoding in _OTHER_MARKS:
        if data.startswith(mark):
            raise Unfit(encoding)
    if file.binary or b"\0" in data:
        raise Unfit("binary")
    try:
        data.decode()
    except UnicodeDecodeError:
        # The bytes of a character may look like others in such a file, so that a match may be none.
        raise Unfit("not UTF-8") from None
    return data


def replace_in(data: bytes, file: FileOccurrences, name: str, *, as_written: bool) -> tuple[bytes, int]:
    """The bytes of a file with its matches replaced, and how many there were."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    body = data[len(mark) :]
    if not all(lines.are_in(body) for lines in file.lines):
        raise _changed_meanwhile(name)
    newline = b"\n"
    if not as_written and any(b"\n" in one.new for one in file.matches):
        newline = {"\r\n": b"\r\n", "\r": b"\r"}.get(newline_of(body.decode()), b"\n")
    pieces = [mark]
    done = count = 0
    for one in file.matches:
        if one.start == one.end and not one.new:
            continue
        if one.start < done:
            raise _changed_meanwhile(name)
        line = partial(body.count, b"\n", 0, one.start)
        if one.start == one.end:
            raise ToolError(
                phrase(
                    "The pattern matches without taking any text in line {n} of `{name}`; what would be put "
                    "there is not certain. Nothing was changed.",
                    n=f"{line() + 1:,}",
                    name=name,
                ),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase(
                    "Let it match at least one character (`+` for `*`), and keep what should stay with `$0`: to "
                    "put `# ` before lines, replace `^.` with `# $0`."
                ),
                details={"code": "empty_match"},
            )
        if not as_written and any(at and body[at - 1 : at + 1] == b"\r\n" for at in (one.start, one.end)):
            raise ToolError(
                phrase(
                    "The pattern matches half of a `\\r\\n` line ending in line {n} of `{name}`. Nothing was changed.",
                    n=f"{line() + 1:,}",
                    name=name,
                ),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Match the whole ending: `\\r?\\n` for `\\n`, which fits either kind of file."),
                details={"code": "line_ending"},
            )
        new = one.new if newline == b"\n" else _BARE_NEWLINE.sub(newline, one.new)
        count += new != body[one.start : one.end]
        pieces += (body[done : one.start], new)
        done = one.end
    return b"".join((*pieces, body[done:])), count


def apply(
    files: Files, changes: list[ReplacedFile], origin: Origin, before_each: Callable[[int], None]
) -> Group | None:
    """Write all of them or none, to be undone as one.

    What the session knew before it knows after: a file that it had read as it was counts as read as it is now, any
    other still has to be read before Edit.
    """
    known = [file for file in changes if files.tracker.knows(file.place, file.before)]
    steps = [Write(file.place, file.after, expect=digest(file.before)) for file in changes]
    try:
        group = files.history.apply(steps, origin, before_each=before_each)
    except PathError as problem:
        raise PathError(
            problem.code,
            joined(
                " ",
                [
                    problem.message,
                    phrase("No other file was changed either: a replacement is made completely or not at all."),
                ],
            ),
            kind=problem.kind,
            suggestion=phrase("Preview it again, and leave that file out with `exclude` if need be."),
        ) from None
    for file in known:
        files.tracker.saw(file.place, file.after)
    return group


def _changed_meanwhile(name: str) -> PathError:
    return PathError(
        "changed",
        phrase("`{name}` changed while it was searched. Nothing was changed here.", name=name),
        suggestion=phrase("Try again. If another program keeps changing it, leave it out with `exclude`."),
    )


# What a session was shown of a replacement before it made it: what a preview showed is what happens.


_MOST = 8
_MOST_NAMED = 10


class Previews:
    """The newest previews of a session, each with the content of the files it showed. Safe in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: OrderedDict[str, dict[str, str]] = OrderedDict()

    def remember(self, asked: str, replacements: Replacements) -> None:
        with self._lock:
            self._shown[asked] = _contents(replacements)
            self._shown.move_to_end(asked)
            while len(self._shown) > _MOST:
                self._shown.popitem(last=False)

    def forget(self, asked: str) -> None:
        """What was shown has been done; the same call again is another."""
        with self._lock:
            self._shown.pop(asked, None)

    def require_unchanged(self, asked: str, replacements: Replacements) -> None:
        """Refuse where files differ from what was shown; what was never shown is not held to anything."""
        with self._lock:
            shown = self._shown.get(asked)
        if shown is None:
            return
        now = _contents(replacements)
        changed = sorted(name for name in {*shown, *now} if shown.get(name) != now.get(name))
        if changed:
            listed = ", ".join(f"`{name}`" for name in changed[:_MOST_NAMED])
            rest = ", …" if len(changed) > _MOST_NAMED else ""
            raise PathError(
                "changed",
                phrase("1 file changed since the preview: {listed}. Nothing was replaced.", listed=listed)
                if len(changed) == 1
                else phrase(
                    "{count} files changed since the preview: {listed}. Nothing was replaced.",
                    count=f"{len(changed):,}",
                    listed=f"{listed}{rest}",
                ),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Preview it again, look at the changes, then apply it."),
            )


def previews_of(session: Session) -> Previews:
    """The previews of a session, made at first use."""
    return session.part(Previews, Previews)


def _contents(replacements: Replacements) -> dict[str, str]:
    return {file.place.name: digest(file.before) for file in replacements.files}


# What is said of a replacement: counts, a bounded diff, and which files stay as they are.


MOST = 10_000
"""Results that are ever shown."""
FILTERS = "`file_glob` or `exclude`"
_MOST_SHOWN, _MOST_KEPT = 20_000, 50_000
"""Characters of diffs for the model, and in the metadata."""
_MOST_LINES = 60
_LARGEST_COMPARED = 2_000_000
_MOST_FILES_NAMED = 20


class SkippedFile(TypedDict):
    path: str
    reason: str


class FileSearchResult(TypedDict):
    """What a search over many files found, or replaced.

    `matches` counts what was found or is replaced, also in files left out of `files`. `applied` is null for a search,
    false for a preview and where nothing was changed. `diff` is that of a preview.
    """

    pattern: str
    path: str
    files_searched: int | None
    matches: int
    applied: bool | None
    files: list[FileMatches]
    total_files: int
    skipped: list[SkippedFile]
    diff: str
    notes: NotRequired[list[str]]


@dataclass(slots=True)
class Replacing:
    """A replacement in words, before or after it was made."""

    replacements: Replacements
    matches: int
    nothing: str
    """What to say when nothing matches."""
    applied: bool
    notes: list[str] = field(default_factory=list[str])

    @property
    def summary(self) -> str:
        files = self.replacements.files
        if files:
            verb = "Replaced" if self.applied else "Would replace"
            count = self.replacements.count
            return f"{verb} {count:,} match{'' if count == 1 else 'es'} in {amount(len(files), 'file')}."
        if not self.matches:
            return self.nothing
        if self.replacements.skipped:
            return "Nothing to replace: every file with a match stays as it is."
        return "Nothing to replace: every match reads so already."

    def output(
        self, most: int, change: int | None, *, pattern: str, path: str, searched: int | None
    ) -> Output[FileSearchResult]:
        """The words for the model and the person, and the data; at most so many files are shown."""
        files, skipped = self.replacements.files, self.replacements.skipped
        if self.applied:
            body = [f"{one_line(file.place.name)}: {file.count:,}" for file in files[:most]]
            shown = len(body)
            notes = [f"{len(files) - shown:,} more were changed."] if shown < len(files) else []
        else:
            diffs, cut = _diffs(files[:most], _MOST_SHOWN, context=0)
            body, shown = [diff.rstrip("\n") for diff in diffs], len(diffs)
            notes = left_out(shown, len(files), "files", FILTERS, can_raise=not cut)
        notes += [*_skipped(skipped), *self.notes]
        notes += about_names(file.place.name for file in files[:shown])
        if files and not self.applied:
            notes.append("Nothing was changed. To make these changes, call again with `preview_only` set to false.")
        data: FileSearchResult = {
            "pattern": pattern,
            "path": path,
            "files_searched": searched,
            "matches": self.replacements.count,
            "applied": self.applied and bool(files),
            "files": [{"path": file.place.name, "count": file.count, "lines": []} for file in files[:MOST]],
            "total_files": len(files),
            "skipped": [{"path": name, "reason": why} for name, why in skipped[:MOST]],
            "diff": "" if self.applied else "\n".join(body),
        }
        kept, _ = _diffs(files, _MOST_KEPT, context=3)
        metadata = {
            "files_searched": searched,
            "matches": self.replacements.count,
            "diff": "".join(kept),
            "diff_left_out": len(files) - len(kept),
            "files": {file.place.name: file.count for file in files[:MOST]},
            "change": change,
        }
        words = "\n".join([self.summary, *body, *(f"[{note}]" for note in notes)])
        return Output(noted(data, notes), llm_content=words, display_content=self.summary, metadata=metadata)


def _diffs(files: Sequence[ReplacedFile], most: int, *, context: int) -> tuple[list[str], bool]:
    """The diffs of the first files, as many as fit, and whether some did not."""
    diffs: list[str] = []
    room = most
    for file in files:
        if max(len(file.before), len(file.after)) > _LARGEST_COMPARED:
            name = one_line(file.place.name)
            diff = f"--- a/{name}\n+++ b/{name}\n(too large for a diff: {file.count:,} to replace)\n"
        else:
            diff = diff_file(decode(file.before), decode(file.after), file.place.name, context, _MOST_LINES).text
        room -= len(diff)
        if room < 0 and diffs:
            return diffs, True
        diffs.append(diff)
    return diffs, False


def _skipped(skipped: list[tuple[str, str]]) -> list[str]:
    if not skipped:
        return []
    listed = ", ".join(f"`{one_line(name)}` ({why})" for name, why in skipped[:_MOST_FILES_NAMED])
    rest = f", and {len(skipped) - _MOST_FILES_NAMED:,} more" if len(skipped) > _MOST_FILES_NAMED else ""
    verb = "stays as it is" if len(skipped) == 1 else "stay as they are"
    return [f"{amount(len(skipped), 'file')} with a match {verb}: {listed}{rest}."]
