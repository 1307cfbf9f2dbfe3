from tests.workspace.edit_asking import problem_of

from ferrule.workspace.edits.edit_problems import EditError
from ferrule.workspace.edits.multi_edit import is_notebook, require_notebook, told_as_json

NOTEBOOK = '{"cells": [{"cell_type": "code", "source": ["x = 1\\n"]}]}'


def test_a_notebook_is_told_by_its_name_and_its_cells():
    assert is_notebook("a.ipynb", NOTEBOOK)
    assert not is_notebook("a.json", NOTEBOOK)
    assert not is_notebook("a.ipynb", "{}")


def test_a_change_must_leave_a_notebook():
    require_notebook(NOTEBOOK.replace("1", "2"))
    assert problem_of(lambda: require_notebook(NOTEBOOK.replace("1", '"a"'))).code == "notebook"


def test_a_miss_keeps_its_words_and_says_what_the_file_is():
    told = told_as_json(EditError("missing", "Not there.", details={"line": 3}))
    assert (told.code, told.message.split("\n\n")[0], (told.details or {})["line"]) == ("missing", "Not there.", 3)
    assert "the file is JSON" in told.message
