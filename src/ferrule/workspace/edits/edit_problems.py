"""Why an edit cannot be made, in words that let the next try succeed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import joined, phrase
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# What an edit comes to: pieces of the text and what takes their place.


class Rung(StrEnum):
    """How far the text in the file may differ from the text that was asked for, from not at all downwards."""

    EXACT = "exact"
    LINE_ENDS = "line endings or trailing space"
    INDENTATION = "indentation"
    TYPOGRAPHY = "typography"
    LINE_NUMBERS = "line numbers"
    ESCAPED = "escaped"


@dataclass(slots=True, frozen=True)
class EditSpan:
    """Characters `start` to `end` give way to `replacement`."""

    start: int
    end: int
    replacement: str


@dataclass(slots=True, frozen=True)
class FoundText:
    """Where an edit goes, which rung of the ladder found it, and what to tell about that (empty when exact)."""

    spans: list[EditSpan]
    rung: Rung
    note: str = ""


def apply_spans(text: str, spans: Iterable[EditSpan]) -> str:
    """The text with every span replaced; spans are in order and do not overlap."""
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += (text[at : span.start], span.replacement)
        at = span.end
    parts.append(text[at:])
    return "".join(parts)


_SHOWN_LINES = 20
_DIFFERENCES = {
    str(one): one
    for one in (
        phrase("line endings or trailing space"),
        phrase("indentation"),
        phrase("typography"),
        phrase("line numbers"),
    )
}
"""What two texts may differ in and yet be found, by the name of the rung."""


class EditProblem(PathProblem):
    """An edit that was not made. `code` is a stable word: `identical`, `empty`, `nul`, `missing`, `several`, `misfit`,
    `notebook`.
    """


def identical() -> EditProblem:
    return EditProblem(
        "identical",
        phrase("The old and the new text are the same, so there is nothing to change."),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Give the text as it should become as the new text."),
    )


def empty() -> EditProblem:
    return EditProblem(
        "empty",
        phrase("The old text is empty, so there is no place to change."),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Give the text to find, or use Write to make the whole file."),
    )


def nul() -> EditProblem:
    return EditProblem(
        "nul",
        phrase("The new text holds a NUL character, and text files have none. Nothing was changed."),
        kind=ErrorKind.VALIDATION,
        suggestion=phrase("Write it as an escape of the file's language, such as `\\0` or `\\x00`."),
    )


def several(lines: Sequence[int], rung: str, *, every: bool = False) -> EditProblem:
    """More than one place fits; `lines` are the numbers of their first lines. `every`: `replace_all` takes them all."""
    how = phrase(", differences in {what} aside", what=_DIFFERENCES.get(rung, rung))
    if rung == "exact":
        how = "" if every else phrase(", overlapping itself")
    numbers = list(dict.fromkeys(lines))
    count, shown = f"{len(lines):,}", ", ".join(map(str, numbers[:_SHOWN_LINES]))
    if len(numbers) > _SHOWN_LINES:
        shown = phrase("{lines} and {count} more", lines=shown, count=f"{len(numbers) - _SHOWN_LINES:,}")
    if len(numbers) > 1:
        message = phrase(
            "The old text is found {count} times{how}: on lines {lines}.", count=count, how=how, lines=shown
        )
    else:
        message = phrase("The old text is found {count} times{how}: on line {line}.", count=count, how=how, line=shown)
    if every:
        way = phrase("Add lines before or after it until it is found once, or set `replace_all` to change every one.")
    else:
        way = phrase("Add lines before or after it until it is found once.")
    return EditProblem(
        "several",
        message,
        suggestion=way,
        details={"count": len(lines), "lines": numbers[:_SHOWN_LINES]},
    )


def misfit(line: int, reason: str, shown: str, suggestion: str) -> EditProblem:
    """One place fits, and yet what should stand there is not certain."""
    return EditProblem(
        "misfit",
        phrase(
            "The old text fits on line {line}, but {reason}. Nothing was changed.\n\n{shown}",
            line=f"{line:,}",
            reason=reason,
            shown=shown,
        ),
        suggestion=suggestion,
        details={"line": line},
    )


def in_edit(number: int, count: int, problem: EditProblem) -> EditProblem:
    """The same problem, told as that of one edit among several."""
    return EditProblem(
        problem.code,
        joined(" ", [phrase("Edit {n} of {count} failed, so none was made.", n=number, count=count), problem.message]),
        kind=problem.kind,
        suggestion=problem.suggestion,
        details={**(problem.details or {}), "edit": number},
    )
