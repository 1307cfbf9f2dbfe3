"""Text that is typed, as rows: nothing is lost, wrapped rows are no lines, and the cursor is where it belongs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import width as cells

from ferrule.cli.chatting.editor_rows import typed_rows

TEXT = st.text(st.sampled_from("ab 中😀\n\t"), max_size=80)


@given(TEXT, st.integers(8, 40))
def test_every_character_is_there_in_rows_that_fit(text: str, width: int) -> None:
    rows = typed_rows(text, 0, "› ", width).rows
    assert all(cells(row) <= width for row in rows)
    lines: list[str] = []
    for row in rows:
        if row[:2] == "  ":
            lines[-1] += row[2:]
        else:
            lines.append(row[2:])
    assert "\n".join(lines) == text.replace("\t", "    ")


@given(TEXT, st.integers(8, 40), st.data())
def test_the_cursor_stands_behind_what_is_before_it(text: str, width: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    footer = typed_rows(text, at, "› ", width)
    row, column = footer.cursor
    assert 2 <= column <= width
    before = typed_rows(text[:at], at, "› ", width)
    if not text[at:].startswith("\n") and text[at:]:
        assert (row, column) == before.cursor or (row, column) == (before.cursor[0] + 1, 2)  # the next row begins
    else:
        assert (row, column) == before.cursor


@given(TEXT, st.integers(8, 40), st.integers(3, 6), st.data())
def test_of_a_tall_text_the_rows_around_the_cursor_are_shown(
    text: str, width: int, most: int, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text)))
    whole, part = typed_rows(text, at, "› ", width), typed_rows(text, at, "› ", width, most)
    assert len(part.rows) == min(most, len(whole.rows))
    assert part.rows[part.cursor[0]] == whole.rows[whole.cursor[0]]
    assert part.cursor[1] == whole.cursor[1]


def test_arrows_count_what_is_out_of_sight() -> None:
    text = "\n".join(f"line {number}" for number in range(10))
    assert typed_rows(text, 0, "› ", 20, 4).rows == ["› line 0", "… line 1", "… line 2", "  ↓ 7"]
    assert typed_rows(text, len(text), "› ", 20, 4).rows == ["  ↑ 7", "… line 7", "… line 8", "… line 9"]
    assert typed_rows(text, text.index("line 5"), "› ", 20, 4).rows == ["  ↑ 4", "… line 4", "… line 5", "  ↓ 4"]


@pytest.mark.parametrize(("typed", "shown"), [("a\x1b[2J", "› a\\x1b[2J"), ("\u202eb", "› \\u{202e}b")])
def test_what_would_steer_the_terminal_is_shown(typed: str, shown: str) -> None:
    assert typed_rows(typed, 0, "› ", 40).rows == [shown]
