"""readFile, through the real pipeline on a real folder."""

from __future__ import annotations

import os

from inline_snapshot import snapshot
from tests.workspace.desk import Desk, refused

from ferrule.builtin.read import read_file


def test_what_a_model_reads_of_it() -> None:
    assert read_file.description.text == snapshot("""\
Read a whole text file.

Use this when the content of a file matters, and before changing it.

Examples:
- show what is in README.md: {"filePath": "README.md"}\
""")
    assert read_file.input_schema == snapshot(
        {
            "additionalProperties": False,
            "properties": {
                "filePath": {
                    "description": "The file, relative to the working directory or absolute.",
                    "type": "string",
                }
            },
            "required": ["filePath"],
            "type": "object",
        }
    )


def test_it_gives_the_whole_text_and_what_it_is_written_in(desk: Desk) -> None:
    desk.put("sub/f.txt", "é\r\n日本\r\n".encode("utf-16"))
    result = desk.call("readFile", "sub/f.txt")
    assert result.data == snapshot(
        {
            "filePath": "sub/f.txt",
            "content": """\
é\r
日本\r
""",
            "size": 16,
            "encoding": "utf-16-le",
        }
    )
    assert result.llm_content == "é\r\n日本\r\n"
    assert result.display_content == snapshot("read 16 bytes")


def test_an_empty_file_is_said_to_be_empty(desk: Desk) -> None:
    desk.put("f.txt", "")
    assert desk.call("readFile", "f.txt").llm_content == snapshot("The file is empty.")


def test_what_it_cannot_read_is_said_in_words(desk: Desk) -> None:
    desk.put("a.bin", b"\x7fELF" + bytes(range(256)))
    os.truncate(desk.put("big.log", ""), 64_000_001)
    (desk.workspace / "src").mkdir()
    assert desk.call("readFile", "a.bin").llm_content == snapshot(
        """\
Error (execution_error): `a.bin` is a binary file (application/x-executable, 260 bytes).

Suggestion: Use a tool made for its type; Read shows images.\
"""
    )
    assert desk.call("readFile", "big.log").llm_content == snapshot("""\
Error (execution_error): `big.log` has 64,000,001 bytes, too many to read at once.

Suggestion: Use Read, page by page.\
""")
    assert refused(desk.call("readFile", "src"), "directory").llm_content == snapshot("""\
Error (validation_error): `src` is a directory, not a file.

Suggestion: List it instead.\
""")
    assert refused(desk.call("readFile", "none"), "missing").llm_content == snapshot(
        """\
Error (not_found_error): There is no file at `none`.

Suggestion: No name in `.` is similar; list the folder to see what is there.\
"""
    )
    assert refused(desk.call("readFile", "../x"), "outside").llm_content == snapshot("""\
Error (permission_error): `../x` is outside the workspace.

Suggestion: Use a path inside the workspace; relative paths start at its top.\
""")


def test_a_binary_file_that_was_refused_was_not_read(desk: Desk) -> None:
    """P11."""
    desk.put("a.bin", b"\x7fELF" + bytes(range(256)))
    desk.call("readFile", "a.bin")
    refused(desk.write("a.bin", "x"), "not_read")


def test_relative_paths_start_in_the_working_directory(desk: Desk) -> None:
    desk.put("sub/f.txt", "below")
    below = Desk(desk.workspace, working_directory=desk.workspace / "sub")
    assert below.call("readFile", "f.txt").llm_content == "below"
