"""How the tests ask for an edit."""

from collections.abc import Callable

from ferrule.workspace.edits.edit_problems import EditError
from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.texts.text import apply_edits


def edited(text: str, old: str, new: str, *, replace_all: bool = False) -> tuple[str, str]:
    """The rung, or the code of the problem, and the text that results."""
    try:
        found = find_edit(text, old, new, replace_all=replace_all)
    except EditError as problem:
        return problem.code, text
    return str(found.rung), apply_edits(text, found.spans)


def problem_of(call: Callable[[], object]) -> EditError:
    """The problem that a call raises."""
    try:
        call()
    except EditError as problem:
        return problem
    raise AssertionError("there was none")


def words(text: str, old: str, new: str, *, replace_all: bool = False) -> str:
    """What a model reads when an edit fails."""
    try:
        find_edit(text, old, new, replace_all=replace_all)
    except EditError as problem:
        return f"[{problem.code}, {problem.kind}] {problem.message}\nSuggestion: {problem.suggestion}"
    raise AssertionError("the edit was found")
