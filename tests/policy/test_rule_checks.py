"""Rules are checked when they are loaded: nothing runs on a rule that cannot work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import Runtime, tool
from ferrule.pipeline.stages import Verdict
from ferrule.policy.decide import RulePolicy
from ferrule.policy.patterns import RuleError
from ferrule.policy.rule_file import KnownTools, RuleChecks, Written
from ferrule.policy.rules import Source, SourceKind, parse_rule

FILE = Source(SourceKind.USER, Path("/home/ada/ferrule.toml"))


@tool
def save_note() -> None:
    """Save."""


@tool(signature=lambda params: "x")
def rename_branch() -> None:
    """Rename."""


TOOLS = {"save_note": save_note, "rename_branch": rename_branch}


def checks(tmp_path: Path, *, complete: bool = True) -> RuleChecks:
    return RuleChecks(tmp_path, KnownTools(TOOLS.get, list(TOOLS), complete=complete))


def test_an_error_names_the_file_the_rule_and_what_to_do(tmp_path: Path):
    with pytest.raises(RuleError) as raised:
        checks(tmp_path).read([Written(Verdict.DENY, "Bash()", FILE)])
    assert str(raised.value) == (
        "/home/ada/ferrule.toml: the deny rule `Bash()` cannot work: the brackets are empty; write `Bash` to "
        "mean every call of it. Nothing runs until it is fixed or removed: ferrule rules remove 'Bash()'"
    )


def test_a_rule_of_the_command_line_is_not_to_be_removed_from_a_file(tmp_path: Path):
    flag = Source(SourceKind.FLAG)
    told: list[str] = []
    for text in ("Bash()", "save_noet"):
        with pytest.raises(RuleError) as raised:
            checks(tmp_path).read([Written(Verdict.ALLOW, text, flag)])
        told.append(str(raised.value))
    assert told == snapshot(
        [
            (
                "the command line: the allow rule `Bash()` cannot work: the brackets are empty; write `Bash` "
                "to mean every call of it."
            ),
            (
                "the command line: the allow rule `save_noet` cannot work: there is no tool `save_noet`; did you mean "
                "`save_note`?"
            ),
        ]
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("save_noet", "did you mean `save_note`"),
        ("Raed(.env)", "did you mean `Read`"),
        ("bash(ls)", "did you mean `Bash`"),
        ("save_note(x)", "has nothing that brackets could match"),
    ],
)
def test_a_name_that_is_nearly_a_tools_is_an_error(tmp_path: Path, text: str, said: str):
    with pytest.raises(RuleError, match=said):
        checks(tmp_path).read([Written(Verdict.DENY, text, FILE)])


@pytest.mark.parametrize("which", ["deny", "ask", "allow"])
@pytest.mark.parametrize("text", ["save_noet", "Raed(.env)", "bash(ls)"])
def test_s1_a_program_whose_rule_misspells_a_tool_does_not_start(which: str, text: str) -> None:
    """Its policy alone knows no tools, so the runtime has the names checked."""
    lists: dict[str, Any] = {which: [text]}
    with pytest.raises(RuleError, match=rf"The rule `{re.escape(text)}` cannot work: .* did you mean `\w+`\?$"):
        Runtime([save_note], policy=RulePolicy(**lists))


def test_s1_a_program_may_deny_what_comes_later_and_what_was_read_with_its_tools() -> None:
    denied = ["launch_rocket", "Bash(rm *)", "save_*", "mcp__late__x", "save_note"]
    Runtime([save_note], policy=RulePolicy(deny=denied))
    Runtime([save_note], policy=RulePolicy([parse_rule("save_noet", Verdict.DENY)]))


def test_s1_nor_is_a_misspelt_rule_added_to_a_session() -> None:
    policy = RulePolicy()
    Runtime([save_note], policy=policy)
    with pytest.raises(RuleError, match="did you mean `save_note`"):
        policy.restrict(deny=["Bash(rm *)", "save_noet"])
    assert not policy.deny


def test_a_name_that_is_like_no_tools_is_noted(tmp_path: Path):
    found = checks(tmp_path).read([Written(Verdict.DENY, "launch_rocket", FILE)])
    assert found.notes == ["/home/ada/ferrule.toml: the deny rule `launch_rocket` names no tool that is here."]
    assert [rule.text for rule in found.rules] == ["launch_rocket"]


def test_where_some_tools_did_not_load_a_name_is_not_taken_for_a_slip(tmp_path: Path):
    assert checks(tmp_path, complete=False).read([Written(Verdict.DENY, "save_notes", FILE)]).notes


@pytest.mark.parametrize(
    "text", ["Bash(ls)", "executeCommand", "mcp__github__push", "delete_*", "rename_branch(x*)", "Read(.env)"]
)
def test_a_rule_may_name_what_is_there_or_may_come(tmp_path: Path, text: str):
    assert checks(tmp_path).read([Written(Verdict.ALLOW, text, FILE)]).notes == []


@pytest.mark.parametrize(
    ("text", "match", "no_match"),
    [
        ("Bash(git diff *)", "git diff HEAD", "git push"),
        ("Bash(git diff *)", "git diff && git diff x", "git diff && npm test"),
        ("Read(./secrets/**)", "secrets/a/b", "src/a"),
        ("Edit(~/notes/**)", "~/notes/a", "notes/a"),
        ("WebFetch(domain:example.org)", "example.org", "example.com"),
        ("mcp__github", "mcp__github__push", "mcp__gitlab__push"),
        ("rename_branch(feature/*)", "feature/x", "main"),
    ],
)
def test_examples_are_tried(tmp_path: Path, text: str, match: str, no_match: str):
    checks(tmp_path).read([Written(Verdict.ALLOW, text, FILE, [match], [no_match])])
    with pytest.raises(RuleError, match="under `match` does not match"):
        checks(tmp_path).read([Written(Verdict.ALLOW, text, FILE, [no_match])])
    with pytest.raises(RuleError, match="under `no_match` matches"):
        checks(tmp_path).read([Written(Verdict.ALLOW, text, FILE, no_match=[match])])


def test_a_deny_rule_matches_where_any_part_does(tmp_path: Path):
    assert checks(tmp_path).fits(parse_rule("Bash(rm *)", Verdict.DENY), "ls; /bin/rm x")
    assert not checks(tmp_path).fits(parse_rule("Bash(rm *)", Verdict.ALLOW), "ls; rm x")
