from ferrule.core.errors import ErrorKind
from ferrule.workspace.edits.edit_problems import EditError, several


def test_a_problem_carries_its_code_and_kind():
    problem = EditError("missing", "Nowhere.", kind=ErrorKind.NOT_FOUND)
    assert problem.code == "missing"
    assert problem.details == {"code": "missing"}


def test_one_among_several_keeps_what_it_was():
    problem = several([4, 9], "exact", every=True).saying("Edit 2 failed.", edit=2)
    assert problem.code == "several"
    assert problem.details == {"code": "several", "count": 2, "lines": [4, 9], "edit": 2}
