"""MultiEdit, through the real pipeline on a real folder."""
# ruff: noqa: E501 - words for a model stand as they are

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.workspace.desk import Desk, refused

from ferrule.builtin.edit import multi_edit


def test_what_a_model_reads_of_it() -> None:
    assert multi_edit.description.text == snapshot("""\
Make several changes in one file, all or none.

Use this instead of several Edits of the same file: either every change is made, or the file stays as it is.

IMPORTANT:
- The file must have been read first, and be unchanged since.
- Each edit works on what the edits before it made.

Examples:
- make two changes in a.py: {"file_path": "a.py", "edits": [{"old_string": "x = 1", "new_string": "x = 2"}, {"old_string": "y = 1", "new_string": "y = 2"}]}\
""")
    assert multi_edit.input_schema == snapshot(
        {
            "$defs": {
                "OneEdit": {
                    "additionalProperties": False,
                    "description": "One of the changes.",
                    "properties": {
                        "old_string": {
                            "description": "The text to replace, exactly as it appears after the edits before this one.",
                            "title": "Old String",
                            "type": "string",
                        },
                        "new_string": {
                            "description": "The text to put in its place, literally: later lines need their whole indentation.",
                            "title": "New String",
                            "type": "string",
                        },
                        "replace_all": {
                            "default": False,
                            "description": "Replace every occurrence instead of the only one.",
                            "title": "Replace All",
                            "type": "boolean",
                        },
                    },
                    "required": ["old_string", "new_string"],
                    "title": "OneEdit",
                    "type": "object",
                }
            },
            "additionalProperties": False,
            "properties": {
                "file_path": {
                    "description": "The file, relative to the working directory or absolute.",
                    "type": "string",
                },
                "edits": {
                    "description": "The changes, made one after the other.",
                    "items": {"$ref": "#/$defs/OneEdit"},
                    "minItems": 1,
                    "type": "array",
                },
            },
            "required": ["file_path", "edits"],
            "type": "object",
        }
    )


def test_it_makes_all_changes_as_one(desk: Desk) -> None:
    desk.seen("f.txt", "one\r\ntwo\r\nthree\r\n")
    result = desk.multi_edit("f.txt", ("one", "1"), ("three", "3"), ("1\ntwo", "1\n2"))
    assert result.llm_content == snapshot(
        "Edited `f.txt` in 3 places (+3 -3 lines). Edit 3: Found with other line endings or trailing space; the file's were kept."
    )
    assert result.data == snapshot(
        {
            "file_path": "f.txt",
            "replacements": 3,
            "added": 3,
            "removed": 3,
            "matched_by": ["exact", "exact", "line endings or trailing space"],
            "notes": ["Edit 3: Found with other line endings or trailing space; the file's were kept."],
        }
    )
    assert result.metadata["diff"] == snapshot("""\
--- a/f.txt
+++ b/f.txt
@@ -1,3 +1,3 @@
-one
-two
-three
+1
+2
+3
""")
    assert desk.bytes_of("f.txt") == b"1\r\n2\r\n3\r\n"
    assert len(desk.files.history.recent()) == 1
    desk.files.history.undo()
    assert desk.bytes_of("f.txt") == b"one\r\ntwo\r\nthree\r\n"


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_one_that_fails_undoes_none_because_none_was_made(desk: Desk, wrong: int) -> None:
    path = desk.seen("f.txt", "one\ntwo\nthree\n")
    inode = path.stat().st_ino
    edits = [("one", "1"), ("two", "2"), ("three", "3")]
    edits[wrong] = ("absent", "x")
    error = refused(desk.multi_edit("f.txt", *edits), "missing").error
    assert error is not None
    assert error.details is not None
    assert error.details["edit"] == wrong + 1
    assert (desk.bytes_of("f.txt"), path.stat().st_ino) == (b"one\ntwo\nthree\n", inode)
    assert desk.files.history.recent() == []


def test_errors_say_which_edit_it_was(desk: Desk) -> None:
    desk.seen("f.txt", "one\ntwo\ntwo\n")
    assert desk.multi_edit("f.txt", ("one", "1"), ("two", "2")).llm_content == snapshot("""\
Error (validation_error): Edit 2 of 2 failed, so no edit was made. The old text is found 2 times: on lines 2, 3.

Suggestion: Add lines before or after it until it is found once, or set `replace_all` to change every one.\
""")
    assert desk.multi_edit("f.txt", ("one", "1"), ("one", "2")).llm_content == snapshot("""\
Error (validation_error): Edit 2 of 2 failed, so no edit was made. The old text is not in the file, nor anything like it.

Suggestion: Read the file again and copy the text to change from it.\
""")
    assert desk.multi_edit("f.txt", ("one", "one")).llm_content == snapshot("""\
Error (validation_error): Edit 1 of 1 failed, so no edit was made. The old and the new text are the same, so there is nothing to change.

Suggestion: Give the changed text as the new text.\
""")
    assert not desk.call("MultiEdit", "f.txt", edits=[]).success


def test_a_character_that_cannot_be_held_stops_them_all(desk: Desk) -> None:
    before = "これは日本語のテキストです。\n二行目の文章もあります。\n".encode("shift_jis")
    desk.seen("f.txt", before)
    refused(desk.multi_edit("f.txt", ("二行目", "三行目"), ("日本語", "\N{GRINNING FACE}")), "unencodable")
    assert desk.bytes_of("f.txt") == before


def test_each_edit_is_made_to_the_letter(desk: Desk) -> None:
    desk.seen("f.py", "def a():\n    foo()\n    bar()\n")
    result = desk.multi_edit("f.py", ("foo()", "foo()\n    baz()"), ("bar()", "bar()\nqux()"))
    assert result.llm_content == snapshot(
        "Edited `f.py` in 2 places (+2 -0 lines). Edit 2: Replaced literally: later lines of the new text do not start with the indentation of line 4. Check that it was not left out."
    )
    assert desk.bytes_of("f.py") == b"def a():\n    foo()\n    baz()\n    bar()\nqux()\n"


def test_a_damaged_copy_is_noted_with_the_number_of_its_edit(desk: Desk) -> None:
    desk.seen("f.py", 'def f():\n    x = "1"\n    return x\n')
    result = desk.multi_edit("f.py", ("return x", "return y"), ("x = “1”", "y = “1”"))
    assert result.llm_content == snapshot(
        "Edited `f.py` in 2 places (+2 -2 lines). Edit 2: Found with other quotes, dashes or spaces; the file's were kept."
    )
    assert desk.bytes_of("f.py") == b'def f():\n    y = "1"\n    return y\n'


@given(places=st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True), crlf=st.booleans())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_does_what_the_edits_one_after_the_other_do(desk: Desk, places: list[int], crlf: bool) -> None:
    ending = "\r\n" if crlf else "\n"
    text = "".join(f"line {number} é{ending}" for number in range(10))
    desk.seen("f.txt", text)
    edits = [(f"line {place} é", f"done {place}") for place in places]
    assert desk.multi_edit("f.txt", *edits).success
    for old, new in edits:
        text = text.replace(old, new)
    assert desk.bytes_of("f.txt").decode() == text
