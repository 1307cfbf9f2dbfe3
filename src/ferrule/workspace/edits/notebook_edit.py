"""Edits of a notebook: Read shows its cells, but what is changed is the JSON that the file holds."""

from __future__ import annotations

from ferrule.core.phrases import joined, phrase
from ferrule.workspace.edits.edit_problems import EditProblem
from ferrule.workspace.media import notebook_cells

_AS_JSON = phrase(
    "Read shows the cells, but the file is JSON, and an edit changes that: each line of a cell "
    'is a string there, in quotes, with `\\"` for a quote and `\\n` at its end.'
)


def is_notebook(name: str, text: str) -> bool:
    return name.endswith(".ipynb") and notebook_cells(text) is not None


def told_as_json(problem: EditProblem) -> EditProblem:
    """The same problem, with a word on what the text of a notebook is."""
    return EditProblem(
        problem.code,
        joined("\n\n", [problem.message, _AS_JSON]),
        kind=problem.kind,
        suggestion=problem.suggestion,
        details=problem.details,
    )


def require_notebook(after: str) -> None:
    """Refuse a change after which the file would be no notebook any more."""
    if notebook_cells(after) is None:
        raise EditProblem(
            "notebook",
            joined(
                "\n\n",
                [phrase("After this change the file would not be a notebook any more. Nothing was changed."), _AS_JSON],
            ),
            suggestion=phrase("Give the new text as it must stand in the JSON."),
        )
