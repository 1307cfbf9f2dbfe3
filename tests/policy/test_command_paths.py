"""The paths that words of a command may mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.stand_in import analyse, on_command, policy

from ferrule import Session
from ferrule.policy.command_paths import folders, places, starred_paths
from ferrule.policy.commands.parts import Analysis, Effect, Part


def test_a_path_is_given_as_it_is_and_as_it_was_written(tmp_path: Path):
    (tmp_path / "link").symlink_to("real")
    root = str(tmp_path.resolve())
    assert list(places("sub/../link", root)) == [(f"{root}/real", True), (f"{root}/link", False)]


def test_stars_are_filled_in_without_hidden_files_unless_they_are_meant(tmp_path: Path):
    for name in ("a", ".b"):
        (tmp_path / name).touch()
    names = [Path(path).name for path, _ in places("*", str(tmp_path))]
    hidden = [Path(path).name for path, _ in places(".*", str(tmp_path))]
    assert ("a" in names, ".b" in names, ".b" in hidden) == (True, False, True)


def test_where_a_command_may_be_while_it_runs():
    analysis = analyse("cd a; cd /b && ls", directory="/ws", home="/home")
    assert folders(analysis, "/ws") == ["/ws", "/ws/a", "/b"]


def test_stars_in_quotes_stand_for_nothing(tmp_path: Path):
    (tmp_path / "a.py").touch()
    part = Part("head $f", ("head", "$f"), Effect.READS, "", fixed=False)
    root = str(tmp_path.resolve())
    assert f"{root}/a.py" in starred_paths(Analysis("for f in *.py; do head $f; done", (part,)), root)
    assert starred_paths(Analysis("find . -name '*.py'", (part,)), root) == []


@pytest.mark.parametrize("command", ["cat .k*", "cat $X .k?y", "cd sub; cat ../.k*"])
def test_stars_do_not_slip_past_a_denied_read(session: Session, command: str):
    """S3: also where the analysis does not say which files a star stands for."""
    (session.workspace / ".key").write_text("x")
    (session.workspace / "sub").mkdir()

    def without_stars(command: str, *, directory: str, home: str) -> Analysis:
        found = analyse(command, directory=directory, home=home)
        parts = tuple(
            Part(part.text, part.words, part.effect, part.why, fixed=part.program == "cd") for part in found.parts
        )
        return Analysis(command, parts)

    from ferrule.policy.decide import RulePolicy

    rules = RulePolicy(deny=["Read(.key)"], allow=["Bash"], analyser=without_stars)
    assert on_command(rules, session, command) == "deny"


def test_a_copy_into_a_folder_is_a_write_of_the_file_in_it(session: Session):
    rules = policy(allow=["Bash"])

    def with_reads(command: str, *, directory: str, home: str) -> Analysis:
        (part,) = analyse(command, directory=directory, home=home).parts
        return Analysis(
            command, (Part(part.text, part.words, part.effect, part.why, ("evil/ferrule.toml",), (directory,)),)
        )

    from ferrule.policy.decide import RulePolicy

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
    ],
)
def test_a_rule_for_a_program_is_not_for_what_chooses_its_code(session: Session, command: str, expected: str):
    def without_variables(command: str, *, directory: str, home: str) -> Analysis:
        plain = " ".join(word for word in command.replace(";", " ").split() if "=" not in word)
        return Analysis(command, analyse(plain, directory=directory, home=home).parts)

    from ferrule.policy.decide import RulePolicy

    rules = RulePolicy(allow=["Bash(npm run test:*)"], analyser=without_variables)
    assert on_command(rules, session, command) == expected
