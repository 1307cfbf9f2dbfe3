"""The paths that words of a command may mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.stand_in import analyse, on_command, policy

from ferrule import Session
from ferrule.policy.command_paths import MOST_MATCHES, folders, matches, places
from ferrule.policy.commands.parts import Analysis, Part
from ferrule.policy.decide import RulePolicy


def test_a_path_is_given_as_it_is_and_as_it_was_written(tmp_path: Path):
    (tmp_path / "link").symlink_to("real")
    root = str(tmp_path.resolve())
    assert list(places("sub/../link", root)) == [(f"{root}/real", True), (f"{root}/link", False)]


def test_stars_are_filled_in_without_hidden_files_unless_they_are_meant(tmp_path: Path):
    for name in ("a", ".b"):
        (tmp_path / name).touch()
    root = str(tmp_path)
    assert matches("*", root) == [f"{root}/a"]
    assert matches(".*", root) == [f"{root}/.b"]
    assert sorted(matches("*", root, hidden=True)) == [f"{root}/.b", f"{root}/a"]


def test_a_choice_stands_for_more_than_it_says_rather_than_less(tmp_path: Path):
    (tmp_path / ".key").touch()
    for pattern in (".[^x]ey", ".[!x]ey", ".[[:alpha:]]ey", ".[]k]ey", ".[[.k.]]ey", ".[k]*"):
        assert matches(pattern, str(tmp_path)) == [f"{tmp_path}/.key"], pattern


def test_no_more_are_listed_than_are_looked_at(tmp_path: Path):
    for number in range(MOST_MATCHES + 3):
        (tmp_path / str(number)).touch()
    assert len(matches("*", str(tmp_path))) == MOST_MATCHES + 1
    session = Session(workspace=tmp_path)
    assert on_command(RulePolicy(), session, "cat *") == "ask"
    assert on_command(RulePolicy(), session, "cat 1*1") == "allow"


def test_where_a_command_may_be_while_it_runs():
    analysis = analyse("cd a; cd /b && ls", directory="/ws", home="/home")
    assert folders(analysis, "/ws") == ["/ws", "/ws/a", "/b"]


@pytest.mark.parametrize(
    "command",
    [
        "cat .k*",
        "cat $X .k?y",
        "cd sub; cat ../.k*",
        "cat .[^x]ey",
        "sort -u .k*",
        "mytool .k*",
        "rm .k*",
        "for f in .k*; do mytool $f; done",
        "tar cf /tmp/x.tar .k*",
        "shopt -s dotglob; cat *",
    ],
)
def test_stars_do_not_slip_past_a_denied_read(session: Session, command: str):
    """S3: the analysis says which patterns a part is given, wherever it then stands."""
    (session.workspace / ".key").write_text("x")
    (session.workspace / "sub").mkdir()
    assert on_command(RulePolicy(deny=["Read(.key)"], allow=["Bash"]), session, command) == "deny"


def test_stars_in_quotes_stand_for_nothing(session: Session):
    (session.workspace / ".key").write_text("x")
    rules = RulePolicy(deny=["Read(.key)"])
    assert on_command(rules, session, "find . -name '.k*'") == "allow"
    assert on_command(rules, session, "cat '.k*'") == "allow"


def test_a_copy_into_a_folder_is_a_write_of_the_file_in_it(session: Session):
    rules = policy(allow=["Bash"])

    def with_reads(command: str, *, directory: str, home: str) -> Analysis:
        (part,) = analyse(command, directory=directory, home=home).parts
        return Analysis(
            command, (Part(part.text, part.words, part.effect, part.why, ("evil/ferrule.toml",), (directory,)),)
        )

    assert on_command(RulePolicy(allow=["Bash"], analyser=with_reads), session, "cp evil/ferrule.toml .") == "deny"
    assert on_command(rules, session, "cp evil/other.toml .") == "allow"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("NODE_ENV=test npm run test", "allow"),
        ("PATH=/evil npm run test", "ask"),
        ("LD_PRELOAD=x npm run test", "ask"),
        ("GIT_AUTHOR_NAME=x npm run test", "allow"),
        ("X=1; PATH=y; npm run test", "ask"),
        ("MY_EDITOR=vi npm run test", "ask"),
        ("PYTHONUNBUFFERED=1 npm run test", "allow"),
    ],
)
def test_a_rule_for_a_program_is_not_for_what_chooses_its_code(session: Session, command: str, expected: str):
    rules = RulePolicy(allow=["Bash(npm run test:*)"])
    assert on_command(rules, session, command) == expected
