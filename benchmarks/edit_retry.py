"""Tries again with nothing but what a refusal said, as a model would."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.workspace.problems import PathError

if TYPE_CHECKING:
    from collections.abc import Callable

    from edit_damage import Case
    from ferrule.workspace.edits.edit_problems import EditError

_ROW = re.compile(r"(?m)^ *(\d+)\t(.*)$")
_LEGEND = re.compile(r"\((\S) is a space, (\S) a tab, (\S) a carriage return, (\S) a no-break space\)")


def retried(problem: EditError, case: Case, before: bytes, edit: Callable[[bytes, str, str], bytes]) -> str:
    """What comes of a second try, in a word or two."""
    if problem.code == "several":
        return "told the lines" if case.line in (problem.details or {})["lines"] else "several, others told"
    offered = _offered(problem.message)
    if offered is None:
        return f"{problem.code}, nothing offered"
    first, text = offered
    start, end = first, first + text.count("\n")
    whole = case.line, case.line + case.old.rstrip("\r\n").count("\n")
    if not (start <= whole[0] and whole[1] <= end):
        return f"{problem.code}, elsewhere"
    code = ""
    for ending in ("\n", ""):
        try:
            edit(before, text + ending, f"something new{ending}")
        except PathError as again:
            code = again.code
        else:
            return "applied"
    return f"{problem.code}, refused again: {code}"


def _offered(message: str) -> tuple[int, str] | None:
    rows, legend = _ROW.findall(message), _LEGEND.search(message)
    if not rows or legend is None:
        return None
    table = str.maketrans(dict(zip(legend.groups(), " \t\r\u00a0", strict=True)))
    return int(rows[0][0]), "\n".join(text.translate(table) for _, text in rows)
