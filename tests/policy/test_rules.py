"""Rules: `Tool` and `Tool(specifier)` (P4)."""

from __future__ import annotations

import pytest

from ferrule.pipeline.stages import Verdict
from ferrule.policy.patterns import RuleError
from ferrule.policy.rules import About, parse_rule, parse_rules


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("Bash", About.TOOL),
        ("Bash(*)", About.TOOL),
        ("Bash(git diff *)", About.COMMAND),
        ("Read(./secrets/**)", About.READ),
        ("Edit(/src/**)", About.WRITE),
        ("Write(x)", About.WRITE),
        ("mcp__github__*", About.TOOL),
        ("WebFetch(domain:example.org)", About.HOST),
        ("executeCommand(git *)", About.CALL),
        (" Bash(ls) ", About.COMMAND),
    ],
)
def test_what_a_rule_looks_at(text: str, about: About):
    assert parse_rule(text).about is about


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a rule"),
        (5, "is not a rule"),
        ("Bash()", "the brackets are empty"),
        ("Bash( )", "the brackets are empty"),
        ("Bash(ls", "is not written as"),
        ("Bash ls", "is not written as"),
        ("Bash(ls) x", "is not written as"),
        ("*(ls)", "takes no brackets"),
        ("mcp__github__push(x)", "takes no brackets"),
        ("Grep(src/**)", r"write `Read\(src/\*\*\)`"),
        ("MultiEdit(src/**)", r"write `Edit\(src/\*\*\)`"),
        ("WebFetch(example.org)", "domain:example.org"),
        ("Bash(npm test && npm run *)", "each part"),
    ],
)
def test_a_rule_that_can_never_match_is_an_error(text: object, said: str):
    with pytest.raises(RuleError, match=said):
        parse_rule(text, Verdict.ALLOW)


def test_a_deny_rule_may_be_about_a_pipeline():
    assert parse_rule("Bash(curl * | sh)", Verdict.DENY).about is About.COMMAND


@pytest.mark.parametrize(
    ("rule", "tool", "names"),
    [
        ("mcp__github", "mcp__github__push", True),
        ("mcp__github", "mcp__github", True),
        ("mcp__github", "mcp__githubs__push", False),
        ("mcp__github__*", "mcp__github__push", True),
        ("mcp__github__push", "mcp__github__push__x", False),
        ("delete_*", "delete_user", True),
        ("Read", "readFile", False),
    ],
)
def test_which_tools_a_name_means(rule: str, tool: str, names: bool):
    assert parse_rule(rule).names(tool) is names


def test_one_rule_may_be_given_as_a_word_and_an_error_names_it():
    assert [rule.text for rule in parse_rules("Read", Verdict.DENY)] == ["Read"]
    with pytest.raises(RuleError, match=r"The rule `Bash\(` cannot work"):
        parse_rules(["Bash("], Verdict.DENY)
