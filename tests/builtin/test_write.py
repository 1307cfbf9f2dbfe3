"""Write, through the real pipeline on a real folder."""
# ruff: noqa: E501 - words for a model stand as they are

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.workspace.desk import Desk, refused

from ferrule import Limits, RawCall, RulePolicy, Runtime, ToolResult
from ferrule.builtin.all_tools import builtin_tools
from ferrule.builtin.edit import write
from ferrule.workspace import atomic


def test_what_a_model_reads_of_it() -> None:
    assert write.description.text == snapshot("""\
Write a whole file, making it and its folders where they are missing.

Use this for new files, or when most of a file changes; use Edit for small changes.

IMPORTANT:
- A file that exists must have been read first, and be unchanged since.
- Encoding and line endings of an existing file are kept.

Examples:
- create a file todo.txt with the text "call Ann": {"file_path": "todo.txt", "content": "call Ann"}\
""")
    assert write.input_schema == snapshot(
        {
            "additionalProperties": False,
            "properties": {
                "file_path": {
                    "description": "The file, relative to the working directory or absolute.",
                    "type": "string",
                },
                "content": {"description": "The whole new content of the file.", "type": "string"},
            },
            "required": ["file_path", "content"],
            "type": "object",
        }
    )


def test_it_says_what_it_made(desk: Desk) -> None:
    made = desk.write("src/new/main.py", "one\ntwo\n")
    assert made.llm_content == snapshot("Created `src/new/main.py` (2 lines, 8 bytes).")
    assert made.data == snapshot(
        {
            "file_path": "src/new/main.py",
            "is_overwrite": False,
            "line_count": 2,
            "byte_count": 8,
            "added": 2,
            "removed": 0,
        }
    )
    assert desk.bytes_of("src/new/main.py") == b"one\ntwo\n"
    again = desk.write("src/new/main.py", "one\ntwo\nthree")
    assert again.llm_content == snapshot("Overwrote `src/new/main.py` (3 lines, 13 bytes).")
    assert again.display_content.startswith("overwritten, ")
    assert desk.names() == ["src", "src/new", "src/new/main.py"]


def test_one_that_is_cancelled_on_a_slow_disk_is_made_whole_and_can_be_undone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6, P11: never cut off between the file and its history; and whoever cancelled is told that it was made."""
    desk.seen("a", "old\n")
    at_the_disk, may_go_on = threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        at_the_disk.set()
        assert may_go_on.wait(20)

    async def cancelled() -> ToolResult:
        runtime = Runtime(
            builtin_tools(), policy=RulePolicy(mode="bypass"), session=desk.session, limits=Limits(grace=0)
        )
        call = RawCall("Write", {"file_path": "a", "content": "new\n"})
        writing = asyncio.create_task(runtime.run(call))
        assert await asyncio.to_thread(at_the_disk.wait, 20)
        assert runtime.cancel(call.id)
        await asyncio.sleep(0.05)
        may_go_on.set()
        return await writing

    monkeypatch.setattr(atomic.os, "fsync", slow)
    assert asyncio.run(cancelled()).llm_content == snapshot("""\
Error (cancelled_error): `Write` was cancelled. It returned before it could be stopped, so it may have done its work.

Suggestion: Check whether it is done before you do it again.\
""")
    assert desk.bytes_of("a") == b"new\n"
    desk.files.history.undo()
    assert desk.bytes_of("a") == b"old\n"


def test_an_empty_file_is_a_file(desk: Desk) -> None:
    assert desk.write("empty", "").llm_content == snapshot("Created `empty` (0 lines, 0 bytes).")
    assert desk.bytes_of("empty") == b""


def test_contents_is_taken_for_content(desk: Desk) -> None:
    assert desk.call("Write", "f.txt", contents="x").success
    assert desk.bytes_of("f.txt") == b"x"


@pytest.mark.parametrize("content", ["é\n", "a\r\nb\n", "\ufeffx", "\r", "日本\0", "no newline"])
def test_a_new_file_holds_exactly_what_was_given(desk: Desk, content: str) -> None:
    assert desk.write("f.txt", content).success
    assert desk.bytes_of("f.txt") == content.encode()


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n"),
        (b"\xef\xbb\xbfa\n", "é\n", b"\xef\xbb\xbf\xc3\xa9\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffé\n", b"\xef\xbb\xbf\xc3\xa9\n"),
        ("é\r\nb\r\n".encode("utf-16"), "ü\nc\n", "ü\r\nc\r\n".encode("utf-16")),
        ("中文文本，没有别的。\n".encode("gb18030"), "新的文本\n", "新的文本\n".encode("gb18030")),
        (b"\x89PNG\r\n\x1a\n\0\0", "text\n", b"text\n"),
        (b"", "x\n", b"x\n"),
    ],
    ids=["crlf", "own crlf", "mixed", "bom", "bom given too", "utf-16", "gb18030", "binary", "empty"],
)
def test_a_file_keeps_its_encoding_mark_and_line_endings(desk: Desk, before: bytes, content: str, after: bytes) -> None:
    desk.seen("f.txt", before)
    assert desk.write("f.txt", content).success
    assert desk.bytes_of("f.txt") == after


def test_mode_and_attributes_stay(desk: Desk) -> None:
    path = desk.seen("run.sh", "#!/bin/sh\n")
    path.chmod(0o754)
    assert desk.write("run.sh", "#!/bin/bash\n").success
    assert path.stat().st_mode & 0o7777 == 0o754


def test_text_that_the_encoding_cannot_hold_is_refused_and_the_file_untouched(desk: Desk) -> None:
    before = "Größe: schön, müde, Straße, für, über, Käse\n".encode("latin-1")
    desk.seen("f.txt", before)
    assert refused(desk.write("f.txt", "日本"), "unencodable").llm_content == snapshot("""\
