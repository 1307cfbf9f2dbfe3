"""Each claim of the security page names a test, and that test is there."""

from __future__ import annotations

import re

from tests.named_tests import ROOT, missing_tests

PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py::test_\w+)`", PAGE)


def test_every_named_test_exists() -> None:
    assert missing_tests(NAMED) == []
    assert len(NAMED) > 50


def test_every_claim_names_one() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| claim")]
    assert [row for row in rows if "::test_" not in row] == []
