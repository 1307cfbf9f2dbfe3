"""Read, through the real pipeline on a real folder."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from io import BufferedReader
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.workspace.desk import Desk, refused
from tests.workspace.pictures import PNG, WHOLE

from ferrule.builtin.read import read
from ferrule.workspace import files, tracker
from ferrule.workspace.paths import Paths


def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def test_what_a_model_reads_of_it() -> None:
    assert read.description.text == snapshot("""\
Read a file.

Use this before changing a file, and whenever its content matters: each line comes with its number. Pictures are
shown, notebooks come as cells, and of other binary files you get the type and the size.

Usage notes:
- A long file comes in pages: read on with `offset`.
- Lines over 2000 characters are cut, and say so.

Examples:
- show what is in README.md: {"file_path": "README.md"}
- read the first 40 lines of src/app.py: {"file_path": "src/app.py", "limit": 40}\
""")
    assert read.input_schema == snapshot(
        {
            "additionalProperties": False,
            "properties": {
                "file_path": {
                    "description": "The file, relative to the working directory or absolute.",
                    "type": "string",
                },
                "offset": {
                    "default": 0,
                    "description": "How many lines to skip, from 0.",
                    "minimum": 0,
                    "type": "integer",
                },
                "limit": {
                    "default": 2000,
                    "description": "How many lines to read.",
                    "maximum": 10000,
                    "minimum": 1,
                    "type": "integer",
                },
            },
            "required": ["file_path"],
            "type": "object",
        }
    )


# Pages


def test_lines_are_numbered_from_one(desk: Desk) -> None:
    desk.put("f.txt", "one\n.\n  three\twith a tab\nlast")
    result = desk.read("f.txt")
    assert result.llm_content == snapshot("""\
     1	one
     2	.
     3	  three	with a tab
     4	last\
""")
    assert result.display_content == snapshot("read 4 lines")
    assert result.data == snapshot(
        {
            "file_path": "f.txt",
            "media_type": "text/plain",
            "size": 29,
            "total_lines": 4,
            "offset": 0,
            "lines_read": 4,
            "has_more": False,
            "encoding": "utf-8",
            "content": """\
one
.
  three	with a tab
last\
""",
        }
    )
    assert {key: result.metadata[key] for key in ("total_lines", "lines_read", "has_more")} == snapshot(
        {"total_lines": 4, "lines_read": 4, "has_more": False}
    )


def test_a_page_says_how_to_read_on(desk: Desk) -> None:
    desk.put("f.txt", lines(10))
    result = desk.read("f.txt", offset=3, limit=4)
    assert result.llm_content == snapshot("""\
     4	line 4
     5	line 5
     6	line 6
     7	line 7
