"""Why a call would run, ask or be refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.policy.stand_in import bash, invoke, policy

from ferrule import Session
from ferrule.builtin.edit import write
from ferrule.pipeline.stages import Verdict
from ferrule.policy.explain import explain
from ferrule.policy.rules import Source, SourceKind, parse_rule

USER = Source(SourceKind.USER, Path("/home/ada/ferrule.toml"))


def explained(session: Session, command: str, **lists: Any) -> dict[str, Any]:
    rules = [parse_rule(text, verdict, USER) for verdict in Verdict for text in lists.pop(verdict.value, ())]
    return explain(policy(rules=rules, **lists), invoke(bash, session, command=command), session).to_dict()


def test_each_part_its_effect_and_why_and_the_rule_and_file_that_decided(session: Session):
    found = explained(session, "ls && git push && rm x", allow=["Bash(git push *)"], deny=["Bash(rm *)"])
    assert found == snapshot(
        {
            "tool": "Bash",
            "verdict": "deny",
            "reason": "`Bash(rm *)` from the user's `ferrule.toml` denies `rm x`",
            "rule": "Bash(rm *)",
            "file": "/home/ada/ferrule.toml",
            "parts": [
                {
                    "what": "ls",
                    "effect": "runs",
                    "why": "",
                    "verdict": "allow",
                    "because": "it is tried first: no rule allows `ls`",
                    "rule": None,
                    "file": None,
                },
                {
                    "what": "git push",
                    "effect": "runs",
                    "why": "",
                    "verdict": "allow",
                    "because": "`Bash(git push *)` from the user's `ferrule.toml` allows it",
                    "rule": "Bash(git push *)",
                    "file": "/home/ada/ferrule.toml",
                },
                {
                    "what": "rm x",
                    "effect": "runs",
                    "why": "",
                    "verdict": "deny",
                    "because": "`Bash(rm *)` denies it",
                    "rule": "Bash(rm *)",
                    "file": "/home/ada/ferrule.toml",
                },
            ],
            "dangers": [],
            "needed": "Remove `Bash(rm *)` from /home/ada/ferrule.toml; no other rule or mode overrides a denial.",
            "box": None,
            "box_why": "",
            "shows": {},
        }
    )


@pytest.mark.parametrize(
    ("command", "lists", "needed"),
    [
        ("ls", {"mode": "bypass"}, ""),
        ("git commit -m x", {}, "To keep its changes without being asked: Bash(git commit *)"),
        ("git push", {}, "Approval, or an allow rule: Bash(git push)"),
        ("git commit -m x", {"mode": "plan"}, "Another mode: plan changes nothing."),
        ("git commit -m x", {"mode": "dont-ask"}, "To keep its changes without being asked: Bash(git commit *)"),
    ],
)
def test_what_would_be_needed(session: Session, command: str, lists: dict[str, Any], needed: str):
    assert explained(session, command, **lists)["needed"] == needed


@pytest.mark.parametrize(
    ("command", "lists", "box"),
    [
        ("ls", {}, "look"),
        ("ls", {"mode": "plan"}, "look"),
        ("ls", {"allow": ["Bash(ls *)"]}, "work"),
        ("ls", {"mode": "bypass"}, "work"),
        ("rm -rf x", {}, "work"),
        ("ls", {"deny": ["Bash(ls *)"]}, None),
    ],
)
def test_it_says_which_box_a_command_would_get(session: Session, command: str, lists: dict[str, Any], box: str | None):
    found = explained(session, command, **lists)
    assert found["box"] == box
    assert bool(found["box_why"]) is (box is not None)


def test_a_denial_and_an_ask_rule_are_lifted_by_taking_them_out_alone(session: Session):
    denied = explained(session, "rm x", deny=["Bash(rm *)"])
    assert (denied["rule"], denied["file"]) == ("Bash(rm *)", "/home/ada/ferrule.toml")
    assert "Remove `Bash(rm *)` from /home/ada/ferrule.toml" in denied["needed"]
    assert "removing `Bash(ls *)` from" in explained(session, "ls", ask=["Bash(ls *)"])["needed"]


def test_a_danger_is_named_with_its_switch(session: Session):
    found = explained(session, "rm -rf x", allow=["Bash"])
    assert found["dangers"] == ["rm -rf x: it removes folders and everything in them, without asking"]
    assert "permissions.dangerous" in found["needed"]


def test_what_ferrule_itself_denies_is_said_so(session: Session):
    found = explain(policy(), invoke(write, session, file_path="ferrule.toml", content=""), session)
    assert found.verdict == "deny"
    assert found.needed == "Nothing overrides it: `Edit(**/ferrule.toml)` is a rule of Ferrule itself."
