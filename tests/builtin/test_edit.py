"""Edit, through the real pipeline on a real folder."""
# ruff: noqa: E501 - words for a model stand as they are

from __future__ import annotations

import codecs

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.workspace.desk import Desk, refused

from ferrule.builtin.edit import edit
from ferrule.workspace.texts.text import decode

CODE = """\
def greet(name):
    if name:
        print("hello", name)
    return True


def leave(name):
    print("bye", name)
    return True
"""


def test_what_a_model_reads_of_it() -> None:
    assert edit.description.text == snapshot("""\
Replace a piece of text in a file.

Use this for changes inside an existing file: everything else in it stays as it is, to the byte.

IMPORTANT:
- The file must have been read first, and be unchanged since.
- `old_string` must stand in the file exactly once, unless `replace_all` is set; give enough lines around it.

Examples:
- change "port = 80" to "port = 8080" in server.ini: {"file_path": "server.ini", "old_string": "port = 80", "new_string": "port = 8080"}\
""")
    assert edit.input_schema == snapshot(
        {
            "additionalProperties": False,
            "properties": {
                "file_path": {
                    "description": "The file, relative to the working directory or absolute.",
                    "type": "string",
                },
                "old_string": {
                    "description": "The text to replace, exactly as it appears in the file.",
                    "type": "string",
                },
                "new_string": {
                    "description": "The text to put in its place, literally: later lines need their whole indentation.",
                    "type": "string",
                },
                "replace_all": {
                    "default": False,
                    "description": "Replace every occurrence instead of the only one.",
                    "type": "boolean",
                },
            },
            "required": ["file_path", "old_string", "new_string"],
            "type": "object",
        }
    )


def test_it_says_what_it_changed(desk: Desk) -> None:
    desk.seen("f.py", CODE)
    result = desk.edit("f.py", '    print("bye", name)\n', '    print("good")\n    print("bye")\n')
    assert result.llm_content == snapshot("Edited `f.py` in 1 place (+2 -1 lines).")
    assert result.display_content == snapshot("edited (+2 −1)")
    assert result.data == snapshot(
        {"file_path": "f.py", "replacements": 1, "added": 2, "removed": 1, "matched_by": ["exact"]}
    )
    assert result.metadata["diff"] == snapshot("""\
--- a/f.py
+++ b/f.py
@@ -5,5 +5,6 @@
 \n\
 \n\
 def leave(name):
-    print("bye", name)
+    print("good")
+    print("bye")
     return True
""")


# Errors


def test_each_error_in_its_own_words(desk: Desk) -> None:
    desk.seen("f.py", CODE)
    assert refused(desk.edit("f.py", "x", "x"), "identical").llm_content == snapshot("""\
Error (validation_error): The old and the new text are the same, so there is nothing to change.

Suggestion: Give the changed text as the new text.\
""")
    assert refused(desk.edit("f.py", "", "x"), "empty").llm_content == snapshot("""\
Error (validation_error): The old text is empty, so there is no place to change.

Suggestion: Give the text to find, or use Write to create the whole file.\
""")
    assert refused(desk.edit("f.py", "return True", "return 1"), "several").llm_content == snapshot("""\
Error (validation_error): The old text is found 2 times: on lines 4, 9.

Suggestion: Add lines before or after it until it is found once, or set `replace_all` to change every one.\
""")
    assert refused(desk.edit("f.py", "def greet(nome):\n    if name:\n", "x"), "missing").llm_content == snapshot("""\
Error (validation_error): The old text is not in the file. The nearest is on lines 1-2. The first difference is on line 1, column 12: the file has `def greet(name):`, you gave `def greet(nome):`.

     1	def greet(name):
     2	····if name:
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)

Suggestion: Copy the old text from these lines, with their spaces and tabs, and try again.\
""")
    assert refused(desk.edit("f.py", "nothing of the sort", "x"), "missing").llm_content == snapshot("""\
Error (validation_error): The old text is not in the file, nor anything like it.

Suggestion: Read the file again and copy the text to change from it.\
""")
    assert desk.bytes_of("f.py") == CODE.encode()


