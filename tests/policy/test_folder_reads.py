"""Commands that go through folders read what lies there (S3: one policy for files and commands)."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from tests.policy.stand_in import bash, invoke, on_command

from ferrule import Session
from ferrule.policy.decide import RulePolicy

GOES_THROUGH = [
    "grep -r x .",
    "grep -rn x",
    "grep -R x sub/..",
    "grep --recursive x sub",
    "grep -r x *",
    "rg --hidden x",
    "rg -uu x",
    "rg -. x sub",
    "cd sub && grep -r x",
    "find . -type f -exec cat {} +",
    "find . -name '.e*' -exec cat {} +",
    "find sub -type f | xargs cat",
    "diff -r . /usr/share/doc",
]


@pytest.mark.parametrize("command", GOES_THROUGH)
def test_a_secret_below_the_folder_asks_as_if_it_were_named(session: Session, command: str) -> None:
    assert on_command(RulePolicy(), session, command) == "allow"
    (session.workspace / "sub").mkdir()
    (session.workspace / "sub" / ".env").write_text("KEY=1")
    assert on_command(RulePolicy(), session, command) == "ask"
    assert on_command(RulePolicy(allow=["Read(.env)"]), session, command) == "allow"


@pytest.mark.parametrize(
    "command", ["tar c .", "cp -r . /tmp/x", "cp -a sub /tmp/x", "rsync -a . /tmp/x", "zip -r o.zip ."]
)
def test_leave_for_a_copy_is_no_leave_for_the_secrets_in_it(session: Session, command: str) -> None:
    rules = RulePolicy(allow=["Bash"])
    (session.workspace / "sub").mkdir()
    assert on_command(rules, session, command) == "allow"
    (session.workspace / "sub" / ".env").write_text("KEY=1")
    assert on_command(rules, session, command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "rg x",  # passes hidden files over
        "git grep x",
        "ag x .",
        "grep x *",
        "ls -R",
        "find . -type f",
        "du -a",
        "find . -name '*.py' -exec wc -l {} +",
        "find . -name '*.py' | xargs wc -l",
        "git ls-files | xargs wc -l",
        "tar tf a.tar",
        "cat *",
    ],
)
def test_what_passes_the_secret_over_does_not_ask(session: Session, command: str) -> None:
    (session.workspace / ".env").write_text("KEY=1")
    (session.workspace / "a.tar").touch()
    assert on_command(RulePolicy(), session, command) == "allow"


def test_a_secret_that_is_not_hidden_is_found_by_every_search(session: Session) -> None:
    (session.workspace / "keys").mkdir()
    (session.workspace / "keys" / "id_rsa").write_text("x")
    assert on_command(RulePolicy(), session, "rg x") == "ask"
    assert on_command(RulePolicy(), session, "rg x src") == "ask", "a folder that is not there is no bound"


def test_the_home_is_searched_with_all_that_it_keeps(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    home = session.workspace.parent / "home"
    (home / ".aws").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    assert on_command(RulePolicy(), session, "grep -r x ~") == "ask"
    assert on_command(RulePolicy(), session, "grep -r x /etc") == "ask", "it holds the shadow file"
    assert on_command(RulePolicy(), session, "rg x ~") == "allow", "it passes hidden folders over"


def test_the_reason_names_the_secret(session: Session) -> None:
    (session.workspace / ".env").write_text("KEY=1")
    reason = RulePolicy().decide(invoke(bash, session, command="grep -r x ."), session).reason
    assert reason.replace(str(session.workspace), "/ws") == snapshot(
        "it reads all of `/ws`, and `.env` may hold secrets, so reading it asks first"
    )


@pytest.mark.parametrize("mode", ["default", "bypass", "accept-edits"])
def test_a_denied_file_below_the_folder_is_never_read_unasked(session: Session, mode: str) -> None:
    rules = RulePolicy(deny=["Read(.key)", "Read(./private/**)"], mode=mode, allow=["Bash"])
    (session.workspace / ".key").write_text("x")
    for command in ("grep -r x .", "grep -rn x", "grep -r x . *", "rg --hidden x", "find . -type f -exec cat {} +"):
        assert on_command(rules, session, command) == "ask", command


def test_bypass_asks_only_where_a_denied_file_lies(session: Session) -> None:
    rules = RulePolicy(deny=["Read(.key)"], mode="bypass")
    assert on_command(rules, session, "grep -r x .") == "allow"
    (session.workspace / ".key").write_text("x")
    assert on_command(rules, session, "grep -r x .") == "ask"
    assert on_command(rules, session, "rg x") == "allow"


def test_heaps_of_others_and_links_are_not_gone_into(session: Session) -> None:
    (session.workspace / "node_modules" / "x").mkdir(parents=True)
    (session.workspace / "node_modules" / "x" / ".env").write_text("KEY=1")
    (session.workspace / "loop").symlink_to(".")
    assert on_command(RulePolicy(), session, "grep -r x .") == "allow"
