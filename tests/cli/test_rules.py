"""`ferrule rules`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Command


def test_every_rule_is_listed_with_its_file(ferrule: Command) -> None:
    with ferrule.settings.open("a") as file:
        file.write('[permissions]\nallow = ["Bash(git diff *)"]\n')
    (ferrule.workspace / "ferrule.toml").write_text('[permissions]\ndeny = [{rule = "Read(.env)", match = [".env"]}]\n')
    done = ferrule("rules")
    assert [line.split()[0] for line in done.out.splitlines()] == ["LIST", "deny", "allow"]
    assert str(ferrule.workspace / "ferrule.toml") in done.out
    assert str(ferrule.settings) in done.out
    listed = ferrule("rules", "list", "--json").json
    assert listed["mode"] == "default"
    assert listed["rules"][0] == {
        "list": "deny",
        "rule": "Read(.env)",
        "source": "project",
        "file": str(ferrule.workspace / "ferrule.toml"),
        "match": [".env"],
        "no_match": [],
    }


def test_a_rule_is_added_counts_and_is_removed(ferrule: Command) -> None:
    before = ferrule.settings.read_text()
    assert ferrule("call", "save_note", '{"text": "x"}').code == 3
    added = ferrule("rules", "add", "save_note")
    assert (added.code, added.out) == (0, f"save_note is now in allow in {ferrule.settings}.\n")
    assert ferrule("call", "save_note", '{"text": "x"}').code == 0
    assert "already" in ferrule("rules", "add", "save_note").out
    assert ferrule("rules", "remove", "save_note").code == 0
    assert ferrule("call", "save_note", '{"text": "x"}').code == 3
    assert ferrule.settings.read_text().startswith(before)


def test_a_rule_that_cannot_work_is_not_added(ferrule: Command) -> None:
    before = ferrule.settings.read_text()
    for arguments in (
        ["Bash()"],
        ["Bash(ls *)", "--match", "lsof"],
        ["Read(.env)", "--to", "deny", "--no-match", ".env"],
    ):
        done = ferrule("rules", "add", *arguments)
        assert (done.code, done.out) == (2, "")
        assert "cannot work" in done.err
    assert ferrule.settings.read_text() == before


def test_a_broken_rule_stops_calls_and_can_be_removed(ferrule: Command) -> None:
    """A corrupt rule file: nothing runs, and the message says what to do."""
    with ferrule.settings.open("a") as file:
        file.write('[permissions]\ndeny = ["Bash("]\n')
    refused = ferrule("call", "echo_text", '{"text": "x"}')
    assert (refused.code, refused.out) == (2, "")
    assert str(ferrule.settings) in refused.err
    assert "ferrule rules remove 'Bash('" in refused.err
    assert ferrule("rules", "remove", "Bash(").code == 0
    assert ferrule("call", "echo_text", '{"text": "x"}').code == 0


def test_a_projects_rule_goes_into_the_projects_file(ferrule: Command) -> None:
    done = ferrule("rules", "add", "save_note", "--project")
    assert "trusted_folders" in done.err
    assert "save_note" in (ferrule.workspace / "ferrule.toml").read_text()
    assert ferrule("call", "save_note", '{"text": "x"}').code == 3, "an untrusted folder widens nothing"


def test_what_is_not_there_is_not_removed(ferrule: Command) -> None:
    ferrule("rules", "add", "Glob")
    done = ferrule("rules", "remove", "Grep")
    assert done.code == 2
    assert "allow: Glob" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "answers"),
    [
        (["Bash(git diff *)", "git diff HEAD"], 0, [True]),
        (["Read(./secrets/**)", "secrets/a", "src/a"], 1, [True, False]),
        (["WebFetch(domain:example.org)", "example.org"], 0, [True]),
        (["Edit(.env)", "sub/.env", "--as", "deny"], 0, [True]),
    ],
)
def test_a_rule_can_be_tried(ferrule: Command, arguments: list[str], code: int, answers: list[bool]) -> None:
    done = ferrule("rules", "test", *arguments, "--json")
    assert (done.code, [one["matches"] for one in done.json]) == (code, answers)
    assert ferrule("rules", "test", *arguments).out.splitlines()[0].startswith("yes")


def test_claude_codes_permissions_are_taken_over(ferrule: Command) -> None:
    folder = ferrule.workspace / ".claude"
    folder.mkdir()
    permissions = {"allow": ["Bash(npm run test:*)", "Task(x)"], "deny": ["Read(./.env)"], "defaultMode": "plan"}
    (folder / "settings.json").write_text(json.dumps({"permissions": permissions}))
    before = ferrule.settings.read_text()
    tried = ferrule("rules", "import", "--dry-run", HOME=str(ferrule.folder))
    assert "Nothing was written." in tried.out
    assert ferrule.settings.read_text() == before
    done = ferrule("rules", "import", HOME=str(ferrule.folder))
    assert done.code == 0
    assert "not imported: allow `Task(x)`: Ferrule has no `Task`" in done.out
    assert f"2 rules were added to {ferrule.settings}." in done.out
    assert "permissions.mode" in done.out
    assert {rule["rule"] for rule in ferrule("rules", "list", "--json").json["rules"]} == {
        "Read(./.env)",
        "Bash(npm run test:*)",
    }


def test_where_there_is_nothing_to_import_it_is_said(ferrule: Command) -> None:
    done = ferrule("rules", "import", HOME=str(ferrule.folder))
    assert done.code == 2
    assert "Name a file" in done.err
