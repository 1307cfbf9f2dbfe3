"""What a call gives back (T9)."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel

from ferrule import Attachment, ErrorInfo, ErrorKind, Output, ToolResult


class Row(BaseModel):
    day: dt.date


def test_a_result_is_one_plain_document() -> None:
    result = ToolResult(
        "c", "t", True, "words", "short",
        {"rows": [Row(day=dt.date(2024, 1, 2))], "path": Path("/a"), "nan": float("nan")},
        None, {"took": 1}, [Attachment("image/png", b"\xff")],
    )  # fmt: skip
    document = result.to_dict()
    assert json.loads(json.dumps(document)) == document
    assert document == snapshot(
        {
            "success": True,
            "llm_content": "words",
            "display_content": "short",
            "data": {"rows": [{"day": "2024-01-02"}], "path": "/a", "nan": "NaN"},
            "error": None,
            "metadata": {"call_id": "c", "tool": "t", "took": 1},
            "attachments": [{"media_type": "image/png", "data": "_w==", "uri": None, "name": None}],
        }
    )


def test_an_error_is_part_of_the_document() -> None:
    error = ErrorInfo(ErrorKind.TIMEOUT, "too slow", {"seconds": 5}, "ask for less")
    document = ToolResult("c", "t", False, "w", "s", error=error).to_dict()
    assert document["error"] == {
        "type": "timeout_error",
        "message": "too slow",
        "details": {"seconds": 5},
        "suggestion": "ask for less",
    }
    assert document["success"] is False
    assert "attachments" not in document


def test_whatever_the_data_is_the_document_is_json() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    document = ToolResult("c", "t", True, "", "", {"odd": Odd(), "set": {1}, "bytes": b"\xff\x00"}).to_dict()
    assert document["data"] == {"odd": "odd", "set": [1], "bytes": "_wA="}


def test_results_and_outputs_do_not_share_their_metadata() -> None:
    first, second = ToolResult("a", "t", True, "", ""), ToolResult("b", "t", True, "", "")
    first.metadata["x"] = 1
    assert second.metadata == {}
    assert Output().metadata is not Output().metadata


_any_text = st.text(st.characters(exclude_categories=()))
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(_values, _any_text)
def test_the_json_of_a_result_is_its_document_in_ascii(data: object, words: str) -> None:
    result = ToolResult("c", "t", True, words, "", data)
    try:
        document = result.to_dict()
    except ValueError:  # half a surrogate pair inside the data has no form at all
        with pytest.raises(ValueError, match=r"surrogate|serializ"):
            result.to_json()
        return
    text = result.to_json()
    assert text.isascii()
    assert json.loads(text) == document
