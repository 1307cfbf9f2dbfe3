"""The examples of the guide and of the lint reference print what the pages say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["guides/raw-schemas.md", "reference/lint.md"])
def test_examples_print_what_they_say(page: str):
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for code, printed in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, names)
        assert out.getvalue() == printed
