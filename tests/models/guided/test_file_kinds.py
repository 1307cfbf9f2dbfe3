"""Kinds of files as people name them."""

from __future__ import annotations

import pytest

from ferrule.models.guided.slots import globs_for


@pytest.mark.parametrize(
    ("request_", "globs"),
    [
        ("find all Python files", ("*.py",)),
        ("找出 Markdown 和 YAML 文件", ("*.md", "*.yaml", "*.yml")),
        ("every .rs file", ("*.rs",)),
        ("Python or .ts files", ("*.py", "*.ts")),
        ("a pythonic way", ()),
        ("read src/app.py", ()),
    ],
)
def test_a_kind_becomes_globs(request_: str, globs: tuple[str, ...]) -> None:
    assert globs_for(request_) == globs