def test_what_is_no_text_file_is_said_so(desk: Desk) -> None:
    desk.seen("a.bin", b"\0\1\2\xff" * 50)
    (desk.workspace / "folder").mkdir()
    assert refused(desk.edit("a.bin", "a", "b"), "binary").llm_content == snapshot("""\
Error (execution_error): `a.bin` is not a text file, and is not edited.

Suggestion: Write the whole file, or change it with a command made for its type.\
""")
    assert refused(desk.edit("folder", "a", "b"), "directory").llm_content == snapshot("""\
Error (validation_error): `folder` is a directory, not a file.

Suggestion: List it instead.\
""")
    assert refused(desk.edit("nosuch.py", "a", "b"), "missing").llm_content == snapshot(
        """\
Error (not_found_error): There is no file at `nosuch.py`.

Suggestion: No name in `.` is similar; list the folder to see what is there.\
"""
    )


def test_an_operator_or_a_word_is_never_forgiven(desk: Desk) -> None:
    desk.seen("f.py", "if is_admin:\n    allow()\n")
    for old in ("if !is_admin:", "if is_admln:", "if IS_ADMIN:", "allow( )"):
        assert not desk.edit("f.py", old, "if True:").success
    assert desk.bytes_of("f.py") == b"if is_admin:\n    allow()\n"


def test_one_retry_from_the_error_alone_succeeds(desk: Desk) -> None:
    desk.seen("f.py", CODE)
    result = refused(desk.edit("f.py", '        print("hallo", name)', '        print("hi", name)'), "missing")
    assert '····print("hello", name)' in result.llm_content
    assert desk.edit("f.py", '        print("hello", name)', '        print("hi", name)').success


# Matching


def test_a_copy_with_damage_is_found_and_the_rung_is_said(desk: Desk) -> None:
    desk.seen("f.py", CODE)
    result = desk.edit("f.py", "if name:\n    print(“hello”, name)\n", "if name:\n    print(“hi”, name)\n")
    assert result.llm_content == snapshot(
        "Edited `f.py` in 1 place (+1 -1 lines). Found with other quotes, dashes or spaces; the file's were kept."
    )
    assert '        print("hi", name)\n' in desk.bytes_of("f.py").decode()
    pasted = desk.read("f.py", offset=6).llm_content
    result = desk.edit("f.py", pasted, pasted.replace("bye", "so long"))
    assert result.llm_content == snapshot(
        "Edited `f.py` in 1 place (+1 -1 lines). Found after taking off line numbers."
    )
    assert '    print("so long", name)\n' in desk.bytes_of("f.py").decode()


def test_replace_all_changes_every_place(desk: Desk) -> None:
    desk.seen("f.py", CODE)
    result = desk.edit("f.py", "name", "who", replace_all=True)
    assert result.llm_content == snapshot("Edited `f.py` in 5 places (+5 -5 lines).")
    assert desk.bytes_of("f.py").decode() == CODE.replace("name", "who")


def test_an_insertion_that_starts_inside_a_line_is_made(desk: Desk) -> None:
    desk.seen("f.py", "def a():\n    foo()\n    bar()\n")
    result = desk.edit("f.py", "foo()", "foo()\n    baz()")
    assert result.llm_content == snapshot("Edited `f.py` in 1 place (+1 -0 lines).")
    assert desk.bytes_of("f.py") == b"def a():\n    foo()\n    baz()\n    bar()\n"
    result = desk.edit("f.py", "baz()", "baz()\nqux()")
    assert result.llm_content == snapshot(
        "Edited `f.py` in 1 place (+1 -0 lines). Replaced literally: later lines of the new text do not start with the indentation of line 3. Check that it was not left out."
    )
    assert desk.bytes_of("f.py") == b"def a():\n    foo()\n    baz()\nqux()\n    bar()\n"


def test_an_empty_file_has_one_place_and_a_new_one_none(desk: Desk) -> None:
    desk.seen("f.py", codecs.BOM_UTF8)
    assert desk.edit("f.py", "", "x = 1\n").success
    assert desk.bytes_of("f.py") == codecs.BOM_UTF8 + b"x = 1\n"
    desk.seen("g.py", "")
    assert desk.multi_edit("g.py", ("", "x = 1\n"), ("1", "2")).success
    assert desk.bytes_of("g.py") == b"x = 2\n"
    assert refused(desk.edit("new.py", "", "x = 1\n"), "missing").llm_content == snapshot("""\
Error (not_found_error): There is no file at `new.py`.

Suggestion: To create it, use Write.\
""")
    assert refused(desk.multi_edit("new.py", ("", "x = 1\n")), "missing").llm_content == snapshot("""\
Error (not_found_error): There is no file at `new.py`.

Suggestion: To create it, use Write.\
""")


