"""Plain tables that stay straight with wide characters and do not let text drive the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ferrule.cli.output import print_table
from ferrule.core.shown_text import columns, cut_columns

from .test_call import at_a_terminal

if TYPE_CHECKING:
    from .conftest import Command


def test_wide_and_combining_characters_count_as_shown() -> None:
    assert (columns("abc"), columns("名称"), columns("é")) == (3, 4, 1)


def test_a_cut_text_is_never_wider_than_asked() -> None:
    assert cut_columns("名称名称", 5) == "名称…"
    assert cut_columns("short", 5) == "short"
    assert columns(cut_columns("a名" * 20, 8)) <= 8


def test_columns_stand_under_their_headers(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["NAME", "WHAT"], [["名称", "x"], ["ab", "y"]])
    assert capsys.readouterr().out.splitlines() == ["NAME  WHAT", "名称  x", "ab    y"]


def test_control_characters_are_shown_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["A"], [["\x1b[31mred\n"]])
    assert capsys.readouterr().out.splitlines() == ["A", "\\x1b[31mred"]


def test_only_the_heading_is_styled_and_nothing_without_colour(ferrule: Command) -> None:
    shown, _code = at_a_terminal(ferrule, ["tools"], "")
    heading, *rows = shown.splitlines()
    assert heading.startswith("\x1b[1m")
    assert "\x1b" not in "".join(rows)
    ferrule.environment["NO_COLOR"] = "1"
    for arguments in (["tools"], ["doctor"]):
        assert "\x1b" not in at_a_terminal(ferrule, arguments, "")[0]
