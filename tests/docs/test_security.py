"""Each claim of the security page names a test, and that test is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)


def test_every_named_test_exists() -> None:
    missing = [
        f"{file}::{name}"
        for file, name in NAMED
        if not (ROOT / file).is_file()
        or not re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []
    assert len(NAMED) > 50


def test_every_claim_names_one() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| claim")]
    assert [row for row in rows if "::test_" not in row] == []
