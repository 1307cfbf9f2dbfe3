"""What MCP's blocks hold besides their content."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.core.result import Attachment
from ferrule.dialects.mcp import MCP, embedded_text, own_words, said_of_block

LINK: dict[str, Any] = {
    "type": "resource_link",
    "uri": "file:///report.pdf",
    "name": "report.pdf",
    "mimeType": "application/pdf",
    "title": "The report",
    "description": "All of last year",
    "size": 12_000,
    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"},
}
NOTE = Attachment("text/plain", b"remember", uri="note:///1")


def test_a_link_keeps_what_is_said_of_it_both_ways() -> None:
    """R6: what a server behind a gateway says of its links arrives."""
    mcp = MCP()
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png", "annotations": {"priority": 1}}
    read = mcp.read_result({"content": [LINK, picture]})
    assert mcp.write_result(read)["content"] == [LINK, picture]
    document = read.to_dict()["attachments"]
    assert document[0]["details"]["title"] == "The report"
    assert "details" not in mcp.read_result({"content": [{**picture, "annotations": None}]}).to_dict()["attachments"][0]


@pytest.mark.parametrize(
    "odd",
    [
        {"title": 1, "description": ["x"], "size": -1},
        {"size": True},
        {"size": "12"},
        {"annotations": "important"},
        {"annotations": {"audience": ["everyone"], "priority": 7, "lastModified": 3}},
        {"annotations": {"audience": "user", "priority": "high"}},
        {"annotations": {"priority": float("nan")}},
    ],
)
def test_what_the_protocol_does_not_have_is_left_out(odd: dict[str, Any]) -> None:
    assert said_of_block(odd, of_link=True) == {}


def test_only_links_have_a_title_and_a_size() -> None:
    assert said_of_block(LINK) == {"annotations": LINK["annotations"]}


def test_the_text_of_resources_is_put_into_words_and_taken_out_again() -> None:
    other = Attachment("text/csv", b"a,b")
    picture = Attachment("image/png", b"x")
    attached = [NOTE, picture, other]
    assert embedded_text(attached) == "[note:///1]\nremember\n\na,b"
    assert own_words(f"Found.\n\n{embedded_text(attached)}", attached) == "Found."
    assert own_words(embedded_text(attached), attached) == ""
    for text in ("Found.", "Found. a,b", f"Cut {embedded_text(attached)}", embedded_text(attached) + " more"):
        assert own_words(text, attached) == text
    assert own_words("x", [picture]) == "x"


def test_text_that_only_travels_as_base64_stays_in_words() -> None:
    foreign = Attachment("text/plain", "café".encode("latin-1"), uri="note:///2")
    text = f"Found.\n\n{embedded_text([NOTE, foreign])}"
    assert own_words(text, [NOTE, foreign]) == text