[… 3 more lines; read on with offset=7]\
""")
    assert result.display_content == snapshot("read lines 4 to 7 of 10")
    assert (result.metadata["total_lines"], result.metadata["lines_read"], result.metadata["has_more"]) == (10, 4, True)
    assert "more" not in desk.read("f.txt", offset=7, limit=3).llm_content
    assert desk.read("f.txt", limit=9).llm_content.splitlines()[-1] == snapshot(
        "[… 1 more line; read on with offset=9]"
    )


def test_following_the_note_reads_every_line_once(desk: Desk) -> None:
    desk.put("f.txt", lines(2500))
    first = desk.read("f.txt")
    assert first.metadata["lines_read"] == 2000
    second = desk.read("f.txt", offset=2000)
    rows = [row for row in (first.llm_content + "\n" + second.llm_content).split("\n") if not row.startswith("[")]
    assert rows == [f"{number:>6}\tline {number}" for number in range(1, 2501)]


def test_a_long_line_is_cut_and_says_so(desk: Desk) -> None:
    desk.put("f.txt", "x" * 2000 + "\n" + "é" * 2001 + "\nend\n")
    whole, cut, end = desk.read("f.txt").llm_content.split("\n")
    assert whole == "     1\t" + "x" * 2000
    assert cut == "     2\t" + "é" * 2000 + " [… line cut, 4,002 bytes in all]"
    assert end == "     3\tend"


def test_an_empty_file_and_a_page_past_the_end_are_said_in_words(desk: Desk) -> None:
    desk.put("empty", "")
    desk.put("f.txt", lines(3))
    assert desk.read("empty").llm_content == snapshot("`empty` is empty.")
    assert desk.read("f.txt", offset=3).llm_content == snapshot("`f.txt` has 3 lines; offset 3 is past its end.")
    assert desk.read("f.txt", offset=99).llm_content == snapshot("`f.txt` has 3 lines; offset 99 is past its end.")
    desk.put("one.txt", "x")
    assert desk.read("one.txt", offset=1).llm_content == snapshot("`one.txt` has 1 line; offset 1 is past its end.")
    assert desk.read("empty", offset=5).success


@pytest.mark.parametrize("arguments", [{"offset": -1}, {"limit": 0}, {"limit": 10_001}, {"offset": "x"}])
def test_a_page_that_cannot_be_is_refused(desk: Desk, arguments: dict[str, Any]) -> None:
    desk.put("f.txt", lines(3))
    result = desk.read("f.txt", **arguments)
    assert result.error is not None
    assert result.error.kind == "validation_error"


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\nc\r\nd", ["a", "b", "c", "d"]),
        (b"a\x0cb\x0b\xc2\x85c\xe2\x80\xa8d\n", ["a\x0cb\x0b\x85c\u2028d"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        ("é\r\n日本\r\n".encode("utf-16"), ["é", "日本"]),
        ("plain ascii\n".encode("utf-16-le"), ["plain ascii"]),
        ("中文文本，没有别的。\n第二行\n".encode("gb18030"), ["中文文本，没有别的。", "第二行"]),
        ("Größe: schön, müde, Straße\n".encode("latin-1"), ["Größe: schön, müde, Straße"]),
    ],
    ids=["crlf", "mixed", "other separators", "bom", "utf-16", "utf-16 without mark", "gb18030", "latin-1"],
)
def test_any_encoding_and_line_ending_is_read_as_text(desk: Desk, data: bytes, rows: list[str]) -> None:
    desk.put("f.txt", data)
    wanted = "\n".join(f"{number:>6}\t{row}" for number, row in enumerate(rows, 1))
    assert desk.read("f.txt").llm_content == wanted


# What is not plain text


@pytest.mark.parametrize("kind", WHOLE)
def test_a_picture_is_attached(desk: Desk, kind: str) -> None:
    data = WHOLE[kind]
    desk.put("a picture", data)
    [attachment] = (result := desk.read("a picture")).attachments
    assert (attachment.media_type, attachment.data, attachment.name) == (kind, data, "a picture")
    assert kind in result.llm_content


def test_pictures_in_words(desk: Desk) -> None:
    desk.put("a.png", PNG)
    desk.put("big.png", PNG + b"\0" * 5_000_000)
    assert desk.read("a.png").llm_content == snapshot("`a.png` is an image (image/png, 67 bytes).")
    assert desk.read("a.png").display_content == snapshot("image, 67 bytes")
    assert desk.read("big.png").llm_content == snapshot("""\
Error (execution_error): `big.png` is an image of 5,000,067 bytes; the limit is 5,000,000.

Suggestion: Make a smaller copy of it and read that.\
""")


@pytest.mark.parametrize("kind", WHOLE)
def test_half_a_picture_is_not_sent(desk: Desk, kind: str) -> None:
    """A provider would refuse the whole request for it."""
    desk.put("a picture", WHOLE[kind][: len(WHOLE[kind]) * 2 // 3])
    result = desk.read("a picture")
    assert (result.success, result.attachments) == (True, [])
    assert "that is truncated" in result.llm_content


def test_half_a_picture_in_words(desk: Desk) -> None:
    desk.put("a.png", PNG[:-12])
    assert desk.read("a.png").llm_content == snapshot(
        "`a.png` is an image (image/png, 55 bytes) that is truncated, so it is not shown. Create or download it "
        "again; if a program is still writing it, read it once that has finished."
    )


def test_a_text_about_pictures_is_text(desk: Desk) -> None:
    desk.put("readme", "convert WEBP images\n")
    assert desk.read("readme").llm_content == "     1\tconvert WEBP images"


def notebook(*sources: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": source} for source in sources]})


def test_a_notebook_comes_as_cells(desk: Desk) -> None:
    desk.put("n.ipynb", notebook("import os", "print(1)", "done"))
    assert desk.read("n.ipynb").llm_content == snapshot("""\
# Cell 1 (code)
import os

# Cell 2 (code)
print(1)

# Cell 3 (code)
done\
""")
    assert desk.read("n.ipynb", offset=1, limit=1).llm_content == snapshot("""\
# Cell 2 (code)
print(1)
[… 1 more cell; read on with offset=2]\
""")
    assert desk.read("n.ipynb", offset=1, limit=1).data == snapshot(
        {
            "file_path": "n.ipynb",
            "media_type": "application/x-ipynb+json",
            "size": 143,
            "encoding": "utf-8",
            "offset": 1,
            "total_lines": 3,
            "lines_read": 1,
            "has_more": True,
            "content": """\
