"""Rules of one list."""

from __future__ import annotations

from ferrule.pipeline.stages import Verdict
from ferrule.policy.commands.parts import Part
from ferrule.policy.rules import About, RuleSet, parse_rules

LS = Part("ls -l", ("ls", "-l"), ("ls", "-l"))


def rules(*texts: str) -> RuleSet:
    return RuleSet.of(parse_rules(texts, Verdict.DENY))


def test_each_question_is_answered_by_the_rule_that_is_about_it():
    found = rules("delete_*", "Bash(ls *)", "Read(.env)", "Edit(/src/**)", "WebFetch(domain:example.org)", "make(x*)")
    roots = ("/ws",)

    def text(rule: object) -> str:
        return getattr(rule, "text", "")

    assert text(found.tool("delete_all")) == "delete_*"
    assert text(found.covering_part(LS, "Bash")) == text(found.concerning_part(LS, "ls -l", "any")) == "Bash(ls *)"
    assert text(found.concerning_path("/ws/.env", roots, write=False)) == "Read(.env)"
    assert found.concerning_path("/ws/.env", roots, write=True) is None
    assert text(found.covering_path("/ws/src/a", roots, write=True)) == "Edit(/src/**)"
    assert text(found.concerning_host("api.example.org")) == "WebFetch(domain:example.org)"
    assert text(found.call("make", "xyz")) == "make(x*)"
    assert found.call("take", "xyz") is None


def test_bash_names_every_tool_that_runs_commands():
    assert rules("Bash").tool("executeCommand", runs_commands=True) is not None
    assert rules("Bash").tool("executeCommand") is None


def test_a_rule_for_one_tool_that_runs_commands_is_for_that_tool():
    assert rules("executeCommand(ls *)").covering_part(LS, "executeCommand") is not None
    assert rules("executeCommand(ls *)").covering_part(LS, "Bash") is None


def test_a_rule_that_is_added_later_counts_at_once():
    found = rules()
    assert found.tool("x") is None
    assert not found
    found.add(parse_rules("x", Verdict.DENY)[0])
    found.add(parse_rules("Read(a)", Verdict.DENY)[0])
    assert found.tool("x") is not None
    assert found.concerning_path("/ws/a", ("/ws",), write=False) is not None
    found.add(parse_rules("Read(b)", Verdict.DENY)[0])
    assert found.concerning_path("/ws/b", ("/ws",), write=False) is not None
    assert found.about(About.READ)
    assert [rule.text for rule in found] == ["x", "Read(a)", "Read(b)"]
