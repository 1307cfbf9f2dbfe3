"""Why an edit cannot be made, in words that let the next try succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.workspace.problems import PathProblem

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN_LINES = 20


class EditProblem(PathProblem):
    """An edit that was not made. `code` is a stable word: `identical`, `empty`, `nul`, `missing`, `several`, `misfit`,
    `notebook`.
    """


def identical() -> EditProblem:
    return EditProblem(
        "identical",
        "The old and the new text are the same, so there is nothing to change.",
        kind=ErrorKind.VALIDATION,
        suggestion="Give the text as it should become as the new text.",
    )


def empty() -> EditProblem:
    return EditProblem(
        "empty",
        "The old text is empty, so there is no place to change.",
        kind=ErrorKind.VALIDATION,
        suggestion="Give the text to find, or use Write to make the whole file.",
    )


def nul() -> EditProblem:
    return EditProblem(
        "nul",
        "The new text holds a NUL character, and text files have none. Nothing was changed.",
        kind=ErrorKind.VALIDATION,
        suggestion="Write it as an escape of the file's language, such as `\\0` or `\\x00`.",
    )


def several(lines: Sequence[int], rung: str, *, every: bool = False) -> EditProblem:
    """More than one place fits; `lines` are the numbers of their first lines. `every`: `replace_all` takes them all."""
    how = f", differences in {rung} aside"
    if rung == "exact":
        how = "" if every else ", overlapping itself"
    numbers = list(dict.fromkeys(lines))
    shown = ", ".join(map(str, numbers[:_SHOWN_LINES]))
    more = f" and {len(numbers) - _SHOWN_LINES:,} more" if len(numbers) > _SHOWN_LINES else ""
    offer = ", or set `replace_all` to change every one" if every else ""
    return EditProblem(
        "several",
        f"The old text is found {len(lines):,} times{how}: on line{'s' if len(numbers) > 1 else ''} {shown}{more}.",
        suggestion=f"Add lines before or after it until it is found once{offer}.",
        details={"count": len(lines), "lines": numbers[:_SHOWN_LINES]},
    )


def misfit(line: int, reason: str, shown: str, suggestion: str) -> EditProblem:
    """One place fits, and yet what should stand there is not certain."""
    return EditProblem(
        "misfit",
        f"The old text fits on line {line:,}, but {reason}. Nothing was changed.\n\n{shown}",
        suggestion=suggestion,
        details={"line": line},
    )


def in_edit(number: int, count: int, problem: EditProblem) -> EditProblem:
    """The same problem, told as that of one edit among several."""
    return EditProblem(
        problem.code,
        f"Edit {number} of {count} failed, so none was made. {problem.message}",
        kind=problem.kind,
        suggestion=problem.suggestion,
        details={**(problem.details or {}), "edit": number},
    )
