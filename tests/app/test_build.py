"""The whole, wired together: plugins start and stop, records are closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ferrule import Plugin, tool
from ferrule.app.build import App
from ferrule.app.settings import AuditSettings, FileSettings, PermissionSettings, Settings, ToolSettings
from ferrule.core.call import RawCall
from ferrule.core.events import Question
from ferrule.records.reader import AuditReader
from ferrule.records.verification import verify

PLUGIN = '''
from ferrule import tool
from ferrule import Plugin

events = []

@tool(kind="write")
def write_events() -> list[str]:
    """Write down the events. Use this to test."""
    return list(events)

async def start():
    events.append("started")
    {start}

async def stop():
    import pathlib
    pathlib.Path({marker!r}).write_text("stopped")
    {stop}

def make():
    return Plugin("mine", "1.2", [write_events], initialise=start, clean_up=stop)
'''


def settings(tmp_path: Path) -> Settings:
    return Settings(
        audit=AuditSettings(path=tmp_path / "audit.db"),
        tools=ToolSettings(plugins=False),
        permissions=PermissionSettings(allow=["write_*"]),
    )


def with_plugin(tmp_path: Path, app: App, start: str = "pass", stop: str = "pass") -> Path:
    from ferrule.plugins.discovery import Discovered, as_plugin

    marker = tmp_path / "marker"
    source = PLUGIN.format(start=start, stop=stop, marker=str(marker))
    file = tmp_path / "plugin_source.py"
    file.write_text(source)
    module: dict[str, object] = {}
    exec(compile(source, str(file), "exec"), module)
    plugin = as_plugin(module["make"], "mine", "", str(file), [])
    found = Discovered([plugin])
    found.register(app.tools.registry)
    app.tools.plugins.extend(found.plugins)
    return marker


def test_calls_run_and_are_on_record(tmp_path: Path) -> None:
    """O3."""

    async def go() -> None:
        async with App(settings(tmp_path), tmp_path) as app:
            assert (await app.runtime.run("getCurrentDirectory")).data["path"] == str(tmp_path)
            assert not (await app.runtime.run("no_such")).success

    asyncio.run(go())
    assert [row.tool for row in AuditReader(tmp_path / "audit.db").list()] == ["no_such", "getCurrentDirectory"]
    assert verify(tmp_path / "audit.db").ok


def test_a_plugin_is_started_before_and_cleaned_up_after(tmp_path: Path) -> None:
    """R7."""

    async def go() -> Path:
        app = App(settings(tmp_path), tmp_path)
        marker = with_plugin(tmp_path, app)
        async with app:
            assert (await app.runtime.run(RawCall("write_events"))).data == ["started"]
            assert not marker.exists()
        return marker

    assert asyncio.run(go()).read_text() == "stopped"


def test_a_plugin_starts_and_ends_on_the_loop_that_its_tools_run_on(tmp_path: Path) -> None:
    """What it opens there belongs to that loop, and to no other."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def note() -> None:
        loops.append(asyncio.get_running_loop())

    @tool(kind="readonly")
    async def note_loop() -> None:
        await note()

    async def go() -> None:
        app = App(settings(tmp_path), tmp_path)
        plugin = Plugin("mine", "1", [note_loop], initialise=note, clean_up=note)
        app.tools.plugins.append(plugin)
        app.tools.registry.register(note_loop)
        async with app:
            assert (await app.runtime.run("note_loop")).success
        assert asyncio.get_running_loop() not in loops

    asyncio.run(go())
    assert len(loops) == 3
    assert len(set(loops)) == 1


def test_a_tool_that_blocks_keeps_the_program_from_nothing_but_the_clean_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = threading.Event()
    cleaned: list[bool] = []

    @tool(kind="readonly")
    async def block() -> None:
        gate.wait(120)

    async def clean_up() -> None:
        cleaned.append(True)

    async def go() -> None:
        app = App(settings(tmp_path), tmp_path)
        app.tools.plugins.append(Plugin("mine", "1", [block], clean_up=clean_up))
        app.tools.registry.register(block)
        async with app:
            result = await app.runtime.run("block", timeout=0.5)
            assert result.error is not None
        assert not cleaned

    try:
        asyncio.run(asyncio.wait_for(go(), 60))
    finally:
        gate.set()
    assert "Plugins could not clean up, because a tool blocks the event loop: mine" in caplog.text
    assert verify(tmp_path / "audit.db").rows == 1


