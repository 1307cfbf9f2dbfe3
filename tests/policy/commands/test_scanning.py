"""How far a reading goes, and how it stops."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.scanning import DEEPEST, Scanner
from ferrule.policy.commands.syntax import Arithmetic, Unreadable


def test_a_failure_says_where():
    scanner = Scanner("ls (")
    scanner.at = 3
    with pytest.raises(Unreadable, match=r"why \(at character 4\)"):
        scanner.fail("why")


def test_nesting_has_an_end():
    scanner = Scanner("")
    scanner.deeper(DEEPEST)
    scanner.deeper(-1)
    scanner.deeper(1)
    with pytest.raises(Unreadable, match="nests deeper"):
        scanner.deeper(1)


def test_a_doubt_is_kept_and_reading_goes_on():
    scanner = Scanner("")
    scanner.doubt("odd")
    assert scanner.inner == [Arithmetic([], "odd")]