Error (validation_error): The file is in cp1252, which cannot hold U+65E5 (`日` CJK UNIFIED IDEOGRAPH-65E5), character 1 of the new text. The file is untouched.

Suggestion: Write it with characters that the encoding has, or as an escape of the file's language; or ask the user whether the file should become UTF-8.\
""")
    assert desk.bytes_of("f.txt") == before


@pytest.mark.parametrize(
    "name",
    ["f.txt.", "f.txt ", "a\u2215b", "f\uff0etxt", "a\u200bb", "a\u202egpj.exe", "a\nb", "a\x7f", "dir./f", "dir /f"],
)
def test_names_that_mislead_are_not_made(desk: Desk, name: str) -> None:
    refused(desk.write(name, "x"), "name")
    assert desk.names() == []


def test_names_that_mislead_are_refused_in_words(desk: Desk) -> None:
    assert desk.write("f.txt.", "x").llm_content == snapshot("""\
Error (validation_error): `f.txt.` ends with a dot, which some systems drop.

Suggestion: Use `f.txt`.\
""")
    assert desk.write("a\u202egpj.exe", "x").llm_content == snapshot("""\
Error (validation_error): `a\\u202egpj.exe` contains U+202E RIGHT-TO-LEFT OVERRIDE, which is misleading.

Suggestion: Write the name with ordinary characters.\
""")


def test_a_file_that_has_such_a_name_already_can_be_changed(desk: Desk) -> None:
    desk.seen("odd.", "x")
    assert desk.write("odd.", "y").success


@pytest.mark.parametrize(
    "name", ["名前.txt", "é.txt", "a b.txt", ".hidden", "a..b", "ключ", "a'\"$(x)`;.txt", "-x", "🙂"]
)
def test_ordinary_names_of_any_language_are_made(desk: Desk, name: str) -> None:
    assert desk.write(name, "x").success
    assert desk.names() == [name]


def test_a_directory_or_a_file_in_the_way_is_refused(desk: Desk) -> None:
    (desk.workspace / "src").mkdir()
    desk.put("file", "x")
    assert refused(desk.write("src", "x"), "directory").llm_content == snapshot("""\
Error (validation_error): `src` is a directory, not a file.

Suggestion: List it instead.\
""")
    assert not desk.write("file/inner.txt", "x").success
    assert desk.names() == ["file", "src"]


def test_a_path_that_ends_as_a_folder_is_no_file(desk: Desk) -> None:
    assert refused(desk.write("new/", "x"), "name").llm_content == snapshot("""\
Error (validation_error): `new/` is the name of a folder.

Suggestion: Give the name of a file; missing folders are created.\
""")
    assert desk.names() == []


def test_an_exotic_argument_is_refused_before_anything_happens(desk: Desk) -> None:
    for arguments in ({}, {"content": ["x"]}, {"content": {"a": 1}}, {"content": "x", "contents": "y"}):
        assert not desk.call("Write", "f.txt", **arguments).success
    assert desk.names() == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_said_so(desk: Desk) -> None:
    (desk.workspace / "locked").mkdir(mode=0o500)
    refused(desk.write("locked/f.txt", "x"), "failed")


@given(content=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_what_is_read(desk: Desk, content: str) -> None:
    assert desk.call("Write", "f.txt", content=content).success
    assert json.loads(json.dumps(desk.bytes_of("f.txt").decode())) == content
    Path(desk.workspace / "f.txt").unlink()
