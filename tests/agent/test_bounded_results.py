"""Results as the model reads them: bounded, and with a way to the rest."""

from __future__ import annotations

from ferrule.agent.calling import bounded
from ferrule.builtin.grep import grep
from ferrule.builtin.read import read
from ferrule.core.result import ToolResult

LONG = "\n".join(f"line {number}" for number in range(2000))


def result(text: str) -> ToolResult:
    return ToolResult("c", "t", True, text, "short", data=[1, 2], metadata={"diff": "x"})


def test_a_short_result_keeps_its_words_and_loses_what_no_model_reads() -> None:
    kept = bounded(result("ok"), 100)
    assert (kept.llm_content, kept.display_content, kept.data, kept.metadata) == ("ok", "short", None, {})


def test_a_long_result_has_both_ends_and_says_how_much_is_missing() -> None:
    text = bounded(result(LONG), 1000).llm_content
    assert text.startswith("line 0\n")
    assert "line 1999\n[" in text
    assert text.endswith("Ask for less at once for the part you need.]")
    assert len(text) < 1300


def test_a_tool_with_pages_is_named_with_them() -> None:
    assert "Call `Read` again with `offset` and `limit`" in bounded(result(LONG), 1000, read).llm_content
    assert "Call `Grep` again with `head_limit`" in bounded(result(LONG), 1000, grep).llm_content
