"""Colours only where they are wanted, and a diff's lines by what they say."""

from __future__ import annotations

from ferrule.cli.chatting.screen import Paint


def test_plain_paint_leaves_words_alone() -> None:
    paint = Paint(False)
    assert paint("bad", "words") == "words"
    assert paint.diff_line("+new") == "+new"


def test_a_style_ends_where_its_words_end() -> None:
    assert Paint(True)("good", "yes") == "\x1b[32myes\x1b[0m"
    assert Paint(True)("good", "") == ""


def test_a_diff_is_coloured_by_its_signs() -> None:
    lines = ["--- a/x", "+++ b/x", "@@ -1 +1 @@", "-old", "+new", " same"]
    codes = [Paint(True).diff_line(line)[2:4] if Paint(True).diff_line(line) != line else "" for line in lines]
    assert codes == ["1m", "1m", "36", "31", "32", ""]
