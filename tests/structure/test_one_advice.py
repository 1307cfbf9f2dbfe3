"""A text that speaks of the user is for a model; users read their own in its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from tests.structure.test_structure import MODULES, name, parsed

FOR_A_MODEL = re.compile(
    r"\b(?:ask|tell|have) the user\b|\bthe user (?:can|must|denied|is|was|has)\b|\byou were given\b", re.I
)


def phrases_for_a_model(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("phrase", "_"):
            template = node.args[0] if node.args else None
            if isinstance(template, ast.Constant) and FOR_A_MODEL.search(str(template.value)):
                yield str(template.value)


def test_no_text_for_a_model_reaches_a_user() -> None:
    """It is written with `advice(for_model, for_user)`."""
    found = {name(file): listed for file in MODULES if (listed := list(phrases_for_a_model(parsed(file))))}
    assert found == {}


@pytest.mark.parametrize("text", ["Ask the user.", "Do without, or ask the user.", "Use what you were given."])
def test_one_would_be_found(text: str) -> None:
    assert list(phrases_for_a_model(ast.parse(f"phrase({text!r})"))) == [text]
    assert not list(phrases_for_a_model(ast.parse(f"advice({text!r}, 'Do it.')")))
