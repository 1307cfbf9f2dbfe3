"""How many of something, in words."""

from __future__ import annotations

from ferrule.workspace.names import amount


def test_one_is_one_and_all_others_are_many() -> None:
    assert [amount(number, "line") for number in (0, 1, 2, 1200)] == ["0 lines", "1 line", "2 lines", "1,200 lines"]