def test_what_no_text_file_holds_is_refused(desk: Desk) -> None:
    desk.seen("f.c", "char c = 'a';\n")
    assert refused(desk.edit("f.c", "a'", "\0'"), "nul").llm_content == snapshot("""\
Error (validation_error): The new text contains a NUL character, and text files have none. Nothing was changed.

Suggestion: Write it as an escape of the file's language, such as `\\0` or `\\x00`.\
""")
    assert not desk.edit("f.c", "a'", "\ud800'").success
    assert desk.bytes_of("f.c") == b"char c = 'a';\n"


def test_what_stands_there_is_replaced_to_the_letter(desk: Desk) -> None:
    desk.seen("f", "one\ntwo\nthree\n")
    assert desk.edit("f", "two", "").success
    assert desk.bytes_of("f") == b"one\n\nthree\n"
    assert desk.edit("f", "three", "3\n").success
    assert desk.bytes_of("f") == b"one\n\n3\n\n"


def test_a_copy_that_may_have_lost_its_end_is_asked_about(desk: Desk) -> None:
    desk.seen("f", "one\n'two'\nthree\n")
    assert refused(desk.edit("f", "‘two’", ""), "misfit").llm_content == snapshot("""\
Error (validation_error): The old text fits on line 2, but it is a whole line without its line ending and the new text is empty, so whether an empty line should stay is not clear. Nothing was changed.

     2	'two'
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)

Suggestion: To remove the line, end the old text with its line ending; to leave an empty line, end both with one.\
""")
    assert desk.bytes_of("f") == b"one\n'two'\nthree\n"


def test_a_notebook_is_edited_as_the_json_it_is(desk: Desk) -> None:
    cells = '{"cells": [{"cell_type": "code", "source": ["x = 1\\n",\n"print(x)"]}], "nbformat": 4}\n'
    desk.seen("n.ipynb", cells)
    assert refused(desk.edit("n.ipynb", "x = 1\nprint(x)", "x = 2\nprint(x)"), "missing").llm_content == snapshot("""\
Error (validation_error): The old text is not in the file. The nearest is on lines 1-2. The first difference is on line 1, column 1: the file has `{"cells": [{"cell_type": "code", "source…`, you gave `x = 1`.

     1	{"cells": [{"cell_type": "code", "source": ["x = 1\\n",
     2	"print(x)"]}], "nbformat": 4}
(· is a space, → a tab, ␍ a carriage return, ⍽ a no-break space)

Read shows the cells, but the file is JSON, and an edit changes that: each line of a cell is a string there, in quotes, with `\\"` for a quote and `\\n` at its end.

Suggestion: Copy the old text from these lines, with their spaces and tabs, and try again.\
""")
    assert refused(desk.edit("n.ipynb", "print(x)", 'print("x")'), "notebook").llm_content == snapshot("""\
Error (execution_error): After this change the file would no longer be a notebook. Nothing was changed.

Read shows the cells, but the file is JSON, and an edit changes that: each line of a cell is a string there, in quotes, with `\\"` for a quote and `\\n` at its end.

Suggestion: Give the new text as it must appear in the JSON.\
""")
    assert desk.bytes_of("n.ipynb").decode() == cells
    assert desk.edit("n.ipynb", "print(x)", 'print(\\"x\\")').success
    assert 'print("x")' in desk.read("n.ipynb").llm_content


def test_a_file_can_be_emptied_and_its_last_line_can_lack_an_end(desk: Desk) -> None:
    desk.seen("f", "only this")
    assert desk.edit("f", "only this", "or that").success
    assert desk.bytes_of("f") == b"or that"
    assert desk.edit("f", "or that", "").success
    assert desk.bytes_of("f") == b""


# Bytes

