"""The words for a log that fails its check."""

from __future__ import annotations

from ferrule.cli.audit import what_is_wrong
from ferrule.records.verification import Verification


def test_the_first_bad_row_is_named_where_there_is_one() -> None:
    assert what_is_wrong(Verification(False, 6, 7, "It was changed.", None)) == "row 7: It was changed."
    assert what_is_wrong(Verification(False, 6, None, "The head is gone.", None)) == "The head is gone."
