"""An assistant, put together from settings: what it is told, what it may use, and where its session is saved."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ferrule import raw_tool
from ferrule.agent.agent_events import TurnEnded
from ferrule.agent.saved_sessions import SavedConversationError
from ferrule.app.assistant import Assistant, build_assistant, limits_of, model_for, resume
from ferrule.app.build import App
from ferrule.app.settings import AssistantSettings, PermissionSettings, Settings, SettingsError, ToolSettings
from ferrule.core.access import Mode
from ferrule.records.reader import AuditReader
from ferrule.testing import ScriptedModel, call, say
from ferrule.workspace.files import files_of


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    folder = tmp_path / "work"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(folder)], check=True)
    (folder / "AGENTS.md").write_text("Use tabs.")
    (folder / "a.txt").write_text("hello\n")
    return folder


def settings(**assistant: object) -> Settings:
    return Settings(tools=ToolSettings(plugins=False), assistant=AssistantSettings(**assistant))  # type: ignore[arg-type]


async def said(assistant: Assistant, text: str) -> TurnEnded:
    events = [event async for event in assistant.agent.run(text)]
    ended = events[-1]
    assert isinstance(ended, TurnEnded)
    return ended


async def test_it_knows_where_it_is_and_has_the_standard_tools(workspace: Path) -> None:
    model = ScriptedModel(["Hi."])
    async with App(settings(), workspace) as app:
        assistant = build_assistant(app, model, asks=False)
        await said(assistant, "Hello.")
        await assistant.close()
    request = model.requests[0]
    names = [tool.name for tool in request.tools]
    assert {"Read", "Edit", "Bash", "Task"} <= set(names)
    assert not {"readFile", "listFiles", "searchFiles", "executeCommand"} & set(names)
    assert {"getGitInfo", "getCurrentDateTime"} <= set(names)
    for words in ("- Git branch: trunk", f"- Workspace: {workspace}", "Use tabs.", "Approval isn't available now"):
        assert words in request.system
    assert model.closed


async def test_the_settings_choose_its_tools_and_whether_the_project_speaks(workspace: Path) -> None:
    model = ScriptedModel(["Hi."])
    async with App(settings(tools=["Read", "Task"], project_words=False), workspace) as app:
        await said(build_assistant(app, model), "Hello.")
    assert [tool.name for tool in model.requests[0].tools] == ["Read", "Task"]
    assert "Use tabs." not in model.requests[0].system


async def test_of_many_tools_the_built_in_ones_are_shown_and_the_others_found(workspace: Path) -> None:
    """X5."""
    tools = ToolSettings(plugins=False, search_above=3)
    async with App(Settings(tools=tools), workspace) as app:
        app.tools.registry.register(raw_tool("roll_dice", {"type": "object"}, lambda _: "6", kind="readonly"))
        model = ScriptedModel([call("search_tools", {"queries": ["roll the dice"]}), say("ok")])
        assistant = build_assistant(app, model)
        await said(assistant, "Roll the dice.")
        await assistant.close()
    first, second = ([one.name for one in request.tools] for request in model.requests)
    assert {"Read", "Bash", "TodoWrite", "search_tools"} <= set(first)
    assert second == [*first, "roll_dice"]


async def test_one_word_offers_the_seven_tools_of_the_assistant_family(workspace: Path) -> None:
    model = ScriptedModel(["Hi."])
    async with App(settings(tools="assistant"), workspace) as app:
        await said(build_assistant(app, model), "Hello.")
    assert {tool.name for tool in model.requests[0].tools} == {
        "readFile", "listFiles", "searchFiles", "executeCommand", "getGitInfo", "getCurrentDateTime",
        "getCurrentDirectory",
    }  # fmt: skip


async def test_a_file_that_a_rule_denies_is_not_told(workspace: Path) -> None:
    model = ScriptedModel(["Hi."])
    chosen = settings()
    chosen.permissions = PermissionSettings(deny=["Read(AGENTS.md)"])
    async with App(chosen, workspace) as app:
        await said(build_assistant(app, model), "Hello.")
    assert "Use tabs." not in model.requests[0].system


async def test_plan_mode_shows_no_tool_that_changes_something(workspace: Path) -> None:
    model = ScriptedModel(["A plan."])
    chosen = settings()
    chosen.permissions = PermissionSettings(mode=Mode.PLAN)
    async with App(chosen, workspace) as app:
        await said(build_assistant(app, model), "Plan.")
    assert not {"Edit", "Write", "Bash"} & {tool.name for tool in model.requests[0].tools}
    assert "# Plan mode" in model.requests[0].system


async def test_a_session_is_saved_and_goes_on_under_its_name(workspace: Path) -> None:
    read = call("Read", {"file_path": "a.txt"})
    async with App(settings(), workspace) as app:
        assistant = build_assistant(app, ScriptedModel([read, "It says hello."], name="scripted/one"))
        await said(assistant, "What does it say?")
        first = app.runtime.session.id
        await assistant.close()
    resumed = resume(workspace)
    assert resumed is not None
    assert resumed.saved.model == "scripted/one"
    model = ScriptedModel(["As I said."])
    async with App(settings(), workspace) as app:
        assistant = build_assistant(app, model, resumed=resumed)
        assert app.runtime.session.id == first
        await said(assistant, "Sure?")
        await assistant.close()
    assert [getattr(one, "text", "") for one in model.requests[0].messages] == [
        "What does it say?",
        "",
        "",
        "It says hello.",
        "Sure?",
    ]
    assert resume(workspace / "..", None) is None
    with pytest.raises(SavedConversationError, match="No saved session"):
        resume(workspace, "ffff")
    assert [row.session for row in AuditReader(workspace.parent / "data" / "audit.db").list()] == [first]


async def test_a_resumed_session_must_read_files_again_before_it_changes_them(workspace: Path) -> None:
    edit = call("Edit", {"file_path": "a.txt", "old_string": "hello", "new_string": "bye"})
    chosen = settings()
    chosen.permissions = PermissionSettings(mode=Mode.ACCEPT_EDITS)
    async with App(chosen, workspace) as app:
        assistant = build_assistant(app, ScriptedModel([call("Read", {"file_path": "a.txt"}), "Read."]))
        await said(assistant, "Read it.")
        await assistant.close()
    async with App(chosen, workspace) as app:
        assistant = build_assistant(app, ScriptedModel([edit, "It must be read."]), resumed=resume(workspace))
        await said(assistant, "Change it.")
        await assistant.close()
    assert (workspace / "a.txt").read_text() == "hello\n"


async def test_nothing_is_saved_where_the_person_wants_nothing_saved(workspace: Path) -> None:
    async with App(settings(save=False), workspace) as app:
        assistant = build_assistant(app, ScriptedModel(["Hi."]))
        await said(assistant, "Hello.")
        await assistant.close()
    assert not (workspace.parent / "data" / "sessions").exists()


def test_zero_is_no_limit() -> None:
    limits = limits_of(AssistantSettings(max_steps=0, max_cost=2.5))
    assert (limits.steps, limits.tokens, limits.cost, limits.seconds) == (None, None, 2.5, None)


def test_a_script_in_a_file_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('["Hi."]')
    assert model_for(f"scripted:{tmp_path}/s.json", Settings()).name == "scripted/s"
    assert model_for("", Settings(model=f"scripted:{tmp_path}/s.json")).name == "scripted/s"
    with pytest.raises(SettingsError, match="could not be read"):
        model_for("scripted:nowhere.json", Settings())


async def test_what_one_turn_changed_can_be_undone_as_one(workspace: Path) -> None:
    chosen = settings()
    chosen.permissions = PermissionSettings(mode=Mode.ACCEPT_EDITS)
    two = say("", *(call("Write", {"file_path": f"{name}.txt", "content": name}) for name in ("b", "c")))
    async with App(chosen, workspace) as app:
        assistant = build_assistant(
            app, ScriptedModel([two, "Written.", call("Write", {"file_path": "d.txt", "content": "d"}), "Too."])
        )
        await said(assistant, "Write b and c.")
        await said(assistant, "Write d.")
        session = app.runtime.session
        files_of(session).history.undo(turn="1", session=session.id)
        await assistant.close()
    assert sorted(path.name for path in workspace.glob("*.txt")) == ["a.txt", "d.txt"]
