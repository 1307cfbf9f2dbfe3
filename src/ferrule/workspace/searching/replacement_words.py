"""What is said of a replacement: counts, a bounded diff, and which files stay as they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from ferrule.core.result import Output
from ferrule.workspace.names import about_names, amount, one_line
from ferrule.workspace.searching.matches import FileMatches  # noqa: TC001 - read with the result's type
from ferrule.workspace.texts.diff import diff_file
from ferrule.workspace.texts.text import decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.workspace.searching.replacing import ReplacedFile, Replacements

MOST = 10_000
"""Results that are ever shown."""
_MOST_SHOWN, _MOST_KEPT = 20_000, 50_000
"""Characters of diffs for the model, and in the metadata."""
_MOST_LINES = 60
_LARGEST_COMPARED = 2_000_000
_MOST_NAMED = 20


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
    notes: list[str]


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
            notes = left_out(shown, len(files), "files", can_raise=not cut)
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
            "notes": notes,
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
        return Output(data=data, llm_content=words, display_content=self.summary, metadata=metadata)


def left_out(shown: int, total: int, noun: str, *, can_raise: bool) -> list[str]:
    """How many results are not shown, and how to see them."""
    if shown >= total:
        return []
    more = ", or raise `head_limit`" if can_raise else ""
    return [f"{total - shown:,} of {total:,} {noun} left out. Narrow with `path`, `file_glob` or `exclude`{more}."]


def _diffs(files: Sequence[ReplacedFile], most: int, *, context: int) -> tuple[list[str], bool]:
    """The diffs of the first files, as many as fit, and whether some did not."""
    diffs: list[str] = []
    room = most
    for file in files:
        diff = _diff(file, context)
        room -= len(diff)
        if room < 0 and diffs:
            return diffs, True
        diffs.append(diff)
    return diffs, False


def _diff(file: ReplacedFile, context: int) -> str:
    if max(len(file.before), len(file.after)) > _LARGEST_COMPARED:
        name = one_line(file.place.name)
        return f"--- a/{name}\n+++ b/{name}\n(too large for a diff: {file.count:,} to replace)\n"
    return diff_file(decode(file.before), decode(file.after), file.place.name, context, _MOST_LINES).text


def _skipped(skipped: list[tuple[str, str]]) -> list[str]:
    if not skipped:
        return []
    listed = ", ".join(f"`{one_line(name)}` ({why})" for name, why in skipped[:_MOST_NAMED])
    rest = f", and {len(skipped) - _MOST_NAMED:,} more" if len(skipped) > _MOST_NAMED else ""
    verb = "stays as it is" if len(skipped) == 1 else "stay as they are"
    return [f"{amount(len(skipped), 'file')} with a match {verb}: {listed}{rest}."]
