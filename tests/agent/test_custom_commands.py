"""Commands and skills from files: which are found, what the model reads, and what they cannot do (P4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule import Runtime
from ferrule.agent.custom_commands import CustomCommands, SkillTool


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def found(workspace: Path, **more: object) -> CustomCommands:
    workspace.mkdir(exist_ok=True)
    return CustomCommands(workspace, workspace.parent / "config", **more)  # type: ignore[arg-type]


def test_every_form_is_found(home: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    put(work / ".claude/commands/git/tidy.md", "Tidy.")
    put(work / ".opencode/command/one.md", "---\ndescription: The first\n---\nOne.")
    put(work / ".gemini/commands/two.toml", 'description = "The second"\nprompt = "Two {{args}}."')
    put(home / ".codex/prompts/three.md", "Three.")
    put(tmp_path / "config/skills/four/SKILL.md", "---\nname: four\ndescription: The fourth\n---\nFour.")
    put(work / ".claude/commands/bad name.md", "No.")
    put(work / ".gemini/commands/broken.toml", "prompt = [")
    commands = found(work)
    assert [one.name for one in commands.for_user()] == ["four", "git:tidy", "one", "three", "two"]
    assert [one.name for one in commands.skills()] == ["four"]
    assert commands.all()["two"].text("now") == "Two now."


@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("Do $1 then $2.", "a 'b c'", "Do a then b c."),
        ("All: $ARGUMENTS", "it's $1", "All: it's $1"),
        ("$ARGUMENTS[1] and $ARGUMENTS[0]", "x y", "y and x"),
        ("Nothing.", "more", "Nothing.\n\nArguments: more"),
        ("It costs $10, $3.", "", "It costs $10, ."),
    ],
)
def test_arguments(home: Path, tmp_path: Path, body: str, arguments: str, text: str) -> None:
    put(tmp_path / "work/.claude/commands/it.md", body)
    assert found(tmp_path / "work").all()["it"].text(arguments) == text


def test_front_matter_that_is_no_yaml_is_read_all_the_same(home: Path, tmp_path: Path) -> None:
    put(tmp_path / "work/.claude/commands/it.md", "---\ndescription: Fix: it\nargument-hint: [a] [b]\n---\nBody.")
    command = found(tmp_path / "work").all()["it"]
    assert (command.about, command.takes, command.body) == ("Fix: it", "[a] [b]", "Body.")


def test_a_project_cannot_replace_the_users_own_nor_lead_out_of_itself(home: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    put(home / ".claude/commands/deploy.md", "Mine.")
    put(work / ".claude/commands/deploy.md", "Theirs.")
    put(tmp_path / "secret.md", "Secret.")
    (work / ".claude/commands/leak.md").symlink_to(tmp_path / "secret.md")
    put(work / ".claude/commands/denied.md", "Denied.")
    commands = found(work, denied=lambda path: path.name == "denied.md").all()
    assert commands["deploy"].body == "Mine."
    assert commands.keys() == {"deploy"}


async def test_a_skill_is_read_by_the_model_unless_it_is_kept_to_the_user(home: Path, tmp_path: Path) -> None:
    put(tmp_path / "work/.claude/skills/tidy/SKILL.md", "---\ndescription: Tidy\n---\nSort !`ls`.")
    put(tmp_path / "work/.claude/skills/own/SKILL.md", "---\ndisable-model-invocation: true\n---\nMine.")
    put(tmp_path / "work/.claude/skills/its/SKILL.md", "---\nuser-invocable: false\n---\nIts.")
    commands = found(tmp_path / "work")
    assert [one.name for one in commands.for_user()] == ["own", "tidy"]
    runtime = Runtime([SkillTool(commands)])
    result = await runtime.run("Skill", {"name": "tidy"})
    assert "Sort !`ls`." in result.llm_content
    assert "was not run" in result.llm_content
    missing = await runtime.run("Skill", {"name": "tidi"})
    assert "There is no skill `tidi`." in missing.llm_content
    assert "Did you mean `tidy`?" in missing.llm_content
    assert not (await runtime.run("Skill", {"name": "own"})).success
