"""The text that a model reads of a tool (T1)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.core.description import Description, Example


def test_the_layers_come_in_order():
    """T1: short, long, then "Usage notes:" and "IMPORTANT:" lists, then the examples."""
    description = Description(
        "Find files by name.",
        "Looks in every folder below the given one.",
        usage_notes=("Prefer it over a shell.", "Patterns have stars."),
        important_notes=("Never follows links.",),
        examples=(Example("all of them", {"pattern": "*"}), Example("", {"pattern": "重要.txt", "\u202e": 1})),
    )
    assert description.text == snapshot("""\
Find files by name.

Looks in every folder below the given one.

Usage notes:
- Prefer it over a shell.
- Patterns have stars.

IMPORTANT:
- Never follows links.

Examples:
- all of them: {"pattern": "*"}
- {"pattern": "重要.txt", "\\u{202e}": 1}\
""")
    assert description.text.startswith(description.prose)
    assert "Examples:" not in description.prose


def test_layers_that_are_not_there_leave_no_gap():
    assert Description("Find files.").text == "Find files."
    assert Description("Find files.", important_notes=("Slow.",)).text == "Find files.\n\nIMPORTANT:\n- Slow."
    assert Description("").text == ""
    assert Description("", "Only long.").text == "Only long."


WORDS = st.text("abc .", min_size=1, max_size=10).map(lambda text: "w" + text.strip())


@given(WORDS, WORDS, st.lists(WORDS, max_size=3), st.lists(WORDS, max_size=3))
def test_nothing_is_lost_and_the_order_holds(short: str, long: str, usage: list[str], important: list[str]):
    text = Description(short, long, tuple(usage), tuple(important)).text
    expected = [short, long]
    expected += ["Usage notes:\n" + "\n".join(f"- {note}" for note in usage)] if usage else []
    expected += ["IMPORTANT:\n" + "\n".join(f"- {note}" for note in important)] if important else []
    assert text.split("\n\n") == expected
