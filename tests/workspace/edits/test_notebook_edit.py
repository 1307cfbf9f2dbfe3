from tests.workspace.edit_asking import problem_of

from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.edits.multi_edit import edited_bytes
from ferrule.workspace.texts.text import decode

NOTEBOOK = '{"cells": [{"cell_type": "code", "source": ["x = 1\\n"]}]}'


def edited(old: str, new: str, name: str = "a.ipynb", text: str = NOTEBOOK) -> bytes:
    data = text.encode()
    decoded = decode(data)
    assert decoded is not None
    return edited_bytes(name, data, decoded, lambda whole: find_edit(whole, old, new))[1]


def test_a_change_must_leave_a_notebook():
    assert edited("1", "2") == NOTEBOOK.replace("1", "2").encode()
    assert problem_of(lambda: edited("1", '"a"')).code == "notebook"


def test_a_notebook_is_told_by_its_name_and_its_cells():
    assert edited("1", '"a"', name="a.json") == NOTEBOOK.replace("1", '"a"').encode()
    assert edited("{}", "[", text="{}") == b"["


def test_a_miss_keeps_its_words_and_says_what_the_file_is():
    told = problem_of(lambda: edited("code: x = 3", "x = 4"))
    assert (told.code, (told.details or {})["line"]) == ("missing", 1)
    assert told.message.startswith("The old text is not in the file.")
    assert "the file is JSON" in told.message
