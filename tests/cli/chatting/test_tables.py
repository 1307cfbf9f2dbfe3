"""A table's columns stand in line where they fit; a narrow terminal gets a list."""

from __future__ import annotations

from inline_snapshot import snapshot

from ferrule.cli.chatting.answer_lines import table_rows
from ferrule.cli.chatting.screen import Paint

LINES = ["| name | 说明 |", "|------|:---:|", "| Read | 读取文件 |", "| `Bash` | runs a \\| pipe |"]


def test_columns_stand_in_line_also_with_wide_characters() -> None:
    assert "\n".join(table_rows(LINES, 60, Paint(False))) == snapshot("""\
name  说明
────  ─────────────
Read  读取文件
Bash  runs a | pipe\
""")


def test_where_it_does_not_fit_each_row_is_a_list() -> None:
    assert "\n".join(table_rows(LINES, 16, Paint(False))) == snapshot("""\
• name: Read
  说明: 读取文件
• name: Bash
  说明: runs a |
    pipe\
""")


def test_rows_of_different_length_are_no_failure() -> None:
    assert table_rows(["| a |", "|---|", "| 1 | 2 |", "||"], 40, Paint(False))[2] == "1  2"
