"""What is wrong with a path, for programs and for models."""

from __future__ import annotations

from inline_snapshot import snapshot

from ferrule import ErrorKind
from ferrule.workspace.problems import PathError, outside


def test_a_problem_carries_its_code_where_programs_find_it() -> None:
    problem = PathError("missing", "Not there.", details={"nearest": ["a"]})
    assert (problem.code, problem.kind) == ("missing", ErrorKind.EXECUTION)
    assert problem.details == {"code": "missing", "nearest": ["a"]}


def test_outside_is_a_matter_of_permission_and_names_the_roots() -> None:
    problem = outside("../x", "Use a path inside `/a` or `/b`.")
    assert (problem.code, problem.kind) == ("outside", ErrorKind.PERMISSION)
    assert (problem.message, problem.suggestion) == snapshot(
        ("`../x` is outside the workspace.", "Use a path inside `/a` or `/b`.")
    )
