"""The official JSON Schema Test Suite, Draft 2020-12, required part, through raw tools (T4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.function_tool import raw_tool
from ferrule.core.problems import InvalidParamsError

SUITE = Path(__file__).parent / "json_schema_suite"
FILES = sorted(path.stem for path in (SUITE / "tests").glob("*.json"))
REMOTES: dict[str, Any] = json.loads((SUITE / "remotes.json").read_text())


def test_the_suite_is_whole():
    cases = sum(len(group["tests"]) for name in FILES for group in groups(name))
    assert (len(FILES), cases) == (46, 1257)


@pytest.mark.parametrize("name", FILES)
def test_every_case_of(name: str):
    """T4: a raw schema means what the specification says, in every case of the suite, none left out."""
    wrong: list[str] = []
    for group in groups(name):
        tool = raw_tool("check_value", group["schema"], lambda arguments: arguments, resources=REMOTES)
        for case in group["tests"]:
            try:
                tool.params.load(json.dumps(case["data"]))
                fits = True
            except InvalidParamsError as invalid:
                fits = False
                if not invalid.problems or any(problem.code == "limit" for problem in invalid.problems):
                    wrong.append(f"{group['description']}: {case['description']}: {invalid}")
            if fits is not case["valid"]:
                wrong.append(f"{group['description']}: {case['description']}")
    assert not wrong


def groups(name: str) -> list[dict[str, Any]]:
    return json.loads((SUITE / "tests" / f"{name}.json").read_text())
