"""What Ferrule looks after unasked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.policy.stand_in import invoke, on_command, policy, verdict

from ferrule import Session
from ferrule.builtin.edit import edit
from ferrule.builtin.read import read
from ferrule.builtin.write import write
from ferrule.policy.sensitive import Guarded


@pytest.mark.parametrize(
    "path", ["~/.ssh/id_rsa", "~/.aws/credentials", "~/.netrc", ".env", "sub/.env.local", "/etc/shadow"]
)
def test_reading_a_secret_asks_whichever_tool_reads_it(session: Session, path: str):
    assert on_command(policy(), session, f"cat {path}") == "ask"
    assert on_command(policy(), session, f"echo < {path}") == "ask"
    assert verdict(policy(), session, read, file_path=path) == "ask"


@pytest.mark.parametrize("path", ["/etc/passwd", "README.md", ".env.example", "src/environment.py"])
def test_reading_anything_else_does_not(session: Session, path: str):
    assert on_command(policy(), session, f"cat {path}") == "allow"


def test_a_rule_about_the_path_lifts_the_question_and_a_tools_name_does_not(session: Session):
    assert verdict(policy(allow=["Read"]), session, read, file_path=".env") == "ask"
    assert verdict(policy(allow=["Read(.env)"]), session, read, file_path=".env") == "allow"
    assert on_command(policy(allow=["Bash(cat *)"]), session, "cat .env") == "ask"
    assert on_command(policy(allow=["Read(.env)"]), session, "cat .env") == "allow"


def test_a_link_to_a_secret_is_the_secret(session: Session):
    (session.workspace / ".env").write_text("KEY=1")
    (session.workspace / "notes").symlink_to(".env")
    assert on_command(policy(), session, "cat notes") == "ask"
    assert verdict(policy(), session, read, file_path="notes") == "ask"


OBEYED = [
    ".git/hooks/pre-commit", ".git/config", ".git/modules/lib/hooks/post-checkout", ".git/worktrees/w/config.worktree",
    "sub/.git/info/attributes", ".gitmodules", ".husky/pre-push", ".vscode/tasks.json", "a/b/.idea/workspace.xml",
    ".cursor/rules/x.mdc", ".claude/agents/a.md", ".codex/config.toml", ".gemini/settings.json", "sub/.mcp.json",
    ".envrc", "sub/.envrc", ".bashrc", "home/.zshrc", ".Git/hooks/pre-commit", ".VSCode/tasks.json", "~/.profile",
]  # fmt: skip


@pytest.mark.parametrize("mode", ["default", "accept-edits", "bypass"])
@pytest.mark.parametrize("path", OBEYED)
def test_what_other_programs_run_asks_in_every_mode_unless_a_rule_names_it(session: Session, path: str, mode: str):
    """S2, P4: a tool's name, `**` and the mode are no leave for what git, an editor, a shell or an agent obeys."""
    blanket = policy(mode=mode, allow=["*", "Write", "Edit(**)", "Edit(~/**)", "Bash"], dangerous="allow")
    assert verdict(blanket, session, write, file_path=path, content="x") == "ask"
    assert on_command(blanket, session, f"echo x > {path}") == "ask"
    assert on_command(blanket, session, f"cp evil {path}") == "ask"
    named = policy(mode=mode, allow=["Edit(**)", f"Edit({path})"])
    assert verdict(named, session, write, file_path=path, content="x") == "allow"
    assert verdict(policy(mode="dont-ask"), session, write, file_path=path, content="x") == "deny"
    assert on_command(named, session, f"echo x > {path}") == "allow"


@pytest.mark.parametrize(
    "path", ["src/config", "git/hooks.py", "docs/vscode/tasks.json", "envrc", ".gitignore", ".env.example"]
)
def test_what_only_looks_alike_is_written_as_the_mode_says(session: Session, path: str):
    for mode in ("accept-edits", "bypass"):
        assert verdict(policy(mode=mode), session, write, file_path=path, content="x") == "allow"


def test_the_question_says_why_it_is_asked(session: Session):
    decision = policy(mode="bypass").decide(invoke(write, session, file_path=".envrc", content="x"), session)
    assert decision.reason == "`.envrc` holds what other programs run or obey, so writing it asks first"


@pytest.mark.parametrize("mode", ["default", "accept-edits", "bypass", "dont-ask"])
@pytest.mark.parametrize(
    "path", ["ferrule.toml", "sub/ferrule.toml", ".claude/settings.json", ".claude/settings.local.json"]
)
def test_settings_are_never_written_by_a_tool_or_a_command(session: Session, mode: str, path: str):
    """An agent must not approve itself."""
    rules = policy(mode=mode, allow=["*", "Edit(**)", "Bash"], dangerous="allow")
    for command in (f"echo x > {path}", f"rm {path}", f"mv {path} y", f"cp evil {path}", f"touch ./x/../{path}"):
        assert on_command(rules, session, command) == "deny", command
    arguments = {"file_path": path, "old_string": "a", "new_string": "b"}
    assert verdict(rules, session, edit, **arguments) == "deny"


def test_a_folder_that_holds_the_settings_is_not_removed_or_moved(session: Session):
    rules = policy(allow=["Bash"], dangerous="allow")
    (session.workspace / ".claude").mkdir()
    assert on_command(rules, session, "rm -r .claude") == "ask"
    (session.workspace / ".claude" / "settings.json").write_text("{}")
    assert on_command(rules, session, "rm -r .claude") == "deny"
    assert on_command(rules, session, "mv .claude elsewhere") == "deny"
    assert on_command(rules, session, "touch .claude") == "ask"


def test_stars_are_filled_in_as_the_shell_would(session: Session):
    (session.workspace / "ferrule.toml").write_text("")
    assert on_command(policy(allow=["Bash"]), session, "rm *.toml") == "deny"
    assert on_command(policy(allow=["Bash"]), session, "rm *.txt") == "allow"


def test_the_persons_own_file_is_kept_wherever_it_lies(session: Session, tmp_path: Path):
    mine = tmp_path / "my [rules].conf"
    rules = policy(own_files=[mine], mode="bypass")
    assert on_command(rules, session, f"echo x > '{mine}'") == "deny"
    mine.write_text("")
    assert on_command(rules, session, f"rm -r '{tmp_path}'") == "deny"


def test_the_rule_is_named():
    found = Guarded().asking("/ws/.env", ("/ws",), write=False)
    assert found is not None
    assert found.text == "Read(.env)"
