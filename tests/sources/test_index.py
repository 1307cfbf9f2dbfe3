"""Each behaviour of the source descriptions is shown by tests that exist, or is a difference that the docs explain."""

from __future__ import annotations

import importlib
import re
from itertools import pairwise

import pytest
from tests.named_tests import ROOT, missing_tests, names_in
from tests.sources.behaviours import Behaviour

FILES = ["test_a", "test_b", "test_c", "test_d", "test_e"]
DIFFERENCES = ROOT / "docs/concepts/differences.md"


def index_of(name: str) -> list[Behaviour]:
    return importlib.import_module(f"tests.sources.{name}").BEHAVIOURS


def ids(name: str, behaviour: Behaviour) -> list[str]:
    return [f"tests/sources/{name}.py{one}" if one.startswith("::") else one for one in behaviour.tests]


def explained() -> list[str]:
    """The lines of the page about differences, each on one line and without its mark."""
    items = re.findall(r"^- (.+(?:\n  .+)*)", DIFFERENCES.read_text(encoding="utf-8"), re.MULTILINE)
    return [" ".join(item.split()) for item in items]


@pytest.mark.parametrize("name", FILES)
def test_every_behaviour_is_shown_or_explained(name: str) -> None:
    index = index_of(name)
    assert len(index) > 20
    assert missing_tests(one for behaviour in index for one in ids(name, behaviour)) == []
    assert [one.statement for one in index if not one.tests and not one.better] == []
    assert [one.statement for one in index if not re.fullmatch(r"[TRPSMOX]\d+", one.requirement)] == []


@pytest.mark.parametrize("name", FILES)
def test_an_index_has_the_order_of_its_description(name: str) -> None:
    index = index_of(name)
    assert [(one.line, other.line) for one, other in pairwise(index) if other.line < one.line] == []
    statements = [one.statement for one in index]
    assert [one for one in statements if statements.count(one) > 1] == []


@pytest.mark.parametrize("name", FILES)
def test_every_test_beside_an_index_is_in_it(name: str) -> None:
    named = {one for behaviour in index_of(name) for one in ids(name, behaviour)}
    own = {f"tests/sources/{name}.py::{test}" for test in names_in(f"tests/sources/{name}.py")}
    assert own - named == set()


def test_the_docs_explain_each_difference_and_no_other() -> None:
    reasons = {one.better for name in FILES for one in index_of(name) if one.better}
    assert sorted(explained()) == sorted(reasons)
