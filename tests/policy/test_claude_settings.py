"""Claude Code's permissions, taken over as far as they go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.pipeline.stages import Verdict
from ferrule.policy.patterns import RuleError
from ferrule.policy.rule_file import claude_files, read_claude_settings


def settings(tmp_path: Path, **permissions: Any) -> Path:
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"permissions": permissions, "model": "x"}))
    return file


def test_rules_are_taken_over_and_what_is_not_is_said(tmp_path: Path):
    found = read_claude_settings(
        settings(
            tmp_path,
            allow=["Bash(npm run test:*)", "Read(~/.zshrc)", "mcp__github", "WebFetch(domain:example.org)",
                   "WebSearch(*)", "Bash(cd x && npm *)", "Task(explore)", "Write(/src/**)", "Grep(src/**)"],
            ask=["Bash(git push *)"],
            deny=["Read(./.env)", 5],
            defaultMode="acceptEdits",
            additionalDirectories=["../docs"],
            disableBypassPermissionsMode="disable",
        )
    )  # fmt: skip
    assert found.rules == [
        (Verdict.DENY, "Read(./.env)"),
        (Verdict.ASK, "Bash(git push *)"),
        (Verdict.ALLOW, "Bash(npm run test:*)"),
        (Verdict.ALLOW, "Read(~/.zshrc)"),
        (Verdict.ALLOW, "mcp__github"),
        (Verdict.ALLOW, "WebFetch(domain:example.org)"),
        (Verdict.ALLOW, "WebSearch"),
        (Verdict.ALLOW, "Edit(/src/**)"),
        (Verdict.ALLOW, "Read(src/**)"),
    ]
    assert found.mode == "accept-edits"
    assert [(one.what, one.why) for one in found.not_carried] == snapshot(
        [
            ("deny 5", "it is not a text"),
            (
                "allow `Bash(cd x && npm *)`",
                "each part of a command is matched on its own, so none ever contains `&&`, `|`, `;` or `>`; write a rule for each part, and `Edit(path)` for what is written to",  # noqa: E501
            ),
            ("allow `Task(explore)`", "Ferrule has no `Task`"),
            ("additionalDirectories '../docs'", "a workspace is one folder; run ferrule there, or above both"),
            ("permissions.disableBypassPermissionsMode", "Ferrule has no such setting"),
        ]
    )
    assert ("Write(/src/**)", "Edit(/src/**)") in found.changed


def test_an_unknown_mode_and_lists_that_are_none_are_said(tmp_path: Path):
    found = read_claude_settings(settings(tmp_path, defaultMode="auto", allow="Bash"))
    assert found.mode is None
    assert [one.what for one in found.not_carried] == ["permissions.allow", "defaultMode 'auto'"]


@pytest.mark.parametrize("text", ["{", "[]", '{"permissions": 5}', ""])
def test_a_file_that_is_none_is_an_error(tmp_path: Path, text: str):
    file = tmp_path / "settings.json"
    file.write_text(text)
    with pytest.raises(RuleError, match=r"settings\.json"):
        read_claude_settings(file)


def test_the_files_that_there_are(tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    for file in (home / ".claude/settings.json", project / ".claude/settings.local.json"):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    assert claude_files(project, home) == [home / ".claude/settings.json", project / ".claude/settings.local.json"]
    assert read_claude_settings(home / ".claude/settings.json").rules == []
