"""Commands, part by part (P4, S2, S3)."""

from __future__ import annotations

import pytest
from tests.policy.stand_in import on_command, policy

from ferrule import Session


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls -la", "allow"),
        ("git diff | head", "allow"),
        ("cat /etc/passwd", "allow"),
        ("npm test", "ask"),
        ("ls; npm test", "ask"),
        ("mkdir x", "ask"),
        ("ls > x", "ask"),
        ("ls > /dev/null", "allow"),
        ("echo 'unbalanced", "ask"),
        ("", "allow"),
    ],
)
def test_what_provably_reads_alone_runs_and_the_rest_asks(session: Session, command: str, expected: str):
    assert on_command(policy(), session, command) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("npm run test", "allow"),
        ("npm run test && ls", "allow"),
        ("npm run test && npm publish", "ask"),
        ("npm run test | tee x", "ask"),
        ("nohup npm run test", "allow"),
        ("ssh host npm run test", "ask"),
        ("npm run test > out.txt", "ask"),
        ("npm run test > ~/.bashrc", "ask"),
        ("npm run test 'unbalanced", "ask"),
    ],
)
def test_each_part_needs_leave_of_its_own(session: Session, command: str, expected: str):
    """S3: an allow-list by first word is not slipped past."""
    assert on_command(policy(allow=["Bash(npm run test:*)"]), session, command) == expected


def test_a_rule_for_a_command_does_not_cover_where_its_output_goes(session: Session):
    ls = ["Bash(ls *)"]
    assert on_command(policy(allow=ls), session, "ls > out.txt") == "ask"
    assert on_command(policy(allow=[*ls, "Edit(out.txt)"]), session, "ls > out.txt") == "allow"
    assert on_command(policy(allow=["Edit(out.txt)"]), session, "ls > out.txt") == "allow"
    assert on_command(policy(allow=["Edit(out.txt)"]), session, "npm test > out.txt") == "ask"
    assert on_command(policy(allow=ls, mode="accept-edits"), session, "ls > out.txt") == "allow"
    assert on_command(policy(allow=ls, mode="accept-edits"), session, "ls > ../out.txt") == "ask"


def test_a_rule_for_a_command_covers_what_the_command_itself_writes(session: Session):
    assert on_command(policy(allow=["Bash(mkdir *)"]), session, "mkdir a b") == "allow"
    assert on_command(policy(allow=["Bash(mkdir *)"]), session, "mkdir a > b") == "ask"
    assert on_command(policy(allow=["Bash(mkdir *)"]), session, "mkdir a > sub/a") == "ask"
    assert on_command(policy(allow=["Bash(mkdir *)"]), session, "mkdir $X") == "allow"
    assert on_command(policy(allow=["Bash(mkdir *)"]), session, "mkdir $X > $Y") == "ask"


def test_a_rule_that_is_the_whole_command_covers_all_of_it(session: Session):
    command = "npm test > out.txt && ssh host ls | tee '*'"
    exact = r"Bash(npm test > out.txt && ssh host ls | tee '\*')"
    assert on_command(policy(allow=[exact]), session, command) == "allow"
    assert on_command(policy(allow=[exact]), session, command + " x") == "ask"


def test_bash_alone_covers_every_command_that_is_understood(session: Session):
    for rule in ("Bash", "Bash(*)", "*"):
        assert on_command(policy(allow=[rule]), session, "npm test > out.txt") == "allow"
        assert on_command(policy(allow=[rule]), session, "ssh host ls") == "allow"
        assert on_command(policy(allow=[rule]), session, "ls 'unbalanced") == "ask"
        assert on_command(policy(allow=[rule]), session, "rm -rf x") == "ask"


@pytest.mark.parametrize(
    "command", ["cat .key", "echo < .key", "cat ./sub/../.key", "cat k*", "grep -r x .", "rg x", "rg x ."]
)
def test_a_denied_read_holds_for_commands(session: Session, command: str):
    (session.workspace / ".key").write_text("x")
    (session.workspace / "k1").symlink_to(".key")
    assert on_command(policy(deny=["Read(.key)"]), session, command) in ("deny", "ask")
    # No mode overrides a denial; but what passes hidden files over reads nothing that is denied.
    expected = {"grep -r x .": "ask", "rg x": "allow", "rg x .": "allow"}.get(command, "deny")
    assert on_command(policy(deny=["Read(.key)"], mode="bypass"), session, command) == expected


def test_a_path_that_is_only_known_at_run_time_asks_where_a_rule_may_be_about_it(session: Session):
    assert on_command(policy(), session, "cat $X") == "allow"
    assert on_command(policy(), session, "X=~/.ssh/id_rsa; cat $X") == "ask"
    for mode in ("default", "bypass"):
        assert on_command(policy(deny=["Read(.key)"], mode=mode), session, "cat $X") == "ask"
        assert on_command(policy(deny=["Edit(.key)"], mode=mode), session, "ls > $X") == "ask"
        assert on_command(policy(deny=["Bash(rm *)"], mode=mode), session, "$X y") == "ask"
        assert on_command(policy(deny=["Bash(rm *)"], mode=mode), session, "ls 'unbalanced") == "ask"
    assert on_command(policy(mode="bypass"), session, "ls 'unbalanced") == "allow"


def test_a_denied_write_holds_for_commands(session: Session):
    rules = policy(deny=["Edit(./keep/**)"], allow=["Bash"], dangerous="allow")
    for command in (
        "echo > keep/a",
        "touch keep/a/b",
        "rm keep/a",
        "cp x keep/y",
        "rm -r keep",
        "rm -r .",
        "mv keep y",
    ):
        assert on_command(rules, session, command) == "deny", command
    assert on_command(rules, session, "touch kept") == "allow"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("mkdir sub", "allow"),
        ("touch a b", "allow"),
        ("rm a", "allow"),
        ("cp a ../b", "ask"),
        ("mv a /tmp/b", "ask"),
        ("rm -rf a", "ask"),
        ("touch $X", "ask"),
        ("touch .git/hooks/x", "ask"),
        ("nohup touch a", "ask"),
        ("npm test", "ask"),
    ],
)
def test_accepted_edits_are_also_accepted_from_commands(session: Session, command: str, expected: str):
    assert on_command(policy(mode="accept-edits"), session, command) == expected


def test_a_tool_that_runs_commands_goes_by_bash_rules_and_by_its_own_name(session: Session):
    from tests.policy.stand_in import verdict

    from ferrule import Touch, tool

    @tool(
        name="executeCommand", kind="execute", touches=lambda params: [Touch(f"command:{params.command}", write=True)]
    )
    def execute(command: str) -> None: ...

    for rule in ("Bash(npm *)", "Bash", "executeCommand", "executeCommand(npm *)"):
        assert verdict(policy(allow=[rule]), session, execute, command="npm test") == "allow"
        assert verdict(policy(deny=[rule]), session, execute, command="npm test") == "deny"
    assert on_command(policy(allow=["executeCommand(npm *)"]), session, "npm test") == "ask"
