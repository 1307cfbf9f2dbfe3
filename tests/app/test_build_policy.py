"""From settings to a policy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ferrule.app.build import App, Tools, build_policy, build_tools, written_rules
from ferrule.app.settings import (
    AuditSettings,
    PermissionSettings,
    RuleTable,
    Settings,
    SettingsError,
    ToolSettings,
    load_settings,
)
from ferrule.core.access import Mode


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    (tmp_path / "person.toml").touch()
    (tmp_path / "ws").mkdir()
    monkeypatch.setenv("FERRULE_CONFIG", str(tmp_path / "person.toml"))
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("ferrule.app.settings.ORGANISATION_FILE", tmp_path / "organisation.toml")
    return tmp_path / "person.toml", tmp_path / "ws" / "ferrule.toml"


def tools(workspace: Path) -> Tools:
    return build_tools(Settings(tools=ToolSettings(plugins=False)), workspace)


def test_each_rule_keeps_its_source(files: tuple[Path, Path], tmp_path: Path) -> None:
    person, project = files
    person.write_text('[permissions]\nallow = ["Read(~/notes/**)"]\n')
    project.write_text('[permissions]\nallow = ["Bash"]\nask = ["Glob"]\ndeny = [{rule = "Edit(/a)", match = ["a"]}]\n')
    (tmp_path / "organisation.toml").write_text('[permissions]\ndeny = ["Bash(curl *)"]\n')
    settings = load_settings(project.parent, {"permissions": {"allow": ["Grep"]}}).settings
    found = [
        (rule.verdict.value, rule.text, rule.source.kind.value, rule.source.file) for rule in written_rules(settings)
    ]
    assert found == [
        ("deny", "Bash(curl *)", "organisation", tmp_path / "organisation.toml"),
        ("deny", "Edit(/a)", "project", project),
        ("ask", "Glob", "project", project),
        ("allow", "Read(~/notes/**)", "user", person),
        ("allow", "Grep", "flag", None),
    ]
    built = build_policy(settings, project.parent, tools(project.parent))
    assert built.notes == []
    denied = next(rule for rule in built.policy.deny if rule.text == "Edit(/a)")
    assert denied.path is not None
    assert denied.path.covers(f"{project.parent}/a", ("/elsewhere",)), "`/a` starts at the project's file"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('deny = ["Bash()"]', "`Bash()` cannot work"),
        ('deny = ["Raed(.env)"]', "did you mean `Read`"),
        ('allow = [{rule = "Bash(ls *)", match = ["lsof"]}]', "its example `lsof` under `match`"),
        ('ask = ["getCurrentDateTime(x)"]', "has nothing that brackets could match"),
    ],
)
def test_a_rule_that_cannot_work_lets_nothing_run(files: tuple[Path, Path], written: str, said: str) -> None:
    """A corrupt rule file: nothing runs that should not, and the message says what to do."""
    person, project = files
    person.write_text(f"[permissions]\n{written}\n")
    settings = load_settings(project.parent).settings
    with pytest.raises(SettingsError) as raised:
        App(settings, project.parent)
    assert str(raised.value).startswith(str(person))
    assert said in str(raised.value)
    assert "ferrule rules remove" in str(raised.value)


def test_a_rule_for_a_tool_that_is_not_here_is_noted(files: tuple[Path, Path]) -> None:
    settings = Settings(
        permissions=PermissionSettings(deny=[RuleTable("launch_rocket")]), tools=ToolSettings(plugins=False)
    )
    assert "names no tool that is here" in App(settings, files[1].parent).notes[0]


def test_the_files_in_force_are_protected_and_denied_files_stay_out_of_searches(files: tuple[Path, Path]) -> None:
    person, project = files
    workspace = project.parent
    (workspace / ".env").write_text("KEY=needle")
    settings = Settings(
        permissions=PermissionSettings(mode=Mode.BYPASS, deny=["Read(.env)"]),
        tools=ToolSettings(plugins=False),
        audit=AuditSettings(enabled=False),
    )

    async def go() -> None:
        async with App(settings, workspace) as app:
            denied = await app.runtime.run("Write", {"file_path": "ferrule.toml", "content": "x"})
            assert denied.error is not None
            assert "would write Ferrule's own settings" in denied.error.message
            searched = await app.runtime.run("Grep", {"pattern": "needle"})
            assert "1 file was held back by a rule" in searched.llm_content
            assert str(person) in [rule.text[6:-1] for rule in app.runtime.policy.guarded.never.rules]  # type: ignore[attr-defined]

    asyncio.run(go())
