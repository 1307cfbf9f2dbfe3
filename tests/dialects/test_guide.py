"""Every example of the guide runs and prints what the guide says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "providers.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_examples_print_what_the_guide_shows() -> None:
    names: dict[str, Any] = {}
    examples = EXAMPLE.findall(GUIDE.read_text(encoding="utf-8"))
    assert len(examples) >= 8
    for code, shown in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        assert printed.getvalue() == shown