def test_a_plugin_that_cannot_start_is_reported_and_its_tools_are_gone(tmp_path: Path) -> None:
    """R6, R7."""

    async def go() -> None:
        app = App(settings(tmp_path), tmp_path)
        with_plugin(tmp_path, app, start="raise OSError('no network')")
        async with app:
            assert "write_events" not in app.tools.registry
            assert app.tools.broken[0].reason == "it could not start: OSError: no network"
            assert (await app.runtime.run("getCurrentDateTime")).success

    asyncio.run(go())


def test_a_plugin_that_cannot_clean_up_does_not_keep_the_records_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> App:
        app = App(settings(tmp_path), tmp_path)
        with_plugin(tmp_path, app, stop="raise OSError('gone')")
        async with app:
            await app.runtime.run("getCurrentDateTime")
        return app

    asyncio.run(go())
    assert "Plugin mine could not clean up" in caplog.text
    assert verify(tmp_path / "audit.db").rows == 1


def test_without_an_audit_log_no_file_is_made(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    chosen.audit.enabled = False

    async def go() -> None:
        async with App(chosen, tmp_path) as app:
            assert (await app.runtime.run("getCurrentDateTime")).success

    asyncio.run(go())
    assert not (tmp_path / "audit.db").exists()


def test_records_older_than_the_settings_keep_are_removed(tmp_path: Path) -> None:
    """O3: retention."""
    import time

    from ferrule.core.context import Caller
    from ferrule.pipeline.stages import CallRecord
    from ferrule.records.audit import AuditLog

    with AuditLog(tmp_path / "audit.db") as log:
        log.record(CallRecord("old", None, "s", Caller(), "x", "1", "readonly", "{}", time.time() - 3 * 86_400))

    async def go() -> None:
        chosen = settings(tmp_path)
        chosen.audit.keep_days = 2
        async with App(chosen, tmp_path) as app:
            await app.runtime.run("getCurrentDateTime")

    asyncio.run(go())
    assert "old" not in [row.call_id for row in AuditReader(tmp_path / "audit.db").list()]
    assert verify(tmp_path / "audit.db").ok


def test_a_session_gets_the_folders_and_leave_that_the_person_set(tmp_path: Path) -> None:
    """S1: folders that were added are inside."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/a.txt").write_text("x")
    wide = settings(tmp_path)
    wide.files = FileSettings(folders=[Path("../lib")], hard_links=True)

    async def go() -> None:
        async with App(wide, tmp_path / "ws") as app:
            assert (await app.runtime.run("Read", {"file_path": "../lib/a.txt"})).success
            assert not (await app.runtime.run("Read", {"file_path": "../none"})).success
            assert app.runtime.session.environment.hard_links is True

    asyncio.run(go())


# Tools folders

CHANGING = '''
from ferrule import tool

@tool(kind="execute")
def run_thing() -> str:
    """Run the thing. Use this to test."""
    return "VERSION"
'''


def with_folder(tmp_path: Path, **permissions: Any) -> tuple[Settings, Path]:
    """Settings with a tools folder in the workspace, and a file of it."""
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine" / "thing.py"
    file.write_text(CHANGING.replace("VERSION", "first"))
    chosen = settings(tmp_path)
    chosen.tools.folders = [Path("mine")]
    chosen.permissions = PermissionSettings(**permissions)
    return chosen, file


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


async def test_a_folder_is_followed_while_the_app_runs_and_no_longer(tmp_path: Path) -> None:
    """R8."""
    chosen, file = with_folder(tmp_path, allow=["run_thing"])
    async with App(chosen, tmp_path) as app:
        file.write_text(CHANGING.replace("VERSION", "second").replace("run_thing", "run_other"))
        await until(lambda: "run_other" in app.tools.registry)
    assert not watching()


async def test_a_plugin_in_a_folder_is_started_and_cleaned_up(tmp_path: Path) -> None:
    """R7: also for a program that makes one call."""
    chosen, file = with_folder(tmp_path, allow=["write_events"])
    for single_call in (False, True):
        marker = tmp_path / f"marker {single_call}"
        file.write_text(PLUGIN.format(start="pass", stop="pass", marker=str(marker)) + "\nplugin = make()\n")
        async with App(chosen, tmp_path, single_call=single_call) as app:
            assert (await app.runtime.run("write_events")).data == ["started"]
            assert not marker.exists()
        assert marker.read_text() == "stopped"


async def test_a_program_that_makes_one_call_follows_nothing(tmp_path: Path) -> None:
    chosen, _ = with_folder(tmp_path, allow=["run_thing"])
    async with App(chosen, tmp_path, single_call=True) as app:
        assert (await app.runtime.run("run_thing")).data == "first"
        assert not watching()


def watching() -> bool:
    return any(thread.name == "ferrule-tools-watch" for thread in threading.enumerate())


async def test_always_was_said_of_the_tool_as_it_was(tmp_path: Path) -> None:
    """A file that changed holds another tool: the person is asked about it anew."""
    asked: list[str] = []

    def ask(question: Question) -> str:
        asked.append(question.summary)
        return "always"

    chosen, file = with_folder(tmp_path)
    async with App(chosen, tmp_path, ask=ask) as app:
        for _ in range(2):
            assert (await app.runtime.run("run_thing")).data == "first"
        assert len(asked) == 1
        before = app.tools.registry.get("run_thing")
        file.write_text(CHANGING.replace("VERSION", "second"))
        await until(lambda: app.tools.registry.get("run_thing") is not before)
        assert (await app.runtime.run("run_thing")).data == "second"
        assert len(asked) == 2


@pytest.mark.parametrize("mode", ["accept-edits", "bypass"])
@pytest.mark.parametrize(
    "allow", [[], ["Edit"], ["Edit(**)"], ["Edit(/**)"], ["Edit(//{root}/**)"], ["Edit(other/**)"]]
)
@pytest.mark.parametrize("name", ["mine/new.py", "mine/thing.py", "mine/sub/helper.py"])
async def test_no_tool_writes_what_would_be_loaded_without_a_question(
    tmp_path: Path, name: str, allow: list[str], mode: str
) -> None:
    """A model that could write into a tools folder would run what it likes, outside of any sandbox."""
    rules: list[Any] = [rule.format(root=str(tmp_path.resolve())[1:]) for rule in allow]
    chosen, _ = with_folder(tmp_path, mode=mode, allow=rules)
    async with App(chosen, tmp_path) as app:
        await app.runtime.run("Read", {"file_path": name})
        refused = await app.runtime.run("Write", {"file_path": name, "content": "import os"})
        assert refused.error is not None
        assert "contains what other programs run or obey" in refused.error.message
        assert (await app.runtime.run("Write", {"file_path": "other/new.py", "content": "import os"})).success
        assert (await app.runtime.run("Write", {"file_path": "mine/notes.txt", "content": "notes"})).success


@pytest.mark.parametrize("rule", ["Edit(mine/**)", "Edit(mine/new.py)", "Edit(//{root}/mine/**)", "Edit(**/mine/*.py)"])
async def test_a_rule_that_names_the_folder_lets_tools_be_written(tmp_path: Path, rule: str) -> None:
    chosen, _ = with_folder(tmp_path, allow=[rule.format(root=str(tmp_path.resolve())[1:])])
    async with App(chosen, tmp_path) as app:
        assert (await app.runtime.run("Write", {"file_path": "mine/new.py", "content": "import os"})).success


async def test_an_always_for_the_workspace_is_none_for_what_would_be_loaded(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(question: Question) -> str:
        asked.append(question.reason)
        return "always"

    chosen, _ = with_folder(tmp_path)
    async with App(chosen, tmp_path, ask=ask) as app:
        for name in ("notes.txt", "more.py", "mine/new.py", "mine/newer.py"):
            assert (await app.runtime.run("Write", {"file_path": name, "content": ""})).success
    assert len(asked) == 3, "once for the workspace, and for each file that would be loaded"


async def test_no_command_writes_what_would_be_loaded(tmp_path: Path) -> None:
    chosen, file = with_folder(tmp_path, allow=["Bash(python3 *)", "Bash(touch *)"])
    writes = "open('mine/thing.py', 'a').write('# more'); open('mine/new.py', 'w'); "
    async with App(chosen, tmp_path) as app:
        before = file.read_text()
        await app.runtime.run("Bash", {"command": f'python3 -c "{writes}"'})
        assert (await app.runtime.run("Bash", {"command": "touch beside.py"})).success
    assert file.read_text() == before
    assert sorted(one.name for one in tmp_path.rglob("*.py")) == ["beside.py", "thing.py"]