# Cell 2 (code)
print(1)\
""",
        }
    )
    assert desk.read("n.ipynb", offset=3).llm_content == snapshot("`n.ipynb` has 3 cells; offset 3 is past its end.")
    desk.put("none.ipynb", notebook())
    assert desk.read("none.ipynb").llm_content == snapshot("`none.ipynb` is a notebook without cells.")


def test_a_broken_notebook_is_read_as_the_text_it_is(desk: Desk) -> None:
    desk.put("n.ipynb", '{"cells": [\n')
    assert desk.read("n.ipynb").llm_content == '     1\t{"cells": ['


def test_of_a_binary_file_the_type_and_size_are_told(desk: Desk) -> None:
    desk.put("a.zip", b"PK\x03\x04" + b"\0\xff" * 3000)
    desk.put("a.bin", bytes(range(256)) * 20)
    assert desk.read("a.zip").llm_content == snapshot(
        "`a.zip` is a binary file (application/zip, 6,004 bytes); its content is not shown."
    )
    assert desk.read("a.bin").data == snapshot(
        {
            "file_path": "a.bin",
            "media_type": "application/octet-stream",
            "size": 5120,
            "encoding": None,
            "offset": 0,
            "total_lines": None,
            "lines_read": 0,
            "has_more": False,
            "content": "",
            "notes": ["`a.bin` is a binary file (application/octet-stream, 5,120 bytes); its content is not shown."],
        }
    )


def test_a_directory_is_not_a_file(desk: Desk) -> None:
    desk.put("src/f.txt", "x")
    for path in ("src", "src/", "."):
        refused(desk.read(path), "directory")
    assert desk.read("src").llm_content == snapshot("""\
Error (validation_error): `src` is a directory, not a file.

Suggestion: List it instead.\
""")


def test_a_missing_file_is_answered_with_the_nearest_names(desk: Desk) -> None:
    desk.put("src/main.py", "x")
    assert refused(desk.read("src/mian.py"), "missing").llm_content == snapshot("""\
Error (not_found_error): There is no file at `src/mian.py`.

Suggestion: Did you mean `src/main.py`?\
""")


# Large files


def test_the_end_of_a_large_log_is_read_quickly_and_without_holding_it(desk: Desk) -> None:
    block = b"here is a line\n" * 70_000
    path = desk.put("big.log", b"")
    with path.open("wb") as log:
        for _ in range(105):
            log.write(block)
        log.write(b"the end\n")
    assert path.stat().st_size > 110_000_000
    total = 105 * 70_000 + 1
    assert desk.read("big.log", offset=total - 1).llm_content == f"{total:>6}\tthe end"  # counts the lines, once
    tracemalloc.start()
    started = time.process_time()
    result = desk.read("big.log", offset=total - 3, limit=3)
    took = time.process_time() - started
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.metadata["lines_read"] == 3
    assert result.llm_content.endswith(f"{total:>6}\tthe end")
    assert took < 0.5
    assert most < 20_000_000
    refused(desk.edit("big.log", "the end", "no"), "too_large")
    path.unlink()


# While others write


def test_what_was_shown_is_what_counts_as_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """P11: a file replaced in the middle of a read was not seen as it is now."""
    path = desk.put("f.txt", "one\n")
    opened = Paths.open_file

    def replaced_after_opening(paths: Paths, place: Any) -> int:
        descriptor = opened(paths, place)
        if path.read_text() == "one\n":
            (desk.workspace / "beside").write_text("two\n")
            (desk.workspace / "beside").replace(path)
        return descriptor

    monkeypatch.setattr(Paths, "open_file", replaced_after_opening)
    assert desk.read("f.txt").llm_content == "     1\tone"
    refused(desk.edit("f.txt", "two", "three"), "changed")


def test_many_reads_at_once(desk: Desk) -> None:
    for number in range(30):
        desk.put(f"{number}.txt", f"file {number}\n")

    async def all_at_once() -> list[str]:
        calls = (desk.runtime.run("Read", {"file_path": f"{number}.txt"}) for number in range(30))
        return [result.llm_content for result in await asyncio.gather(*calls)]

    assert asyncio.run(all_at_once()) == [f"     1\tfile {number}" for number in range(30)]


def test_of_a_large_file_a_page_does_not_cost_the_whole_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "_SETTLED_NS", 0)
    named: list[object] = []

    def counting(file: BufferedReader) -> str:
        named.append(file)
        return tracker.digest_of(file)

    monkeypatch.setattr(files, "digest_of", counting)
    path = desk.put("big.log", "a line of a log\n" * 300_000)
    assert desk.read("big.log", limit=5).metadata["total_lines"] == 300_000
    assert desk.read("big.log", offset=299_998).metadata["lines_read"] == 2
    assert len(named) == 1
    with path.open("a") as file:
        file.write("one more\n")
    assert desk.read("big.log", offset=300_000).llm_content == "300001\tone more"
    assert len(named) == 2
    assert desk.edit("big.log", "one more", "and another").success
    path.write_text("b line of a log\n" * 300_000)
    refused(desk.edit("big.log", "and another", "x"), "changed")
