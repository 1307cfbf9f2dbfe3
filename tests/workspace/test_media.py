"""What the first bytes of a file say it is, and the cells of a notebook."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.workspace.media import media_type, notebook_cells


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a\x01\0\x01\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
        (b"%PDF-1.7\n", "application/pdf"),
        (b"PK\x03\x04\x14", "application/zip"),
        (b"\x7fELF\x02", "application/x-executable"),
        (b"\0\0\0\x18ftypmp42", "video/mp4"),
        (b"SQLite format 3\0", "application/vnd.sqlite3"),
        (b"\0" * 257 + b"ustar\0", "application/x-tar"),
        (b"", "application/octet-stream"),
        (b"\x89PN", "application/octet-stream"),
        (b"\0\1\2\3", "application/octet-stream"),
    ],
)
def test_a_file_is_known_by_its_first_bytes(head: bytes, kind: str) -> None:
    assert media_type(head) == kind


@pytest.mark.parametrize("head", [b"convert WEBP images to PNG", b"RIFF is WAVE"])
def test_a_sentence_about_pictures_is_no_picture(head: bytes) -> None:
    assert not media_type(head).startswith("image/")


def cell(source: object, **more: object) -> dict[str, object]:
    return {"cell_type": "code", "source": source, **more}


def test_cells_come_as_text_with_their_outputs() -> None:
    cells = notebook_cells(
        json.dumps(
            {
                "cells": [
                    {"cell_type": "markdown", "source": ["# Title\n", "words"]},
                    cell("print(1)", execution_count=3, outputs=[{"output_type": "stream", "text": ["1\n"]}]),
                    cell("1 / 0", outputs=[{"output_type": "error", "ename": "ZeroDivisionError", "evalue": "no"}]),
                    cell("x", outputs=[{"output_type": "execute_result", "data": {"text/plain": "42"}}]),
                    cell("plot()", outputs=[{"output_type": "display_data", "data": {"image/png": "iVBOR"}}]),
                ]
            }
        )
    )
    assert "\n\n".join(cells or ()) == snapshot("""\
# Cell 1 (markdown)
# Title
words

# Cell 2 (code, run 3)
print(1)
# Output:
1


# Cell 3 (code)
1 / 0
# Error: ZeroDivisionError: no

# Cell 4 (code)
x
# Output:
42

# Cell 5 (code)
plot()
# Output: image/png\
""")


def test_a_long_output_is_cut_and_says_so() -> None:
    [shown] = notebook_cells(json.dumps({"cells": [cell("x", outputs=[{"text": "a" * 3000}])]})) or []
    assert shown.endswith("… (1,000 more characters)")
    assert shown.count("a") < 2100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "{}",
        '{"cells": 1}',
        '{"cells": null}',
        '{"cells": [1]}',
        '{"cells": {"a": 1}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_notebook_has_no_cells(text: str) -> None:
    assert notebook_cells(text) is None


VALUES = st.sampled_from([None, 1, "text", [], ["a", 1], {}, {"text": 1}, {"data": []}, {"data": {"text/plain": 1}}])
CELLS = VALUES | st.dictionaries(st.sampled_from(["source", "outputs", "cell_type", "execution_count"]), VALUES)


@given(st.fixed_dictionaries({"cells": st.lists(CELLS, max_size=3)}))
def test_no_notebook_breaks_the_reader(notebook: object) -> None:
    cells = notebook_cells(json.dumps(notebook))
    assert cells is None or all(isinstance(one, str) for one in cells)
