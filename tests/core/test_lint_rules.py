"""The linter's rules (T11)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Annotated, Any

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, Field

from ferrule import Kind, Tool, ToolContext, tool
from ferrule.core.description import Description, Example
from ferrule.core.function_tool import raw_tool
from ferrule.core.lint import RULES, LintFinding, lint_tool

ROOT = Path(__file__).parents[2]
GOOD = "Get the weather of a city. Use it before planning a trip."


def test_every_rule_is_in_the_reference():
    page = (ROOT / "docs/reference/lint.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| F")]
    assert rows == [f"| {name} | {rule.severity} | {rule.asks} | {rule.advice} |" for name, rule in RULES.items()]


def test_a_finding_reads_well():
    made = raw_tool("weather", True, lambda arguments: None, kind="readonly")
    assert [str(finding) for finding in lint_tool(made)] == snapshot(
        [
            "F003 warning: name: 'weather' does not begin with a verb. Say what it does: `get_weather`, not `weather`.",
            "F010 error: description: there is none. Say in a sentence what it does and when to use it.",
            'F021 warning: parameters: the schema is not of type object. Write {"type": "object", "properties": …}.',
        ]
    )


def one_parameter(name: str = "city", **said: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"description": "A city.", **said}}}


MANY = {"type": "object", "properties": {f"field_{n}": {"description": "One."} for n in range(16)}}
BROKEN: dict[str, dict[str, Any]] = {
    "F001": {"name": "get.weather"},
    "F002": {"name": "w"},
    "F003": {"name": "weather"},
    "F004": {"name": "search"},
    "F010": {"description": ""},
    "F011": {"description": "Get weather."},
    "F012": {"description": "Weather of a city."},
    "F013": {"description": "Returns the weather of any city."},
    "F020": {"schema": {"type": "object", "$ref": "#/$defs/gone"}},
    "F021": {"schema": {}},
    "F022": {"schema": MANY},
    "F023": {"schema": one_parameter(description="")},
    "F024": {"schema": one_parameter("c")},
    "F025": {"schema": one_parameter("param")},
    "F026": {"schema": one_parameter(enum=["a", "a"])},
    "F027": {"description": Description(GOOD, examples=(Example("bad", {"city": 5}),)), "schema": one_parameter(type="string")},
    "F030": {"name": "delete_city"},
    "F031": {"kind": "write"},
}  # fmt: skip


def found(name: str = "get_weather", schema: Any = None, **options: Any) -> list[LintFinding]:
    options = {"description": GOOD, "kind": "readonly", **options}
    return lint_tool(raw_tool(name, one_parameter() if schema is None else schema, lambda arguments: None, **options))


class City(BaseModel):
    city: str = Field(description="A city.")


class Wordless(Tool[City]):
    name = "get_weather"
    kind = Kind.READONLY

    @property
    def description(self) -> Description:
        raise LookupError("no words")

    def run(self, params: City, context: ToolContext) -> None: ...


@tool(kind="readonly", description=GOOD)
def get_weather(city: Annotated[Any, Field(description="A city.")] = object()) -> None: ...  # noqa: B008 - wrong on purpose


OTHERWISE_MADE: dict[str, Tool[Any]] = {"F014": Wordless(), "F028": get_weather}
"""What a tool from a JSON Schema cannot get wrong."""


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_can_be_broken_alone(rule: str):
    """T11: a rule that nothing breaks is no rule, and each finding has the words of its own."""
    (finding,) = lint_tool(OTHERWISE_MADE[rule]) if rule in OTHERWISE_MADE else found(**BROKEN[rule])
    assert finding.rule == rule
    assert (finding.severity, finding.suggestion) == (RULES[rule].severity, RULES[rule].advice)


def test_a_tool_that_keeps_all_rules_has_no_findings():
    assert found() == []


def test_rules_are_in_order_and_read_as_sentences():
    assert list(RULES) == sorted(RULES)
    assert all(re.fullmatch(r"F\d{3}", name) for name in RULES)
    assert [rule for rule in RULES.values() if not (rule.asks.endswith(".") and rule.advice.endswith("."))] == []
    assert {rule.severity for rule in RULES.values()} == {"error", "warning"}


def test_a_finding_is_a_fact_that_can_be_kept():
    finding = LintFinding("F001", "error", "name", "too long", "Shorten it.")
    assert {finding, LintFinding("F001", "error", "name", "too long", "Shorten it.")} == {finding}
    with pytest.raises(FrozenInstanceError):
        finding.rule = "F002"  # pyright: ignore[reportAttributeAccessIssue]
