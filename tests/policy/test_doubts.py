"""Tools that are not what they were: leave does not count, but denials, plan mode and bypass do."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.core.context import Session
from ferrule.core.function_tool import raw_tool
from ferrule.core.tool import Invocation, Tool
from ferrule.policy.decide import RulePolicy

TOOL = raw_tool("mcp__x__y", {}, lambda arguments: "done")
OTHER = raw_tool("mcp__x__z", {}, lambda arguments: "done")


class Doubt:
    def __init__(self) -> None:
        self.doubted: Tool[Any] | None = TOOL

    def about(self, tool: Tool[Any]) -> str:
        return "it changed" if tool is self.doubted else ""

    def way_out(self, tool: Tool[Any]) -> str:
        return "Look at it."

    def dispel(self, tool: Tool[Any]) -> None:
        self.doubted = None


def decide(policy: RulePolicy, tool: Tool[Any] = TOOL) -> tuple[str, str]:
    decision = policy.decide(Invocation(tool, {}, "1"), Session())
    return decision.verdict.value, decision.reason


@pytest.mark.parametrize("rule", ["mcp__x__y", "mcp__x__*", "mcp__x", "*"])
def test_no_rule_gives_leave_to_a_tool_in_doubt(rule: str) -> None:
    policy = RulePolicy(allow=[rule], doubts=Doubt())
    assert decide(policy) == ("ask", "it changed")
    assert decide(policy, OTHER)[0] == ("ask" if rule == "mcp__x__y" else "allow")


def test_always_settles_it() -> None:
    policy = RulePolicy(allow=["*"], doubts=Doubt())
    session = Session()
    invocation = Invocation(TOOL, {}, "1")
    offer = policy.offer(invocation, session)
    assert offer is not None
    assert (offer.rule, offer.instead) == ("mcp__x__y", "Look at it.")
    policy.remember(invocation, session)
    assert policy.decide(invocation, session).verdict.value == "allow"


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"deny": ["mcp__x"]}, "deny"),
        ({"mode": "plan"}, "deny"),
        ({"mode": "dont-ask"}, "deny"),
        ({"mode": "bypass"}, "allow"),
    ],
)
def test_denials_and_modes_are_what_they_are(options: dict[str, Any], verdict: str) -> None:
    assert decide(RulePolicy(allow=["*"], doubts=Doubt(), **options))[0] == verdict