LINES = ["alpha 一二三", "beta 四五六", "gamma 七八九", "delta 十"]
FORMS = {
    "crlf": lambda: "\r\n".join([*LINES, ""]).encode(),
    "mixed": lambda: f"{LINES[0]}\r\n{LINES[1]}\n{LINES[2]}\r{LINES[3]}".encode(),
    "bom": lambda: codecs.BOM_UTF8 + "\n".join(LINES).encode(),
    "utf-16": lambda: "\r\n".join([*LINES, ""]).encode("utf-16"),
    "utf-16-be": lambda: codecs.BOM_UTF16_BE + "\n".join(LINES).encode("utf-16-be"),
    "gb18030": lambda: "\r\n".join(LINES).encode("gb18030"),
    "shift_jis": lambda: "これは日本語のテキストです。\n二行目の文章もあります。\nbeta 四五六\n".encode("shift_jis"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_other_byte_of_a_file_stays(desk: Desk, form: str) -> None:
    before = FORMS[form]()
    desk.seen("f.txt", before)
    encoding = decode(before).encoding  # type: ignore[union-attr]
    result = desk.edit("f.txt", "beta 四五六", "BETA 六")
    assert result.success, result.llm_content
    assert desk.bytes_of("f.txt") == before.replace("beta 四五六".encode(encoding), "BETA 六".encode(encoding))
    desk.files.history.undo()
    assert desk.bytes_of("f.txt") == before


def test_new_lines_of_a_crlf_file_end_as_the_others(desk: Desk) -> None:
    desk.seen("f.txt", b"one\r\ntwo\r\n")
    assert desk.edit("f.txt", "one\ntwo\n", "one\nmore\ntwo\n").success
    assert desk.bytes_of("f.txt") == b"one\r\nmore\r\ntwo\r\n"


def test_text_that_the_encoding_cannot_hold_is_refused_and_the_file_untouched(desk: Desk) -> None:
    before = "これは日本語のテキストです。\n二行目の文章もあります。\n".encode("shift_jis")
    path = desk.seen("f.txt", before)
    inode = path.stat().st_ino
    assert refused(desk.edit("f.txt", "二行目", "\N{GRINNING FACE}"), "unencodable").llm_content == snapshot("""\
Error (validation_error): The file is in cp932, which cannot hold U+1F600 (`😀` GRINNING FACE), character 1 of the new text. The file is untouched.

Suggestion: Write it with characters that the encoding has, or as an escape of the file's language; or ask the user whether the file should become UTF-8.\
""")
    assert (desk.bytes_of("f.txt"), path.stat().st_ino) == (before, inode)


WORDS = st.lists(st.sampled_from(["一二三", "word", "é", "x y", "  in", "\t", "", "日本語"]), max_size=3).map(" ".join)
ENDINGS = st.sampled_from(["\n", "\r\n", "\r"])
ENCODINGS = st.sampled_from(
    [("utf-8", b""), ("utf-8", codecs.BOM_UTF8), ("utf-16-le", codecs.BOM_UTF16_LE), ("utf-16-be", codecs.BOM_UTF16_BE)]
)


@given(
    before=st.lists(st.tuples(WORDS, ENDINGS), max_size=4),
    after=st.lists(st.tuples(WORDS, ENDINGS), max_size=4),
    form=ENCODINGS,
    new=st.text("ab é一\n", max_size=6),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_outside_the_edit_never_change(
    desk: Desk, before: list[tuple[str, str]], after: list[tuple[str, str]], form: tuple[str, bytes], new: str
) -> None:
    encoding, mark = form
    head = ("".join(map("".join, before)) + "(").encode(encoding)
    tail = (")" + "".join(map("".join, after))).encode(encoding)
    desk.seen("f.txt", mark + head + "<<here>>".encode(encoding) + tail)
    result = desk.edit("f.txt", "<<here>>", new)
    assert result.success, result.llm_content
    now = desk.bytes_of("f.txt")
    assert now.startswith(mark + head)
    assert now.endswith(tail)
    middle = now[len(mark + head) : len(now) - len(tail)].decode(encoding)
    assert middle.replace("\r\n", "\n").replace("\r", "\n") == new
    desk.files.history.undo()


def test_a_small_file_keeps_its_encoding_or_is_left_alone(desk: Desk) -> None:
    desk.seen("f.txt", "é: 中文注释\nend\n".encode("gb18030"))
    before = desk.bytes_of("f.txt")
    assert refused(desk.edit("f.txt", "é: 中文注释\n", "é:\n"), "encoding").llm_content == snapshot("""\
Error (execution_error): The file is in gb18030. After this change it would be taken for one in cp866, since too little would be left to tell. The file is untouched.

Suggestion: Keep more of its text beyond ASCII, or ask the user whether the file should become UTF-8.\
""")
    assert desk.bytes_of("f.txt") == before
    assert desk.edit("f.txt", "中文注释", "中文").success
    assert "é: 中文" in desk.read("f.txt").llm_content


def test_its_metadata_has_the_start_of_the_old_text(desk: Desk) -> None:
    """T9."""
    desk.seen("f.py", CODE)
    preview = desk.edit("f.py", CODE.partition("\n\n")[0], "pass").metadata["old_string_preview"]
    assert (len(preview), preview[:16], preview[-1]) == (51, "def greet(name):", "…")
