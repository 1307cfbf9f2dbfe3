from ferrule.core.errors import ErrorKind
from ferrule.workspace.edits.edit_problems import EditError, in_edit, several


def test_a_problem_carries_its_code_and_kind():
    problem = EditError("missing", "Nowhere.", kind=ErrorKind.NOT_FOUND)
    assert problem.code == "missing"
    assert problem.details == {"code": "missing"}


def test_one_among_several_keeps_what_it_was():
    problem = in_edit(2, 3, several([4, 9], "exact", every=True))
    assert problem.code == "several"
    assert problem.details == {"code": "several", "count": 2, "lines": [4, 9], "edit": 2}
